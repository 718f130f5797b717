"""Qwen 4 (experimental): delta nets and sparse attention between several residual streams."""

from functools import partial

from service.core.engines.llamacpp.compute.node import F32, I32, I64, Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    cast,
    cont,
    custom,
    get_rows,
    mul,
    mul_mat,
    permute,
    relu,
    repeat_4d,
    reshape,
    rms_norm,
    rope,
    scale,
    sigmoid,
    silu,
    top_k,
    view,
)
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    AttentionInput,
    Routing,
    StateInput,
    attention_input,
    build_rms_norm,
    experts_scaled,
    hadamard,
    linear,
    logits_of,
    mha,
    positions,
    read_k,
    read_v,
    state_input,
    store_rows,
    store_transposed,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.gated_attention import build_gated_attention
from service.core.engines.llamacpp.graphs.blocks.gated_delta import DeltaLayer, build_gated_delta, separate_inputs
from service.core.engines.llamacpp.graphs.blocks.gated_experts import gated_experts_ffn
from service.core.engines.llamacpp.graphs.blocks.ngram_embeddings import add_ngrams, conv_state_at, ngram_embeddings
from service.core.engines.llamacpp.graphs.blocks.sparse_attention import mask_of_chosen
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


def _conv_state(g: GraphContext, inp: StateInput, mixed: Node, il: int) -> Node:
    return conv_state_at(g, inp, g.cache("recurrent", il), mixed, g.hp.ssm_d_conv - 1)


_DELTA = DeltaLayer(gate=sigmoid, conv_state=_conv_state)


@graph("qwen4exp")
def qwen4exp(g: GraphContext) -> None:
    """src/models/qwen4exp.cpp."""
    hp = g.hp
    cur = token_embeddings(g)
    g.expand(cur)
    states, inp, pos = state_input(g), attention_input(g), positions(g)
    routing = Routing(scaled=experts_scaled(g))
    ngrams = ngram_embeddings(g) if hp.ple_n_heads else None
    streams = repeat_4d(reshape(cur, g.n_embd, 1, g.n_tokens), g.n_embd, hp.dsv4_hc_mult, g.n_tokens, 1)
    for il in g.layers:
        block = g.block(il)
        if ngrams is not None and hp.is_ple[il]:
            streams = add_ngrams(g, states, block, ngrams, streams, il)
        cur, inject = _mix(g, block, "hc_attn", streams)
        g.expand(cur)
        if hp.is_recr[il]:
            cur = build_gated_delta(g, states, block, separate_inputs(g, block, cur), il, _DELTA)
        else:
            cur = _attention(g, inp, pos, block, cur, il)
        cur, inject = g.select_outputs(il, cur, inject)
        streams = _combine(_select_streams(g, streams, il), cur, inject)
        cur, inject = _mix(g, block, "hc_ffn", streams)
        streams = _combine(streams, gated_experts_ffn(g, block, cur, routing, il), inject)
        g.pin_norm(streams, il)
    cur = _final_mix(g, streams)
    g.finish(cur, logits_of(g, cur))


def _mix(g: GraphContext, block: Block, name: str, streams: Node) -> tuple[Node, Node]:
    """One input for a block out of all streams, and how strongly each takes up what comes of it (build_hc_mix)."""
    normed, gate = _gate(g, streams, *(block.need(f"{name}_{part}.weight") for part in ("norm", "down", "up")))
    wide = tuple(reshape(x, g.n_embd, g.hp.dsv4_hc_mult, x.ne[1]) for x in (normed, gate))
    mixed = custom((g.n_embd, normed.ne[1], 1, 1), wide)
    return mixed, mul_mat(block.need(f"{name}_inject.weight"), normed)


def _gate(g: GraphContext, streams: Node, norm: Node, down: Node, up: Node) -> tuple[Node, Node]:
    normed = mul(rms_norm(streams), norm)
    normed = reshape(normed, g.n_embd * g.hp.dsv4_hc_mult, streams.ne[2])
    return normed, mul_mat(up, silu(scale(mul_mat(down, normed))))


def _mean(g: GraphContext, gated: Node) -> Node:
    n_rows = gated.ne[1]
    gated = reshape(gated, g.n_embd, g.hp.dsv4_hc_mult, n_rows)
    parts = [view(gated, (g.n_embd, n_rows), gated.nb[2:3]) for _ in range(g.hp.dsv4_hc_mult)]
    mixed = cont(parts[0])
    for part in parts[1:]:
        mixed = add(mixed, part)
    return scale(mixed)


def _final_mix(g: GraphContext, streams: Node) -> Node:
    """The last mix, which stands for the output norm and is never fused."""
    weights = []
    for part in ("norm", "down", "up"):
        weight = g.output_weight(f"output_hc_{part}.weight")
        if weight is None:
            raise KeyError(f"output_hc_{part}.weight")
        weights.append(weight)
    normed, gate = _gate(g, streams, *weights)
    return _mean(g, mul(normed, sigmoid(gate)))


def _combine(streams: Node, cur: Node, inject: Node) -> Node:
    """Every stream plus its share of `cur` (build_hc_combine)."""
    share = scale(sigmoid(scale(inject)))
    return custom((*streams.ne[:3], 1), (cur, streams, share))


