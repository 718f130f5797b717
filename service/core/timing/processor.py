"""Rates that a card or the host reaches, from its figures and its generation's constants."""

from dataclasses import dataclass
from functools import lru_cache

from service.core.links import pcie_bytes_per_s
from service.core.power_limits import LimitedSpeed, limited_speed
from service.core.speed import Assumptions, Basis
from service.core.timing.assumed import (
    ASSUMED_HOST_FP32_FLOPS,
    ASSUMED_PCIE,
    ASSUMED_RAM_BANDWIDTH_BYTES_PER_S,
    LINK_FRACTION,
    TENSOR_RATE_FRACTION,
)
from service.core.timing.constants import BackendConstants, Calibration, GenerationConstants
from service.core.timing.generations import generation_label, lane_flops, multiprocessor_clocks_per_s
from service.core.types import Gpu, Host, Rig

# How sharply the lower of two limits wins: cards between them lose little. Source: best of 1.5 to 10 on CUDA decode.
_MEMORY_SHARPNESS = 6.0
_POWER_SHARPNESS = 6.0
_TENSOR_CORE_FLOPS_PER_CLOCK = 512
# measurements of a generation from which on its constants are its own
_MEASURED_WELL = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """What one device reaches; None where a figure that it takes is not known.

    reading_bytes_per_s: weights in decode. caching_bytes_per_s: a cache. attention_flops_per_s: attention of one token.
    vector_flops_per_s: matrices with the few tokens that a step verifies, one after the other. prompt_flops_per_s:
    matrices of a prompt, as [quantised, 16-bit]. untuned_factor: of these in builds without kernels made for the card's
    matrix units. prompt_attention_flops_per_s: its attention.
    link_bytes_per_s: weights copied to it.
    """

    name: str
    backend: str
    constants: BackendConstants
    reading_bytes_per_s: float | None
    caching_bytes_per_s: float | None
    attention_flops_per_s: float | None
    vector_flops_per_s: float | None = None
    prompt_flops_per_s: tuple[float, float] | None
    prompt_attention_flops_per_s: float | None
    untuned_factor: float = 1.0
    link_bytes_per_s: float = 0.0
    limited: LimitedSpeed
    basis: Basis


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Processors:
    """Those of a rig, in its order, and its host's; compared by identity, so that rules can be memoised per rig."""

    cards: tuple[Processor, ...]
    host: Processor


@lru_cache(maxsize=1024)
def processors(rig: Rig, assumptions: Assumptions, calibration: Calibration) -> Processors:
    """Rates of a rig, remembered."""
    return Processors(
        cards=tuple(card_processor(gpu, assumptions, calibration) for gpu in rig.gpus),
        host=host_processor(rig.host, rig.gpus, calibration),
    )


def card_processor(gpu: Gpu, assumptions: Assumptions, calibration: Calibration) -> Processor:
    """Rates of a card by its generation, else by its backend."""
    backend = calibration.backends[gpu.backend]
    label = generation_label(gpu)
    generation = calibration.generation(gpu.backend, label)
    reading = reading_bytes_per_s(gpu, backend, generation, assumptions)
    prompt = prompt_rates(gpu, backend, generation, calibration.shared_power_fraction)
    return Processor(
        name=gpu.slug,
        backend=gpu.backend,
        constants=backend,
        reading_bytes_per_s=reading,
        caching_bytes_per_s=None if reading is None else reading * backend.cache_fraction,
        attention_flops_per_s=None if gpu.fp32_flops is None else gpu.fp32_flops * backend.attention_fraction,
        vector_flops_per_s=None if gpu.fp32_flops is None else gpu.fp32_flops * backend.vector_fraction,
        prompt_flops_per_s=prompt,
        untuned_factor=generation.untuned_factor,
        prompt_attention_flops_per_s=_prompt_attention(gpu, backend, generation, prompt),
        link_bytes_per_s=LINK_FRACTION
        * pcie_bytes_per_s(gpu.pcie_gen or ASSUMED_PCIE[0], gpu.pcie_lanes or ASSUMED_PCIE[1]),
        limited=limited_speed(gpu.power_limit_w, gpu.tdp_w),
        basis=_basis(gpu, label, generation, assumptions),
    )


