"""Hunyuan 4: gated latent attention between several residual streams (hyper-connections)."""

from service.core.engines.llamacpp.compute.node import F32, I32, Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    cast,
    concat,
    get_rows,
    mul,
    mul_mat,
    repeat_4d,
    reshape,
    rms_norm,
    rope,
    scale,
    sigmoid,
    view,
)
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    AttentionInput,
    attention_input,
    build_attn_latent,
    build_rms_norm,
    linear,
    positions,
    rms_output,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.latent import absorbed_qkv, compressed_kv, latent_heads, query_latent
from service.core.engines.llamacpp.graphs.blocks.per_layer import every_layer
from service.core.engines.llamacpp.graphs.blocks.routed_ffn import dense_or_routed, file_routing
from service.core.engines.llamacpp.graphs.blocks.sparse_attention import (
    IndexerInput,
    build_attn_sparse,
    index_cells,
    indexer_input,
)
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


@graph("hy_v4", layer_key=every_layer)
def hy_v4(g: GraphContext) -> None:
    """src/models/hy-v4.cpp; files without indexer attend to every cell."""
    embedded = token_embeddings(g)
    pos, inp = positions(g), attention_input(g)
    indexer = indexer_input(g, rotated=False) if g.hp.indexer_top_k else None
    routing = file_routing(g)
    streams = reshape(embedded, g.n_embd, 1, g.n_tokens)
    streams = repeat_4d(streams, g.n_embd, g.hp.dsv4_hc_mult, g.n_tokens, 1)
    for il in g.layers:
        block = g.block(il)
        cur, post = _hc_pre(g, block, "hc_attn", streams)
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = _attention(g, inp, indexer, pos, cur, il)
        streams = _hc_post(g, cur, streams, post)
        cur, post = _hc_pre(g, block, "hc_ffn", streams)
        cur = build_rms_norm(g, cur, block("ffn_norm.weight"), il)
        cur = dense_or_routed(g, block, cur, routing, il)
        streams = _hc_post(g, cur, streams, post)
    rms_output(g, _hc_head(g, streams))


def _attention(
    g: GraphContext, inp: AttentionInput, indexer: IndexerInput | None, pos: Node, cur: Node, il: int
) -> Node:
    """build_attention and build_attention_dsa: the result is gated before its projection."""
    block, heads = g.block(il), latent_heads(g, il)
    q_latent = query_latent(g, block, cur, il)
    if indexer is not None and g.hp.is_indexer_full[il]:
        g.memo["chosen_cells"] = index_cells(g, indexer, block, cur, q_latent, pos, il)
    q = mul_mat(block.need("attn_q_b.weight"), q_latent)
    latent, k_pe = compressed_kv(block, cur, heads)
    latent = build_rms_norm(g, latent, block("attn_kv_a_norm.weight"), il)
    q, k, v = absorbed_qkv(block, q, latent, rope(k_pe, pos), pos, heads)
    v_mla, sinks = block("attn_v_b.weight"), block("attn_sinks.weight")
    if indexer is None:
        attended = build_attn_latent(g, inp, None, q, k, v, il, v_mla=v_mla, sinks=sinks)
    else:
        chosen = g.memo["chosen_cells"]
        attended = build_attn_sparse(g, inp, None, q, k, v, chosen, il, v_mla=v_mla, sinks=sinks)
    gate = sigmoid(mul_mat(block.need("attn_gate.weight"), cur))
    return linear(block.need("attn_output.weight"), mul(attended, gate))


def _hc_pre(g: GraphContext, block: Block, name: str, streams: Node) -> tuple[Node, Node]:
    """build_hc_pre: the streams merged into one, and how strongly each takes up what comes of it."""
    n, n_tokens = g.hp.dsv4_hc_mult, streams.ne[2]
    mixes = mul_mat(block.need(name + "_fn.weight"), rms_norm(reshape(streams, n * g.n_embd, n_tokens)))
    factor, base = block.need(name + "_scale.weight"), block.need(name + "_base.weight")
    pre = mul(view(mixes, (n, n_tokens), (mixes.nb[1],)), view(factor, (1,)))
    pre = scale(sigmoid(add(pre, view(base, (n,)))))
    post = mul(view(mixes, (n, n_tokens), (mixes.nb[1],)), view(factor, (1,)))
    post = scale(scale(sigmoid(add(post, view(base, (n,))))))
    return _weighted_sum(g, streams, pre), post


def _weighted_sum(g: GraphContext, streams: Node, weights: Node) -> Node:
    """hy_v4_hc_reduce: one row per token."""
    n_tokens = streams.ne[2]
    source = cast(streams, F32)
    total = None
    for _ in range(g.hp.dsv4_hc_mult):
        stream = view(source, (g.n_embd, n_tokens), (source.nb[2],))
        part = mul(stream, view(weights, (1, n_tokens), (weights.nb[1],)))
        total = part if total is None else add(total, part)
    if total is None:
        raise ValueError("hyper_connection.count is 0")
    return cast(total, streams.type)


def _hc_post(g: GraphContext, cur: Node, residual: Node, post: Node) -> Node:
    """build_hc_post: every stream plus its share of `cur`."""
    n_tokens = cur.ne[1]
    cur, post, source = cast(cur, F32), cast(post, F32), cast(residual, F32)
    joined = None
    for _ in range(g.hp.dsv4_hc_mult):
        stream = view(source, (g.n_embd, n_tokens), (source.nb[2],))
        part = add(stream, mul(cur, view(post, (1, n_tokens), (post.nb[1],))))
        part = reshape(part, g.n_embd, 1, n_tokens)
        joined = part if joined is None else concat(joined, part, 1)
    if joined is None:
        raise ValueError("hyper_connection.count is 0")
    return cast(joined, residual.type)


def _hc_head(g: GraphContext, streams: Node) -> Node:
    """The rows whose logits are wanted, of all streams, merged (build_hc_head)."""
    width = g.n_embd * g.hp.dsv4_hc_mult
    flat = get_rows(reshape(streams, width, g.n_tokens), g.input("out_ids", I32, g.n_outputs))
    streams = reshape(flat, g.n_embd, g.hp.dsv4_hc_mult, g.n_outputs)
    mixes = mul_mat(_output(g, "output_hc_fn.weight"), rms_norm(reshape(streams, width, g.n_outputs)))
    pre = add(mul(mixes, _output(g, "output_hc_scale.weight")), _output(g, "output_hc_base.weight"))
    return _weighted_sum(g, streams, scale(sigmoid(pre)))


def _output(g: GraphContext, name: str) -> Node:
    weight = g.output_weight(name)
    if weight is None:
        raise KeyError(name)
    return weight
