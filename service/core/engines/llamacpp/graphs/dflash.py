"""DFlash: drafts that fill a whole block of tokens at once; every token's logits are computed."""

from collections.abc import Callable

from service.core.engines.llamacpp.compute.node import I32, OUTPUT, Node
from service.core.engines.llamacpp.compute.ops import add, get_rows, mul, reshape, rms_norm, rope, scale, tanh
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    attention_input,
    build_attn,
    build_attn_latent_windowed,
    build_attn_windowed,
    build_ffn,
    build_moe_ffn,
    build_rms_norm,
    linear,
    positions,
    windowed_input,
)
from service.core.engines.llamacpp.graphs.blocks.block_drafts import markov_logits, mix_along_block, select_candidates
from service.core.engines.llamacpp.graphs.blocks.draft_vocabulary import (
    draft_embeddings,
    draft_head,
    over_target_vocabulary,
)
from service.core.engines.llamacpp.graphs.blocks.hyper_connections import (
    merge_at_output,
    merge_streams,
    spread_streams,
    update_streams,
)
from service.core.engines.llamacpp.graphs.blocks.latent import query_latent
from service.core.engines.llamacpp.graphs.blocks.per_layer import every_layer
from service.core.engines.llamacpp.graphs.blocks.routed_ffn import file_routing
from service.core.engines.llamacpp.graphs.context import Block, GraphContext
from service.core.engines.llamacpp.graphs.deepseek4 import grouped_output, query_and_key

Attend = Callable[[Block, Node, Node, Node, int], Node]


@graph("dflash", layer_key=every_layer)
def dflash(g: GraphContext) -> None:
    """src/models/dflash.cpp, the decoder for tokens; stages of DeepSeek 4 where the file has hyper-connections."""
    if g.hp.dsv4_hc_mult:
        _hyper_connected(g)
    else:
        _plain(g)


def _tokens(g: GraphContext) -> Node:
    return g.input("inp_tokens", I32, g.n_tokens)


def _plain(g: GraphContext) -> None:
    pos, attend = positions(g), _attend(g)
    cur = get_rows(draft_embeddings(g), _tokens(g))
    if g.number("embedding_scale"):
        cur = scale(cur)
    for il in g.layers:
        block = g.block(il)
        residual = cur
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur, mix = _mixed(g, block, "attn_conv", cur)
        q, k, v = _qkv(g, block, cur, pos, il)
        cur = attend(block, q, k, v, il)
        if g.number("attention.value_scale"):
            cur = scale(cur)
        cur = _post_norm(g, block, "post_attention_norm.weight", mix(cur), il)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur, mix = _mixed(g, block, "ffn_conv", cur)
        gelu = g.metadata.get("dflash.hidden_activation") in ("gelu", "gelu_pytorch_tanh")
        cur = mix(build_ffn(block, cur, "gelu" if gelu else "silu"))
        cur = add(_post_norm(g, block, "post_ffw_norm.weight", cur, il), ffn_inp)
        out_scale = block("layer_output_scale.weight")
        cur = cur if out_scale is None else mul(cur, out_scale)
    normed = build_rms_norm(g, cur, g.output_weight("output_norm.weight"), -1)
    _finish(g, normed, normed)


def _attend(g: GraphContext) -> Attend:
    if g.hp.swa_type == "none":
        full = attention_input(g)
        return lambda block, q, k, v, il: build_attn(g, full, block, q, k, v, il, sinks=block("attn_sinks.weight"))
    both = windowed_input(g)
    return lambda block, q, k, v, il: build_attn_windowed(g, both, block, q, k, v, il, sinks=block("attn_sinks.weight"))


