"""Rates of a card from its figures and its generation."""

from dataclasses import replace

import pytest

from service.core.speed import Assumptions
from service.core.timing.assumed import TENSOR_RATE_FRACTION
from service.core.timing.constants import CALIBRATION
from service.core.timing.processor import Processor, card_processor, host_processor, lower_of
from service.core.types import Gpu, Host
from tests.core.timing.machines import AMPERE, PLAIN


def processor(gpu: Gpu, assumptions: Assumptions = PLAIN) -> Processor:
    """Rates of one card with the committed constants."""
    return card_processor(gpu, assumptions, CALIBRATION)


def reading(gpu: Gpu) -> float:
    """Rate at which a card reads."""
    return processor(gpu).reading_bytes_per_s or 0.0


def prompts(gpu: Gpu) -> float:
    """Rate of a card's quantised prompts."""
    return (processor(gpu).prompt_flops_per_s or (0.0, 0.0))[0]


def test_an_assumed_share_is_taken_as_it_is() -> None:
    """79 % of the bandwidth means just that, whatever the multiprocessors could ask for."""
    assumed = processor(AMPERE, Assumptions(bandwidth_fraction=0.79))
    assert assumed.reading_bytes_per_s == pytest.approx(0.79 * 936.2e9)


def test_few_multiprocessors_cannot_use_all_of_a_fast_memory() -> None:
    """Ten times the bandwidth on the same chip gives much less than ten times the speed."""
    assert reading(replace(AMPERE, bandwidth_bytes_per_s=9362e9)) < 1.5 * reading(AMPERE)
    assert reading(AMPERE) > 0.8 * 936.2e9


def test_more_multiprocessors_never_read_less() -> None:
    """The limit of the multiprocessors only ever lifts."""
    rates = [reading(replace(AMPERE, fp32_flops=factor * 35.58e12)) for factor in (0.5, 1, 2, 4)]
    assert rates == sorted(rates)


def test_the_lower_of_two_limits_counts() -> None:
    """Far apart the lower one holds, at the same height a little less."""
    assert lower_of(1.0, 100.0, 6) == pytest.approx(1.0)
    assert 0.8 < lower_of(1.0, 1.0, 6) < 1.0


def test_prefill_rate_comes_from_shaders_then_from_tensor_cores() -> None:
    """Without an FP32 rate the tensor rate is used, without both there is none."""
    tensor_only = replace(AMPERE, fp32_flops=None, fp16_tensor_flops=71e12)
    assert prompts(tensor_only) == pytest.approx(TENSOR_RATE_FRACTION * 71e12)
    assert processor(replace(AMPERE, fp32_flops=None)).prompt_flops_per_s is None


def test_little_power_caps_prompts() -> None:
    """A card with a third of the power for the same chip computes prompts more slowly, and reads as fast."""
    starved = replace(AMPERE, tdp_w=120)
    assert prompts(starved) < 0.6 * prompts(AMPERE)
    assert reading(starved) == reading(AMPERE)


def test_a_chip_that_shares_its_power_has_less_for_its_gpu() -> None:
    """Where processor and GPU share the power, prompts get a part of it."""
    assert prompts(replace(AMPERE, tdp_w=140, unified_memory=True)) < prompts(replace(AMPERE, tdp_w=140))


def test_sixty_four_lanes_count_twice() -> None:
    """At the same FP32 rate a chip with half the lanes has twice the multiprocessors."""
    turing = replace(AMPERE, compute_capability=(7, 5), tdp_w=None)
    factor = CALIBRATION.generations["cuda", "Turing"].prefill_factor
    other = CALIBRATION.generations["cuda", "Ampere"].prefill_factor
    assert prompts(turing) / prompts(replace(AMPERE, tdp_w=None)) == pytest.approx(2 * factor / other)


def test_an_unknown_generation_is_as_its_backend() -> None:
    """A new architecture reads at the share of its backend, and is not called fitted."""
    new = replace(AMPERE, backend="rocm", compute_capability=None, generation="RDNA 9", fp32_flops=None)
    assert reading(new) == pytest.approx(936.2e9 * CALIBRATION.backends["rocm"].bandwidth_fraction)
    assert processor(new).basis == "modelled"


def test_a_host_shares_the_memory_of_an_integrated_gpu() -> None:
    """Where GPU and host have the same memory, the host reads it as fast."""
    shared = replace(AMPERE, unified_memory=True)
    stated = host_processor(Host(ram_bandwidth_bytes_per_s=936.2e9), (), CALIBRATION)
    assert host_processor(Host(), (shared,), CALIBRATION).reading_bytes_per_s == stated.reading_bytes_per_s


def test_the_host_is_assumed_until_its_bandwidth_is_stated() -> None:
    """What the request states is used, and makes the host known."""
    assert host_processor(Host(), (), CALIBRATION).basis == "assumed"
    assert host_processor(Host(ram_bandwidth_bytes_per_s=50e9), (), CALIBRATION).basis == "modelled"