def host_processor(host: Host, gpus: tuple[Gpu, ...], calibration: Calibration) -> Processor:
    """Rates of the host: the bandwidth stated, else that of memory it shares with a GPU, else what is assumed."""
    shared = [gpu.bandwidth_bytes_per_s for gpu in gpus if gpu.unified_memory and gpu.bandwidth_bytes_per_s]
    stated = host.ram_bandwidth_bytes_per_s or max(shared, default=None)
    constants = calibration.backends["cpu"]
    reading = (stated or ASSUMED_RAM_BANDWIDTH_BYTES_PER_S) * constants.bandwidth_fraction
    prompt = 2 * ASSUMED_HOST_FP32_FLOPS * constants.prefill_fraction
    return Processor(
        name="host",
        backend="cpu",
        constants=constants,
        reading_bytes_per_s=reading,
        caching_bytes_per_s=reading * constants.cache_fraction,
        attention_flops_per_s=ASSUMED_HOST_FP32_FLOPS * constants.attention_fraction,
        vector_flops_per_s=ASSUMED_HOST_FP32_FLOPS * constants.vector_fraction,
        prompt_flops_per_s=(prompt, prompt * constants.half_precision_factor),
        prompt_attention_flops_per_s=prompt * constants.prefill_attention_fraction,
        limited=limited_speed(None, None),
        basis="assumed" if stated is None else "modelled",
    )


def reading_bytes_per_s(
    gpu: Gpu, backend: BackendConstants, generation: GenerationConstants, assumptions: Assumptions
) -> float | None:
    """Rate at which decode reads weights: the memory's, or what the multiprocessors can ask for.

    A multiprocessor has a limited number of reads under way, so a card with few of them for its memory (A100, H100)
    reaches less of its bandwidth. Source: Little's law; speed study: 0.53 on A100, 0.62 on H100, 0.93 on Ada.
    """
    if not gpu.bandwidth_bytes_per_s:
        return None
    if assumptions.bandwidth_fraction is not None:
        return gpu.bandwidth_bytes_per_s * assumptions.bandwidth_fraction
    memory = gpu.bandwidth_bytes_per_s * backend.bandwidth_fraction * generation.reading_factor
    clocks = multiprocessor_clocks_per_s(gpu)
    if clocks is None or not backend.multiprocessor_bytes:
        return memory
    return lower_of(memory, clocks * backend.multiprocessor_bytes, _MEMORY_SHARPNESS)


def prompt_rates(
    gpu: Gpu, backend: BackendConstants, generation: GenerationConstants, shared_power_fraction: float
) -> tuple[float, float] | None:
    """Rate of a prompt's matrices, quantised and 16-bit: multiprocessors * clock, or what the card's power pays for.

    Not the marketed tensor rate, which differs more between cards of one generation than their speed does.
    Source: speed study; a card with little power for its size (L40, RTX 6000 Ada) is slower than its clock says.
    """
    clocks, lanes = multiprocessor_clocks_per_s(gpu), lane_flops(gpu)
    if clocks is not None and gpu.backend in ("cuda", "rpc"):
        rate = clocks * _TENSOR_CORE_FLOPS_PER_CLOCK * backend.prefill_fraction * generation.prefill_factor
    elif gpu.fp16_tensor_flops is not None and backend.matrix_fraction:
        rate = gpu.fp16_tensor_flops * backend.matrix_fraction * generation.prefill_factor
    elif lanes is not None:
        rate = 2 * lanes * backend.prefill_fraction * generation.prefill_factor
    elif gpu.fp16_tensor_flops is not None:
        rate = gpu.fp16_tensor_flops * TENSOR_RATE_FRACTION
        return rate, rate
    else:
        return None
    half = rate * backend.half_precision_factor
    if not generation.flops_per_j or not gpu.tdp_w:
        return rate, half
    paid = generation.flops_per_j * gpu.tdp_w * (shared_power_fraction if gpu.unified_memory else 1.0)
    return lower_of(rate, paid, _POWER_SHARPNESS), lower_of(half, paid, _POWER_SHARPNESS)


def lower_of(one: float, other: float, sharpness: float) -> float:
    """The lower of two limits, rounded off where they are close."""
    return float((one**-sharpness + other**-sharpness) ** (-1 / sharpness))


def _prompt_attention(
    gpu: Gpu, backend: BackendConstants, generation: GenerationConstants, prompt: tuple[float, float] | None
) -> float | None:
    """Rate of a prompt's attention, which power hardly caps: it waits for memory in between."""
    if prompt is None:
        return None
    uncapped = prompt_rates(gpu, backend, GenerationConstants(prefill_factor=generation.prefill_factor), 1.0)
    return None if uncapped is None else uncapped[0] * backend.prefill_attention_fraction


def _basis(gpu: Gpu, label: str | None, generation: GenerationConstants, assumptions: Assumptions) -> Basis:
    """How well a card is known: its generation measured, its constants carried over, or neither."""
    if assumptions.bandwidth_fraction is not None or assumptions.fixed_s_per_device is not None:
        return "modelled"
    if label is None or gpu.backend == "rpc":
        return "assumed"
    return "fitted" if generation.n_decode >= _MEASURED_WELL else "modelled"