def _qkv(g: GraphContext, block: Block, cur: Node, pos: Node, il: int) -> tuple[Node, Node, Node]:
    """Q, K and V; V is the normed K where the file has none."""
    hp = g.hp
    head, n_head_kv = hp.n_embd_head_v(), hp.n_head_kv[il]
    q = linear(block.need("attn_q.weight"), cur, block("attn_q.scale"))
    k = linear(block.need("attn_k.weight"), cur, block("attn_k.scale"))
    weight = block("attn_v.weight")
    v = k if weight is None else linear(weight, cur, block("attn_v.scale"))
    q, k, v = (
        reshape(q, head, hp.n_head[il], g.n_tokens),
        reshape(k, head, n_head_kv, g.n_tokens),
        reshape(v, head, n_head_kv, g.n_tokens),
    )
    q = build_rms_norm(g, q, block("attn_q_norm.weight"), il)
    k = build_rms_norm(g, k, block("attn_k_norm.weight"), il)
    if weight is None:
        v = rms_norm(v)
    factors = None if hp.n_pos_per_embd > 1 else g.shared_weight("rope_freqs.weight", 0)
    return rope(q, pos, factors), rope(k, pos, factors), v


def _mixed(g: GraphContext, block: Block, name: str, cur: Node) -> tuple[Node, Callable[[Node], Node]]:
    """The input of a half block mixed along its block of tokens, and how to mix the result; as they are without."""
    proj = block(name + "_proj.weight")
    if proj is None:
        return cur, lambda result: result
    dynamic, base = linear(proj, cur), block.need(name + "_base")
    return mix_along_block(g, cur, dynamic, base), lambda result: mix_along_block(g, result, dynamic, base)


def _post_norm(g: GraphContext, block: Block, name: str, cur: Node, il: int) -> Node:
    return build_rms_norm(g, cur, block(name), il) if block.has(name) else cur


def _finish(g: GraphContext, hidden: Node, normed: Node) -> None:
    """hidden: what the confidence of drafts is read from."""
    tokens, selects = _tokens(g), "selector_hidden.weight" in g.table.outside
    hidden.flags |= OUTPUT
    logits = linear(draft_head(g), normed, g.output_weight("output.scale"))
    if selects and not g.hp.dsv4_hc_mult:
        logits = scale(logits) if g.number("logit_scale") else logits
        logits = scale(tanh(scale(logits))) if g.number("final_logit_softcapping") > 0.0 else logits
    if not g.hp.dsv4_hc_mult:
        logits = over_target_vocabulary(g, logits)
    g.expand(logits)
    if "markov_w1.weight" in g.table.outside:
        logits = markov_logits(g, logits, hidden, tokens)
        g.expand(logits)
    logits.flags |= OUTPUT
    if selects and not g.hp.dsv4_hc_mult:
        select_candidates(g, logits, hidden, tokens)


def _hyper_connected(g: GraphContext) -> None:
    """graph_dsv4: all stages attend to a window of one shared key per token."""
    pos, inp, routing = positions(g), windowed_input(g), file_routing(g, "sqrt_softplus")
    streams = spread_streams(g, get_rows(draft_embeddings(g), _tokens(g)))
    for il in g.layers:
        block = g.block(il)
        cur, mixing = merge_streams(g, block, "hc_attn", streams)
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        q, kv = query_and_key(g, block, cur, query_latent(g, block, cur, il), pos, il)
        sinks = block("attn_sinks.weight")
        cur = build_attn_latent_windowed(g, inp, None, q, kv, kv.ne[0], il, sinks=sinks)
        streams = update_streams(grouped_output(g, block, cur, pos, il), streams, mixing)
        cur, mixing = merge_streams(g, block, "hc_ffn", streams)
        cur = build_rms_norm(g, cur, block("ffn_norm.weight"), il)
        routed = build_moe_ffn(g, block, cur, routing, il)
        streams = update_streams(add(routed, build_ffn(block, cur, suffix="_shexp")), streams, mixing)
    hidden = merge_at_output(g, streams)
    _finish(g, hidden, build_rms_norm(g, hidden, g.output_weight("output_norm.weight"), -1))
