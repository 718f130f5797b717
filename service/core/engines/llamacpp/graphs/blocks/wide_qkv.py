"""Projections of Q, K and V that norm whole rows, or lay out heads in one row.

Source: src/models/olmo2.cpp:117-130, openelm.cpp:88-112, mpt.cpp:105-125 (llama.cpp in llama-cpp-python 0.3.36).
"""

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import mul_mat, reshape, view
from service.core.engines.llamacpp.graphs.blocks.attention import build_qkv
from service.core.engines.llamacpp.graphs.blocks.gated_attention import flat_qkv
from service.core.engines.llamacpp.graphs.blocks.norms import block_norm
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


def flat_normed_qkv(g: GraphContext, block: Block, cur: Node, il: int) -> tuple[Node, Node, Node]:
    """Q and K normed over all heads at once, then cut into heads (OLMo 2)."""
    hp, n_tokens = g.hp, g.n_tokens
    head, heads, heads_kv = hp.n_embd_head_v(il), hp.n_head[il], hp.n_head_kv[il]
    q, k, v = flat_qkv(block, cur, head * heads, head * heads_kv, head * heads_kv)
    q = block_norm(g, "rms", block, "attn_q_norm", q, il)
    k = block_norm(g, "rms", block, "attn_k_norm", k, il)
    return reshape(q, head, heads, n_tokens), reshape(k, head, heads_kv, n_tokens), reshape(v, head, heads_kv, n_tokens)


def interleaved_qkv(g: GraphContext, block: Block, cur: Node, il: int) -> tuple[Node, Node, Node]:
    """Heads of Q, K and V in one row, as many as the layer has (OpenELM)."""
    hp, n_tokens = g.hp, g.n_tokens
    head, heads, heads_kv = hp.n_embd_head_v(il), hp.n_head[il], hp.n_head_kv[il]
    joint = reshape(mul_mat(block.need("attn_qkv.weight"), cur), hp.n_embd_head_k(il), heads + 2 * heads_kv, n_tokens)
    steps = joint.nb[1], joint.nb[2]
    return (
        view(joint, (head, heads, n_tokens), steps),
        view(joint, (head, heads_kv, n_tokens), steps),
        view(joint, (head, heads_kv, n_tokens), steps),
    )


def mpt_qkv(g: GraphContext, block: Block, cur: Node, il: int) -> tuple[Node, Node, Node]:
    """Q and K with layer norms over all heads, where the file has these (MPT)."""
    q, k, v = build_qkv(g, block, cur, il)
    if not block.has("attn_q_norm.weight"):
        return q, k, v
    q, k = (reshape(x, x.ne[0] * x.ne[1], x.ne[2]) for x in (q, k))
    q = block_norm(g, "layer", block, "attn_q_norm", q, il)
    k = block_norm(g, "layer", block, "attn_k_norm", k, il)
    head, heads, heads_kv = g.hp.n_embd_head_v(il), g.hp.n_head[il], g.hp.n_head_kv[il]
    return reshape(q, head, heads, g.n_tokens), reshape(k, head, heads_kv, g.n_tokens), v
