"""Attention whose output is gated by a second half of the query projection (Qwen 3-Next and later).

Source: build_layer_attn, src/models/qwen3next.cpp, qwen35.cpp and qwen35moe.cpp; build_qkv without reshape,
src/llama-graph.cpp:1640-1760 (llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Callable

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, concat, cont, cont_4d, mul, reshape, rope, sigmoid, view
from service.core.engines.llamacpp.graphs.blocks.attention import build_attn
from service.core.engines.llamacpp.graphs.blocks.inputs import AttentionInput
from service.core.engines.llamacpp.graphs.blocks.linear import linear, project
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

Attend = Callable[[Node, Node, Node], Node]
"""From Q, K and V to heads' outputs, all in one row per token."""


def flat_qkv(block: Block, cur: Node, n_q: int, n_k: int, n_v: int) -> tuple[Node, Node, Node]:
    """Q, K and V as [elements, tokens], contiguous, from one fused or three separate weights."""
    fused = block("attn_qkv.weight")
    if fused is None:
        return project(block, "attn_q", cur), project(block, "attn_k", cur), project(block, "attn_v", cur)
    qkv = linear(fused, cur, block("attn_qkv.scale"))
    bias = block("attn_qkv.bias")
    if bias is None and (bq := block("attn_q.bias")) and (bk := block("attn_k.bias")) and (bv := block("attn_v.bias")):
        bias = concat(concat(bq, bk, 0), bv, 0)
    if bias is not None:
        qkv = add(qkv, bias)
    q, k, v = (cont(view(qkv, (n, qkv.ne[1]), (qkv.nb[1],))) for n in (n_q, n_k, n_v))
    return q, k, v


def build_gated_attention(
    g: GraphContext, inp: AttentionInput, pos: Node, cur: Node, il: int, attend: Attend | None = None
) -> Node:
    """Norms of Q and K, rope, attention, sigmoid gate, projection.

    attend: attention proper, where it is not the ordinary one.
    """
    hp, block, n_tokens = g.hp, g.block(il), g.n_tokens
    head, heads, heads_kv = hp.n_embd_head_v(il), hp.n_head[il], hp.n_head_kv[il]
    joint, k, v = flat_qkv(block, cur, 2 * head * heads, head * heads_kv, head * heads_kv)
    step = (8 * head, 8 * head * heads)
    q = build_rms_norm(g, view(joint, (head, heads, n_tokens), step), block("attn_q_norm.weight"), il)
    k = build_rms_norm(g, reshape(k, head, heads_kv, n_tokens), block("attn_k_norm.weight"), il)
    q, k, v = rope(q, pos), rope(k, pos), reshape(v, head, heads_kv, n_tokens)
    cur = build_attn(g, inp, None, q, k, v, il) if attend is None else attend(q, k, v)
    gate = cont_4d(view(joint, (head, heads, n_tokens), step), head * heads, n_tokens)
    return linear(block.need("attn_output.weight"), mul(cur, sigmoid(gate)), block("attn_output.scale"))
