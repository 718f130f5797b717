"""PLaMo 2: Mamba layers and attention, norms before and after both."""

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    concat,
    cont,
    cont_4d,
    cpy,
    glu_split,
    mul,
    mul_mat,
    reshape,
    rope,
    silu,
    ssm_conv,
    ssm_scan,
    swap_12,
    transpose,
    view,
)
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    AttentionInput,
    StateInput,
    attention_input,
    build_attn,
    build_ffn,
    build_rms_norm,
    build_rs,
    positions,
    rms_output,
    state_input,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


@graph("plamo2")
def plamo2(g: GraphContext) -> None:
    """src/models/plamo2.cpp."""
    cur = token_embeddings(g)
    pos, states, inp = positions(g), state_input(g), attention_input(g)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = _mamba(g, states, block, cur, il) if g.hp.is_recr[il] else _attention(g, inp, pos, block, cur, il)
        cur, residual = g.select_outputs(il, cur, residual)
        cur = build_rms_norm(g, cur, block("post_attention_norm.weight"), il)
        residual = cur = add(cur, residual)
        cur = build_rms_norm(g, cur, block("ffn_norm.weight"), il)
        cur = build_ffn(block.unscaled(), cur, "swiglu", "sequential")
        cur = add(build_rms_norm(g, cur, block("post_ffw_norm.weight"), il), residual)
    rms_output(g, cur)


def _attention(g: GraphContext, inp: AttentionInput, pos: Node, block: Block, cur: Node, il: int) -> Node:
    hp, n = g.hp, g.n_tokens
    head_k, head_v, heads, heads_kv = hp.n_embd_head_k(il), hp.n_embd_head_v(il), hp.n_head[il], hp.n_head_kv[il]
    qkv = mul_mat(block.need("attn_qkv.weight"), cur)
    q = view(qkv, (head_k, heads, n), (4 * head_k, qkv.nb[1]))
    k = view(qkv, (head_k, heads_kv, n), (4 * head_k, qkv.nb[1]))
    v = view(qkv, (head_v, heads_kv, n), (4 * head_v, qkv.nb[1]))
    q = rope(build_rms_norm(g, q, block("attn_q_norm.weight"), il), pos)
    k = rope(build_rms_norm(g, k, block("attn_k_norm.weight"), il), pos)
    return build_attn(g, inp, block, q, k, v, il)


def _mamba(g: GraphContext, inp: StateInput, block: Block, cur: Node, il: int) -> Node:
    hp, n, n_seqs = g.hp, g.n_seq_tokens, g.n_seqs
    inner, heads, kept = hp.ssm_d_inner, hp.ssm_dt_rank, hp.ssm_d_conv - 1
    head = inner // heads
    cells = g.cache("recurrent", il)
    conv = reshape(build_rs(g, inp, cells, hp.n_embd_r, n_seqs), kept, inner, n_seqs)
    zx = mul_mat(block.need("ssm_in.weight"), reshape(cur, cur.ne[0], n, n_seqs))
    zx = cont_4d(swap_12(zx), 2 * head, heads, n, n_seqs)
    x = cont_4d(view(zx, (head, heads, n, n_seqs), zx.nb[1:]), inner, n, n_seqs)
    z = view(zx, (head, heads, n, n_seqs), zx.nb[1:])
    conv = concat(conv, transpose(x), 0)
    last = view(conv, (kept, inner, n_seqs), conv.nb[1:3])
    g.expand(cpy(last, view(cells, (kept * inner * n_seqs,))))
    x = silu(ssm_conv(conv, block.need("ssm_conv1d.weight")))
    y = glu_split(cont(z), _scan(g, inp, block, x, il))
    y = view(y, (inner, n, n_seqs), y.nb[2:])
    cur = mul_mat(block.need("ssm_out.weight"), y)
    return reshape(cur, cur.ne[0], n * n_seqs)


def _scan(g: GraphContext, inp: StateInput, block: Block, x: Node, il: int) -> Node:
    hp, n, n_seqs = g.hp, g.n_seq_tokens, g.n_seqs
    inner, size, heads = hp.ssm_d_inner, hp.ssm_d_state, hp.ssm_dt_rank
    head, rank = inner // heads, max(64, hp.n_embd // 16)
    bcdt = mul_mat(block.need("ssm_x.weight"), x)
    b, c, dt = (
        build_rms_norm(g, view(bcdt, (width, n, n_seqs), bcdt.nb[1:3]), block(f"ssm_{name}_norm.weight"), il)
        for name, width in (("b", size), ("c", size), ("dt", rank))
    )
    dt = add(mul_mat(block.need("ssm_dt.weight"), dt), block.need("ssm_dt.bias"))
    decay, skip = (reshape(block.need(name), 1, heads) for name in ("ssm_a", "ssm_d"))
    by_head = (4 * head, 4 * inner, 4 * inner * n)
    x = view(x, (head, heads, n, n_seqs), by_head)
    b, c = (view(part, (size, 1, n, n_seqs), (4 * size, *part.nb[1:3])) for part in (b, c))
    cells = g.cache("recurrent", il, second=True)

    def rows(states: Node, ids: Node) -> Node:
        return ssm_scan((reshape(states, size, head, heads, cells.ne[1]), x, dt, decay, b, c, ids))

    y = build_rs(g, inp, cells, hp.n_embd_s, n_seqs, rows)
    stored = (inner * size * n_seqs,)
    g.expand(cpy(view(y, stored), view(cells, stored)))
    return add(view(y, (head, heads, n, n_seqs), by_head), mul(x, skip))
