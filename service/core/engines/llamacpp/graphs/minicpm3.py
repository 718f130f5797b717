"""MiniCPM 3 and PLM: K and V are computed from a latent, but cached in full."""

from service.core.engines.llamacpp.compute.ops import add, scale, view
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    attention_input,
    build_attn,
    build_ffn,
    build_rms_norm,
    logits_of,
    positions,
    rms_output,
    rope_factors,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.latent import compressed_kv, expanded_qkv, latent_heads, project_query
from service.core.engines.llamacpp.graphs.context import GraphContext
from service.core.problems import Unsupported


@graph("minicpm3")
def minicpm3(g: GraphContext) -> None:
    """src/models/minicpm3.cpp: embeddings, both halves of a block and the output are scaled."""
    cur = scale(token_embeddings(g))
    pos, inp = positions(g), attention_input(g)
    for il in g.layers:
        block, heads = g.block(il), latent_heads(g, il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        q = project_query(g, block, cur, il)
        latent, k_pe = compressed_kv(block, cur, heads)
        latent = build_rms_norm(g, latent, block("attn_kv_a_norm.weight"), il)
        q, k, v = expanded_qkv(block, q, latent, k_pe, pos, heads, rope_factors(g, il))
        cur = build_attn(g, inp, block, q, k, v, il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(scale(cur), residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(scale(build_ffn(block, cur)), ffn_inp)
    normed = build_rms_norm(g, cur, g.output_weight("output_norm.weight"), -1)
    g.finish(normed, logits_of(g, scale(normed)))


@graph("plm")
def plm(g: GraphContext) -> None:
    """src/models/plm.cpp.

    Raises Unsupported with flash attention: V is stored as if all tokens were one, which ggml_set_rows refuses
    (ggml/src/ggml.c:4014); only the transposed cache takes it.
    """
    if g.flash_attn:
        raise Unsupported(
            "llama.cpp stops with a failed assertion when it runs a plm model with flash attention: set flash_attn off",
            fields=("engine.flash_attn",),
        )
    cur = token_embeddings(g)
    pos, inp = positions(g), attention_input(g)
    for il in g.layers:
        block, heads = g.block(il), latent_heads(g, il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        q = project_query(g, block, cur, il)
        latent, k_pe = compressed_kv(block, cur, heads)
        latent = build_rms_norm(g, latent, block("attn_kv_a_norm.weight"), il)
        q, k, v = expanded_qkv(block, q, latent, k_pe, pos, heads)
        width = heads.value * heads.n_head
        v = view(v, (width, g.n_tokens), (4 * width,))
        cur = build_attn(g, inp, block, q, k, v, il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(build_ffn(block, cur, "relu_sqr", "sequential"), ffn_inp)
    rms_output(g, cur)
