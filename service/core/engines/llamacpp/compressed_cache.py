"""The compressed cache of DeepSeek-V4: a short raw cache, two compressed ones, an indexer's and their states."""

from typing import Final

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.cache_layout import (
    CacheKind,
    CacheLayout,
    RowShape,
    layout,
    select,
    windowed_layouts,
)

CSA_RATIO: Final = 4
"""Tokens per entry of the finely compressed cache (compressed sparse attention)."""

HCA_RATIO: Final = 128
"""Tokens per entry of the heavily compressed cache."""

CSA_STATE_ROWS: Final = 2 * CSA_RATIO
HCA_STATE_ROWS: Final = HCA_RATIO


def compressed_layouts(hp: Hparams) -> tuple[CacheLayout, ...]:
    """Raw keys of every layer, compressed keys by the layer's ratio, and compressor states of the trunk.

    Source: llama_kv_cache_dsv4, src/llama-kv-cache-dsv4.cpp:1210-1336, and llama_dsv4_comp_state, 893-1000
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    n = hp.n_layer_all
    keys = RowShape(k=tuple(hp.n_embd_k_gqa(il) for il in range(n)), v=(0,) * n)
    indexer = RowShape(k=(hp.indexer_head_size,) * n, v=(0,) * n)
    ratios = hp.dsv4_compress_ratios
    return (
        *windowed_layouts(hp, keys, lambda _: True),
        select(keys, "csa", lambda il: ratios[il] == CSA_RATIO),
        select(keys, "hca", lambda il: ratios[il] == HCA_RATIO),
        select(indexer, "indexer", lambda il: ratios[il] == CSA_RATIO),
        _states(hp, "csa_state", CSA_RATIO, 2 * hp.n_embd_head_k()),
        _states(hp, "hca_state", HCA_RATIO, hp.n_embd_head_k()),
        _states(hp, "indexer_state", CSA_RATIO, 2 * hp.indexer_head_size),
    )


def _states(hp: Hparams, kind: CacheKind, ratio: int, elements: int) -> CacheLayout:
    rows = tuple(
        elements if il < hp.n_layer and hp.dsv4_compress_ratios[il] == ratio else 0 for il in range(hp.n_layer_all)
    )
    return layout(kind, rows, rows)


def compressed_cells(cells: int, ratio: int) -> int:
    """Entries of a compressed cache for `cells` tokens, before padding.

    Source: dsv4_comp_size, src/llama-kv-cache-dsv4.cpp:28-30 (llama.cpp in llama-cpp-python 0.3.36).
    """
    return max(1, -(-cells // ratio))
