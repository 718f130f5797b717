"""MiMo 2 and Step 3.5: windowed and full blocks with different heads, dense and routed feed-forward networks."""

from dataclasses import replace

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, mul, reshape, rope, scale, sigmoid
from service.core.engines.llamacpp.graphs import draft_layers, graph
from service.core.engines.llamacpp.graphs.blocks import (
    Routing,
    build_attn_windowed,
    build_ffn,
    build_moe_ffn,
    build_qkv,
    experts_scaled,
    linear,
    positions,
    rms_output,
    rope_factors,
    token_embeddings,
    windowed_input,
)
from service.core.engines.llamacpp.graphs.blocks.decoder import (
    Layer,
    as_heads,
    flat_heads,
    normed_heads,
    pre_norm_decoder,
    routed_or_dense,
    seed_drafts,
)
from service.core.engines.llamacpp.graphs.blocks.draft_layers import draft_block, draft_head
from service.core.engines.llamacpp.graphs.blocks.routed_ffn import file_routing
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

_LEAST_CLAMP = 1e-6


@graph("mimo2")
def mimo2(g: GraphContext) -> None:
    """src/models/mimo2.cpp: values narrower than keys, attention sinks, a scale behind the projection."""
    cur = token_embeddings(g)
    feed_forward = routed_or_dense(g, Routing(gating="sigmoid", scaled=experts_scaled(g)))
    rms_output(g, pre_norm_decoder(g, cur, _sink_attention(g), feed_forward))


@draft_layers("mimo2")
def mimo2_draft(g: GraphContext) -> None:
    """graph_mtp of src/models/mimo2.cpp: a dense block."""
    cur = draft_block(g, _sink_attention(g), lambda block, cur, _il: build_ffn(block.unscaled(), cur))
    draft_head(g, cur, rows="before_norm")


def _sink_attention(g: GraphContext) -> Layer:
    pos, inp = positions(g), windowed_input(g)
    scaled = g.number("attention.value_scale", 1.0) not in (0.0, 1.0)

    def attention(block: Block, cur: Node, il: int) -> Node:
        q, k, v = build_qkv(g, block, cur, il)
        q, k = rope(q, pos), rope(k, pos)
        cur = build_attn_windowed(g, inp, block, q, k, v, il, sinks=block("attn_sinks.weight"))
        return scale(cur) if scaled else cur

    return attention


def _clamps(hp: Hparams, il: int) -> tuple[bool, bool]:
    """Whether block `il` limits the gated units of its routed and of its shared or dense network."""
    routed, shared = hp.swiglu_clamp_exp, hp.swiglu_clamp_shexp
    return bool(routed) and routed[il] > _LEAST_CLAMP, bool(shared) and shared[il] > _LEAST_CLAMP


@graph("step35", layer_key=_clamps)
def step35(g: GraphContext) -> None:
    """src/models/step35.cpp: one gate per head, gated units limited in some blocks."""
    cur = token_embeddings(g)
    attention, feed_forward = _gated_heads(g), _limited_experts(g)
    rms_output(g, seed_drafts(g, pre_norm_decoder(g, cur, attention, feed_forward, all_rows=True)))


@draft_layers("step35")
def step35_draft(g: GraphContext) -> None:
    """graph_mtp of src/models/step35.cpp: several draft layers, of which one is run at a time."""
    draft_head(g, draft_block(g, _gated_heads(g), _limited_experts(g)), rows="before_norm", scaled=False)


def _gated_heads(g: GraphContext) -> Layer:
    pos, inp, hp = positions(g), windowed_input(g), g.hp

    def attention(block: Block, cur: Node, il: int) -> Node:
        q, k, v = as_heads(g, *flat_heads(g, block, cur, il), il)
        q, k = normed_heads(g, block, q, k, il)
        factors = None if hp.is_swa[il] else rope_factors(g, il)
        out = build_attn_windowed(g, inp, None, rope(q, pos, factors), rope(k, pos, factors), v, il)
        gate = block("attn_gate.weight")
        if gate is not None:
            head, heads = hp.n_embd_head_v(il), hp.n_head[il]
            by = reshape(sigmoid(linear(gate, cur)), 1, heads, g.n_tokens)
            out = reshape(mul(reshape(out, head, heads, g.n_tokens), by), head * heads, g.n_tokens)
        return linear(block.need("attn_output.weight"), out, block("attn_output.scale"))

    return attention


def _limited_experts(g: GraphContext) -> Layer:
    plain = file_routing(g, "sigmoid")
    limited = replace(plain, clamped=True)

    def feed_forward(block: Block, cur: Node, il: int) -> Node:
        clamp_routed, clamp_shared = _clamps(g.hp, il)
        block = block.unscaled()
        if not block.has("ffn_gate_inp.weight"):
            return build_ffn(block, cur, clamped=clamp_shared)
        routed = build_moe_ffn(g, block, cur, limited if clamp_routed else plain, il)
        return add(routed, build_ffn(block, cur, suffix="_shexp", clamped=clamp_shared))

    return feed_forward
