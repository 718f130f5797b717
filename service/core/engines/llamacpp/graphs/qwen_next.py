"""Qwen 3-Next and 3.5: gated delta nets, with gated attention in every few blocks."""

from collections.abc import Callable

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, concat, cont, cont_4d, mul_mat, reshape, sigmoid, view
from service.core.engines.llamacpp.graphs import draft_layers, graph
from service.core.engines.llamacpp.graphs.blocks import (
    Routing,
    attention_input,
    build_rms_norm,
    experts_scaled,
    positions,
    rms_output,
    state_input,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.draft_layers import draft_block, draft_head
from service.core.engines.llamacpp.graphs.blocks.draft_output import output_with_draft_seed
from service.core.engines.llamacpp.graphs.blocks.gated_attention import build_gated_attention
from service.core.engines.llamacpp.graphs.blocks.gated_delta import (
    DeltaInputs,
    DeltaLayer,
    build_gated_delta,
    decay_of,
    separate_inputs,
)
from service.core.engines.llamacpp.graphs.blocks.gated_experts import gated_experts_ffn
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

Projections = Callable[[GraphContext, Block, Node], DeltaInputs]


@graph("qwen35", "qwen35moe")
def qwen35(g: GraphContext) -> None:
    """src/models/qwen35.cpp and qwen35moe.cpp."""
    _qwen_next(g, separate_inputs, DeltaLayer())


@graph("qwen3next")
def qwen3next(g: GraphContext) -> None:
    """src/models/qwen3next.cpp."""
    _qwen_next(g, _grouped_inputs, DeltaLayer(interleaved=True, scaled_output=False))


@draft_layers("qwen35", "qwen35moe")
def qwen35_draft(g: GraphContext) -> None:
    """graph_mtp of src/models/qwen35.cpp and qwen35moe.cpp."""
    draft_head(g, _attending_block(g))


@draft_layers("qwen3next")
def qwen3next_draft(g: GraphContext) -> None:
    """graph_mtp of src/models/qwen3next.cpp."""
    draft_head(g, _attending_block(g, few_rows=True), rows="in_block")


def _attending_block(g: GraphContext, *, few_rows: bool = False) -> Node:
    """A draft block, which always attends."""
    inp, pos, routing = attention_input(g), positions(g), Routing(scaled=experts_scaled(g))

    def attention(_block: Block, cur: Node, il: int) -> Node:
        return build_gated_attention(g, inp, pos, cur, il)

    def feed_forward(block: Block, cur: Node, il: int) -> Node:
        return gated_experts_ffn(g, block, cur, routing, il)

    return draft_block(g, attention, feed_forward, ffn_norm="post_attention_norm", few_rows=few_rows)


def _qwen_next(g: GraphContext, inputs: Projections, layer: DeltaLayer) -> None:
    cur = token_embeddings(g)
    states, inp, pos = state_input(g), attention_input(g), positions(g)
    routing = Routing(scaled=experts_scaled(g))
    drafts_read_all_rows = "drafts_read_all_rows" in g.rules
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        g.expand(cur)
        if g.hp.is_recr[il]:
            cur = build_gated_delta(g, states, block, inputs(g, block, cur), il, layer)
        else:
            cur = build_gated_attention(g, inp, pos, cur, il)
        if not drafts_read_all_rows:
            cur, residual = g.select_outputs(il, cur, residual)
        residual = cur = add(cur, residual)
        cur = build_rms_norm(g, cur, block("post_attention_norm.weight"), il)
        cur = add(gated_experts_ffn(g, block, cur, routing, il), residual)
    if drafts_read_all_rows:
        output_with_draft_seed(g, cur)
    else:
        rms_output(g, cur)


def _grouped_inputs(g: GraphContext, block: Block, cur: Node) -> DeltaInputs:
    """Beta and decay of each K head in one projection."""
    hp, n, n_seqs = g.hp, g.n_seq_tokens, g.n_seqs
    heads_k, heads = hp.ssm_n_group, hp.ssm_dt_rank
    fused = block("attn_qkv.weight")
    if fused is None:
        mixed, gate = _split_by_head(g, block, cur)
    else:
        mixed = mul_mat(fused, cur)
        mixed = reshape(mixed, mixed.ne[0], n, n_seqs)
        gate = mul_mat(block.need("attn_gate.weight"), cur)
    group = heads // heads_k
    both = reshape(mul_mat(block.need("ssm_ba.weight"), cur), 2 * group, heads_k, n, n_seqs)
    half = view(both, (group, heads_k, n, n_seqs), both.nb[1:])
    beta = reshape(sigmoid(cont(half)), 1, heads, n, n_seqs)
    alpha = cont_4d(view(both, (group, heads_k, n, n_seqs), both.nb[1:]), heads, n, n_seqs)
    return DeltaInputs(mixed, gate, beta, decay_of(block, alpha))


def _split_by_head(g: GraphContext, block: Block, cur: Node) -> tuple[Node, Node]:
    """Q, K, V and gate of each K head in one projection, as earlier conversions have them."""
    hp, n, n_seqs = g.hp, g.n_seq_tokens, g.n_seqs
    heads_k, size = hp.ssm_n_group, hp.ssm_d_state
    values = hp.ssm_d_inner // heads_k
    joint = reshape(mul_mat(block.need("ssm_in.weight"), cur), 2 * size + 2 * values, heads_k, n, n_seqs)

    def part(width: int) -> Node:
        return view(joint, (width, heads_k, n, n_seqs), joint.nb[1:])

    gate = cont(part(values))
    q, k, v = (cont_4d(part(width), width * heads_k, n, n_seqs) for width in (size, size, values))
    return concat(concat(q, k, 0), v, 0), gate
