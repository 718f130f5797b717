"""Which generation a card belongs to."""

from dataclasses import replace

import pytest

from service.core.timing.constants import CALIBRATION
from service.core.timing.generations import (
    CUDA_GENERATIONS,
    CudaGeneration,
    generation_label,
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
    """Under Vulkan an NVIDIA card is what its maker calls it."""
    assert generation_label(replace(AMPERE, backend="vulkan")) == "Ampere"
    assert generation_label(replace(AMPERE, compute_capability=None)) is None


def test_multiprocessors_and_clock_come_from_the_fp32_rate() -> None:
    """An RTX 3090 has 82 multiprocessors at 1.695 GHz."""
    assert multiprocessor_clocks_per_s(AMPERE) == pytest.approx(82 * 1.695e9, rel=1e-3)
