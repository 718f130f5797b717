"""DeepSeek 4: hyper-connected blocks whose attention is over raw and compressed keys."""

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.cache_layout import CacheKind
from service.core.engines.llamacpp.compressed_cache import CSA_RATIO, HCA_RATIO
from service.core.engines.llamacpp.compute.node import F16, F32, WEIGHT, Node, leaf
from service.core.engines.llamacpp.compute.ops import (
    add,
    concat,
    cont,
    cont_4d,
    get_rows,
    mul_mat,
    repeat_4d,
    reshape,
    rms_norm,
    rope,
    scale,
    swap_12,
    top_k,
    view,
)
from service.core.engines.llamacpp.graphs import draft_layers, graph
from service.core.engines.llamacpp.graphs.blocks import (
    Routing,
    attention_input,
    build_ffn,
    build_moe_ffn,
    build_rms_norm,
    hadamard,
    linear,
    mha,
    positions,
    project,
    read_k,
    rms_output,
    store_rows,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.compressed_attention import (
    CompressedInput,
    RawInput,
    compress,
    compressed_input,
    raw_input,
)
from service.core.engines.llamacpp.graphs.blocks.draft_layers import (
    draft_layer,
    draft_logits,
    draft_tokens,
    hidden_states,
)
from service.core.engines.llamacpp.graphs.blocks.hyper_connections import (
    merge_at_output,
    merge_streams,
    spread_streams,
    update_streams,
    update_untied_streams,
    wanted_rows,
)
from service.core.engines.llamacpp.graphs.blocks.latent import query_latent
from service.core.engines.llamacpp.graphs.blocks.routed_ffn import file_routing
from service.core.engines.llamacpp.graphs.blocks.sparse_attention import (
    by_stream,
    lightning_indexer,
    mask_of_chosen,
    weights_by_stream,
)
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

Inputs = dict[str, CompressedInput]


def _looks_experts_up(hp: Hparams, il: int) -> bool:
    """Whether the experts of block `il` are looked up by token."""
    return il < hp.dsv4_hash_layer_count


@graph("deepseek4", layer_key=_looks_experts_up, replays=True)
def deepseek4(g: GraphContext) -> None:
    """src/models/deepseek4.cpp."""
    embedded = token_embeddings(g)
    pos, raw = positions(g), raw_input(g)
    compressed: Inputs = {kind: compressed_input(g, kind) for kind in ("csa", "hca", "indexer")}
    g.expand(raw.mask)
    streams, routing = spread_streams(g, embedded), file_routing(g, "sqrt_softplus")
    for il in g.layers:
        block = g.block(il)
        cur, mixing = merge_streams(g, block, "hc_attn", streams)
        cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
        cur = _attention(g, raw, compressed, pos, block, cur, il)
        streams = update_streams(cur, streams, mixing)
        cur, mixing = merge_streams(g, block, "hc_ffn", streams)
        for node in (streams, mixing.post, mixing.comb):
            g.expand(node)
        cur = build_rms_norm(g, cur, block("ffn_norm.weight"), il)
        cur = add(_routed(g, block, cur, routing, il), build_ffn(block, cur, suffix="_shexp"))
        streams = update_streams(cur, streams, mixing)
        g.pin_norm(streams, il)
    rms_output(g, merge_at_output(g, wanted_rows(g, streams)))


@draft_layers("deepseek4")
def deepseek4_draft(g: GraphContext) -> None:
    """graph_mtp of src/models/deepseek4.cpp: all streams of the target, attention to raw keys alone."""
    block, il = draft_layer(g)
    pos, inp = positions(g), attention_input(g, "swa")
    raw = RawInput(k_idxs=inp.k_idxs, mask=inp.mask, k_rot=inp.k_rot)
    streams = _draft_streams(g, block, il)
    cur, mixing = merge_streams(g, block, "hc_attn", streams)
    cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
    q, kv = query_and_key(g, block, cur, query_latent(g, block, cur, il), pos, il)
    cur = grouped_output(g, block, _attend(g, raw, None, block, q, kv, None, il), pos, il)
    streams = update_untied_streams(g, cur, streams, mixing, il)
    cur, mixing = merge_streams(g, block, "hc_ffn", streams)
    cur = build_rms_norm(g, cur, block("ffn_norm.weight"), il)
    routed = build_moe_ffn(g, block, cur, file_routing(g, "sqrt_softplus"), il)
    cur = add(routed, build_ffn(block, cur, suffix="_shexp"))
    streams = wanted_rows(g, update_untied_streams(g, cur, streams, mixing, il))
    cur = merge_at_output(g, streams)
    cur = build_rms_norm(g, cur, block("nextn.shared_head_norm.weight") or g.output_weight("output_norm.weight"), -1)
    draft_logits(g, cur, scaled=False)


def _draft_streams(g: GraphContext, block: Block, il: int) -> Node:
    """Tokens, the same for every stream, and hidden states, joined and projected to one width."""
    count, states = g.hp.dsv4_hc_mult, hidden_states(g, g.n_embd * g.hp.dsv4_hc_mult)
    tokens = draft_tokens(g, block)
    states = build_rms_norm(g, reshape(states, g.n_embd, count, g.n_tokens), block("nextn.hnorm.weight"), il)
    tokens = reshape(build_rms_norm(g, tokens, block("nextn.enorm.weight"), il), g.n_embd, 1, g.n_tokens)
    tokens = repeat_4d(tokens, g.n_embd, count, g.n_tokens, 1)
    return project(block, "nextn.eh_proj", concat(tokens, states, 0))


def _routed(g: GraphContext, block: Block, cur: Node, routing: Routing, il: int) -> Node:
    """The first blocks look their experts up by token."""
    selected = None
    if _looks_experts_up(g.hp, il):
        selected = get_rows(block.need("ffn_gate_tid2eid.weight"), g.memo["inp_tokens"])
    return build_moe_ffn(g, block, cur, routing, il, selected=selected)


def _attention(g: GraphContext, raw: RawInput, compressed: Inputs, pos: Node, block: Block, cur: Node, il: int) -> Node:
    hp = g.hp
    head, ratio = hp.n_embd_head_k(il), hp.dsv4_compress_ratios[il]
    q_latent = query_latent(g, block, cur, il)
    q, kv = query_and_key(g, block, cur, q_latent, pos, il)
    chosen, kind = None, None
    if ratio == CSA_RATIO:
        kind = "csa"
        compress(g, compressed["csa"], block, "attn_compressor", cur, head, il)
        compress(g, compressed["indexer"], block, "indexer_compressor", cur, hp.indexer_head_size, il)
        chosen = _chosen_entries(g, compressed["indexer"], block, cur, q_latent, pos, il)
    elif ratio == HCA_RATIO:
        kind = "hca"
        compress(g, compressed["hca"], block, "attn_compressor", cur, head, il)
    attended = _attend(g, raw, None if kind is None else compressed[kind], block, q, kv, chosen, il)
    return grouped_output(g, block, attended, pos, il)


def query_and_key(g: GraphContext, block: Block, cur: Node, q_latent: Node, pos: Node, il: int) -> tuple[Node, Node]:
    """Queries of all heads, and the one key, which is the value as well."""
    head = g.hp.n_embd_head_k(il)
    q = linear(block.need("attn_q_b.weight"), q_latent)
    q = rope(rms_norm(reshape(q, head, g.hp.n_head[il], g.n_tokens)), pos)
    kv = build_rms_norm(g, linear(block.need("attn_kv.weight"), cur), block("attn_kv_a_norm.weight"), il)
    return q, rope(reshape(kv, head, 1, g.n_tokens), pos)


def _chosen_entries(
    g: GraphContext, inp: CompressedInput, block: Block, cur: Node, q_latent: Node, pos: Node, il: int
) -> Node:
    """build_lid_top_k: the entries each token attends to."""
    hp = g.hp
    q = linear(block.need("indexer.attn_q_b.weight"), q_latent)
    q = rope(reshape(q, hp.indexer_head_size, hp.indexer_n_head, g.n_tokens), pos)
    if inp.k_rot is not None:
        q = hadamard(q, inp.k_rot)
    weights = scale(linear(block.need("indexer.proj.weight"), cur))
    keys = _entries(g, "indexer", hp.indexer_head_size, il)
    n_stream = keys.ne[3]
    score = lightning_indexer(by_stream(q, n_stream), keys, weights_by_stream(weights, n_stream), inp.mask)
    return cont(top_k(score, min(score.ne[0], hp.indexer_top_k)))


def _entries(g: GraphContext, kind: CacheKind, head: int, il: int) -> Node:
    """All entries of a compressed cache: [head, 1, entries, streams]."""
    cells = g.cache(kind, il)
    row = cells.nb[1]
    return view(cells, (head, 1, cells.ne[1], cells.ne[2]), (row, row, cells.nb[2]))


def _attend(
    g: GraphContext,
    raw: RawInput,
    entries: CompressedInput | None,
    block: Block,
    q: Node,
    kv: Node,
    chosen: Node | None,
    il: int,
) -> Node:
    """Attention to the raw cells, and to compressed entries behind them where the block has a compressor."""
    if raw.k_rot is not None:
        q, kv = hadamard(q, raw.k_rot), hadamard(kv, raw.k_rot)
    g.expand(q)
    g.expand(kv)
    cells = g.cache("swa", il)
    g.expand(store_rows(cells, kv, raw.k_idxs))
    keys, mask = read_k(g, cells, il), raw.mask
    if entries is not None:
        keys = concat(keys, _entries(g, entries.kind, g.hp.n_embd_head_k(il), il), 2)
        seen = entries.mask
        if chosen is not None:
            seen = mask_of_chosen(seen, chosen, F16 if g.flash_attn else F32)
        mask = concat(mask, seen, 0)
    cur = mha(g, q, keys, keys, mask, sinks=block("attn_sinks.weight"))
    return cur if raw.k_rot is None else hadamard(cur, raw.k_rot)


def grouped_output(g: GraphContext, block: Block, attended: Node, pos: Node, il: int) -> Node:
    """The rotation taken back, then the output projection in two steps, the first by groups of heads."""
    groups, rank = g.hp.dsv4_o_group_count, g.hp.dsv4_o_lora_rank
    head, n_head = g.hp.n_embd_head_k(il), g.hp.n_head[il]
    cur = rope(reshape(attended, head, n_head, g.n_tokens), pos)
    cur = swap_12(reshape(cur, head * n_head // groups, groups, g.n_tokens))
    cur = swap_12(mul_mat(_by_group(block.need("attn_output_a.weight"), rank, groups), cur))
    return linear(block.need("attn_output_b.weight"), cont_4d(cur, rank * groups, g.n_tokens))


def _by_group(weight: Node, rank: int, groups: int) -> Node:
    """The weight as [in, rank, groups], as it is loaded whatever its shape in the file (TENSOR_ALLOW_RESHAPE)."""
    if weight.ne[2] == groups:
        return weight
    node = leaf(weight.type, (weight.ne[0], rank, groups, 1), buffer=weight.buffer, flags=WEIGHT)
    node.seen = True
    return node
