"""What is fitted to what, in order: decode, prompts, many streams, drafts, and cards that share every layer."""

from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.calibration.fit import Stage
from benchmarks.calibration.priors import Prior

_DECODE: Final = (
    "bandwidth_fraction", "multiprocessor_bytes", "cache_fraction", "attention_fraction", "unordered_factor",
    "scattered_factor", "unfused_factor", "kernel_s", "expert_kernel_s", "token_s", "device_s", "old_build_factor",
    "core_weights_per_s",
)  # fmt: skip
_PREFILL: Final = (
    "prefill_fraction", "matrix_fraction", "unpacking_fraction", "superblock_factor", "half_precision_factor",
    "expert_rows", "prefill_attention_fraction", "prefill_unfused_factor", "prefill_kernel_s", "prompt_s",
    "ubatch_device_s", "pipelined_fraction", "slow_2023_factor", "slow_2024_factor", "slow_2025_factor",
    "codebook_factor", "repacked_factor",
)  # fmt: skip
# errors beyond this count less and less: twice the scatter of one source's repeats over builds (speed study)
_DECODE_SCATTER: Final = {"cuda": 0.05, "metal": 0.06, "rocm": 0.06, "vulkan": 0.06, "sycl": 0.1, "cpu": 0.2}
_PREFILL_SCATTER: Final = {"cuda": 0.12, "metal": 0.12, "rocm": 0.2, "vulkan": 0.2, "sycl": 0.25, "cpu": 0.3}
_SERIAL: Final = ("one", "layer", "cpu")
_ONE_RATE: Final = ("decode_tokens_per_s",)


def stages(priors: dict[str, Prior]) -> Sequence[Stage]:
    """All stages; constants of a backend's generations go with its own."""
    return [stage for backend in _DECODE_SCATTER for stage in _of(backend, priors)]


def _of(backend: str, priors: dict[str, Prior]) -> Iterator[Stage]:
    def named(*names: str) -> tuple[str, ...]:
        return tuple(owned for name in names if (owned := f"{backend}.{name}") in priors)

    def of_generations(*names: str) -> tuple[str, ...]:
        return tuple(name for name in priors if name.startswith(f"{backend}/") and name.rpartition(".")[2] in names)

    decode, prefill = _DECODE_SCATTER[backend], _PREFILL_SCATTER[backend]
    shared = ("shared_power_fraction",) if backend == "cuda" else ()
    yield Stage(
        name="decode", backend=backend, splits=_SERIAL, metrics=_ONE_RATE, scatter=decode,
        constants=named(*_DECODE) + of_generations("reading_factor"),
    )  # fmt: skip
    yield Stage(
        name="prefill", backend=backend, splits=_SERIAL, metrics=("prefill_tokens_per_s",), scatter=prefill,
        constants=named(*_PREFILL) + of_generations("prefill_factor", "untuned_factor", "flops_per_j") + shared,
    )  # fmt: skip
    yield Stage(
        name="streams", backend=backend, splits=_SERIAL, metrics=("aggregate_decode_tokens_per_s",), scatter=0.1,
        constants=named("batch_fraction"),
    )  # fmt: skip
    yield Stage(
        name="speculation", backend=backend, splits=(*_SERIAL, "tensor"), metrics=("speculation_gain",), scatter=0.1,
        constants=named("vector_fraction", "draft_pass_s"),
    )  # fmt: skip
    yield Stage(
        name="row decode", backend=backend, splits=("row",), metrics=_ONE_RATE, scatter=0.1,
        constants=named("row_s"),
    )  # fmt: skip
    yield Stage(
        name="row prefill", backend=backend, splits=("row",), metrics=("prefill_tokens_per_s",), scatter=0.5,
        constants=named("row_bytes_per_s"),
    )  # fmt: skip
    yield Stage(
        name="tensor decode", backend=backend, splits=("tensor",), metrics=_ONE_RATE, scatter=0.1,
        constants=named("reduction_s", "reduction_card_s", "pair_s", "expert_slice_s"),
    )  # fmt: skip
    yield Stage(
        name="tensor prefill", backend=backend, splits=("tensor",), metrics=("prefill_tokens_per_s",), scatter=0.3,
        constants=named("staged_bytes_per_s"),
    )  # fmt: skip
