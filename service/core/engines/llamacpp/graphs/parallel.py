"""Blocks whose attention and feed-forward network both read the block's input.

The order in which attention, network and residual are added differs from model to model.
"""

from collections.abc import Callable
from typing import TypeAlias

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks.attend import cached_attention
from service.core.engines.llamacpp.graphs.blocks.dense import DenseModel, add_ffn, rotated_qkv
from service.core.engines.llamacpp.graphs.blocks.feed_forward import build_ffn
from service.core.engines.llamacpp.graphs.blocks.inputs import token_embeddings
from service.core.engines.llamacpp.graphs.blocks.norms import block_norm, output_norm
from service.core.engines.llamacpp.graphs.blocks.output import logits_of, scaled_logits
from service.core.engines.llamacpp.graphs.context import GraphContext

Join: TypeAlias = Callable[[Node, Node, Node], Node]
"""Sum of the network's output, attention's output and the residual."""


def _network_attention_residual(ffn: Node, attn: Node, residual: Node) -> Node:
    return add(add(ffn, attn), residual)


def _attention_network_residual(ffn: Node, attn: Node, residual: Node) -> Node:
    return add(add(attn, ffn), residual)


def _network_residual_attention(ffn: Node, attn: Node, residual: Node) -> Node:
    return add(add(ffn, residual), attn)


def _shared_input(g: GraphContext, model: DenseModel, join: Join) -> Node:
    """Blocks in which attention and network read the same norm, unless attention has one of its own."""
    cur, attend = token_embeddings(g), cached_attention(g)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        ffn_inp = cur = block_norm(g, model.norm, block, "attn_norm", residual, il)
        if block.has("attn_norm_2.weight"):
            cur = block_norm(g, model.norm, block, "attn_norm_2", residual, il)
        cur = attend(block, *rotated_qkv(g, model, block, cur, il), il)
        cur, residual, ffn_inp = g.select_outputs(il, cur, residual, ffn_inp)
        cur = join(build_ffn(block, ffn_inp, model.activation), cur, residual)
    return output_norm(g, model.norm, cur)


@graph("falcon")
def falcon(g: GraphContext) -> None:
    """src/models/falcon.cpp: Falcon 40B has a second norm, for attention only."""
    cur = _shared_input(g, DenseModel(norm="layer", activation="gelu"), _network_attention_residual)
    g.finish(cur, logits_of(g, cur))


@graph("plamo")
def plamo(g: GraphContext) -> None:
    """src/models/plamo.cpp."""
    cur = _shared_input(g, DenseModel(), _network_attention_residual)
    g.finish(cur, logits_of(g, cur))


@graph("phi2")
def phi2(g: GraphContext) -> None:
    """src/models/phi2.cpp: Q is scaled before attention."""
    model = DenseModel(norm="layer", activation="gelu", scaled_q=True)
    cur = _shared_input(g, model, _attention_network_residual)
    g.finish(cur, logits_of(g, cur))


@graph("command-r")
def command_r(g: GraphContext) -> None:
    """src/models/command-r.cpp: layer norms of Q and K in the largest."""
    cur = _shared_input(g, DenseModel(norm="layer", head_norm="layer"), _network_residual_attention)
    g.finish(cur, scaled_logits(g, cur))


def _windowed_blocks(hp: Hparams, il: int) -> bool:
    """is_swa, src/models/cohere2.cpp:87."""
    return hp.is_swa[il]


@graph("cohere2")
def cohere2(g: GraphContext) -> None:
    """src/models/cohere2.cpp: rope in windowed blocks only."""
    model = DenseModel(norm="layer", rope=_windowed_blocks, rope_freqs=True)
    cur = _shared_input(g, model, _network_residual_attention)
    g.finish(cur, scaled_logits(g, cur))


@graph("gptneox")
def gptneox(g: GraphContext) -> None:
    """src/models/gptneox.cpp: a norm of its own for each; one after the other without `use_parallel_residual`."""
    model = DenseModel(norm="layer", activation="gelu")
    parallel = g.metadata.get("gptneox.use_parallel_residual") is True
    cur, attend = token_embeddings(g), cached_attention(g)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = block_norm(g, "layer", block, "attn_norm", cur, il)
        cur = attend(block, *rotated_qkv(g, model, block, cur, il), il)
        cur, residual = g.select_outputs(il, cur, residual)
        if parallel:
            ffn = build_ffn(block, block_norm(g, "layer", block, "ffn_norm", residual, il), "gelu")
            cur = _network_residual_attention(ffn, cur, residual)
        else:
            cur = add_ffn(g, model, block, cur, residual, il)
    cur = output_norm(g, "layer", cur)
    g.finish(cur, logits_of(g, cur))


@graph("stablelm")
def stablelm(g: GraphContext) -> None:
    """src/models/stablelm.cpp: StableLM 2 12B has no ffn_norm, and its network reads attention's input."""
    model = DenseModel(norm="layer", head_norm="layer")
    cur, attend = token_embeddings(g), cached_attention(g)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        attn_inp = block_norm(g, "layer", block, "attn_norm", residual, il)
        cur = attend(block, *rotated_qkv(g, model, block, attn_inp, il), il)
        cur, residual, attn_inp = g.select_outputs(il, cur, residual, attn_inp)
        ffn_inp = add(cur, residual)
        cur = block_norm(g, "layer", block, "ffn_norm", ffn_inp, il) if block.has("ffn_norm.weight") else attn_inp
        cur = add(build_ffn(block, cur), ffn_inp)
    cur = output_norm(g, "layer", cur)
    g.finish(cur, logits_of(g, cur))
