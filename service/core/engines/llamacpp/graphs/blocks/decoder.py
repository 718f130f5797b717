"""The plan that most decoders share, and the parts they put into it.

Source: src/models/*.cpp, most of which repeat it (llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Callable
from typing import TypeAlias

from service.core.engines.llamacpp.compute.node import I32, OUTPUT, Node
from service.core.engines.llamacpp.compute.ops import add, get_rows, reshape, rope
from service.core.engines.llamacpp.graphs.blocks.attend import Attend
from service.core.engines.llamacpp.graphs.blocks.attention import build_qkv
from service.core.engines.llamacpp.graphs.blocks.experts import Routing, build_moe_ffn
from service.core.engines.llamacpp.graphs.blocks.feed_forward import build_ffn
from service.core.engines.llamacpp.graphs.blocks.gated_attention import flat_qkv
from service.core.engines.llamacpp.graphs.blocks.inputs import positions
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm
from service.core.engines.llamacpp.graphs.blocks.rope import rope_factors
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

Layer: TypeAlias = Callable[[Block, Node, int], Node]
"""Attention or feed-forward network of one block: (weights, normed input, index of the block)."""


def pre_norm_decoder(
    g: GraphContext,
    cur: Node,
    attention: Layer,
    feed_forward: Layer,
    *,
    ffn_norm: str = "ffn_norm",
    all_rows: bool = False,
) -> Node:
    """Blocks of norm, attention, norm and feed-forward network, both added to what they started from.

    all_rows: the last block goes on with every token's state, not only with those whose logits are wanted.
    """
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = attention(block, build_rms_norm(g, cur, block("attn_norm.weight"), il), il)
        if not all_rows:
            cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block(ffn_norm + ".weight"), il)
        cur = add(feed_forward(block, cur, il), ffn_inp)
    return cur


def always(_il: int) -> bool:
    """True for every block."""
    return True


def rotated_attention(
    g: GraphContext, attend: Attend, *, rotates: Callable[[int], bool] = always, factors: bool = False
) -> Layer:
    """Q, K and V; norms of Q and K heads where the file has them; rope; attention and its projection.

    rotates: whether a block has rope; factors: whether the model uses those of the file.
    """
    pos = positions(g)

    def attention(block: Block, cur: Node, il: int) -> Node:
        q, k, v = build_qkv(g, block, cur, il)
        q, k = normed_heads(g, block, q, k, il)
        if rotates(il):
            by = rope_factors(g, il) if factors else None
            q, k = rope(q, pos, by), rope(k, pos, by)
        return attend(block, q, k, v, il)

    return attention


def normed_heads(g: GraphContext, block: Block, q: Node, k: Node, il: int) -> tuple[Node, Node]:
    """Q and K normed, where the file has norms for them."""
    if block.has("attn_q_norm.weight"):
        q = build_rms_norm(g, q, block("attn_q_norm.weight"), il)
    if block.has("attn_k_norm.weight"):
        k = build_rms_norm(g, k, block("attn_k_norm.weight"), il)
    return q, k


def flat_heads(g: GraphContext, block: Block, cur: Node, il: int) -> tuple[Node, Node, Node]:
    """Q, K and V as one row per token (build_qkv without reshape)."""
    hp = g.hp
    n_head, n_head_kv, head_k = hp.n_head[il], hp.n_head_kv[il], hp.n_embd_head_k(il)
    return flat_qkv(block, cur, head_k * n_head, head_k * n_head_kv, hp.n_embd_head_v(il) * n_head_kv)


def as_heads(g: GraphContext, q: Node, k: Node, v: Node, il: int) -> tuple[Node, Node, Node]:
    """Rows of Q, K and V as [head size, heads, tokens]."""
    hp = g.hp
    head_k, n_head_kv = hp.n_embd_head_k(il), hp.n_head_kv[il]
    return (
        reshape(q, head_k, hp.n_head[il], g.n_tokens),
        reshape(k, head_k, n_head_kv, g.n_tokens),
        reshape(v, hp.n_embd_head_v(il), n_head_kv, g.n_tokens),
    )


def routed_or_dense(g: GraphContext, routing: Routing, *, scales: bool = False) -> Layer:
    """Routed experts, plus the shared one where the block has it; a dense network in blocks without router.

    scales: whether the model uses scales that the file has for these weights (NVFP4).
    """

    def feed_forward(block: Block, cur: Node, il: int) -> Node:
        block = block if scales else block.unscaled()
        if not block.has("ffn_gate_inp.weight"):
            return build_ffn(block, cur)
        routed = build_moe_ffn(g, block, cur, routing, il)
        shared = block.has("ffn_up_shexp.weight")
        return add(routed, build_ffn(block, cur, suffix="_shexp")) if shared else routed

    return feed_forward


def seed_drafts(g: GraphContext, cur: Node) -> Node:
    """Keep every token's state for draft layers and go on with the rows whose logits are wanted.

    Source: res->t_h_nextn in src/models/openai-moe.cpp:155-160, step35.cpp:349-354: an output of the graph even where
    nobody asked for drafts (llama.cpp in llama-cpp-python 0.3.36).
    """
    cur.flags |= OUTPUT
    return get_rows(cur, g.input("out_ids", I32, g.n_outputs))
