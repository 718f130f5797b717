"""An indexer that scores pools of neighbouring keys and picks whole pools, plus the incomplete one at the end.

Source: build_inp_kpool and build_kpool_select, src/models/glm5-next.cpp, and the sizes of
src/llama-memory-hybrid-idx.cpp:704-712, 826-845, 935-975 (llama.cpp in llama-cpp-python 0.3.36).
"""

from dataclasses import dataclass
from typing import Final

from service.core.engines.llamacpp.compute.node import F16, F32, I32, I64, Node, leaf
from service.core.engines.llamacpp.compute.ops import (
    add,
    argsort,
    cast,
    concat,
    cont,
    custom,
    exp,
    fill,
    get_rows,
    mul,
    mul_mat,
    permute,
    repeat_4d,
    reshape,
    scale,
    set_rows,
    soft_max,
    sub,
    sum_rows,
    top_k,
    view,
)
from service.core.engines.llamacpp.graphs.blocks.attention import store_rows
from service.core.engines.llamacpp.graphs.blocks.norms import build_layer_norm
from service.core.engines.llamacpp.graphs.blocks.sparse_attention import lightning_indexer
from service.core.engines.llamacpp.graphs.context import Block, GraphContext
from service.core.units import pad

POOL_PADDING: Final = 64
"""Pools are counted in multiples of it, the last one being unused."""

