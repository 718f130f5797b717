"""Which generation a card belongs to."""

from dataclasses import replace

import pytest

from service.core.timing.constants import CALIBRATION
from service.core.timing.generations import (
    CUDA_GENERATIONS,
    TENSOR_CORES,
    CudaGeneration,
    generation_label,
    lane_flops,
    multiprocessor_clocks_per_s,
)
from tests.core.timing.machines import AMPERE


@pytest.mark.parametrize("generation", CUDA_GENERATIONS, ids=lambda generation: generation.label)
def test_every_generation_is_found_by_its_compute_capability(generation: CudaGeneration) -> None:
    """Each capability leads to its generation, which has constants."""
    for capability in generation.compute_capabilities:
        assert generation_label(replace(AMPERE, compute_capability=capability)) == generation.label
    assert ("cuda", generation.label) in CALIBRATION.generations


def test_other_backends_go_by_the_architecture() -> None:
    """Under Vulkan all NVIDIA cards with tensor cores have the same matrices; others are as their maker says."""
    assert generation_label(replace(AMPERE, backend="vulkan")) == TENSOR_CORES
    pascal = replace(AMPERE, backend="vulkan", generation="Pascal", compute_capability=(6, 1))
    assert generation_label(pascal) == "Pascal"
    assert generation_label(replace(AMPERE, compute_capability=None)) is None


def test_lanes_that_issue_twice_count_once() -> None:
    """RDNA 3's advertised rate counts two instructions a clock; products of matrices issue one."""
    radeon = replace(AMPERE, backend="rocm", compute_capability=None, fp32_flops=60e12)
    assert lane_flops(replace(radeon, generation="RDNA 3.0")) == 30e12
    assert lane_flops(replace(radeon, generation="RDNA 2.0")) == 60e12
    assert lane_flops(replace(radeon, fp32_flops=None)) is None


def test_multiprocessors_and_clock_come_from_the_fp32_rate() -> None:
    """An RTX 3090 has 82 multiprocessors at 1.695 GHz."""
    assert multiprocessor_clocks_per_s(AMPERE) == pytest.approx(82 * 1.695e9, rel=1e-3)
