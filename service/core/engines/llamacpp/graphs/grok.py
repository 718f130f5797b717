"""Grok, DBRX and Arctic: early mixtures of experts, each with norms and residuals of its own."""

from service.core.engines.llamacpp.compute.ops import add, scale, tanh
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    Routing,
    build_ffn,
    build_layer_norm,
    build_moe_ffn,
    build_rms_norm,
    experts_scaled,
    logits_of,
    rms_output,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.attend import cached_attention
from service.core.engines.llamacpp.graphs.blocks.decoder import rotated_attention
from service.core.engines.llamacpp.graphs.context import GraphContext


@graph("grok")
def grok(g: GraphContext) -> None:
    """src/models/grok.cpp: embeddings scaled even where the file does not say so, experts beside a dense network."""
    cur = token_embeddings(g)
    if "grok.embedding_scale" not in g.metadata:
        cur = scale(cur)
    attention = rotated_attention(g, cached_attention(g))
    routing = Routing(activation="gelu", scaled=experts_scaled(g))
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = attention(block, build_rms_norm(g, cur, block("attn_norm.weight"), il), il)
        cur, residual = g.select_outputs(il, cur, residual)
        cur = build_rms_norm(g, cur, block("attn_output_norm.weight"), il)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        routed = build_moe_ffn(g, block.unscaled(), cur, routing, il)
        if block.has("ffn_up.weight"):
            routed = scale(add(build_ffn(block.unscaled(), cur, "gelu"), routed))
        post_norm = block("layer_output_norm.weight") or block("post_ffw_norm.weight")
        cur = add(build_rms_norm(g, routed, post_norm, il), ffn_inp)
    cur = build_rms_norm(g, cur, g.output_weight("output_norm.weight"), -1)
    logits = scale(logits_of(g, cur))
    g.finish(cur, scale(tanh(scale(logits))) if g.hp.f_final_logit_softcapping else logits)


@graph("dbrx")
def dbrx(g: GraphContext) -> None:
    """src/models/dbrx.cpp: layer norms without biases."""
    cur = token_embeddings(g)
    attention = rotated_attention(g, cached_attention(g))
    routing = Routing(scaled=experts_scaled(g))
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = attention(block, build_layer_norm(g, cur, block("attn_norm.weight"), None, il), il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_layer_norm(g, ffn_inp, block("attn_output_norm.weight"), None, il)
        cur = add(build_moe_ffn(g, block.unscaled(), cur, routing, il), ffn_inp)
    cur = build_layer_norm(g, cur, g.output_weight("output_norm.weight"), None, -1)
    g.finish(cur, logits_of(g, cur))


@graph("arctic")
def arctic(g: GraphContext) -> None:
    """src/models/arctic.cpp: a dense network behind attention, experts on what came into the block."""
    cur = token_embeddings(g)
    attention = rotated_attention(g, cached_attention(g))
    routing = Routing(scaled=experts_scaled(g))
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = attention(block, build_rms_norm(g, cur, block("attn_norm.weight"), il), il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_ffn(block.unscaled(), build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il))
        dense = add(cur, ffn_inp)
        cur = build_rms_norm(g, residual, block("ffn_norm_exps.weight"), il)
        cur = add(build_moe_ffn(g, block.unscaled(), cur, routing, il), dense)
    rms_output(g, cur)
