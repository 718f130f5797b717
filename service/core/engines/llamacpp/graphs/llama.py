"""The llama family: pre-norm blocks of attention and a gated feed-forward network."""

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, mul, rms_norm, rope, scale
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    Routing,
    attention_input,
    attention_scale,
    build_attn,
    build_ffn,
    build_moe_ffn,
    build_qkv,
    build_rms_norm,
    experts_scaled,
    linear,
    logits_of,
    positions,
    rms_output,
    rope_factors,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.context import GraphContext


@graph("llama", "mistral3")
def llama(g: GraphContext) -> None:
    """src/models/llama.cpp and mistral3.cpp, which adds a temperature by position."""
    cur = token_embeddings(g)
    pos, inp = positions(g), attention_input(g)
    temperature = attention_scale(g) if g.number("attention.temperature_scale") else None
    routing = Routing(scaled=experts_scaled(g))
    normed = g.hp.arch.name == "llama" and g.metadata.get("llama.attention.use_kq_norm") is True
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        factors = rope_factors(g, il)
        q, k, v = build_qkv(g, block, cur, il)
        q, k = rope(q, pos, factors), rope(k, pos, factors)
        if normed:
            q, k = rms_norm(q), rms_norm(k)
        if temperature is not None:
            q = mul(q, temperature)
        cur = build_attn(g, inp, block, q, k, v, il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = build_moe_ffn(g, block, cur, routing, il) if block.has("ffn_gate_inp.weight") else build_ffn(block, cur)
        cur = add(cur, ffn_inp)
    rms_output(g, cur)


@graph("deci")
def deci(g: GraphContext) -> None:
    """src/models/deci.cpp: blocks may lack attention, its K and V, or the feed-forward network."""
    hp = g.hp
    cur = token_embeddings(g)
    pos, inp = positions(g), attention_input(g)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        if hp.n_head[il]:
            cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
            if hp.n_head_kv[il]:
                factors = rope_factors(g, il)
                q, k, v = build_qkv(g, block, cur, il)
                cur = build_attn(g, inp, block, rope(q, pos, factors), rope(k, pos, factors), v, il)
            else:
                cur = linear(block.need("attn_output.weight"), cur)
        cur, residual = g.select_outputs(il, cur, residual)
        if not hp.n_ff[il]:
            continue
        ffn_inp = add(cur, residual) if hp.n_head[il] else cur
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(build_ffn(block, cur), ffn_inp)
    rms_output(g, cur)


@graph("phi3", "phimoe")
def phi3(g: GraphContext) -> None:
    """src/models/phi3.cpp and phimoe.cpp: Q scaled before attention, fused gate and up; its window is never used."""
    cur = token_embeddings(g)
    pos, inp = positions(g), attention_input(g)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        factors = rope_factors(g, il)
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il, block("attn_norm.bias"))
        q, k, v = build_qkv(g, block, cur, il)
        q, k = scale(rope(q, pos, factors)), rope(k, pos, factors)
        cur = build_attn(g, inp, block, q, k, v, il)
        cur, residual = g.select_outputs(il, cur, residual)
        residual = cur = add(cur, residual)
        cur = build_rms_norm(g, cur, block("ffn_norm.weight"), il, block("ffn_norm.bias"))
        cur = add(residual, _phi3_ffn(g, cur, il))
    cur = build_rms_norm(g, cur, g.output_weight("output_norm.weight"), -1, g.output_weight("output_norm.bias"))
    g.finish(cur, logits_of(g, cur))


def _phi3_ffn(g: GraphContext, cur: Node, il: int) -> Node:
    block = g.block(il)
    if block.has("ffn_gate_inp.weight"):
        return build_moe_ffn(g, block, cur, Routing(scaled=experts_scaled(g)), il)
    return build_ffn(block, cur, "swiglu", "sequential")