def _select_streams(g: GraphContext, streams: Node, il: int) -> Node:
    if il != g.last:
        return streams
    width, count, n_rows, _ = streams.ne
    (flat,) = g.select_outputs(il, reshape(streams, width * count, n_rows))
    return reshape(flat, width, count, flat.ne[1])


def _attention(g: GraphContext, inp: AttentionInput, pos: Node, block: Block, cur: Node, il: int) -> Node:
    """Attention to the cells of the best-scored groups of tokens, or to all where there is no indexer."""
    if "indexer" not in g.caches or not g.hp.dsv4_compress_ratios[il]:
        return build_gated_attention(g, inp, pos, cur, il)
    chosen = _choose_cells(g, inp, pos, block, cur, il)
    return build_gated_attention(g, inp, pos, cur, il, partial(_attend, g, inp, chosen, il))


def _attend(g: GraphContext, inp: AttentionInput, chosen: Node, il: int, q: Node, k: Node, v: Node) -> Node:
    """build_attn_qsa."""
    if inp.k_rot is not None:
        q, k = hadamard(q, inp.k_rot), hadamard(k, inp.k_rot)
    if inp.v_rot is not None:
        v = hadamard(v, inp.v_rot)
    for node in (q, v, k):
        g.expand(node)
    cells_k, cells_v = g.cache(inp.kind, il), g.cache(inp.kind, il, second=True)
    g.expand(store_rows(cells_k, k, inp.k_idxs))
    store = store_transposed if g.ctx.v_padded else store_rows
    g.expand(store(cells_v, v, inp.v_idxs))
    mask = mask_of_chosen(inp.mask, chosen)
    cur = mha(g, q, read_k(g, cells_k, il), read_v(g, cells_v, il), mask)
    return cur if inp.v_rot is None else hadamard(cur, inp.v_rot)


def _choose_cells(g: GraphContext, inp: AttentionInput, pos: Node, block: Block, cur: Node, il: int) -> Node:
    """build_qsa_top_k: [chosen, tokens, 1, streams]."""
    hp, ratio, head = g.hp, g.hp.dsv4_compress_ratios[il], g.hp.indexer_head_size
    cells = g.cache("indexer", il)
    _, n_kv, n_stream, _ = cells.ne
    n_groups, per_stream = -(-n_kv // ratio), g.n_tokens // n_stream
    cell_group = g.input(f"qsa_cell_blk_{ratio}", I32, n_kv, n_stream)
    bias = g.input(f"qsa_bias_{ratio}", F32, n_groups, per_stream, n_stream)
    k = reshape(linear(block.need("indexer.k_proj.weight"), cur), head, 1, g.n_tokens)
    g.expand(store_rows(cells, k, g.input(f"qsa_k_idxs_{ratio}", I64, g.n_tokens)))
    keys = _group_keys(g, block, cells, ratio, il)
    q = reshape(linear(block.need("indexer.q_proj.weight"), cur), head, hp.indexer_n_head, g.n_tokens)
    q = rope(build_rms_norm(g, q, block("indexer.q_norm.weight"), il), pos)
    score = mul_mat(keys, reshape(q, head, hp.indexer_n_head * per_stream, n_stream))
    score = relu(reshape(score, n_groups, hp.indexer_n_head, per_stream, n_stream))
    parts = [view(score, (n_groups, per_stream, n_stream), score.nb[2:]) for _ in range(hp.indexer_n_head)]
    total = cont(parts[0])
    for part in parts[1:]:
        total = add(total, part)
    total = add(total, bias)
    by_cell = get_rows(cont(permute(total, 1, 0, 2, 3)), cell_group)
    by_cell = cont(permute(by_cell, 1, 0, 2, 3))
    mask = inp.mask if inp.mask.type is F32 else cast(inp.mask, F32)
    by_cell = add(by_cell, reshape(mask, n_kv, per_stream, n_stream))
    count = min(n_kv, hp.indexer_top_k + ratio - 1)
    return reshape(cont(top_k(by_cell, count)), count, per_stream, 1, n_stream)


def _group_keys(g: GraphContext, block: Block, cells: Node, ratio: int, il: int) -> Node:
    """The mean key of every group of `ratio` cells: [head size, groups, streams]."""
    head = g.hp.indexer_head_size
    _, n_kv, n_stream, _ = cells.ne
    n_groups = -(-n_kv // ratio)
    members = g.input(f"qsa_blk_cells_{ratio}", I32, ratio * n_groups, n_stream)
    group_pos = g.input(f"qsa_blk_pos_{ratio}", I32, 4 * n_groups * n_stream)
    keys = view(cells, (head, n_kv, n_stream), cells.nb[1:3])
    keys = reshape(get_rows(keys, members), head, ratio, n_groups, n_stream)
    parts = [cont(view(keys, (head, n_groups, n_stream), keys.nb[2:])) for _ in range(ratio)]
    pooled = parts[0]
    for part in parts[1:]:
        pooled = add(pooled, part)
    pooled = reshape(scale(pooled), head, n_groups * n_stream)
    pooled = build_rms_norm(g, pooled, block("indexer.k_norm.weight"), il)
    pooled = rope(reshape(pooled, head, 1, n_groups * n_stream), group_pos)
    return reshape(pooled, head, n_groups, n_stream)
