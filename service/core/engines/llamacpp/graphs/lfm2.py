"""LFM2: short convolutions, with attention in some blocks."""

from dataclasses import replace

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    concat,
    cont,
    cpy,
    mul,
    mul_mat,
    pad,
    reshape,
    rope,
    ssm_conv,
    transpose,
    view,
)
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    AttentionInput,
    StateInput,
    WindowedInput,
    attention_input,
    build_attn,
    build_attn_windowed,
    build_ffn,
    build_moe_ffn,
    build_qkv,
    build_rms_norm,
    build_rs,
    logits_of,
    positions,
    state_input,
    token_embeddings,
    windowed_input,
)
from service.core.engines.llamacpp.graphs.blocks.routed_ffn import file_routing
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


@graph("lfm2", "lfm2moe")
def lfm2(g: GraphContext) -> None:
    """src/models/lfm2.cpp, which lfm2moe.cpp uses too."""
    hp = g.hp
    cur = token_embeddings(g)
    states = state_input(g)
    inp = attention_input(g) if hp.swa_type == "none" else _windowed_input(g)
    pos = positions(g)
    routing = replace(file_routing(g), normalised=True)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = _short_convolution(g, states, block, cur, il) if hp.is_recr[il] else _attention(g, inp, pos, cur, il)
        cur, residual = g.select_outputs(il, cur, residual)
        cur = add(residual, cur)
        normed = build_rms_norm(g, cur, block("ffn_norm.weight"), il)
        weights = block.unscaled()
        dense = il < hp.n_layer_dense_lead
        cur = add(cur, build_ffn(weights, normed) if dense else build_moe_ffn(g, weights, normed, routing, il))
    cur = build_rms_norm(g, cur, g.output_weight("token_embd_norm.weight"), -1)
    g.finish(cur, logits_of(g, cur))


def _windowed_input(g: GraphContext) -> WindowedInput:
    """build_inp_mem_hybrid_iswa: caches beside recurrent state are never rotated."""
    inp = windowed_input(g)
    return WindowedInput(base=replace(inp.base, k_rot=None, v_rot=None), swa=replace(inp.swa, k_rot=None, v_rot=None))


def _attention(g: GraphContext, inp: AttentionInput | WindowedInput, pos: Node, cur: Node, il: int) -> Node:
    block = g.block(il)
    q, k, v = build_qkv(g, block, cur, il)
    q = rope(build_rms_norm(g, q, block("attn_q_norm.weight"), il), pos)
    k = rope(build_rms_norm(g, k, block("attn_k_norm.weight"), il), pos)
    if isinstance(inp, WindowedInput):
        return build_attn_windowed(g, inp, block, q, k, v, il)
    return build_attn(g, inp, block, q, k, v, il)


def _short_convolution(g: GraphContext, states: StateInput, block: Block, cur: Node, il: int) -> Node:
    """Convolution over the last tokens between two elementwise gates."""
    hp, n, n_seqs, width = g.hp, g.n_seq_tokens, g.n_seqs, g.n_embd
    kept = hp.n_shortconv_l_cache - 1
    bcx = mul_mat(block.need("shortconv.in_proj.weight"), reshape(cur, cur.ne[0], n, n_seqs))
    b, c, x = (view(bcx, (bcx.ne[0] // 3, n, n_seqs), bcx.nb[1:3]) for _ in range(3))
    bx = transpose(mul(b, x))
    cells = g.cache("recurrent", il)
    conv = reshape(build_rs(g, states, cells, hp.n_embd_r, n_seqs), kept, width, n_seqs)
    if hp.causal_attn:
        bx = concat(conv, bx, 0)
    else:
        half = kept // 2
        left = cont(view(conv, (half, width, n_seqs), conv.nb[1:3]))
        bx = pad(concat(left, bx, 0), half)
    snapshots = g.ctx.n_rs_seq + 1 if hp.causal_attn else 1
    for _ in range(min(n, snapshots)):
        last = view(bx, (kept, *bx.ne[1:3]), bx.nb[1:3])
        g.expand(cpy(last, view(cells, (kept * width, n_seqs), (cells.nb[1],))))
    y = mul(c, ssm_conv(bx, block.need("shortconv.conv.weight")))
    y = mul_mat(block.need("shortconv.out_proj.weight"), y)
    return reshape(y, y.ne[0], n * n_seqs)
