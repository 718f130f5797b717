"""Qwen 2 and 3 and what is built like them."""

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import add, concat, div, mul, mul_mat, repeat_4d, rope, scale, silu, view
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    AttentionInput,
    Routing,
    attention_input,
    build_attn,
    build_ffn,
    build_moe_ffn,
    build_qkv,
    build_rms_norm,
    experts_scaled,
    logits_of,
    positions,
    rms_output,
    rope_factors,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.context import GraphContext


def _normed_attention(g: GraphContext, inp: AttentionInput, pos: Node, cur: Node, il: int) -> Node:
    """Attention with norms of Q and K before rope, where the file has them."""
    block = g.block(il)
    q, k, v = build_qkv(g, block, cur, il)
    if block.has("attn_q_norm.weight"):
        q = build_rms_norm(g, q, block("attn_q_norm.weight"), il)
    q = rope(q, pos)
    if block.has("attn_k_norm.weight"):
        k = build_rms_norm(g, k, block("attn_k_norm.weight"), il)
    return build_attn(g, inp, block, q, rope(k, pos), v, il)


@graph("qwen2", "qwen3")
def qwen(g: GraphContext) -> None:
    """src/models/qwen2.cpp and qwen3.cpp."""
    cur = token_embeddings(g)
    pos, inp = positions(g), attention_input(g)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = _normed_attention(g, inp, pos, cur, il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(build_ffn(block, cur), ffn_inp)
    rms_output(g, cur)


@graph("qwen3moe")
def qwen3moe(g: GraphContext) -> None:
    """src/models/qwen3moe.cpp."""
    cur = token_embeddings(g)
    pos, inp = positions(g), attention_input(g)
    routing = Routing(scaled=experts_scaled(g))
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = _normed_attention(g, inp, pos, cur, il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(build_moe_ffn(g, block, cur, routing, il), ffn_inp)
    rms_output(g, cur)


@graph("qwen2moe")
def qwen2moe(g: GraphContext) -> None:
    """src/models/qwen2moe.cpp: a shared expert with a sigmoid gate beside the routed ones."""
    cur = token_embeddings(g)
    pos, inp = positions(g), attention_input(g)
    routing = Routing(normalised=False, scaled=experts_scaled(g))
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = _normed_attention(g, inp, pos, cur, il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        routed = build_moe_ffn(g, block, cur, routing, il)
        gate = mul_mat(block.need("ffn_gate_inp_shexp.weight"), cur)
        gate = div(silu(gate), gate)
        shared = mul(build_ffn(block, cur, suffix="_shexp"), gate)
        cur = add(add(routed, shared), ffn_inp)
    rms_output(g, cur)


def _is_deepstack(hp: Hparams, il: int) -> bool:
    return il < hp.n_deepstack_layers


@graph("qwen3vl", "qwen3tts", layer_key=_is_deepstack)
def qwen3vl(g: GraphContext) -> None:
    """src/models/qwen3vl.cpp: the first blocks add further parts of the (multimodal) input."""
    hp = g.hp
    cur = token_embeddings(g)
    pos, inp = positions(g), attention_input(g)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = _normed_attention(g, inp, pos, cur, il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(build_ffn(block, cur), ffn_inp)
        cur = add_deepstack(g, cur, il) if _is_deepstack(hp, il) else cur
    norm_weight = g.output_weight("output_norm.weight")
    normed = build_rms_norm(g, cur, norm_weight, -1)
    logits = logits_of(g, normed)
    missing = g.input_weight("token_embd.weight").ne[1] - logits.ne[0]
    if missing and norm_weight is not None:
        filler = repeat_4d(scale(view(norm_weight, (1,))), missing, logits.ne[1], 1, 1)
        logits = concat(filler, logits, 0)
    g.finish(normed, logits)


@graph("qwen3vlmoe", layer_key=_is_deepstack)
def qwen3vlmoe(g: GraphContext) -> None:
    """src/models/qwen3vlmoe.cpp."""
    cur = token_embeddings(g)
    pos, inp = positions(g), attention_input(g)
    routing = Routing(scaled=experts_scaled(g))
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = _normed_attention(g, inp, pos, cur, il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(build_moe_ffn(g, block, cur, routing, il), ffn_inp)
        cur = add_deepstack(g, cur, il) if _is_deepstack(g.hp, il) else cur
    rms_output(g, cur)


def add_deepstack(g: GraphContext, cur: Node, il: int) -> Node:
    """Add part `il` + 1 of the input embeddings."""
    rows = g.memo["t_inp_embd"]
    return add(cur, view(rows, (g.hp.n_embd, g.n_tokens), (rows.nb[1],))) if il >= 0 else cur


@graph("hunyuan-moe")
def hunyuan_moe(g: GraphContext) -> None:
    """src/models/hunyuan-moe.cpp: norms of Q and K after rope, a shared expert computed first."""
    cur = token_embeddings(g)
    pos, inp = positions(g), attention_input(g)
    routing = Routing(scaled=experts_scaled(g))
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        factors = rope_factors(g, il)
        q, k, v = build_qkv(g, block, cur, il)
        k = build_rms_norm(g, rope(k, pos, factors), block("attn_k_norm.weight"), il)
        q = build_rms_norm(g, rope(q, pos, factors), block("attn_q_norm.weight"), il)
        cur = build_attn(g, inp, block, q, k, v, il)
        cur, residual = g.select_outputs(il, cur, residual)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        shared = build_ffn(block, cur, suffix="_shexp")
        routed = build_moe_ffn(g, block, cur, routing, il)
        cur = add(add(routed, shared), ffn_inp)
    rms_output(g, cur)
