"""Which blocks of a model have equal graphs, and which of them stand for all."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.repetition import (
    REORDERED_WINDOW,
    WINDOW,
    kept_blocks,
    replayed_blocks,
)
from service.core.engines.llamacpp.compute.weights import BLOCK_PREFIX, weight_table
from service.core.engines.llamacpp.graphs import ArchitectureGraph, architecture_graph
from service.core.engines.llamacpp.slots import CPU, SlotMap
from service.core.types import Model


@lru_cache(maxsize=256)
def block_kinds(model: Model, hp: Hparams) -> tuple[int, ...]:
    """A number per block, equal where the graphs of two blocks are: same tensors, shapes and per-layer hparams."""
    numbers: dict[Hashable, int] = {}
    blocks = weight_table(model).blocks
    graph = architecture_graph(model.architecture)
    kinds = []
    for il in range(hp.n_layer):
        tensors = tuple(sorted((name, tensor.shape) for name, tensor in blocks[il].items())) if il < len(blocks) else ()
        kind = (tensors, _layer_facts(hp, graph, il))
        kinds.append(numbers.setdefault(kind, len(numbers)))
    return tuple(kinds)


def kinds_in_memory(model: Model, hp: Hparams) -> Sequence[int]:
    """A number per block, equal where a further block like it adds nothing to a buffer that holds several."""
    replays = architecture_graph(model.architecture).replays
    return range(hp.n_layer) if replays else block_kinds(model, hp)


def _layer_facts(hp: Hparams, graph: ArchitectureGraph, il: int) -> tuple[Hashable, ...]:
    per_layer = (
        hp.n_head,
        hp.n_head_kv,
        hp.n_ff,
        hp.is_swa,
        hp.n_expert_used,
        hp.n_ff_exp,
        hp.is_recr,
        hp.is_indexer_full,
        hp.dsv4_compress_ratios,
        hp.is_ple,
    )
    facts = tuple(values[il] if il < len(values) else None for values in per_layer)
    return (*facts, hp.has_kv(il), graph.layer_key(hp, il) if graph.layer_key else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Representatives:
    """Blocks to build, and the device whose buffer each device's equals.

    layers: indices of the blocks. stands_for: per device, itself or an earlier device with the same blocks in the same
    place. key: equal for two sets of blocks whose graphs are equal. replays: for every block of the model, which
    of `layers` it repeats, where memory events are to be repeated; None where these blocks need as much as all do.
    """

    layers: tuple[int, ...]
    stands_for: tuple[int, ...]
    key: Hashable
    replays: tuple[int, ...] | None = None


def representatives(
    model: Model,
    hp: Hparams,
    slots: SlotMap,
    backends: Sequence[str],
    moved: Mapping[str, int],
    *,
    with_types: bool,
    every_block: bool,
    host_caches: bool,
    reordered: bool,
) -> Representatives:
    """A few blocks per device that need as much memory as all of its blocks.

    Devices between the first and the last that hold the same sequence of blocks are built once. with_types: whether
    tensor types matter, because weights of the host are copied to devices. every_block: nothing is left out.
    host_caches: each block is cut into splits, and the gaps these leave in memory grow over many blocks. reordered: a
    backend changes the order of nodes.
    """
    if architecture_graph(model.architecture).replays:
        found = _replayed(model, hp, slots, len(backends), moved)
        pays = not host_caches or len(found.layers) <= _WORTH_REPEATING * hp.n_layer
        return found if pays and not every_block and not reordered else without_replay(found, hp.n_layer)
    every_block = every_block or host_caches
    window = REORDERED_WINDOW if reordered else WINDOW
    layers: list[int] = []
    stands_for = list(range(len(backends)))
    built: dict[Hashable, int] = {}
    key: list[Hashable] = []
    elsewhere = _moved_by_block(model, moved, with_types=with_types) if moved else {}
    for run in slots.runs:
        end = min(run.end, hp.n_layer)
        typed = with_types and run.device == CPU
        if elsewhere or typed or every_block:
            signatures = _signatures(model, hp, run.first, end, elsewhere, typed=typed)
            kept, kinds = (
                (tuple(range(len(signatures))), tuple(signatures)) if every_block else _kept(model, signatures, window)
            )
        else:
            kept, kinds = _kept_plain(model, hp, run.first, end, window)
        if 0 < run.first < end < hp.n_layer and run.device != CPU and layers:
            twin = built.setdefault((backends[run.device], kinds), run.device)
            if twin != run.device:
                stands_for[run.device] = twin
                continue
        layers += [run.first + i for i in kept]
        key.append((run.device, kinds, run.first < end == hp.n_layer, run.end == slots.n_slots))
    return Representatives(layers=tuple(layers), stands_for=tuple(stands_for), key=tuple(key))


_WORTH_REPEATING: Final = 0.75
"""Share of the blocks up to which building these alone pays with caches on the host.

