"""Widths of the cache tensors of a model, layer by layer, before anything is known of the context."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Literal

from service.core.architectures.hparams import Hparams

CacheKind = Literal[
    "base", "swa", "indexer", "recurrent", "ple", "csa", "hca", "csa_state", "hca_state", "indexer_state"
]
LayerFilter = Callable[[int], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class WidthClass:
    """Layers whose tensor has the same row: `row_elements` each; `before[il]` of them lie before layer il."""

    row_elements: int
    before: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLayout:
    """One cache of a model: row widths of its two tensors per layer, 0 where the layer has none.

    first, second: K and V; for recurrent state the rolling state and the state proper; for compressor states their
    values and scores.
    """

    kind: CacheKind
    first: tuple[int, ...]
    second: tuple[int, ...]
    first_classes: tuple[WidthClass, ...]
    second_classes: tuple[WidthClass, ...]


def layout(kind: CacheKind, first: Iterable[int], second: Iterable[int]) -> CacheLayout:
    """A layout with its width classes."""
    first, second = tuple(first), tuple(second)
    return CacheLayout(
        kind=kind,
        first=first,
        second=second,
        first_classes=_width_classes(first),
        second_classes=_width_classes(second),
    )


def _width_classes(widths: tuple[int, ...]) -> tuple[WidthClass, ...]:
    return tuple(
        WidthClass(row_elements=width, before=(0, *accumulate(int(other == width) for other in widths)))
        for width in sorted(set(widths) - {0})
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShape:
    """Row widths of an attention cache: K and V elements per token of each layer."""

    k: tuple[int, ...]
    v: tuple[int, ...]


def attention_rows(hp: Hparams, *, v_padded: bool) -> RowShape:
    """K and V per token of every layer; a latent cache has no V; a transposed V is as wide as the widest layer's.

    Source: llama_kv_cache, src/llama-kv-cache.cpp:136-260 (llama.cpp in llama-cpp-python 0.3.36).
    """
    layers = range(hp.n_layer_all)
    if hp.is_mla:
        v = (0,) * hp.n_layer_all
    elif v_padded:
        v = (hp.n_embd_v_gqa_max,) * hp.n_layer_all
    else:
        v = tuple(hp.n_embd_v_gqa(il) for il in layers)
    return RowShape(k=tuple(hp.n_embd_k_gqa(il) for il in layers), v=v)


def indexer_rows(hp: Hparams, *, v_padded: bool) -> RowShape:
    """Rows of the indexer's cache: one key head, `indexer_head_size` wide on full-attention layers; V as the model's.

    Source: src/llama-kv-cache-dsa.cpp:40-52, llama-kv-cache-msa.cpp:38-50, llama-memory-hybrid-idx.cpp:53-73
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    layers = range(hp.n_layer_all)
    wide = hp.indexer_head_size * (3 if hp.indexer_kpool > 0 else 1)
    k = tuple(hp.n_embd_head_k_swa if hp.is_swa[il] else wide for il in layers)
    if hp.is_mla or hp.arch.memory == "hybrid_indexed":
        v = (0,) * hp.n_layer_all
    else:
        v = tuple(hp.n_embd_head_v(il) for il in layers)
    if v_padded:
        v = (max(v),) * hp.n_layer_all
    return RowShape(k=k, v=v)


def select(rows: RowShape, kind: CacheKind, keep: LayerFilter) -> CacheLayout:
    """The layout of the layers that `keep` names."""
    return layout(
        kind,
        (width if keep(il) else 0 for il, width in enumerate(rows.k)),
        (width if keep(il) else 0 for il, width in enumerate(rows.v)),
    )


def windowed_layouts(hp: Hparams, rows: RowShape, keep: LayerFilter) -> tuple[CacheLayout, ...]:
    """One cache for full-attention layers and, where the model has a window, a second one for windowed layers.

    Source: llama_kv_cache_iswa, src/llama-kv-cache-iswa.cpp:52-103 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if hp.swa_type == "none":
        return (select(rows, "base", lambda il: hp.has_kv(il) and keep(il)),)
    return (
        select(rows, "base", lambda il: hp.has_kv(il) and keep(il) and not hp.is_swa[il]),
        select(rows, "swa", lambda il: hp.has_kv(il) and keep(il) and hp.is_swa[il]),
    )


@lru_cache(maxsize=1024)
def trunk_only(hp: Hparams, *, mtp: bool) -> LayerFilter:
    """The layers a context attends to: the trunk's, or the draft layers in an MTP context; all where there is no draft.

    Source: src/llama-model.cpp:2797-2806 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if hp.n_layer_nextn == 0 or hp.n_layer == 0 or hp.router_layer >= 0:
        return lambda _: True
    return (lambda il: il >= hp.n_layer) if mtp else (lambda il: il < hp.n_layer)
