"""BERT and what descends from it: post-normed blocks without a cache, which give embeddings and no logits.

Pooling is not part of these graphs: it is only built where a context asks for embeddings.
"""

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, get_rows, reshape, rope, view
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks.attend import uncached_attention
from service.core.engines.llamacpp.graphs.blocks.attention import build_qkv
from service.core.engines.llamacpp.graphs.blocks.dense import DenseModel, build_dense
from service.core.engines.llamacpp.graphs.blocks.embeddings import embedding_norm, normed_embeddings
from service.core.engines.llamacpp.graphs.blocks.experts import Routing, build_moe_ffn, experts_scaled
from service.core.engines.llamacpp.graphs.blocks.feed_forward import build_ffn
from service.core.engines.llamacpp.graphs.blocks.inputs import positions, token_embeddings
from service.core.engines.llamacpp.graphs.blocks.norms import block_norm
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

_ROTATED = frozenset(("nomic-bert", "nomic-bert-moe", "jina-bert-v3"))


@graph("bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3")
def bert(g: GraphContext) -> None:
    """src/models/bert.cpp: positions are learned (bert), ALiBi (jina-bert-v2) or rope."""
    rotates = g.hp.arch.name in _ROTATED
    cur, attend, pos = _embeddings(g), uncached_attention(g), positions(g)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        q, k, v = build_qkv(g, block, cur, il)
        q, k = _flat_norm(g, block, "attn_q_norm", q, il), _flat_norm(g, block, "attn_k_norm", k, il)
        if rotates:
            q, k = rope(q, pos), rope(k, pos)
        cur = attend(block, q, k, v, il)
        cur, residual = g.select_outputs(il, cur, residual)
        cur = block_norm(g, "layer", block, "attn_output_norm", add(cur, residual), il)
        if block.has("attn_norm_2.weight"):
            cur = block_norm(g, "layer", block, "attn_norm_2", add(cur, residual), il)
        cur = add(_feed_forward(g, block, cur, il), cur)
        cur = block_norm(g, "layer", block, "layer_output_norm", cur, il)
    g.finish(cur, None)


def _embeddings(g: GraphContext) -> Node:
    """Token, type and position embeddings, normed."""
    cur = token_embeddings(g)
    if "token_types.weight" in g.table.outside:
        cur = add(cur, view(g.input_weight("token_types.weight"), (g.n_embd,)))
    if g.hp.arch.name == "bert":
        cur = add(get_rows(g.input_weight("position_embd.weight"), positions(g)), cur)
    return embedding_norm(g, cur)


def _flat_norm(g: GraphContext, block: Block, name: str, cur: Node, il: int) -> Node:
    """A norm over all heads, where the file has one."""
    if not block.has(name + ".weight"):
        return cur
    head, heads, n_tokens, _ = cur.ne
    cur = block_norm(g, "layer", block, name, reshape(cur, head * heads, n_tokens), il)
    return reshape(cur, head, heads, n_tokens)


def _feed_forward(g: GraphContext, block: Block, cur: Node, il: int) -> Node:
    if block.has("ffn_gate_inp.weight"):
        routing = Routing(activation="gelu", normalised=False, scaled=experts_scaled(g))
        return build_moe_ffn(g, block, cur, routing, il)
    if g.hp.arch.name == "nomic-bert":
        return build_ffn(block, cur)
    up = block.need("ffn_up.weight")
    fused = not block.has("ffn_gate.weight") and up.ne[1] != g.hp.n_ff[il]
    return build_ffn(block, cur, "geglu" if fused else "gelu")


@graph("modern-bert")
def modern_bert(g: GraphContext) -> None:
    """src/models/modern-bert.cpp: pre-normed, a window in most blocks; geglu and swiglu need the same memory."""
    model = DenseModel(
        norm="layer",
        embed=normed_embeddings,
        attention=uncached_attention,
        activation="geglu",
        gate="sequential",
        head=None,
    )
    build_dense(g, model)
