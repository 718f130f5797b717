"""Block-sparse attention: for each group of heads an indexer picks blocks of positions (MiniMax sparse attention).

Positions and cells differ; maps between them are inputs.
Source: src/models/minimax-m3.cpp:95-205, 258-320, 340-535 (llama.cpp in llama-cpp-python 0.3.36).
"""

from dataclasses import dataclass

from service.core.engines.llamacpp.compute.node import F16, F32, I32, I64, Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    add_inplace,
    cast,
    concat,
    cont,
    custom,
    flash_attn_ext,
    get_rows,
    mul_mat,
    permute,
    repeat_4d,
    reshape,
    rope,
    scale,
    set_rows,
    swap_12,
    top_k,
    transpose,
    view,
)
from service.core.engines.llamacpp.graphs.blocks.attention import store_rows
from service.core.engines.llamacpp.graphs.blocks.linear import linear
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm
from service.core.engines.llamacpp.graphs.context import Block, GraphContext
from service.core.units import pad

_RESERVED_POSITIONS = 256
"""Positions an empty cache is taken to hold (llama_kv_cache_msa_context::get_n_pos, llama-kv-cache-msa.cpp:262-273)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockInput:
    """Inputs shared by all block-sparse layers.

    block: positions per block; n_pos, n_blocks: positions and blocks looked at; n_chosen: blocks picked.
    k_idxs: cells the indexer's keys are written to; bias: blocks that are always picked; pos_mask: positions seen;
    cell_of_pos: for gathering; cell_values: the same as values, for one token per stream; block_of_cell and mask: for
    more tokens, the mask in F32.
    """

    block: int
    n_pos: int
    n_blocks: int
    n_chosen: int
    k_idxs: Node
    bias: Node
    pos_mask: Node
    cell_of_pos: Node
    cell_values: Node | None
    block_of_cell: Node | None
    mask: Node | None


def block_input(g: GraphContext, mask: Node) -> BlockInput:
    """The inputs for the attention mask `mask` [cells, tokens, 1, streams]."""
    block, n_stream = g.hp.indexer_block_size, mask.ne[3]
    n_pos = pad(_RESERVED_POSITIONS, block)
    single = mask.ne[1] == 1
    return BlockInput(
        block=block,
        n_pos=n_pos,
        n_blocks=n_pos // block,
        n_chosen=min(g.hp.indexer_top_k, n_pos // block),
        k_idxs=g.input("k_idxs_indexer", I64, g.n_tokens),
        bias=g.input("block_bias", F32, n_pos // block, g.n_tokens),
        pos_mask=g.input("pos_mask", F32, n_pos, g.n_tokens),
        cell_of_pos=g.input("cell_of_pos", I32, n_pos, n_stream),
        cell_values=g.input("cell_values", F32, n_pos, n_stream) if single else None,
        block_of_cell=None if single else g.input("block_of_cell", I32, mask.ne[0], n_stream),
        mask=None if single else cast(mask, F32),
    )


def index_keys(g: GraphContext, inp: BlockInput, block: Block, cur: Node, pos: Node, il: int) -> tuple[Node, Node]:
    """The indexer's queries [head, groups, tokens] and its cached keys [head, 1, cells, streams]."""
    head = g.hp.indexer_head_size
    q = reshape(linear(block.need("indexer.q_proj.weight"), cur), head, g.hp.indexer_n_head, g.n_tokens)
    k = reshape(linear(block.need("indexer.k_proj.weight"), cur), head, 1, g.n_tokens)
    q = rope(build_rms_norm(g, q, block("indexer.q_norm.weight"), il), pos)
    k = rope(build_rms_norm(g, k, block("indexer.k_norm.weight"), il), pos)
    cells = g.cache("indexer", il)
    g.expand(store_rows(cells, k, inp.k_idxs))
    row = cells.nb[1]
    return q, view(cells, (head, 1, cells.ne[1], cells.ne[2]), (row, row, cells.nb[2]))


