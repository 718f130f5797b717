"""Generations of cards: which card belongs to which, and what of its architecture speed depends on."""

from dataclasses import dataclass
from typing import Final

from service.core.types import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaGeneration:
    """Cards that behave alike; lanes: FP32 lanes of a multiprocessor, each good for two operations a clock."""

    label: str
    compute_capabilities: tuple[tuple[int, int], ...]
    lanes: int


CUDA_GENERATIONS: Final = (
    CudaGeneration(label="Pascal", compute_capabilities=((6, 1), (6, 2)), lanes=128),
    CudaGeneration(label="P100", compute_capabilities=((6, 0),), lanes=64),
    CudaGeneration(label="Turing", compute_capabilities=((7, 0), (7, 2), (7, 5)), lanes=64),
    CudaGeneration(label="A100", compute_capabilities=((8, 0),), lanes=64),
    CudaGeneration(label="Ampere", compute_capabilities=((8, 6), (8, 7)), lanes=128),
    CudaGeneration(label="Ada", compute_capabilities=((8, 9),), lanes=128),
    CudaGeneration(label="Hopper", compute_capabilities=((9, 0),), lanes=128),
    CudaGeneration(
        label="Blackwell", compute_capabilities=((10, 0), (10, 3), (11, 0), (12, 0), (12, 1)), lanes=128
    ),
)  # fmt: skip
"""Volta and Turing share a multiprocessor's layout and have a row together; so have all Blackwells.

Source: arithmetic throughput per compute capability, CUDA C++ programming guide.
"""

_BY_CAPABILITY: Final = {
    capability: generation for generation in CUDA_GENERATIONS for capability in generation.compute_capabilities
}
_COMMON_LANES: Final = 128


TENSOR_CORES: Final = "NVIDIA with tensor cores"
_TENSOR_CORES_SINCE: Final = (7, 0)
# Generations whose advertised FP32 rate counts two instructions a clock and lane, which products of matrices do not
# issue. Source: VOPD, "RDNA3" instruction set architecture reference guide, AMD (2023).
_DUAL_ISSUE: Final = frozenset({"RDNA 3.0", "RDNA 3.5", "RDNA 4.0"})


def generation_label(gpu: Gpu) -> str | None:
    """Generation under which a card's constants are kept; None where it is not known.

    NVIDIA's compute capability tells it under CUDA. Vulkan has the same matrix extension for all
    NVIDIA cards with tensor cores (VK_NV_cooperative_matrix2). Elsewhere it is the name of the architecture.
    """
    if gpu.compute_capability is not None and gpu.backend in ("cuda", "rpc"):
        found = _BY_CAPABILITY.get(gpu.compute_capability)
        return found.label if found else None
    if gpu.compute_capability is not None and gpu.compute_capability >= _TENSOR_CORES_SINCE:
        return TENSOR_CORES
    return gpu.generation if gpu.backend not in ("cuda", "rpc") else None


def lanes_per_multiprocessor(gpu: Gpu) -> int:
    """FP32 lanes of one multiprocessor, as most cards have them where the generation is not known."""
    found = _BY_CAPABILITY.get(gpu.compute_capability) if gpu.compute_capability else None
    return found.lanes if found else _COMMON_LANES


def multiprocessor_clocks_per_s(gpu: Gpu) -> float | None:
    """Number of multiprocessors * clock, from the FP32 rate: two operations per lane and clock."""
    return None if gpu.fp32_flops is None else gpu.fp32_flops / (2 * lanes_per_multiprocessor(gpu))


def lane_flops(gpu: Gpu) -> float | None:
    """FP32 rate of one instruction a clock and lane, which is what products of matrices issue."""
    if gpu.fp32_flops is None:
        return None
    return gpu.fp32_flops / (2 if gpu.generation in _DUAL_ISSUE else 1)
