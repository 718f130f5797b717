"""Mamba, and hybrids of Mamba layers and attention."""

from service.core.engines.llamacpp.compute.node import OUTPUT, Node
from service.core.engines.llamacpp.compute.ops import add, mul_mat, rope, scale
from service.core.engines.llamacpp.graphs import draft_layers, graph
from service.core.engines.llamacpp.graphs.blocks import (
    AttentionInput,
    Routing,
    attention_input,
    build_attn,
    build_ffn,
    build_layer_norm,
    build_moe_ffn,
    build_qkv,
    build_rms_norm,
    experts_scaled,
    logits_of,
    positions,
    rms_output,
    rope_factors,
    state_input,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.draft_layers import (
    draft_input,
    draft_layer,
    draft_logits,
    wanted_rows,
)
from service.core.engines.llamacpp.graphs.blocks.draft_output import output_with_draft_seed
from service.core.engines.llamacpp.graphs.blocks.selective_scan import MAMBA2_CYCLE, build_mamba, build_mamba2
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


@graph("mamba", "mamba2", cycle=MAMBA2_CYCLE)
def mamba(g: GraphContext) -> None:
    """src/models/mamba.cpp, which mamba2.cpp uses too."""
    cur = token_embeddings(g)
    states = state_input(g)
    build = build_mamba2 if g.hp.arch.name == "mamba2" else build_mamba
    for il in g.layers:
        residual = cur
        cur = build(g, states, build_rms_norm(g, cur, g.block(il)("attn_norm.weight"), il), il)
        cur, residual = g.select_outputs(il, cur, residual)
        cur = add(cur, residual)
    rms_output(g, cur)


@graph("jamba")
def jamba(g: GraphContext) -> None:
    """src/models/jamba.cpp: Mamba-1 layers and attention without positions."""
    cur = token_embeddings(g)
    states, inp = state_input(g), attention_input(g)
    routing = Routing(normalised=False, scaled=experts_scaled(g))
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        if g.hp.n_head_kv[il]:
            cur = build_attn(g, inp, block, *build_qkv(g, block, cur, il), il)
        else:
            cur = build_mamba(g, states, cur, il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(residual, cur)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        weights = block.unscaled()
        routed = block.has("ffn_gate_inp.weight")
        cur = build_moe_ffn(g, weights, cur, routing, il) if routed else build_ffn(weights, cur)
        cur = add(ffn_inp, cur)
    rms_output(g, cur)


@graph("falcon-h1", cycle=MAMBA2_CYCLE)
def falcon_h1(g: GraphContext) -> None:
    """src/models/falcon-h1.cpp: attention and Mamba-2 side by side in every block."""
    cur = token_embeddings(g)
    pos, states, inp = positions(g), state_input(g), attention_input(g)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        normed = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        q, k, v = build_qkv(g, block, normed, il)
        attended = build_attn(g, inp, block, rope(q, pos), rope(k, pos), v, il)
        normed = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = add(add(attended, build_mamba2(g, states, normed, il)), residual)
        (ffn_inp,) = g.select_outputs(il, cur)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(build_ffn(block.unscaled(), cur), ffn_inp)
    rms_output(g, cur)


@graph("nemotron_h", "nemotron_h_moe", cycle=MAMBA2_CYCLE)
def nemotron_h(g: GraphContext) -> None:
    """src/models/nemotron-h.cpp: every block is a Mamba-2 layer, attention, or a feed-forward network."""
    hp = g.hp
    cur = token_embeddings(g)
    states, inp = state_input(g), attention_input(g)
    routing = _squared_relu_routing(g)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        if hp.is_recr[il]:
            cur = build_mamba2(g, states, cur, il)
        elif hp.n_ff[il] == 0:
            cur = build_attn(g, inp, block, *build_qkv(g, block, cur, il), il)
        elif block.has("ffn_gate_inp.weight"):
            cur = _latent_experts(g, block, cur, routing, il)
        else:
            cur = build_ffn(block, cur, "relu_sqr")
        cur = add(cur, residual)
    output_with_draft_seed(g, cur)


@draft_layers("nemotron_h_moe")
def nemotron_h_moe_draft(g: GraphContext) -> None:
    """graph_mtp of src/models/nemotron-h-moe.cpp: attention, and experts for the rows whose logits are wanted."""
    (block, il), inp, routing = draft_layer(g), attention_input(g), _squared_relu_routing(g)
    residual = draft_input(g, block, il)
    cur = build_rms_norm(g, residual, block("attn_norm.weight"), il)
    cur = add(build_attn(g, inp, block, *build_qkv(g, block, cur, il), il), residual)
    residual = cur = wanted_rows(g, cur)
    cur = build_rms_norm(g, cur, block("post_attention_norm.weight"), il)
    cur = add(_latent_experts(g, block, cur, routing, il), residual)
    cur = build_layer_norm(g, cur, block("nextn.shared_head_norm.weight"), None, -1)
    cur.flags |= OUTPUT
    draft_logits(g, cur)


def _squared_relu_routing(g: GraphContext) -> Routing:
    normalised = g.metadata.get(g.prefix + "expert_weights_norm") is True
    return Routing(gating="sigmoid", activation="relu_sqr", normalised=normalised, scaled=experts_scaled(g))


def _latent_experts(g: GraphContext, block: Block, cur: Node, routing: Routing, il: int) -> Node:
    """Experts that may work in a narrower space, beside a shared one that does not."""
    down, up = block("ffn_latent_down.weight"), block("ffn_latent_up.weight")
    latent = cur if down is None else mul_mat(down, cur)
    logits = mul_mat(block.need("ffn_gate_inp.weight"), cur)
    routed = build_moe_ffn(g, block, latent, routing, il, logits=logits)
    if up is not None:
        routed = mul_mat(up, routed)
    return add(routed, build_ffn(block, cur, "relu_sqr", suffix="_shexp"))


@graph("granitehybrid", cycle=MAMBA2_CYCLE)
def granite_hybrid(g: GraphContext) -> None:
    """src/models/granite-hybrid.cpp: Mamba-2 layers and attention, residuals scaled."""
    cur = token_embeddings(g)
    states, inp = state_input(g), attention_input(g)
    pos = positions(g) if g.metadata.get(g.prefix + "rope.scaling.finetuned", True) is True else None
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = build_mamba2(g, states, cur, il) if g.hp.is_recr[il] else _attention(g, inp, pos, block, cur, il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(_scaled_residual(g, cur), residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(_scaled_residual(g, _feed_forward(g, block.unscaled(), cur, il)), ffn_inp)
    cur = build_rms_norm(g, cur, g.output_weight("output_norm.weight"), -1)
    logits = logits_of(g, cur)
    g.finish(cur, scale(logits) if g.number("logit_scale") else logits)


def _attention(g: GraphContext, inp: AttentionInput, pos: Node | None, block: Block, cur: Node, il: int) -> Node:
    q, k, v = build_qkv(g, block, cur, il)
    if pos is not None:
        factors = rope_factors(g, il)
        q, k = rope(q, pos, factors), rope(k, pos, factors)
    return build_attn(g, inp, block, q, k, v, il)


def _scaled_residual(g: GraphContext, cur: Node) -> Node:
    return scale(cur) if g.number("residual_scale") else cur


def _feed_forward(g: GraphContext, block: Block, cur: Node, il: int) -> Node:
    if not block.has("ffn_gate_inp.weight"):
        return build_ffn(block, cur)
    routed = build_moe_ffn(g, block, cur, Routing(scaled=experts_scaled(g)), il)
    return add(routed, build_ffn(block, cur, suffix="_shexp")) if g.hp.n_ff_shexp else routed