def gather_blocks(inp: BlockInput, index_q: Node, index_k: Node, q: Node, k: Node, v: Node) -> Node:
    """Attention of one token per stream: the cells of the picked blocks are gathered.

    index_q: [head, groups, tokens]; index_k, k, v: cache views [head, heads, cells, streams].
    """
    groups, n_stream, n_rows = index_q.ne[1], k.ne[3], inp.block * inp.n_chosen
    positions = _picked_positions(inp, index_q, index_k)
    if inp.cell_values is None:
        raise ValueError("cells are gathered for one token per stream only")
    cells = get_rows(reshape(inp.cell_values, 1, inp.n_pos, n_stream), positions)
    cells = scale(reshape(cells, inp.block, inp.n_chosen, groups, n_stream))
    rows = add(cells, reshape(_arange(k.ne[1]), 1, 1, groups))
    rows = cast(reshape(rows, n_rows * groups, n_stream), I32)
    picked_k, picked_v = _gathered(k, rows, n_rows, groups), _gathered(v, rows, n_rows, groups)
    picked_mask = get_rows(reshape(inp.pos_mask, 1, inp.n_pos, n_stream), positions)
    picked_mask = cast(reshape(picked_mask, n_rows, 1, 1, groups * n_stream), F16)
    return _attend(q, picked_k, picked_v, picked_mask, q.ne[1] // k.ne[1])


def _picked_positions(inp: BlockInput, index_q: Node, index_k: Node) -> Node:
    """Positions of the picked blocks, per stream, as I32."""
    head, groups, n_stream = index_q.ne[0], index_q.ne[1], index_k.ne[3]
    keys = view(index_k, (head, index_k.ne[2], n_stream), (index_k.nb[2], index_k.nb[3]))
    keys = reshape(get_rows(keys, inp.cell_of_pos), head, inp.n_pos, 1, n_stream)
    score = mul_mat(keys, reshape(index_q, head, groups, 1, n_stream))
    score = add_inplace(score, reshape(inp.pos_mask, inp.n_pos, 1, 1, n_stream))
    score = add(_best_of_blocks(inp, score), reshape(inp.bias, inp.n_blocks, 1, 1, n_stream))
    first = scale(cast(top_k(score, inp.n_chosen), F32))
    first = repeat_4d(reshape(first, 1, inp.n_chosen, groups, n_stream), inp.block, inp.n_chosen, groups, n_stream)
    positions = add(first, reshape(_arange(inp.block), inp.block))
    return cast(reshape(positions, inp.block * inp.n_chosen * groups, n_stream), I32)


def _gathered(cache: Node, rows: Node, n_rows: int, groups: int) -> Node:
    """Rows of a cache view, groups and streams in the last dimension, in the cache's type (F16 for quantised ones)."""
    head, n_heads, n_cells, n_stream = cache.ne
    picked = get_rows(view(cache, (head, n_heads * n_cells, n_stream), (cache.nb[1], cache.nb[3])), rows)
    picked = reshape(picked, head, n_rows, 1, groups * n_stream)
    type_ = F16 if cache.type.block_elements > 1 else cache.type
    return picked if type_ is F32 else cast(picked, type_)


def open_blocks(inp: BlockInput, index_q: Node, index_k: Node, q: Node, k: Node, v: Node) -> Node:
    """Attention of many tokens: stream by stream, over all cells, the mask closed for blocks that were not picked."""
    parts = [_open_blocks_of_stream(inp, index_q, index_k, q, k, v) for _ in range(k.ne[3])]
    cur = parts[0]
    for part in parts[1:]:
        cur = concat(cur, part, 1)
    return cur


def _open_blocks_of_stream(inp: BlockInput, index_q: Node, index_k: Node, q: Node, k: Node, v: Node) -> Node:
    head, groups, n_kv = index_q.ne[0], index_q.ne[1], k.ne[2]
    n_tokens = index_q.ne[2] // k.ne[3]
    if inp.block_of_cell is None or inp.mask is None:
        raise ValueError("blocks are opened for several tokens per stream only")
    stream_q = view(index_q, (head, groups, n_tokens), index_q.nb[1:3])
    keys = view(index_k, (head, n_kv), (index_k.nb[2],))
    map_of_cells = view(inp.block_of_cell, (n_kv,))
    mask = view(inp.mask, (n_kv, n_tokens, 1), (inp.mask.nb[1], inp.mask.nb[3]))
    bias = view(inp.bias, (inp.n_blocks, 1, n_tokens), (inp.bias.nb[1], inp.bias.nb[1]))
    seen = view(inp.pos_mask, (inp.n_pos, 1, n_tokens), (inp.pos_mask.nb[1], inp.pos_mask.nb[1]))
    keys = get_rows(keys, view(inp.cell_of_pos, (inp.n_pos,)))
    score = mul_mat(keys, reshape(stream_q, head, groups * n_tokens))
    score = add_inplace(reshape(score, inp.n_pos, groups, n_tokens), seen)
    picked = top_k(add(_best_of_blocks(inp, score), bias), inp.n_chosen)
    opened = _mask_of_blocks(inp, picked, bias, map_of_cells)
    opened = add_inplace(reshape(opened, n_kv, n_tokens, groups), mask)
    opened = cast(reshape(opened, n_kv, n_tokens, 1, groups), F16)
    stream_k = permute(view(k, (*k.ne[:3], 1), k.nb[1:]), 0, 3, 1, 2)
    stream_v = permute(view(v, (*v.ne[:3], 1), v.nb[1:]), 0, 3, 1, 2)
    stream_q = view(q, (q.ne[0], q.ne[1], n_tokens), q.nb[1:3])
    return _attend(stream_q, stream_k, stream_v, opened, q.ne[1] // k.ne[1])


def _mask_of_blocks(inp: BlockInput, picked: Node, bias: Node, map_of_cells: Node) -> Node:
    """0 for cells of picked blocks, else almost -inf: [cells, tokens * groups]."""
    n_chosen, groups, n_tokens, _ = picked.ne
    n, rows = inp.n_blocks, groups * n_tokens
    closed = repeat_4d(cast(scale(bias), F16), n, groups, n_tokens, 1)
    zeros = scale(cast(picked, F32))
    blocks = set_rows(reshape(closed, 1, n, rows), reshape(zeros, 1, n_chosen, rows), reshape(picked, n_chosen, rows))
    blocks = cont(swap_12(reshape(blocks, n, groups, n_tokens)))
    by_block = cont(transpose(reshape(blocks, n, rows)))
    return cont(transpose(get_rows(by_block, map_of_cells)))


def _best_of_blocks(inp: BlockInput, score: Node) -> Node:
    """The highest score of each block of positions (ggml_pool_2d)."""
    return custom((inp.n_blocks, *score.ne[1:]), (score,))


def _arange(stop: int) -> Node:
    return custom((stop, 1, 1, 1), ())


def _attend(q: Node, k: Node, v: Node, mask: Node, per_group: int) -> Node:
    """build_attn_msa_fa: fused attention with groups (and streams) in the last dimension."""
    head, n_head, n_tokens, _ = q.ne
    channels = k.ne[3]
    q = reshape(q, head, per_group, channels, n_head * n_tokens // (per_group * channels))
    cur = permute(flash_attn_ext(permute(q, 0, 2, 3, 1), k, v, mask), 0, 1, 3, 2)
    if not cur.is_contiguous:
        cur = cont(cur)
    return reshape(cur, head * n_head, n_tokens)
