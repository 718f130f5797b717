"""Kimi Delta Attention: the gated delta rule with a decay per channel, behind short convolutions of Q, K and V.

Source: src/models/kimi-linear.cpp:255-375, kimi-k3.cpp:352-480, bailingmoe3.cpp:195-310, glm5-next.cpp:690-770
(llama.cpp in llama-cpp-python 0.3.36).
"""

from typing import Literal

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    concat,
    cont,
    cont_4d,
    cpy,
    mul,
    mul_mat,
    reshape,
    scale,
    sigmoid,
    silu,
    softplus,
    ssm_conv,
    transpose,
    view,
)
from service.core.engines.llamacpp.graphs.blocks.delta_net import DeltaRule, build_recurrent_attn, l2_norm_of_heads
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm
from service.core.engines.llamacpp.graphs.blocks.state import StateInput, build_rs
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

DecayGate = Literal["softplus", "sigmoid_of_negative", "sigmoid"]
"""How the decay is limited: not at all, or by a lower bound, whose argument may be negated by an operation."""


def bounded_decay_gate(g: GraphContext) -> DecayGate:
    """The gate of models whose file may state a lower bound (`kda.gate_lower_bound`)."""
    return "sigmoid_of_negative" if g.number("kda.gate_lower_bound", -float("inf")) > -float("inf") else "softplus"


def build_kda(g: GraphContext, inp: StateInput, block: Block, cur: Node, il: int, gate: DecayGate) -> Node:
    """One layer, from the normed input to the output projection."""
    hp, n_tokens, n, n_seqs = g.hp, g.n_tokens, g.n_seq_tokens, g.n_seqs
    head, heads = hp.n_embd_head_kda, hp.n_head[0]
    cells = g.cache("recurrent", il)
    rolling = build_rs(g, inp, cells, hp.n_embd_r, n_seqs)
    q, k, v = (
        _convolved(g, cells, rolling, projected, block.need(f"ssm_conv1d_{name}.weight"))
        for name, projected in zip("qkv", _projections(block, cur, head * heads), strict=True)
    )
    decay = reshape(_decay(g, block, cur, gate), head, heads, n, n_seqs)
    beta = sigmoid(reshape(mul_mat(block.need("ssm_beta.weight"), cur), 1, heads, n, n_seqs))
    state = build_rs(g, inp, g.cache("recurrent", il, second=True), hp.n_embd_s, n_seqs)
    state = reshape(state, head, head, heads, n_seqs)
    rule = DeltaRule(l2_norm_of_heads(q), l2_norm_of_heads(k), v, decay, beta, state)
    output = reshape(cont(build_recurrent_attn(g, inp, rule, il)), head, heads, n_tokens)
    normed = build_rms_norm(g, output, block("ssm_norm.weight"), il)
    gated = mul(normed, sigmoid(reshape(_output_gate(block, cur), head, heads, n_tokens)))
    return mul_mat(block.need("attn_output.weight"), cont_4d(gated, head * heads, n_tokens))


def _projections(block: Block, cur: Node, width: int) -> tuple[Node, Node, Node]:
    fused = block("attn_qkv.weight")
    if fused is None:
        q, k, v = (mul_mat(block.need(f"attn_{name}.weight"), cur) for name in "qkv")
    else:
        qkv = mul_mat(fused, cur)
        q, k, v = (cont(view(qkv, (width, qkv.ne[1]), (qkv.nb[1],))) for _ in range(3))
    return q, k, v


def _convolved(g: GraphContext, cells: Node, rolling: Node, projected: Node, kernel: Node) -> Node:
    """One of Q, K and V behind its convolution: [head size, heads, tokens, sequences]; its last columns are stored."""
    kept, n_seqs, width = g.hp.ssm_d_conv - 1, g.n_seqs, projected.ne[0]
    step = (4 * kept, cells.nb[1])
    conv = concat(
        view(rolling, (kept, width, n_seqs), step), transpose(reshape(projected, width, g.n_seq_tokens, n_seqs)), 0
    )
    for _ in range(g.ctx.n_rs_seq + 1):
        last = view(conv, (kept, width, n_seqs), conv.nb[1:3])
        g.expand(cpy(last, view(cells, (kept, width, n_seqs), step)))
    out = silu(reshape(ssm_conv(conv, reshape(kernel, kept + 1, width)), width, g.n_tokens))
    return reshape(out, g.hp.n_embd_head_kda, g.hp.n_head[0], g.n_seq_tokens, n_seqs)


def _decay(g: GraphContext, block: Block, cur: Node, gate: DecayGate) -> Node:
    head, heads = g.hp.n_embd_head_kda, g.hp.n_head[0]
    decay, second = mul_mat(block.need("ssm_f_a.weight"), cur), block("ssm_f_b.weight")
    if second is not None:
        decay = mul_mat(second, decay)
    decay = add(decay, block.need("ssm_dt.bias"))
    if gate == "softplus":
        decay = softplus(decay)
    decay = mul(reshape(decay, head, heads, g.n_tokens), reshape(block.need("ssm_a"), 1, heads))
    if gate == "softplus":
        return decay
    return scale(sigmoid(scale(decay) if gate == "sigmoid_of_negative" else decay))


def _output_gate(block: Block, cur: Node) -> Node:
    whole, second = block("ssm_g.weight"), block("ssm_g_b.weight")
    if whole is not None:
        return mul_mat(whole, cur)
    first = mul_mat(block.need("ssm_g_a.weight"), cur)
    return first if second is None else mul_mat(second, first)
