"""Granite and MiniCPM: scaled embeddings, residuals and logits; experts where the file has them."""

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, scale, view
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks.attend import cached_attention
from service.core.engines.llamacpp.graphs.blocks.dense import DenseModel, every_block, no_block, rotated_qkv
from service.core.engines.llamacpp.graphs.blocks.experts import Routing, build_moe_ffn, experts_scaled
from service.core.engines.llamacpp.graphs.blocks.feed_forward import build_ffn
from service.core.engines.llamacpp.graphs.blocks.inputs import token_embeddings
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm, output_norm
from service.core.engines.llamacpp.graphs.blocks.output import logits_of
from service.core.engines.llamacpp.graphs.context import GraphContext


def _own_features(hp: Hparams, il: int) -> int:
    """A file's deepstack mapping may give any block features of its own."""
    return il if hp.n_deepstack_layers else 0


@graph("granite", layer_key=_own_features)
def granite(g: GraphContext) -> None:
    """src/models/granite.cpp: no rope where the file says that it is not finetuned."""
    rotates = g.metadata.get("granite.rope.scaling.finetuned", True) is True
    model = DenseModel(rope=every_block if rotates else no_block, rope_freqs=True)
    _granite(g, model, token_embeddings(g), scaled_residual=g.number("residual_scale") != 0.0)


@graph("granitemoe")
def granite_moe(g: GraphContext) -> None:
    """src/models/granite-moe.cpp: the same graph."""
    _granite(g, DenseModel(rope_freqs=True), token_embeddings(g), scaled_residual=g.number("residual_scale") != 0.0)


@graph("minicpm")
def minicpm(g: GraphContext) -> None:
    """src/models/minicpm.cpp: the same graph; older files leave their scales out, and llama.cpp knows them."""
    cur = token_embeddings(g)
    if "minicpm.embedding_scale" not in g.metadata:
        cur = scale(cur)
        g.expand(cur)
    _granite(g, DenseModel(rope_freqs=True), cur, scaled_residual=g.number("residual_scale", 1.0) != 0.0)


def _granite(g: GraphContext, model: DenseModel, cur: Node, *, scaled_residual: bool) -> None:
    attend, features = cached_attention(g), _deepstack_features(g)
    for il in g.layers:
        block = g.block(il)
        if il in features:
            rows = g.memo["t_inp_embd"]
            cur = add(cur, view(rows, (g.n_embd, g.n_tokens), (rows.nb[1],)))
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = attend(block, *rotated_qkv(g, model, block, cur, il), il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(scale(cur) if scaled_residual else cur, residual)
        cur = _feed_forward(g, build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il), il)
        cur = add(scale(cur) if scaled_residual else cur, ffn_inp)
    cur = output_norm(g, "rms", cur)
    g.finish(cur, scale(logits_of(g, cur)))


def _deepstack_features(g: GraphContext) -> frozenset[int]:
    """Blocks that add further input features: those the mapping names, but for the first."""
    mapping = g.metadata.get(g.prefix + "deepstack_mapping")
    if not g.hp.n_deepstack_layers or not isinstance(mapping, tuple):
        return frozenset()
    return frozenset(il for il, entry in enumerate(mapping) if il and isinstance(entry, int) and entry >= 0)


def _feed_forward(g: GraphContext, cur: Node, il: int) -> Node:
    block = g.block(il)
    if not block.has("ffn_gate_inp.weight"):
        return build_ffn(block, cur)
    routed = build_moe_ffn(g, block, cur, Routing(scaled=experts_scaled(g)), il)
    if not g.hp.n_ff_shexp:
        return routed
    return add(routed, build_ffn(block, cur, suffix="_shexp"))
