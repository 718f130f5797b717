"""Attention to a short raw cache and to compressed entries, one for every 4 or 128 tokens (DeepSeek 4).

A compressor pools the keys of the tokens of an entry; tokens of unfinished entries wait in a state.
Source: src/models/deepseek4.cpp:240-270, 480-640, 720-1130, inputs: src/llama-graph.cpp:942-985, 3486-3511 and
dsv4_build_reserve_comp_plan, src/llama-kv-cache-dsv4.cpp:842-881 (llama.cpp in llama-cpp-python 0.3.36).
"""

from dataclasses import dataclass
from typing import Literal

from service.core.engines.llamacpp.cache_layout import CacheKind
from service.core.engines.llamacpp.compressed_cache import CSA_RATIO, HCA_RATIO
from service.core.engines.llamacpp.compute.node import F16, F32, I32, I64, Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    concat,
    cont,
    get_rows,
    mul,
    permute,
    reshape,
    rope,
    scale,
    set_rows,
    soft_max,
    sum_rows,
    view,
)
from service.core.engines.llamacpp.graphs.blocks.attention import hadamard, store_rows
from service.core.engines.llamacpp.graphs.blocks.inputs import rotation_width
from service.core.engines.llamacpp.graphs.blocks.linear import linear
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

Compressor = Literal["csa", "hca", "indexer"]

