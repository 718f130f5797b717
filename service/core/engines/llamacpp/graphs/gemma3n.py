"""Gemma 3n: several streams predict and correct each other around each block; per-layer inputs."""

from service.core.engines.llamacpp.compute.node import I32, Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    concat,
    cont,
    cont_4d,
    div,
    gelu,
    get_rows,
    mean,
    mul,
    mul_mat,
    permute,
    relu,
    repeat_4d,
    reshape,
    rms_norm,
    rope,
    scale,
    sqr,
    sqrt,
    sub,
    sum_rows,
    swap_12,
    tanh,
    transpose,
    view,
)
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    WindowedInput,
    build_attn_windowed,
    build_qkv,
    build_rms_norm,
    linear,
    positions,
    token_embeddings,
    windowed_input,
)
from service.core.engines.llamacpp.graphs.blocks.output import capped_logits
from service.core.engines.llamacpp.graphs.blocks.per_layer import every_layer
from service.core.engines.llamacpp.graphs.blocks.per_layer_input import per_layer_inputs, slice_of
from service.core.engines.llamacpp.graphs.context import Block, GraphContext
from service.core.engines.llamacpp.graphs.gemma4 import cells_owner

_SPARSE_LAYERS = 10
"""Leading blocks with sparse activations (n_layer_sparsity, src/models/models.h)."""


@graph("gemma3n", layer_key=every_layer)
def gemma3n(g: GraphContext) -> None:
    """src/models/gemma3n.cpp; the streams are [embedding, tokens, streams]."""
    cur = scale(token_embeddings(g))
    pos, inp = positions(g), windowed_input(g)
    parts = per_layer_inputs(g, cur)
    streams = _spread(g, cur)
    for il in g.layers:
        block = g.block(il)
        predictions = _predict(g, block, streams, il)
        active = slice_of(predictions)
        cur = build_rms_norm(g, active, block("attn_norm.weight"), il)
        laurel = linear(block.need("laurel_r.weight"), linear(block.need("laurel_l.weight"), cur))
        laurel = add(build_rms_norm(g, laurel, block("laurel_post_norm.weight"), il), cur)
        cur = _attention(g, inp, pos, block, cur, il)
        cur = add(build_rms_norm(g, cur, block("post_attention_norm.weight"), il), active)
        attn_out = scale(add(cur, laurel))
        cur = _feed_forward(
            block, build_rms_norm(g, attn_out, block("ffn_norm.weight"), il), sparse=il < _SPARSE_LAYERS
        )
        cur = add(build_rms_norm(g, cur, block("post_ffw_norm.weight"), -1), attn_out)
        corrected = _correct(g, block, predictions, cur, il)
        streams = _add_part(g, block, corrected, parts, il)
    cur = get_rows(_merge(g, streams), g.input("out_ids", I32, g.n_outputs))
    normed = build_rms_norm(g, cur, g.output_weight("output_norm.weight"), -1)
    g.finish(normed, capped_logits(g, normed))


def _magnitude(cur: Node) -> Node:
    return sqrt(sum_rows(sqr(cur)))


def _projection(g: GraphContext, name: str) -> Node:
    weight = g.output_weight(name)
    if weight is None:
        raise KeyError(name)
    return weight


def _spread(g: GraphContext, cur: Node) -> Node:
    """The embedded tokens, and projections of them with the same magnitude."""
    weight = _projection(g, "altup_proj.weight")
    target = _magnitude(cur)
    added = mul_mat(weight, repeat_4d(cur, g.n_embd, g.n_tokens, weight.ne[2], 1))
    magnitude = _magnitude(added)
    return concat(cur, div(mul(added, target), magnitude), 2)


