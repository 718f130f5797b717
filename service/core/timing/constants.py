"""The constants of the speed model: what they mean, and their values as the calibration found them."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import date
from functools import lru_cache
from typing import Final

from service.core.timing.fitted import FITTED
from service.core.timing.fitted_ranges import RANGES


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendConstants:
    """How one backend's kernels use a card.

    Reading. bandwidth_fraction: of the advertised bandwidth that the weights come at. multiprocessor_bytes: bytes that
    one multiprocessor asks for in a clock, which caps cards with few of them for their memory; 0 for no cap.
    cache_fraction: of the weights' rate at which a cache comes. attention_fraction: of the FP32 rate that attention
    reaches for one token. unordered_factor, scattered_factor: of weights in blocks that the backend does not reorder,
    and of those among them that lie across words. unfused_factor: by how much attention takes longer without flash
    attention.
    Time that does not depend on bytes. kernel_s, expert_kernel_s: for a matrix, and for a stack of experts. token_s:
    for a token. device_s: for every further card that it passes. old_build_factor: of these in builds before September
    2024. batch_fraction: of the prompt rate that the tokens of further streams reach. vector_fraction: of the FP32
    rate that drafts being verified reach. draft_pass_s: for every pass of a draft, besides its kernels.
    Prompts. prefill_fraction: of two operations per FP32 lane and clock, four where a multiprocessor has 64 lanes.
    matrix_fraction: of the rate of a card's matrix units, where kernels use them; 0 where none does.
    unpacking_fraction: of the weights' rate at which they are written out for a library's product; 0 where kernels take
    them as stored. superblock_factor: of prompts by K- and I-quants in builds that have no kernels for them.
    half_precision_factor: 16-bit weights against quantised ones. expert_rows: with how many rows an expert's matrix
    takes twice its arithmetic. prefill_attention_fraction, prefill_unfused_factor: of attention against that rate.
    prefill_kernel_s: per matrix and ubatch. prompt_s: per prompt. ubatch_device_s: per further card and ubatch.
    pipelined_fraction: part of a prompt that runs overlapped. slow_2023_factor, slow_2024_factor, slow_2025_factor: how
    much longer builds took before March 2024, October 2024 and October 2025.
    Processors. core_weights_per_s: weights that one core multiplies for one token, 0 where reading alone counts.
    codebook_factor, repacked_factor: time of types that are looked up, and of types laid out in rows together.
    Cards together. reduction_s, reduction_card_s: a step of a reduction, and what every card adds. staged_bytes_per_s:
    what all cards together copy through main memory. pair_s: a reduction over two cards by the engine's own kernel.
    expert_slice_s: for a stack of experts that is cut over cards, besides its kernel. row_s: a meeting in a split by
    rows. row_bytes_per_s: at which inputs and results are gathered.
    """

    bandwidth_fraction: float
    multiprocessor_bytes: float
    cache_fraction: float
    attention_fraction: float
    unfused_factor: float
    kernel_s: float
    expert_kernel_s: float
    token_s: float
    device_s: float
    old_build_factor: float
    batch_fraction: float
    vector_fraction: float
    draft_pass_s: float
    prefill_fraction: float
    half_precision_factor: float
    expert_rows: float
    prefill_attention_fraction: float
    prefill_unfused_factor: float
    prefill_kernel_s: float
    prompt_s: float
    ubatch_device_s: float
    pipelined_fraction: float
    slow_2023_factor: float
    slow_2024_factor: float
    slow_2025_factor: float
    reduction_s: float
    reduction_card_s: float
    staged_bytes_per_s: float
    pair_s: float
    expert_slice_s: float
    row_s: float
    row_bytes_per_s: float
    unordered_factor: float = 1.0
    scattered_factor: float = 1.0
    matrix_fraction: float = 0.0
    unpacking_fraction: float = 0.0
    superblock_factor: float = 1.0
    core_weights_per_s: float = 0.0
    codebook_factor: float = 1.0
    repacked_factor: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationConstants:
    """How one generation differs from its backend.

    reading_factor: of bandwidth_fraction. prefill_factor: of prefill_fraction or matrix_fraction. untuned_factor: of
    prompts in builds without kernels made for its matrix units. flops_per_j: operations of a prompt that the card's
    power pays for, which caps cards with little power for their size; 0 for no cap. n_decode, n_prefill: measurements
    of such cards that took part.
    """

    reading_factor: float = 1.0
    prefill_factor: float = 1.0
    untuned_factor: float = 1.0
    flops_per_j: float = 0.0
    n_decode: int = 0
    n_prefill: int = 0


AS_ITS_BACKEND: Final = GenerationConstants()
"""A generation that nothing was measured of."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """Constants of every backend and generation; compared by identity, so that rates can be remembered for it.

    shared_power_fraction: part of a chip's power that its GPU has where it shares it with a processor.
    """

    backends: Mapping[str, BackendConstants]
    generations: Mapping[tuple[str, str], GenerationConstants]
    shared_power_fraction: float

    def generation(self, backend: str, label: str | None) -> GenerationConstants:
        """Constants of a generation under a backend, its backend's own where it has none."""
        return self.generations.get((backend, label or ""), AS_ITS_BACKEND)


