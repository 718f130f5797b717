"""The caches of a context: which there are, how many cells each has, and the bytes of any range of layers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.buffer_types import buffer_rules
from service.core.engines.llamacpp.cache_layout import (
    CacheLayout,
    attention_rows,
    indexer_rows,
    select,
    trunk_only,
    windowed_layouts,
)
from service.core.engines.llamacpp.compressed_cache import (
    CSA_RATIO,
    CSA_STATE_ROWS,
    HCA_RATIO,
    HCA_STATE_ROWS,
    compressed_cells,
    compressed_layouts,
)
from service.core.engines.llamacpp.context import ContextNumbers
from service.core.engines.llamacpp.recurrent import attending, recurring, state_layouts
from service.core.tensor_types import TENSOR_TYPE_BY_NAME
from service.core.types import Backend, TensorType
from service.core.units import pad

F32 = TENSOR_TYPE_BY_NAME["f32"]

LayerSizes: TypeAlias = tuple[Sequence[int], int]
"""How many layers of a width lie before each layer, and the bytes of one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheGroup:
    """One cache of a context.

    layout: row widths per layer. cells: rows of one stream, or the sequences of a recurrent state. n_stream: streams,
    or how often a state is kept for draft snapshots.
    type_first, type_second: element types of the layout's two tensors. Sizes of layers are made once per backend.
    """

    layout: CacheLayout
    cells: int
    n_stream: int
    type_first: TensorType
    type_second: TensorType
    _sizes: dict[Backend, list[LayerSizes]] = field(init=False, repr=False, compare=False, default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows of each tensor."""
        return self.cells * self.n_stream

    def layer_sizes(self, backend: Backend) -> list[LayerSizes]:
        """Bytes of a layer of each width in memory of `backend`, padding included."""
        sizes = self._sizes.get(backend)
        if sizes is None:
            sizes = self._sizes[backend] = self._layer_sizes(backend)
        return sizes

    def _layer_sizes(self, backend: Backend) -> list[LayerSizes]:
        rules, rows, layout = buffer_rules(backend), self.cells * self.n_stream, self.layout
        sizes: list[LayerSizes] = []
        for classes, tensor_type in (
            (layout.first_classes, self.type_first),
            (layout.second_classes, self.type_second),
        ):
            for width in classes:
                size_bytes = tensor_type.row_bytes(width.row_elements) * rows
                sizes.append((width.before, rules.allocated_bytes(tensor_type, width.row_elements, size_bytes)))
        return sizes

    def bytes_between(self, first_layer: int, end_layer: int, backend: Backend) -> int:
        """Bytes of layers first_layer..end_layer-1 in memory of `backend`, padding included."""
        return bytes_of_layers(self.layer_sizes(backend), first_layer, end_layer)


@dataclass(frozen=True, slots=True, kw_only=True)
class KvIndex:
    """All caches of a context, for bytes of layer ranges in time independent of the number of layers."""

    groups: tuple[CacheGroup, ...]
    _sizes: dict[Backend, list[LayerSizes]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def bytes_between(self, first_layer: int, end_layer: int, backend: Backend) -> int:
        """Bytes of every cache of layers first_layer..end_layer-1 in memory of `backend`.

        The output slot holds none: end_layer may be at most the number of all layers.

        Source: llama_kv_cache, src/llama-kv-cache.cpp:136-300 (llama.cpp in llama-cpp-python 0.3.36).
        """
        return bytes_of_layers(self.layer_sizes(backend), first_layer, end_layer)

    def layer_sizes(self, backend: Backend) -> list[LayerSizes]:
        """Bytes of a layer of each width of each cache in memory of `backend`, for `bytes_of_layers`."""
        sizes = self._sizes.get(backend)
        if sizes is None:
            sizes = [sizes for group in self.groups for sizes in group.layer_sizes(backend)]
            self._sizes[backend] = sizes
        return sizes


def bytes_of_layers(sizes: Iterable[LayerSizes], first_layer: int, end_layer: int) -> int:
    """Bytes of layers first_layer..end_layer-1."""
    return sum([(before[end_layer] - before[first_layer]) * size_bytes for before, size_bytes in sizes])


@lru_cache(maxsize=1024)
def kv_index(hp: Hparams, ctx: ContextNumbers) -> KvIndex:
    """The caches of `ctx` as an index."""
    return KvIndex(groups=cache_groups(hp, ctx))


def cache_groups(hp: Hparams, ctx: ContextNumbers) -> tuple[CacheGroup, ...]:
    """The caches llama.cpp makes for a model and a context; none for models that keep no cache.

    Source: llama_model::create_memory, src/llama-model.cpp:2352-2840 (llama.cpp in llama-cpp-python 0.3.36).
    """
    return tuple(_group(hp, ctx, each) for each in cache_layouts(hp, mtp=ctx.mtp, v_padded=ctx.v_padded))


@lru_cache(maxsize=1024)
def cache_layouts(hp: Hparams, *, mtp: bool, v_padded: bool) -> tuple[CacheLayout, ...]:
    """The layouts of a model's caches, by the class of memory its architecture has.

    Source: llama_model::create_memory, src/llama-model.cpp:2352-2840 (llama.cpp in llama-cpp-python 0.3.36).
    """
    rows, memory = attention_rows(hp, v_padded=v_padded), hp.arch.memory
    draft_only = mtp and hp.n_layer_nextn > 0
    if memory in ("none", "borrowed"):
        return ()
    if memory == "recurrent":
        return state_layouts(hp, recurring(hp))
    if memory == "hybrid" and not (mtp and hp.arch.draft_layers_alone):
        return (*windowed_layouts(hp, rows, attending(hp)), *state_layouts(hp, recurring(hp)))
    if memory == "hybrid_indexed":
        return _hybrid_indexed(hp, v_padded=v_padded, draft_only=mtp and hp.arch.draft_layers_alone)
    if memory in ("indexed", "indexed_windowed", "block_indexed") and not draft_only:
        return _indexed(hp, v_padded=v_padded)
    if memory == "compressed" and not mtp:
        return compressed_layouts(hp)
    return windowed_layouts(hp, rows, trunk_only(hp, mtp=mtp))


def _indexed(hp: Hparams, *, v_padded: bool) -> tuple[CacheLayout, ...]:
    """The attention caches of a sparse-attention model's trunk, and that of its indexer.

    Source: src/llama-model.cpp:2375-2449 and 2494-2586 (llama.cpp in llama-cpp-python 0.3.36).
    """
    rows, rule = attention_rows(hp, v_padded=v_padded), hp.arch.indexer
    if rule is None or hp.indexer_top_k == 0:
        return windowed_layouts(hp, rows, lambda _: True)
    indexer = indexer_rows(hp, v_padded=v_padded)
    if rule.layers == "after_dense_lead":
        return (
            *windowed_layouts(hp, rows, lambda _: True),
            select(indexer, "indexer", lambda il: il >= hp.n_layer_dense_lead),
        )
    by_type = rule.layers == "types"
    base, *swa = windowed_layouts(hp, rows, lambda il: il < hp.n_layer)
    keys = select(indexer, "indexer", lambda il: il < hp.n_layer and (not by_type or hp.is_indexer_full[il]))
    return (base, keys, *swa)


def _hybrid_indexed(hp: Hparams, *, v_padded: bool, draft_only: bool) -> tuple[CacheLayout, ...]:
    """Attention and indexer caches of the attending layers, recurrent state of the others; the draft layers alone.

    Source: src/llama-model.cpp:2450-2493 and 2701-2768, src/llama-memory-hybrid-idx.cpp:23-73
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    rows, indexer = attention_rows(hp, v_padded=v_padded), indexer_rows(hp, v_padded=v_padded)
    if draft_only:
        return (
            select(rows, "base", lambda il: il >= hp.n_layer),
            select(indexer, "indexer", lambda il: il >= hp.n_layer),
        )
    by_type = hp.arch.indexer is not None and hp.arch.indexer.layers == "types"
    attends = tuple(il < hp.n_layer and not hp.is_recr[il] for il in range(hp.n_layer_all))
    return (
        select(rows, "base", lambda il: attends[il]),
        select(indexer, "indexer", lambda il: attends[il] and (not by_type or hp.is_indexer_full[il])),
        *state_layouts(hp, recurring(hp)),
    )


def window_cells(hp: Hparams, ctx: ContextNumbers, *, unified: bool) -> int:
    """Cells of a sliding-window cache: the windows that share it and one pass, or the whole context.

    Source: src/llama-kv-cache-iswa.cpp:68-80 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if ctx.swa_full:
        return ctx.n_ctx_seq
    wanted = hp.n_swa * (ctx.n_seq_max if unified else 1) + ctx.n_ubatch
    return pad(min(ctx.n_ctx_seq, wanted), ctx.cache_padding_tokens)


def _group(hp: Hparams, ctx: ContextNumbers, caches: CacheLayout) -> CacheGroup:
    kind, compressed = caches.kind, hp.arch.memory == "compressed" and not ctx.mtp
    streams = ctx.n_seq_max if compressed else ctx.n_stream
    snapshots = ctx.n_seq_max * (1 + ctx.n_rs_seq)
    if kind in ("recurrent", "ple"):
        return _of_type(caches, max(1, ctx.n_seq_max), 1 + ctx.n_rs_seq, F32, F32)
    if kind in ("csa_state", "indexer_state", "hca_state"):
        return _of_type(caches, HCA_STATE_ROWS if kind == "hca_state" else CSA_STATE_ROWS, snapshots, F32, F32)
    if kind == "swa":
        cells = window_cells(hp, ctx, unified=ctx.kv_unified and not compressed)
    elif kind == "csa" or (kind == "indexer" and compressed):
        cells = pad(compressed_cells(ctx.n_ctx_seq, CSA_RATIO), 256)
    elif kind == "hca":
        cells = pad(compressed_cells(ctx.n_ctx_seq, HCA_RATIO), 256)
    else:
        cells = ctx.n_ctx_seq
    return _of_type(caches, cells, streams, ctx.type_k, ctx.type_v)


def _of_type(caches: CacheLayout, cells: int, n_stream: int, first: TensorType, second: TensorType) -> CacheGroup:
    return CacheGroup(layout=caches, cells=cells, n_stream=n_stream, type_first=first, type_second=second)
