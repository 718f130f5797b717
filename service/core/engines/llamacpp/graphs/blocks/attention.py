"""Attention over KV caches.

Source: build_qkv, build_attn_mha and build_attn, src/llama-graph.cpp:1663-1770, 2532-2770, 2850-3130, and
cpy_k, cpy_v, get_k, get_v, src/llama-kv-cache.cpp:1276-1417 (llama.cpp in llama-cpp-python 0.3.36).
"""

from service.core.engines.llamacpp.compute.node import F16, F32, Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    cast,
    clamp,
    concat,
    cont,
    cont_4d,
    flash_attn_ext,
    mul_mat,
    pad,
    reshape,
    scale,
    set_rows,
    soft_max,
    swap_12,
    tanh,
    transpose,
    view,
)
from service.core.engines.llamacpp.graphs.blocks.inputs import AttentionInput
from service.core.engines.llamacpp.graphs.blocks.linear import linear
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


def build_qkv(g: GraphContext, block: Block, cur: Node, il: int) -> tuple[Node, Node, Node]:
    """Q, K and V of a block as [head size, heads, tokens], from one fused or three separate weights.

    Heads and sizes are those of the layer.
    """
    hp = g.hp
    return qkv_of_sizes(
        g, block, cur, hp.n_embd_head_k(il), hp.n_head[il], hp.n_embd_head_k(il), hp.n_head_kv[il], hp.n_embd_head_v(il)
    )


def qkv_of_sizes(
    g: GraphContext, block: Block, cur: Node, head_q: int, n_head: int, head_k: int, n_head_kv: int, head_v: int
) -> tuple[Node, Node, Node]:
    """The same for given heads."""
    fused = block("attn_qkv.weight")
    clamped = g.number("attention.clamp_kqv") > 0.0
    if fused is not None:
        qkv = linear(fused, cur, block("attn_qkv.scale"))
        bias = block("attn_qkv.bias")
        if (
            bias is None
            and (bq := block("attn_q.bias"))
            and (bk := block("attn_k.bias"))
            and (bv := block("attn_v.bias"))
        ):
            bias = concat(concat(bq, bk, 0), bv, 0)
        if bias is not None:
            qkv = add(qkv, bias)
        if clamped:
            qkv = clamp(qkv)
        row = qkv.nb[1]
        return (
            view(qkv, (head_q, n_head, g.n_tokens), (4 * head_q, row)),
            view(qkv, (head_k, n_head_kv, g.n_tokens), (4 * head_k, row)),
            view(qkv, (head_v, n_head_kv, g.n_tokens), (4 * head_v, row)),
        )
    parts = []
    for name in ("attn_q", "attn_k", "attn_v"):
        part = linear(block.need(name + ".weight"), cur, block(name + ".scale"))
        bias = block(name + ".bias")
        if bias is not None:
            part = add(part, bias)
        parts.append(clamp(part) if clamped else part)
    return (
        reshape(parts[0], head_q, n_head, g.n_tokens),
        reshape(parts[1], head_k, n_head_kv, g.n_tokens),
        reshape(parts[2], head_v, n_head_kv, g.n_tokens),
    )