@dataclass(frozen=True, slots=True)
class Slowness:
    """Builds before a date, and the constant that says how much slower their prompts were."""

    before: date
    constant: str


OLD_DECODE_BEFORE: Final = date(2024, 9, 1)
OLD_PREFILL: Final = (
    Slowness(date(2024, 3, 1), "slow_2023_factor"),
    Slowness(date(2024, 10, 1), "slow_2024_factor"),
    Slowness(date(2025, 10, 1), "slow_2025_factor"),
)
TUNED_SINCE: Final = {"rocm": date(2025, 12, 1), "vulkan": date(2026, 1, 13), "sycl": date(2026, 6, 2)}
"""Builds whose products are made for matrix units: own kernels instead of rocBLAS and large tiles on cards of AMD, and
16-bit floats by default under SYCL.

Source: llama.cpp pull requests 17156 (RDNA 4) and 17576 (RDNA 3) for ROCm, 18749 for Vulkan, 23996 for SYCL.
"""
SUPERBLOCKS_SINCE: Final = date(2025, 11, 1)
"""K- and I-quants by integer dot products under Vulkan. Source: llama.cpp pull request 16536."""
REORDERED_SINCE: Final = {
    "sycl": {
        "q4_0": date(2025, 2, 24), "q4_K": date(2025, 5, 15), "q6_K": date(2025, 6, 9), "q8_0": date(2026, 4, 14),
        "q5_K": date(2026, 5, 1), "q2_K": date(2026, 7, 1), "q3_K": date(2026, 7, 1),
    },
}  # fmt: skip
"""Types of weights whose blocks a backend lays out anew, so that neighbouring lanes read neighbouring words.

Source: llama.cpp pull requests 12035, 13109, 13885, 21527 (opened on 6 April 2026, measured on the 21st), 22152,
25063 and 25064; days of the merges to a week or two.
"""

BACKEND_FIELDS: Final = tuple(field.name for field in fields(BackendConstants))
REQUIRED_FIELDS: Final = tuple(field.name for field in fields(BackendConstants) if field.default is MISSING)
GENERATION_FIELDS: Final = ("reading_factor", "prefill_factor", "untuned_factor", "flops_per_j")
TAKEN_AS: Final = {"rpc": "cuda"}
"""Backends nothing was measured of, as which they are taken: a card behind a network may be any."""
SHARED_POWER: Final = "shared_power_fraction"


def calibration_of(values: Mapping[str, float], counts: Mapping[str, int] | None = None) -> Calibration:
    """Constants from their values by name: "cuda.kernel_s", "cuda/Ampere.reading_factor".

    counts: how many measurements took part, by the same names.
    Raises KeyError where a backend lacks a constant that every one has.
    """
    counts = counts or {}
    owners = {name.rpartition(".")[0]: None for name in values if name != SHARED_POWER}
    backends, generations = {}, {}
    for owner in owners:
        backend, _, label = owner.partition("/")
        if not label:
            known = {field: values[f"{owner}.{field}"] for field in REQUIRED_FIELDS}
            known |= {field: values[name] for field in BACKEND_FIELDS if (name := f"{owner}.{field}") in values}
            backends[backend] = BackendConstants(**known)
            continue
        found = {field: values[name] for field in GENERATION_FIELDS if (name := f"{owner}.{field}") in values}
        generations[backend, label] = GenerationConstants(
            **found,
            n_decode=counts.get(f"{owner}.reading_factor", 0),
            n_prefill=counts.get(f"{owner}.prefill_factor", 0),
        )
    backends |= {other: backends[known] for other, known in TAKEN_AS.items()}
    return Calibration(backends=backends, generations=generations, shared_power_fraction=values[SHARED_POWER])


@lru_cache(maxsize=1)
def _committed() -> Calibration:
    return calibration_of(
        {name: constant.value for name, constant in FITTED.items()},
        {name: constant.n for name, constant in FITTED.items()},
    )


CALIBRATION: Final = _committed()
"""The constants that plans use."""

__all__ = ["CALIBRATION", "FITTED", "RANGES", "BackendConstants", "Calibration", "GenerationConstants"]
