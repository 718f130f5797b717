"""Qwen 3-Next and 3.5: gated delta nets, with gated attention in every few blocks."""

from collections.abc import Callable

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    concat,
    cont,
    cont_4d,
    mul,
    mul_mat,
    repeat_4d,
    reshape,
    sigmoid,
    silu,
    softplus,
    ssm_conv,
    view,
)
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    Routing,
    StateInput,
    attention_input,
    build_ffn,
    build_moe_ffn,
    build_rms_norm,
    build_rs,
    experts_scaled,
    linear,
    positions,
    state_input,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.delta_net import (
    build_conv_state,
    build_recurrent_attn,
    l2_norm_of_heads,
)
from service.core.engines.llamacpp.graphs.blocks.delta_net_unfused import DeltaRule
from service.core.engines.llamacpp.graphs.blocks.draft_output import output_with_draft_seed
from service.core.engines.llamacpp.graphs.blocks.gated_attention import build_gated_attention
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

Projections = Callable[[GraphContext, Block, Node], tuple[Node, Node, Node, Node]]
"""From the normed input: (Q, K and V mixed, output gate z, beta, decay)."""


@graph("qwen35", "qwen35moe")
def qwen35(g: GraphContext) -> None:
    """src/models/qwen35.cpp and qwen35moe.cpp."""
    _qwen_next(g, _separate, interleaved=False)


@graph("qwen3next")
def qwen3next(g: GraphContext) -> None:
    """src/models/qwen3next.cpp."""
    _qwen_next(g, _grouped, interleaved=True)


def _qwen_next(g: GraphContext, projections: Projections, *, interleaved: bool) -> None:
    """Common to both: interleaved says that K heads are repeated one by one to match V heads."""
    cur = token_embeddings(g)
    states, inp, pos = state_input(g), attention_input(g), positions(g)
    routing = Routing(scaled=experts_scaled(g))
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        g.expand(cur)
        if g.hp.is_recr[il]:
            cur = _linear_attention(g, states, block, projections(g, block, cur), il, interleaved=interleaved)
        else:
            cur = build_gated_attention(g, inp, pos, cur, il, gate_first=not interleaved)
        residual = cur = add(cur, residual)
        cur = build_rms_norm(g, cur, block("post_attention_norm.weight"), il)
        cur = add(_feed_forward(g, block, cur, routing, il), residual)
    output_with_draft_seed(g, cur)


def _feed_forward(g: GraphContext, block: Block, cur: Node, routing: Routing, il: int) -> Node:
    if not block.has("ffn_gate_inp.weight"):
        return build_ffn(block, cur)
    routed = build_moe_ffn(g, block, cur, routing, il)
    if not block.has("ffn_up_shexp.weight"):
        return routed
    shared = build_ffn(block, cur, suffix="_shexp")
    gate = mul_mat(block.need("ffn_gate_inp_shexp.weight"), cur)
    return add(routed, mul(shared, sigmoid(gate)))


def _separate(g: GraphContext, block: Block, cur: Node) -> tuple[Node, Node, Node, Node]:
    heads, n, n_seqs = g.hp.ssm_dt_rank, g.n_seq_tokens, g.n_seqs
    mixed = linear(block.need("attn_qkv.weight"), cur, block("attn_qkv.scale"))
    mixed = reshape(mixed, mixed.ne[0], n, n_seqs)
    z = linear(block.need("attn_gate.weight"), cur, block("attn_gate.scale"))
    beta = linear(block.need("ssm_beta.weight"), cur, block("ssm_beta.scale"))
    beta = sigmoid(reshape(beta, 1, heads, n, n_seqs))
    alpha = linear(block.need("ssm_alpha.weight"), cur, block("ssm_alpha.scale"))
    return mixed, z, beta, _decay(block, reshape(alpha, heads, n, n_seqs))


def _decay(block: Block, alpha: Node) -> Node:
    decay = mul(softplus(add(alpha, block.need("ssm_dt.bias"))), block.need("ssm_a"))
    return reshape(decay, 1, *alpha.ne[:3])