def _merge(g: GraphContext, streams: Node) -> Node:
    """The mean of the first stream and projections of the others."""
    target = _magnitude(slice_of(streams))
    others = mul_mat(_projection(g, "altup_unembd_proj.weight"), _others(streams))
    magnitude = _magnitude(others)
    others = div(mul(others, target), magnitude)
    cur = slice_of(streams)
    for _ in range(others.ne[2]):
        cur = add(cur, slice_of(others))
    return scale(cur)


def _others(streams: Node) -> Node:
    n_embd, n_tokens, n, _ = streams.ne
    return view(streams, (n_embd, n_tokens, n - 1), streams.nb[1:3])


def _modalities(g: GraphContext, block: Block, cur: Node, il: int) -> Node:
    """altup_compute_router_modalities: [streams, tokens]."""
    cur = scale(build_rms_norm(g, cur, block("altup_router_norm.weight"), il))
    return tanh(mul_mat(block.need("altup_router.weight"), cur))


def _predict(g: GraphContext, block: Block, streams: Node, il: int) -> Node:
    n = streams.ne[2]
    coefs = linear(block.need("altup_predict_coef.weight"), _modalities(g, block, slice_of(streams), il))
    coefs = reshape(coefs, n, n, g.n_tokens)
    predictions = mul_mat(cont(permute(streams, 1, 2, 0, 3)), coefs)
    return add(cont(swap_12(predictions)), streams)


def _correct(g: GraphContext, block: Block, predictions: Node, activated: Node, il: int) -> Node:
    n = predictions.ne[2]
    modalities = _modalities(g, block, activated, il)
    innovation = sub(activated, slice_of(predictions))
    coefs = scale(linear(block.need("altup_correct_coef.weight"), modalities))
    coefs = cont_4d(transpose(coefs), 1, g.n_tokens, n)
    return add(mul(repeat_4d(innovation, g.n_embd, g.n_tokens, n, 1), coefs), predictions)


def _attention(g: GraphContext, inp: WindowedInput, pos: Node, block: Block, cur: Node, il: int) -> Node:
    hp, k, v = g.hp, None, None
    if hp.has_kv(il):
        q, k, v = build_qkv(g, block, cur, il)
        k = rope(build_rms_norm(g, k, block("attn_k_norm.weight"), il), pos)
        v = rms_norm(v)
    else:
        head, n_head = hp.n_embd_head_k(), hp.n_head[il]
        fused = block("attn_qkv.weight")
        if fused is None:
            q = linear(block.need("attn_q.weight"), cur)
        else:
            qkv = linear(fused, cur)
            q = cont(view(qkv, (head * n_head, g.n_tokens), (qkv.nb[1],)))
        q = reshape(q, head, n_head, g.n_tokens)
    q = rope(build_rms_norm(g, q, block("attn_q_norm.weight"), il), pos)
    return build_attn_windowed(g, inp, block, q, k, v, il, cache_il=cells_owner(hp, il))


def _feed_forward(block: Block, cur: Node, *, sparse: bool) -> Node:
    up = linear(block.need("ffn_up.weight"), cur)
    gate = linear(block.need("ffn_gate.weight"), cur)
    gate = gelu(_gaussian_top_k(gate) if sparse else gate)
    return linear(block.need("ffn_down.weight"), mul(up, gate))


def _gaussian_top_k(cur: Node) -> Node:
    average = mean(cur)
    deviation = sqrt(scale(sum_rows(sqr(sub(cur, average)))))
    return relu(sub(cur, add(average, scale(deviation))))


def _add_part(g: GraphContext, block: Block, corrected: Node, parts: Node, il: int) -> Node:
    """Add the block's part of the per-layer inputs, gated, to all streams but the first."""
    cur = mul(slice_of(corrected), block.need("altup_correct_scale.weight"))
    cur = gelu(linear(block.need("inp_gate.weight"), cur))
    cur = linear(block.need("proj.weight"), mul(cur, slice_of(parts)))
    cur = build_rms_norm(g, cur, block("post_norm.weight"), il)
    return concat(slice_of(corrected), add(_others(corrected), cur), 2)
