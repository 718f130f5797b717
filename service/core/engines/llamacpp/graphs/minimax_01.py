"""MiniMax 01: linear ("lightning") attention, with softmax attention in every eighth block."""

from service.core.engines.llamacpp.compute.node import F32, Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    cont,
    cpy,
    exp,
    mul,
    mul_mat,
    permute,
    reshape,
    rope,
    scale,
    sigmoid,
    silu,
    swap_12,
    view,
)
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    Routing,
    StateInput,
    attention_input,
    build_attn,
    build_moe_ffn,
    build_qkv,
    build_rms_norm,
    build_rs,
    experts_scaled,
    positions,
    rms_output,
    state_input,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


@graph("minimax-01", reserves_one_sequence=True)
def minimax_01(g: GraphContext) -> None:
    """src/models/minimax-01.cpp: residuals start from the normed input, scaled."""
    cur = token_embeddings(g)
    states, inp, pos = state_input(g), attention_input(g), positions(g)
    routing = Routing(scaled=experts_scaled(g))
    for il in g.layers:
        block = g.block(il)
        residual = cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        if g.hp.is_recr[il]:
            cur = _linear_attention(g, states, block, cur, il)
        else:
            q, k, v = build_qkv(g, block, cur, il)
            cur = build_attn(g, inp, block, rope(q, pos), rope(k, pos), v, il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, scale(residual))
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(build_moe_ffn(g, block.unscaled(), cur, routing, il), scale(cur))
    rms_output(g, cur)


def _linear_attention(g: GraphContext, states: StateInput, block: Block, cur: Node, il: int) -> Node:
    """Attention that decays with distance, within the batch and over the state before it."""
    hp, n, n_seqs = g.hp, g.n_seq_tokens, g.n_seqs
    head, heads = hp.n_embd_head_v(il), hp.n_head[il]
    build_rs(g, states, g.cache("recurrent", il), hp.n_embd_r, n_seqs)
    cur = reshape(cur, cur.ne[0], n, 1, n_seqs)
    qkv = reshape(silu(mul_mat(block.need("attn_qkv.weight"), cur)), 3 * head, heads, n, n_seqs)
    q, k, v = (view(qkv, (head, heads, n, n_seqs), qkv.nb[1:]) for _ in range(3))
    cells = g.cache("recurrent", il, second=True)
    old = reshape(build_rs(g, states, cells, hp.n_embd_s, n_seqs), head, head, heads, n_seqs)
    q_decay = exp(scale(g.input("q_decay_exp", F32, 1, heads, n, n_seqs)))
    k_decay = exp(scale(g.input("k_decay_exp", F32, 1, heads, n, n_seqs)))
    diagonal = exp(scale(g.input("diag_decay_exp", F32, n, n, heads, n_seqs)))
    before = mul_mat(old, swap_12(mul(q, q_decay)))
    within = mul(mul_mat(swap_12(k), swap_12(q)), diagonal)
    v_trans = cont(permute(v, 1, 2, 0, 3))
    out = add(before, mul_mat(v_trans, within))
    g.expand(out)
    block_decay = exp(scale(scale(g.input("slopes", F32, heads))))
    kept = mul(old, reshape(block_decay, 1, 1, heads))
    new = add(kept, mul_mat(cont(permute(mul(k, k_decay), 1, 2, 0, 3)), v_trans))
    stored = (hp.n_embd_s * n_seqs,)
    g.expand(cpy(new, view(cells, stored)))
    out = cont(swap_12(out))
    out = reshape(out, out.ne[0] * out.ne[1], out.ne[2], 1, out.ne[3])
    normed = build_rms_norm(g, out, block("attn_norm_2.weight"), il)
    gate = sigmoid(mul_mat(block.need("attn_gate.weight"), cur))
    cur = mul_mat(block.need("attn_output.weight"), mul(gate, normed))
    return reshape(cur, cur.ne[0], n * n_seqs)