def _grouped(g: GraphContext, block: Block, cur: Node) -> tuple[Node, Node, Node, Node]:
    hp, n, n_seqs = g.hp, g.n_seq_tokens, g.n_seqs
    heads_k, heads = hp.ssm_n_group, hp.ssm_dt_rank
    fused = block("attn_qkv.weight")
    if fused is None:
        mixed, z = _split_by_head(g, block, cur)
    else:
        mixed = mul_mat(fused, cur)
        mixed = reshape(mixed, mixed.ne[0], n, n_seqs)
        z = mul_mat(block.need("attn_gate.weight"), cur)
    group = heads // heads_k
    both = reshape(mul_mat(block.need("ssm_ba.weight"), cur), 2 * group, heads_k, n, n_seqs)
    half = view(both, (group, heads_k, n, n_seqs), both.nb[1:])
    beta = reshape(sigmoid(cont(half)), 1, heads, n, n_seqs)
    alpha = cont_4d(view(both, (group, heads_k, n, n_seqs), both.nb[1:]), heads, n, n_seqs)
    return mixed, z, beta, _decay(block, alpha)


def _split_by_head(g: GraphContext, block: Block, cur: Node) -> tuple[Node, Node]:
    """Q, K, V and z of each K head in one projection, as earlier conversions have them."""
    hp, n, n_seqs = g.hp, g.n_seq_tokens, g.n_seqs
    heads_k, size = hp.ssm_n_group, hp.ssm_d_state
    values = hp.ssm_d_inner // heads_k
    joint = reshape(mul_mat(block.need("ssm_in.weight"), cur), 2 * size + 2 * values, heads_k, n, n_seqs)

    def part(width: int) -> Node:
        return view(joint, (width, heads_k, n, n_seqs), joint.nb[1:])

    z = cont(part(values))
    q, k, v = (cont_4d(part(width), width * heads_k, n, n_seqs) for width in (size, size, values))
    return concat(concat(q, k, 0), v, 0), z


def _linear_attention(
    g: GraphContext,
    states: StateInput,
    block: Block,
    projected: tuple[Node, Node, Node, Node],
    il: int,
    *,
    interleaved: bool,
) -> Node:
    hp, n, n_seqs = g.hp, g.n_seq_tokens, g.n_seqs
    size, heads_k, heads = hp.ssm_d_state, hp.ssm_n_group, hp.ssm_dt_rank
    size_v = hp.ssm_d_inner // heads
    mixed, z, beta, decay = projected
    conv = build_conv_state(g, states, mixed, il)
    state = build_rs(g, states, g.cache("recurrent", il, second=True), hp.n_embd_s, n_seqs)
    state = reshape(state, size_v, size_v, heads, n_seqs)
    conv = silu(ssm_conv(conv, block.need("ssm_conv1d.weight")))
    row = 4 * (2 * size * heads_k + size_v * heads)
    q, k = (l2_norm_of_heads(view(conv, (size, heads_k, n, n_seqs), (4 * size, row, row * n))) for _ in range(2))
    v = view(conv, (size_v, heads, n, n_seqs), (4 * size_v, row, row * n))
    if heads_k != heads and interleaved:
        q, k = (_interleave(x, heads // heads_k) for x in (q, k))
    elif heads_k != heads and not {"gdn_ar", "gdn_ch"} <= g.fused:
        q, k = (repeat_4d(x, size, heads, n, n_seqs) for x in (q, k))
    output = build_recurrent_attn(g, states, DeltaRule(q, k, v, decay, beta, state), il)
    z = reshape(z, size_v, heads, n, n_seqs)
    normed = mul(build_rms_norm(g, output, block("ssm_norm.weight"), il), silu(z))
    cur = linear(block.need("ssm_out.weight"), reshape(normed, size_v * heads, n, n_seqs), _out_scale(g, block))
    return reshape(cur, g.n_embd, n * n_seqs)


def _out_scale(g: GraphContext, block: Block) -> Node | None:
    return None if g.hp.arch.name == "qwen3next" else block("ssm_out.scale")


def _interleave(x: Node, times: int) -> Node:
    """Each head `times` times in a row."""
    size, heads, n, n_seqs = x.ne
    x = repeat_4d(reshape(x, size, 1, heads, n * n_seqs), size, times, heads, n * n_seqs)
    return reshape(x, size, heads * times, n, n_seqs)