_RATIOS = {"csa": CSA_RATIO, "hca": HCA_RATIO, "indexer": CSA_RATIO}
_STATES: dict[Compressor, CacheKind] = {"csa": "csa_state", "hca": "hca_state", "indexer": "indexer_state"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RawInput:
    """Inputs of the raw cache: cells written, cells seen, and the rotation of quantised keys."""

    k_idxs: Node
    mask: Node
    k_rot: Node | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedInput:
    """Inputs of one compressor and its cache.

    ratio: tokens per entry; n_blocks: entries that a batch can finish. ape_rows: position of each token in its entry;
    persist_*: states kept for the next batch; restore_*, snapshot_*: states of earlier draft tokens (None without
    drafts); read, write, write_pos: states pooled, entries written, their positions.
    """

    kind: Compressor
    ratio: int
    n_blocks: int
    ape_rows: Node
    persist_from: Node
    persist_to: Node
    restore_from: Node | None
    restore_to: Node | None
    snapshot_from: Node | None
    snapshot_to: Node | None
    read: Node
    write: Node
    write_pos: Node
    mask: Node
    k_rot: Node | None


def raw_input(g: GraphContext) -> RawInput:
    """build_inp_dsv4, the raw part; caches have a stream per sequence even where the context is unified."""
    return RawInput(
        k_idxs=g.input("k_idxs_swa", I64, g.n_tokens),
        mask=_mask(g, "swa", fused=g.flash_attn),
        k_rot=_rotation(g, "swa"),
    )


def compressed_input(g: GraphContext, kind: Compressor) -> CompressedInput:
    """The inputs of one compressor, as many as the largest batch can need."""
    ratio, state = _RATIOS[kind], g.caches[_STATES[kind]]
    rows = state.cells * g.ctx.n_seq_max
    n_blocks = g.n_tokens // ratio + max(1, g.n_seqs)
    n_persist = min(g.n_tokens, rows)
    drafts = g.ctx.n_rs_seq

    def indices(name: str, n: int) -> Node:
        return g.input(f"{kind}_{name}", I32, n)

    return CompressedInput(
        kind=kind,
        ratio=ratio,
        n_blocks=n_blocks,
        ape_rows=indices("state_pos", g.n_tokens),
        persist_from=indices("persist_from", n_persist),
        persist_to=indices("persist_to", n_persist),
        restore_from=indices("restore_from", rows) if drafts else None,
        restore_to=indices("restore_to", rows) if drafts else None,
        snapshot_from=indices("snapshot_from", drafts * rows) if drafts else None,
        snapshot_to=indices("snapshot_to", drafts * rows) if drafts else None,
        read=indices("read", (1 if kind == "hca" else 2) * ratio * n_blocks),
        write=g.input(f"{kind}_write", I64, n_blocks),
        write_pos=indices("write_pos", n_blocks),
        mask=_mask(g, kind, fused=kind == "indexer" or g.flash_attn),
        k_rot=_rotation(g, kind),
    )


def _mask(g: GraphContext, kind: CacheKind, *, fused: bool) -> Node:
    n_stream = g.n_seqs
    return g.input(f"mask_{kind}", F16 if fused else F32, g.cells(kind), g.n_tokens // n_stream, 1, n_stream)


def _rotation(g: GraphContext, kind: CacheKind) -> Node | None:
    """Keys are rotated where they are quantised, and wherever they are as wide as the indexer's.

    Source: src/llama-kv-cache.cpp:320-338.
    """
    hp, indexed = g.hp, kind == "indexer"
    head = hp.indexer_head_size if indexed else hp.n_embd_head_k()
    if not any(g.caches[kind].layout.first):
        head = 0
    quantised = g.ctx.type_k.block_elements > 1 and head > 0 and head % 64 == 0
    like_indexer = indexed or hp.n_embd_head_k_full == hp.indexer_head_size
    if not quantised and not like_indexer:
        return None
    width = rotation_width(head)
    return g.input(f"k_rot_{kind}", F32, width, width)


def compress(g: GraphContext, inp: CompressedInput, block: Block, name: str, cur: Node, head: int, il: int) -> None:
    """Pool finished entries into the cache and keep the states of unfinished ones; `name`: prefix of the weights."""
    values = linear(block.need(name + "_kv.weight"), cur)
    scores = linear(block.need(name + "_gate.weight"), cur)
    scores = add(scores, get_rows(block.need(name + "_ape.weight"), inp.ape_rows))
    all_values, all_scores = _restored_states(g, inp, il)
    pooled = _pool(g, inp, block(name + "_norm.weight"), (all_values, all_scores), (values, scores), head, il)
    if inp.k_rot is not None:
        pooled = hadamard(pooled, inp.k_rot)
    g.expand(store_rows(g.cache(inp.kind, il), pooled, inp.write))
    if inp.snapshot_from is not None and inp.snapshot_to is not None:
        sources = concat(all_values, values, 1), concat(all_scores, scores, 1)
        for second, source in enumerate(sources):
            rows = get_rows(source, inp.snapshot_from)
            g.expand(set_rows(_states(g, inp, il, second=bool(second)), rows, inp.snapshot_to))
    kept = get_rows(values, inp.persist_from), get_rows(scores, inp.persist_from)
    stored = [
        set_rows(_states(g, inp, il, second=bool(second)), rows, inp.persist_to) for second, rows in enumerate(kept)
    ]
    for node in stored:
        g.expand(node)


def _states(g: GraphContext, inp: CompressedInput, il: int, *, second: bool) -> Node:
    """All rows of a compressor's values or scores."""
    state = g.cache(_STATES[inp.kind], il, second=second)
    return view(state, (state.ne[0], state.ne[1] * state.ne[2]), (state.nb[1],))


def _restored_states(g: GraphContext, inp: CompressedInput, il: int) -> tuple[Node, Node]:
    """The states, after those of the accepted draft tokens are copied back."""
    states = []
    for second in (False, True):
        state = _states(g, inp, il, second=second)
        if inp.restore_from is not None and inp.restore_to is not None:
            state = set_rows(_states(g, inp, il, second=second), get_rows(state, inp.restore_from), inp.restore_to)
        states.append(state)
    return states[0], states[1]


def _pool(
    g: GraphContext,
    inp: CompressedInput,
    norm_weight: Node | None,
    states: tuple[Node, Node],
    new: tuple[Node, Node],
    head: int,
    il: int,
) -> Node:
    """The key of every finished entry: [head, 1, entries], a mean weighted by scores."""
    n_rows = g.caches[_STATES[inp.kind]].cells * g.ctx.n_seq_max
    sources = [
        concat(view(state, (state.ne[0], n_rows), (state.nb[1],)), rows, 1)
        for state, rows in zip(states, new, strict=True)
    ]
    if inp.kind == "hca":
        values, scores = (reshape(get_rows(rows, inp.read), head, inp.ratio, inp.n_blocks) for rows in sources)
    else:
        values, scores = _overlapping(inp, sources, head)
    values, scores = cont(permute(values, 1, 0, 2, 3)), cont(permute(scores, 1, 0, 2, 3))
    pooled = sum_rows(mul(values, soft_max(scores)))
    pooled = build_rms_norm(g, cont(permute(pooled, 1, 0, 2, 3)), norm_weight, il)
    return rope(pooled, inp.write_pos)


def _overlapping(inp: CompressedInput, sources: list[Node], head: int) -> tuple[Node, Node]:
    """Rows of each entry and of the one before it, from the two halves of a state row."""
    n_read = inp.ratio * inp.n_blocks
    padded = [concat(rows, reshape(scale(view(rows, (rows.ne[0],))), rows.ne[0], 1), 1) for rows in sources]
    read = [get_rows(rows, inp.read) for rows in padded]

    def half(rows: Node) -> Node:
        part = cont(view(rows, (head, n_read), (rows.nb[1],)))
        return reshape(part, head, inp.ratio, inp.n_blocks)

    before = [half(rows) for rows in read]
    own = [half(rows) for rows in read]
    return concat(before[0], own[0], 1), concat(before[1], own[1], 1)