A graph of all blocks is kept for the next placement, which then takes 0.7 of the time (deepseek-v4-flash, whose blocks
alternate, on several rigs).
"""


def _replayed(model: Model, hp: Hparams, slots: SlotMap, n_devices: int, moved: Mapping[str, int]) -> Representatives:
    """Blocks whose memory events are those of all blocks once they are repeated.

    Types of quantised weights do not tell blocks apart: only sizes of copies of these depend on them.
    """
    elsewhere = _moved_by_block(model, moved, with_types=False) if moved else {}
    floats = _float_types(model)
    layers: list[int] = []
    kinds: list[Hashable] = []
    templates: list[int] = []
    for run in slots.runs:
        end = min(run.end, hp.n_layer)
        signatures = [
            (run.device, floats[il], each)
            for il, each in enumerate(_signatures(model, hp, run.first, end, elsewhere, typed=False), run.first)
        ]
        kept, repeated = replayed_blocks(signatures)
        position = {block: len(layers) + at for at, block in enumerate(kept)}
        layers += [run.first + block for block in kept]
        kinds += signatures
        templates += [position[block] for block in repeated]
    ends = tuple((run.device, run.end) for run in slots.runs)
    return Representatives(
        layers=tuple(layers),
        stands_for=tuple(range(n_devices)),
        key=("replay", tuple(kinds), ends, slots.output_device),
        replays=None if len(layers) == hp.n_layer else tuple(templates),
    )


def without_replay(built: Representatives, n_layer: int) -> Representatives:
    """All blocks in place of those whose memory events would be repeated."""
    return replace(built, layers=tuple(range(n_layer)), replays=None)


def draft_representatives(
    model: Model, hp: Hparams, slots: SlotMap, n_devices: int, moved: Mapping[str, int]
) -> Representatives:
    """The draft (MTP) layers, which are few: all of them."""
    layers = range(hp.n_layer, hp.n_layer_all)
    elsewhere = _moved_by_block(model, moved, with_types=True) if moved else {}
    places = tuple((slots.device_of(il), elsewhere.get(il)) for il in layers)
    return Representatives(
        layers=tuple(layers),
        stands_for=tuple(range(n_devices)),
        key=("draft", places, slots.output_device),
    )


_Kept = tuple[tuple[int, ...], tuple[Hashable, ...]]


def _kept(model: Model, signatures: Sequence[Hashable], window: int) -> _Kept:
    """Positions of the blocks of one run that stand for all, and what they are."""
    kept = kept_blocks(signatures, architecture_graph(model.architecture).cycle, window)
    return kept, tuple([signatures[i] for i in kept])


@lru_cache(maxsize=8192)
def _kept_plain(model: Model, hp: Hparams, first: int, end: int, window: int) -> _Kept:
    return _kept(model, _signatures(model, hp, first, end, {}, typed=False), window)


def _signatures(
    model: Model, hp: Hparams, first: int, end: int, elsewhere: Mapping[int, Hashable], *, typed: bool
) -> list[Hashable]:
    """What distinguishes blocks of one run; the last block of all differs, because only outputs are wanted of it.

    elsewhere: weights that are not where their block is; typed: whether types of all weights matter.
    """
    kinds, types, last = block_kinds(model, hp), _type_kinds(model) if typed else (), hp.n_layer - 1
    return [
        (kinds[il], elsewhere.get(il), types[il] if il < len(types) else None, il == last) for il in range(first, end)
    ]


@lru_cache(maxsize=256)
def _float_types(model: Model) -> tuple[int, ...]:
    """A number per block, equal where the weights of two blocks that are not quantised have the same types."""
    numbers: dict[Hashable, int] = {}
    return tuple(
        numbers.setdefault(
            frozenset((name, tensor.type.id) for name, tensor in block.items() if tensor.type.block_elements == 1),
            len(numbers),
        )
        for block in weight_table(model).blocks
    )


@lru_cache(maxsize=256)
def _type_kinds(model: Model) -> tuple[int, ...]:
    """A number per block, equal where all tensors of two blocks have the same types."""
    numbers: dict[Hashable, int] = {}
    return tuple(
        numbers.setdefault(frozenset((name, tensor.type.id) for name, tensor in block.items()), len(numbers))
        for block in weight_table(model).blocks
    )


Moved = tuple[tuple[str, int, int | None], ...]
"""Weights of a block that lie elsewhere: name, device, and type where that matters."""


def _moved_by_block(model: Model, locations: Mapping[str, int], *, with_types: bool) -> dict[int, Moved]:
    tensors = model.tensor_by_name
    moved: dict[int, list[tuple[str, int, int | None]]] = {}
    for name, device in locations.items():
        if name.startswith(BLOCK_PREFIX):
            number, _, rest = name[len(BLOCK_PREFIX) :].partition(".")
            type_id = tensors[name].type.id if with_types else None
            moved.setdefault(int(number), []).append((rest, device, type_id))
    return {il: tuple(sorted(names)) for il, names in moved.items()}
