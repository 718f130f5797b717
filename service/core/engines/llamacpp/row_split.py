"""Split mode row: matrices cut by rows over the cards, everything else by layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from service.core.engines.llamacpp.buckets import LoadedTensor
from service.core.engines.llamacpp.buffer_types import buffer_rules
from service.core.engines.llamacpp.op_support import supports_weight
from service.core.engines.llamacpp.slots import CPU, SlotMap, float32
from service.core.engines.llamacpp.weights import (
    PlacedWeights,
    WeightLayout,
    Weights,
    place_weights,
    weights_of,
)
from service.core.types import Backend, Gpu

_ROWS_SINCE_VOLTA: Final = 128
_ROWS_BEFORE: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCard:
    """What row split asks of a card: its backend, whether its kernels take 128 rows at once, and its size."""

    backend: Backend
    rounding_rows: int
    total_bytes: int


def row_card(gpu: Gpu) -> RowCard:
    """Row split's view of a card; a card of unknown generation counts as a recent one.

    Source: get_mmq_y_host, ggml/src/ggml-cuda/mmq.cuh (128 rows since Volta and on AMD but RDNA1, else 64); SYCL has
    the same rule by its own generations, ggml-sycl.cpp:1136-1183.
    """
    old = gpu.compute_capability is not None and gpu.compute_capability < (7, 0)
    return RowCard(
        backend=gpu.backend,
        rounding_rows=_ROWS_BEFORE if old else _ROWS_SINCE_VOLTA,
        total_bytes=gpu.total_bytes,
    )


def row_cuts(n_rows: int, cards: Sequence[RowCard], shares: Sequence[float]) -> tuple[int, ...]:
    """Rows of a matrix on every card: float32 fractions of the shares, or of the cards' sizes, rounded down.

    Source: get_row_split and the default tensor split of CUDA before July 2026, and of SYCL,
    ggml/src/ggml-sycl/ggml-sycl.cpp:1185-1198 (llama.cpp in llama-cpp-python 0.3.36).
    """
    weights = shares if any(shares) else [card.total_bytes for card in cards]
    total, begins = 0.0, []
    for weight in weights:
        begins.append(total)
        total = float32(total + float32(weight))
    fractions = [float32(begin / total) for begin in begins]
    ends = [*fractions[1:], 1.0]
    rounding = max(
        (card.rounding_rows for card, begin, end in zip(cards, fractions, ends, strict=True) if begin < end), default=1
    )
    cuts = [int(float32(float32(n_rows) * fraction)) // rounding * rounding for fraction in fractions]
    return tuple(end - begin for begin, end in zip([0, *cuts[1:]], [*cuts[1:], n_rows], strict=True))


def _is_cut(loaded: LoadedTensor, cuts: Sequence[int], device: int) -> bool:
    """Whether a matrix is cut: a plain matrix of which its own card keeps some rows."""
    return loaded.op == "mul_mat" and all(size == 1 for size in loaded.tensor.shape[2:]) and cuts[device] > 0


def _n_rows(loaded: LoadedTensor) -> int:
    return loaded.tensor.shape[1] if len(loaded.tensor.shape) > 1 else 1


@lru_cache(maxsize=256)
def split_rows(
    layout: WeightLayout, slots: SlotMap, cards: tuple[RowCard, ...], shares: tuple[float, ...]
) -> PlacedWeights:
    """Weights of every card and of the host in split mode row; memoised.

    Cards whose backend cannot cut rows hold their layers whole. Embeddings that are tied to the output stay whole.
    Source: the split buffers of ggml-cuda.cu before July 2026, and ggml/src/ggml-sycl/ggml-sycl.cpp:1465-1500
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    backends = tuple(card.backend for card in cards)
    placed = place_weights(layout, slots, backends)
    devices = list(placed.devices)
    for run in slots.runs:
        if run.device == CPU or not buffer_rules(backends[run.device]).split_rows_once:
            continue
        for loaded in (loaded for tensors in layout.by_slot[run.first : run.end] for loaded in tensors):
            cuts = row_cuts(_n_rows(loaded), cards, shares)
            if not supports_weight(backends[run.device], loaded.op, loaded.tensor, layout.hp):
                continue
            if not _is_cut(loaded, cuts, run.device):
                continue
            devices[run.device] -= weights_of((loaded,), backends[run.device])
            for device, rows in enumerate(cuts):
                if rows:
                    devices[device] += _rows_bytes(loaded, rows, backends[device])
    return PlacedWeights(devices=tuple(devices), host=placed.host)


def _rows_bytes(loaded: LoadedTensor, rows: int, backend: Backend) -> Weights:
    tensor = loaded.tensor
    size_bytes = tensor.type.row_bytes(tensor.shape[0]) * rows
    return Weights(weights_bytes=buffer_rules(backend).allocated_bytes(tensor.type, tensor.shape[0], size_bytes))