def hadamard(cur: Node, rotation: Node) -> Node:
    """`cur` rotated by blocks (llama_mul_mat_hadamard, src/llama-impl.h:57)."""
    n = rotation.ne[0]
    flat = reshape(cur, n, cur.elements // n) if cur.is_contiguous else cont_4d(cur, n, cur.elements // n)
    return reshape(mul_mat(rotation, flat), *cur.ne)


def store_rows(cache: Node, cur: Node, rows: Node) -> Node:
    """Write [head size, heads, tokens] into a cache's cells (cpy_k, and cpy_v of an untransposed V)."""
    n_embd = cur.ne[0] * cur.ne[1]
    cur = view(cur, (n_embd, cur.ne[2]), (cur.nb[2],))
    if cache.ne[2] > 1:
        cache = reshape(cache, n_embd, cache.ne[1] * cache.ne[2])
    return set_rows(cache, cur, rows)


def store_transposed(cache: Node, cur: Node, rows: Node) -> Node:
    """Write V element by element into a transposed cache."""
    n_embd, n_tokens = cur.ne[0] * cur.ne[1], cur.ne[2]
    packed = cur.type.row_bytes(n_embd) == cur.nb[2]
    cur = reshape(cur, n_embd, n_tokens) if packed else cont_4d(cur, n_embd, n_tokens)
    if n_embd < cache.ne[0]:
        cur = pad(cur, cache.ne[0] - n_embd)
    return set_rows(reshape(cache, 1, cache.elements), reshape(cur, 1, cur.elements), rows)


def read_k(g: GraphContext, cache: Node, il: int) -> Node:
    """All K cells as [head size, heads, cells, streams]."""
    head, width, type_ = g.hp.n_embd_head_k(il), cache.ne[0], cache.type
    row = type_.row_bytes(width)
    return view(
        cache,
        (head, g.hp.n_head_kv[il], cache.ne[1], cache.ne[2]),
        (type_.row_bytes(head), row, row * cache.ne[1]),
    )


def read_v(g: GraphContext, cache: Node, il: int) -> Node:
    """All V cells as [head size, heads, cells, streams], or [cells, heads, head size, streams] where transposed."""
    head, heads, type_ = g.hp.n_embd_head_v(il), g.hp.n_head_kv[il], cache.type
    width, cells, streams = cache.ne[0], cache.ne[1], cache.ne[2]
    if not g.ctx.v_padded:
        row = type_.row_bytes(width)
        return view(cache, (head, heads, cells, streams), (type_.row_bytes(head), row, row * cells))
    return view(
        cache,
        (cells, heads, head, streams),
        (type_.row_bytes(cells * head), type_.row_bytes(cells), type_.row_bytes(cells * width)),
    )


def mha(
    g: GraphContext,
    q: Node,
    k: Node,
    v: Node,
    mask: Node | None,
    *,
    bias: Node | None = None,
    sinks: Node | None = None,
    v_mla: Node | None = None,
) -> Node:
    """Attention proper; the result is [embedding, tokens].

    bias: added to K·Q, which rules out fused attention; v_mla: turns attention over the latent back into heads.
    Source: build_attn_mha, src/llama-graph.cpp:2532-2770.
    """
    n_stream = k.ne[3]
    v_trans = v.nb[1] > v.nb[2]
    per_stream = q.ne[2] // n_stream
    q = view(q, (q.ne[0], q.ne[1], per_stream, n_stream), (q.nb[1], q.nb[2], q.nb[2] * per_stream))
    q, k, v = swap_12(q), swap_12(k), swap_12(v)
    if g.flash_attn and bias is None:
        if v_trans:
            v = transpose(v)
        if k.type is F32:
            k = cast(k, F16)
        if v.type is F32:
            v = cast(v, F16)
        cur = flash_attn_ext(q, k, v, mask, sinks)
        if v_mla is not None:
            cur = cont(swap_12(mul_mat(v_mla, swap_12(cur))))
        n0, n1, n2, n3 = cur.ne
        cur = reshape(cur, n0 * n1, n2 * n3)
    else:
        cur = _unfused(g, q, k, v, mask, bias=bias, sinks=sinks, v_mla=v_mla, v_trans=v_trans)
    g.expand(cur)
    return cur


def _unfused(
    g: GraphContext,
    q: Node,
    k: Node,
    v: Node,
    mask: Node | None,
    *,
    bias: Node | None,
    sinks: Node | None,
    v_mla: Node | None,
    v_trans: bool,
) -> Node:
    kq = mul_mat(k, q)
    if g.hp.f_attn_logit_softcapping:
        kq = scale(tanh(scale(kq)))
    if bias is not None:
        kq = add(kq, bias)
    kq = soft_max(kq, mask, sinks)
    if not v_trans:
        v = cont(transpose(v))
    kqv = mul_mat(v, kq)
    if v_mla is not None:
        kqv = mul_mat(v_mla, kqv)
    cur = swap_12(kqv)
    n0, n1, n2, n3 = cur.ne
    cur = cont_4d(cur, n0 * n1, n2 * n3)
    if not g.ctx.offload_kqv and g.hard_pins:
        cur.place = g.host
    return cur


def output_projection(block: Block, cur: Node, name: str = "attn_output") -> Node:
    """`wo` with its scale and bias; what has no `wo` stays as it is."""
    weight = block(name + ".weight")
    if weight is not None:
        cur = linear(weight, cur, block(name + ".scale"))
    bias = block(name + ".bias")
    return cur if bias is None else add(cur, bias)


def build_attn(
    g: GraphContext,
    inp: AttentionInput,
    block: Block | None,
    q: Node,
    k: Node,
    v: Node,
    il: int,
    *,
    bias: Node | None = None,
    sinks: Node | None = None,
) -> Node:
    """Store K and V, attend to the cache, project; `block` None leaves the projection out.

    Source: build_attn with llm_graph_input_attn_kv, src/llama-graph.cpp:2860-2935: V is expanded before K.
    """
    if inp.k_rot is not None:
        q, k = hadamard(q, inp.k_rot), hadamard(k, inp.k_rot)
    if inp.v_rot is not None:
        v = hadamard(v, inp.v_rot)
    g.expand(q)
    g.expand(v)
    g.expand(k)
    cells_k, cells_v = g.cache(inp.kind, il), g.cache(inp.kind, il, second=True)
    g.expand(store_rows(cells_k, k, inp.k_idxs))
    store = store_transposed if g.ctx.v_padded else store_rows
    g.expand(store(cells_v, v, inp.v_idxs))
    cur = mha(g, q, read_k(g, cells_k, il), read_v(g, cells_v, il), inp.mask, bias=bias, sinks=sinks)
    if inp.v_rot is not None:
        cur = hadamard(cur, inp.v_rot)
    return cur if block is None else output_projection(block, cur)
