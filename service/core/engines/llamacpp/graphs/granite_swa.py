"""Granite with sliding windows: attention sinks, rope in some blocks, dense or routed."""

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, rope, scale, view
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    Routing,
    WindowedInput,
    build_attn_windowed,
    build_ffn,
    build_moe_ffn,
    build_qkv,
    build_rms_norm,
    experts_scaled,
    logits_of,
    positions,
    rope_factors,
    token_embeddings,
    windowed_input,
)
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


def _switches(hp: Hparams, il: int) -> tuple[bool, bool]:
    """Whether block `il` adds a part of the (multimodal) input, and whether it has rope."""
    return il > 0 and hp.deepstack_mapping[il] >= 0, hp.rope_pattern[il] != 0


@graph("granite_swa", layer_key=_switches)
def granite_swa(g: GraphContext) -> None:
    """src/models/granite-swa.cpp."""
    cur = token_embeddings(g)
    pos, inp, features = positions(g), windowed_input(g), g.memo["t_inp_embd"]
    scaled = g.number("residual_scale") != 0.0
    for il in g.layers:
        block = g.block(il)
        adds_features, rotates = _switches(g.hp, il)
        if adds_features:
            cur = add(cur, view(features, (g.n_embd, g.n_tokens), (features.nb[1],)))
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = _attention(g, inp, pos if rotates else None, cur, il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(scale(cur) if scaled else cur, residual)
        cur = _feed_forward(g, block.unscaled(), build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il), il)
        cur = add(scale(cur) if scaled else cur, ffn_inp)
    cur = build_rms_norm(g, cur, g.output_weight("output_norm.weight"), -1)
    g.finish(cur, scale(logits_of(g, cur)))


def _attention(g: GraphContext, inp: WindowedInput, pos: Node | None, cur: Node, il: int) -> Node:
    block = g.block(il)
    q, k, v = build_qkv(g, block, cur, il)
    if pos is not None:
        factors = rope_factors(g, il)
        q, k = rope(q, pos, factors), rope(k, pos, factors)
    return build_attn_windowed(g, inp, block, q, k, v, il, sinks=block("attn_sinks.weight"))


def _feed_forward(g: GraphContext, block: Block, cur: Node, il: int) -> Node:
    """Dense, or routed; gate and up projections of the shared expert are one tensor."""
    if not block.has("ffn_gate_inp.weight"):
        return build_ffn(block, cur)
    routed = build_moe_ffn(g, block, cur, Routing(scaled=experts_scaled(g)), il)
    if not block.has("ffn_up_shexp.weight"):
        return routed
    return add(routed, build_ffn(block, cur, "swiglu", "sequential", suffix="_shexp"))
