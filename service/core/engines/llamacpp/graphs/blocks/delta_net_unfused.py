"""The gated delta rule in elementary operations, for backends that lack the fused one.

Results are the output [head size, heads, tokens, sequences] and the new state, in the state's shape.

Source: build_delta_net_chunking and _autoregressive, src/models/delta-net-base.cpp:15-372
(llama.cpp in llama-cpp-python 0.3.36).
"""

from typing import Final, NamedTuple

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    cont,
    cont_4d,
    cumsum,
    diag,
    exp,
    fill,
    mul,
    mul_mat,
    neg,
    pad,
    permute,
    repeat,
    repeat_4d,
    reshape,
    scale,
    set_inplace,
    solve_tri,
    sub,
    sum_rows,
    swap_12,
    transpose,
    tri,
    view,
)

CHUNK_TOKENS: Final = 64
CHUNK_TOKENS_PER_CHANNEL_DECAY: Final = 16


class DeltaRule(NamedTuple):
    """Operands of the rule.

    q, k, v: [head size, heads, tokens, sequences]; decay: [1 or head size, heads, tokens, sequences]; beta: [1, heads,
    tokens, sequences]; state: [head size, head size, heads, sequences].
    """

    q: Node
    k: Node
    v: Node
    decay: Node
    beta: Node
    state: Node


def delta_net_stepwise(rule: DeltaRule) -> tuple[Node, Node]:
    """One token per sequence."""
    q, k, v, decay, beta, state = rule
    heads, sequences = v.ne[1], v.ne[3]
    q, k, v = swap_12(scale(q)), swap_12(k), swap_12(v)
    decay = reshape(decay, 1, decay.ne[0], heads, sequences)
    beta = reshape(beta, 1, 1, heads, sequences)
    state = mul(state, exp(decay))
    read = sum_rows(mul(state, k))
    delta = mul(sub(v, transpose(read)), beta)
    state = add(state, mul(repeat(k, state), transpose(delta)))
    output = sum_rows(mul(state, q))
    return permute(output, 2, 0, 1, 3), state


def delta_net_chunked(rule: DeltaRule) -> tuple[Node, Node]:
    """Many tokens per sequence, chunk by chunk."""
    q, k, v, decay, beta, state = rule
    size, heads_k, tokens, sequences = q.ne
    heads = v.ne[1]
    by_channel = decay.ne[0] == size and decay.ne[1] == heads_k
    chunk = CHUNK_TOKENS_PER_CHANNEL_DECAY if by_channel else CHUNK_TOKENS
    missing = -tokens % chunk
    n_chunks = (tokens + missing) // chunk
    q = scale(q)
    q, k, v, decay, beta = (pad(swap_12(x), 0, missing) for x in (q, k, v, decay, beta))
    v_b, k_b = mul(v, beta), mul(k, beta)
    q, k = (reshape(x, size, chunk, n_chunks, heads_k * sequences) for x in (q, k))
    k_b, v_b = (reshape(x, size, chunk, n_chunks, heads * sequences) for x in (k_b, v_b))
    decay = reshape(decay, decay.ne[0], chunk, n_chunks, heads * sequences)
    g_cs = cumsum(cont(transpose(decay)))
    products = _products_by_channel if by_channel else _products_by_head
    kb, kq = products(q, k, k_b, g_cs)
    kq = tri(kq)
    attn = _solved(kb)
    v = mul_mat(cont(transpose(v_b)), attn)
    g_exp = exp(g_cs)
    k_cd = mul_mat(mul(cont(transpose(k_b)), g_exp), attn)
    q_g_exp = mul(q, cont(transpose(g_exp)))
    g_last = cont(view(g_cs, (1, *g_cs.ne[1:]), g_cs.nb[1:]))
    g_last_exp = transpose(exp(g_last))
    g_diff = neg(sub(g_cs, g_last))
    kg = cont(transpose(mul(k, cont(transpose(exp(g_diff))))))
    state = reshape(state, size, size, 1, heads * sequences)
    v, state = _over_chunks(v, kg, k_cd, kq, q_g_exp, g_last_exp, state)
    row = 4 * size
    output = view(v, (size, tokens, heads, sequences), (row, row * chunk * n_chunks, row * chunk * n_chunks * heads))
    return swap_12(output), reshape(state, size, size, heads, sequences)


def _products_by_head(q: Node, k: Node, k_b: Node, g_cs: Node) -> tuple[Node, Node]:
    """K·K and K·Q within chunks, decayed; one decay per head."""
    chunk, _, n_chunks, batch = g_cs.ne
    g_j = repeat_4d(reshape(g_cs, 1, chunk, n_chunks, batch), chunk, chunk, n_chunks, batch)
    mask = exp(tri(sub(g_j, g_cs)))
    return mul(mul_mat(k, k_b), mask), mul(mul_mat(k, q), mask)


def _products_by_channel(q: Node, k: Node, k_b: Node, g_cs: Node) -> tuple[Node, Node]:
    """The same with a decay per channel."""
    chunk, size, n_chunks, batch = g_cs.ne
    n = n_chunks * batch
    g_i, g_j = reshape(g_cs, chunk, 1, size, n), reshape(g_cs, 1, chunk, size, n)
    mask = exp(tri(sub(repeat_4d(g_j, chunk, chunk, size, n), g_i)))
    mask = cont_4d(permute(mask, 2, 1, 0, 3), size, chunk, chunk, n)
    k_j = reshape(k, size, 1, chunk, n)
    kb = mul_mat(mul(mask, reshape(k_b, size, chunk, 1, n)), k_j)
    kq = mul_mat(mul(mask, reshape(q, size, chunk, 1, n)), k_j)
    kb, kq = (cont(transpose(reshape(x, chunk, chunk, n_chunks, batch))) for x in (kb, kq))
    return kb, kq


def _solved(kb: Node) -> Node:
    """Inverse of the unit triangular matrix of each chunk."""
    attn = tri(kb)
    identity = diag(fill(view(attn, (attn.ne[0],))))
    lhs = add(attn, identity)
    return add(solve_tri(lhs, neg(attn)), identity)


def _slice(x: Node) -> Node:
    return view(x, (x.ne[0], x.ne[1], 1, x.ne[3]), x.nb[1:])


def _over_chunks(
    v: Node, kg: Node, k_cd: Node, kq: Node, q_g_exp: Node, g_last_exp: Node, state: Node
) -> tuple[Node, Node]:
    n_chunks = v.ne[2]
    v_t = cont(transpose(v))
    for _ in range(n_chunks):
        v_prime = mul_mat(_slice(k_cd), state)
        v_new = sub(_slice(v_t), v_prime)
        v_attn = mul_mat(v_new, _slice(kq))
        inter = mul_mat(state, _slice(q_g_exp))
        v = set_inplace(v, add(inter, v_attn))
        kgv = mul_mat(_slice(kg), v_new)
        state = add(mul(state, _slice(g_last_exp)), kgv)
    return v, state