GATHER_MAX_TOKENS: Final = 16
"""Up to so many tokens, the chosen cells are gathered instead of all others being masked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolInput:
    """Which cells make up which pools, and what each token sees of them.

    n_chosen: cells each token attends to; gathers: whether they are gathered (few tokens, many cells).
    """

    k_idxs: Node
    pool_cells: Node
    pool_idxs: Node
    pool_mask: Node
    tail_idxs: Node
    slot_mask: Node
    new_pool_idxs: Node
    new_pool_rows: Node
    n_chosen: int
    gathers: bool


def pool_input(g: GraphContext) -> PoolInput:
    """build_inp_kpool: with a full cache, every pool is a new one."""
    hp, n_kv = g.hp, g.cells("indexer")
    pool = hp.indexer_kpool
    n_new = max(1, n_kv // pool * g.ctx.n_seq_max)
    n_pools = max(POOL_PADDING, pad(n_new + 1, POOL_PADDING))
    n_chosen = pool * min(n_pools, hp.indexer_top_k // pool) + (pool - 1 if _takes_tail(g) else 0)
    inp = PoolInput(
        k_idxs=g.input("k_idxs_indexer", I64, g.n_tokens),
        pool_cells=g.input("kpool_cells", I32, n_pools),
        pool_idxs=g.input("kpool_idxs", I32, pool, n_pools),
        pool_mask=g.input("kpool_mask", F16, n_pools, g.n_tokens),
        tail_idxs=g.input("kpool_tail_idxs", I32, pool - 1, g.n_tokens),
        slot_mask=g.input("kpool_gather_mask", F32, n_chosen, 1, 1, g.n_tokens),
        new_pool_idxs=g.input("kpool_new_idxs", I32, pool, n_new),
        new_pool_rows=g.input("kpool_new_rep", I64, n_new),
        n_chosen=n_chosen,
        gathers=g.n_tokens <= GATHER_MAX_TOKENS and n_kv > n_chosen,
    )
    for node in (inp.pool_cells, inp.pool_idxs, inp.pool_mask, inp.tail_idxs, inp.slot_mask):
        g.expand(node)
    return inp


def _takes_tail(g: GraphContext) -> bool:
    return g.metadata.get(g.prefix + "attention.indexer.kpool_select_tail", True) is not False


def choose_pools(g: GraphContext, inp: PoolInput, block: Block, cur: Node, q_latent: Node, mask: Node, il: int) -> Node:
    """The cells each token attends to [cells, tokens], or a mask that leaves only them open."""
    hp, n_tokens, head = g.hp, g.n_tokens, g.hp.indexer_head_size
    q = mul_mat(block.need("indexer.attn_q_b.weight"), q_latent)
    q = reshape(q, head, hp.indexer_n_head, n_tokens)
    pooled = _pooled_keys(g, inp, block, cur, il)
    weights = scale(mul_mat(block.need("indexer.proj.weight"), cur))
    score = lightning_indexer(q, pooled, weights, inp.pool_mask)
    n_pools = pooled.ne[2]
    n_top = min(n_pools, hp.indexer_top_k // hp.indexer_kpool)
    best = top_k(score, n_top)
    order = argsort(reshape(get_rows(reshape(score, 1, n_pools, n_tokens), best), n_top, n_tokens))
    best = get_rows(reshape(cast(best, F32), 1, n_top, n_tokens), order)
    best = cast(cont(reshape(best, n_top, n_tokens)), I32)
    chosen = get_rows(inp.pool_idxs, reshape(best, n_top * n_tokens))
    chosen = reshape(chosen, hp.indexer_kpool * n_top, n_tokens)
    if _takes_tail(g):
        chosen = concat(chosen, inp.tail_idxs, 0)
    return chosen if inp.gathers else _mask_of(inp, chosen, mask, g.cells("indexer"))


def _pooled_keys(g: GraphContext, inp: PoolInput, block: Block, cur: Node, il: int) -> Node:
    """Store this batch's keys and pools, and read all pools: [head size, 1, pools]."""
    head, pool, n_new = g.hp.indexer_head_size, g.hp.indexer_kpool, inp.new_pool_rows.ne[0]
    k = mul_mat(block.need("indexer.attn_k.weight"), cur)
    k = build_layer_norm(g, k, block("indexer.k_norm.weight"), block("indexer.k_norm.bias"), il)
    gate = mul_mat(block.need("indexer_compressor_gate.weight"), cur)
    packed = concat(concat(k, gate, 0), fill(leaf(F32, (head, g.n_tokens, 1, 1))), 0)
    cells = g.cache("indexer", il)
    g.expand(store_rows(cells, reshape(packed, 3 * head, 1, g.n_tokens), inp.k_idxs))
    n_cells, row = cells.ne[1] * cells.ne[2], cells.nb[1]
    members = get_rows(view(cells, (2 * head, n_cells), (row,)), reshape(inp.new_pool_idxs, pool * n_new))
    members = reshape(members, 2 * head, pool, n_new)
    keys, gates = (view(members, (head, pool, n_new), members.nb[1:3]) for _ in range(2))
    logits = cont(permute(add(gates, block.need("indexer_compressor_ape.weight")), 1, 0, 2, 3))
    shares = reshape(soft_max(reshape(logits, pool, head * n_new)), pool, head, n_new)
    new = reshape(sum_rows(mul(shares, cont(permute(keys, 1, 0, 2, 3)))), head, n_new)
    pools = view(cells, (head, n_cells), (row,))
    g.expand(set_rows(pools, new, inp.new_pool_rows))
    return reshape(get_rows(pools, inp.pool_cells), head, 1, inp.pool_cells.ne[0])


def _mask_of(inp: PoolInput, chosen: Node, mask: Node, n_kv: int) -> Node:
    """`mask` with all but the chosen cells closed; choices a token does not need open rows behind the last cell."""
    n_chosen, n_tokens = chosen.ne[0], chosen.ne[1]
    seed = cast(view(chosen, (1,)), F32)
    closed = fill(seed if mask.type is F32 else cast(seed, mask.type))
    closed = reshape(repeat_4d(closed, 1, n_kv + n_chosen, n_tokens, 1), 1, n_kv + n_chosen, n_tokens)
    zeros = reshape(repeat_4d(fill(seed), 1, n_chosen, n_tokens, 1), 1, n_chosen, n_tokens)
    live = exp(reshape(inp.slot_mask, n_chosen, n_tokens))
    unused = custom((n_chosen, 1, 1, 1), ())
    rows = add(mul(sub(cast(chosen, F32), unused), live), unused)
    rows = reshape(cast(rows, I32), n_chosen, n_tokens, 1)
    opened = set_rows(closed, zeros, rows)
    return add(view(opened, (n_kv, n_tokens), opened.nb[2:3]), reshape(mask, n_kv, n_tokens))
