"""Decode time from bytes, bandwidth and fixed times."""

from dataclasses import replace
from datetime import date
from math import hypot

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.speed import Assumptions
from service.core.tensor_types import TENSOR_TYPE_BY_NAME
from service.core.timing.assumed import ASSUMED_HOST_CORES, ASSUMED_RAM_BANDWIDTH_BYTES_PER_S
from service.core.timing.constants import CALIBRATION
from service.core.timing.decode import Decode, decode, scattering
from service.core.timing.work import Exchange, Part, Weights, Work
from tests.core.timing.machines import AMPERE, PLAIN, A, part, rates, work

CUDA = CALIBRATION.backends["cuda"]


def step_of(asked: Work, assumptions: Assumptions = PLAIN) -> Decode:
    """One step of work that has a bandwidth."""
    step = decode(asked, rates(asked, assumptions), assumptions)
    assert step is not None
    return step


def test_one_card_reads_its_bytes_and_takes_its_fixed_time() -> None:
    """19.32 GB over 79 % of 936 GB/s and 0.74 ms are 26.9 ms."""
    step = step_of(work(part(dense_bytes=19_320_000_000)), A)
    assert step.step_s == pytest.approx(26.86e-3, rel=1e-3)
    assert step.limited_by == "memory_bandwidth"


def test_stages_of_a_layer_split_add_up() -> None:
    """Two cards that share the bytes take as long as one, and one more fixed time."""
    one = step_of(work(part(dense_bytes=2 * 10**10)), A)
    two = step_of(work(part(), part()), A)
    assert two.step_s - one.step_s == pytest.approx(0.00074)
    assert sum(two.device_s) == pytest.approx(two.step_s)


def test_a_further_card_costs_a_hand_over() -> None:
    """Without assumptions the second card adds its hand-over instead of a token's start."""
    one, two = step_of(work(part(dense_bytes=2 * 10**10))), step_of(work(part(), part()))
    assert two.step_s - one.step_s == pytest.approx(CUDA.device_s)


def test_cards_that_share_every_layer_read_at_the_same_time() -> None:
    """Tensor split takes the slowest card's time and the meetings."""
    step = step_of(work(part(), part(), arrangement="tensor", exchange=Exchange(reductions=160)))
    meeting_s = CUDA.reduction_s + 2 * CUDA.reduction_card_s
    assert step.step_s == pytest.approx(step.device_s[0] + 160 * meeting_s)
    assert sum(each.s for each in step.steps) == pytest.approx(step.step_s)


def test_split_by_rows_launches_on_every_card() -> None:
    """One thread launches each matrix on each card, while their reads overlap."""
    cards = [part(kernels=200)] * 3
    step = step_of(work(*cards, arrangement="row", exchange=Exchange(reductions=80)))
    alone = step_of(work(part(kernels=200)))
    launches_s = 200 * CUDA.kernel_s + CUDA.token_s
    assert step.step_s == pytest.approx(alone.step_s + 2 * launches_s + 80 * CUDA.row_s)


def test_a_card_without_work_costs_nothing() -> None:
    """An empty card adds no fixed time."""
    assert step_of(work(part(), part(dense_bytes=0))).step_s == step_of(work(part())).step_s


def test_steps_of_the_breakdown_add_up() -> None:
    """The parts that are listed make up the whole step, on cards, host and with many streams."""
    card = part(kernels=100, cache_bytes=10**8, attention_flops=1e9)
    step = step_of(work(card, card, host=Part(gpu=None, dense_bytes=10**9), streams=4))
    assert sum(each.s for each in step.steps) == pytest.approx(step.step_s)


def test_main_memory_limits_what_lies_on_the_host() -> None:
    """Bytes on the host are read at the assumed bandwidth of main memory where none is stated."""
    step = step_of(work(part(dense_bytes=10**9), host=Part(gpu=None, dense_bytes=10**10)), A)
    reading = ASSUMED_RAM_BANDWIDTH_BYTES_PER_S * CALIBRATION.backends["cpu"].bandwidth_fraction
    computing = CALIBRATION.backends["cpu"].core_weights_per_s * ASSUMED_HOST_CORES
    assert step.host_s == pytest.approx(hypot(1e10 / reading, 2e10 / computing), rel=1e-3)
    assert step.limited_by == "host_memory"


def test_an_old_build_launches_kernels_more_slowly() -> None:
    """A build of May 2024 takes longer for launches, not for reads."""
    asked = work(part(kernels=200))
    old = step_of(replace(asked, built=date(2024, 5, 9)))
    launches_s = 200 * CUDA.kernel_s + CUDA.token_s
    assert old.step_s - step_of(asked).step_s == pytest.approx((CUDA.old_build_factor - 1) * launches_s)


def test_a_cache_is_read_or_computed_with_whichever_takes_longer() -> None:
    """Few operations on many bytes wait for memory, many on few for arithmetic."""
    plain = step_of(work(part())).step_s
    read = step_of(work(part(cache_bytes=10**9, attention_flops=1e6))).step_s - plain
    computed = step_of(work(part(cache_bytes=10**6, attention_flops=1e12))).step_s - plain
    rate = rates(work(part())).cards[0]
    assert read == pytest.approx(1e9 / (rate.caching_bytes_per_s or 0))
    assert computed == pytest.approx(1e12 / (rate.attention_flops_per_s or 0))


def test_without_flash_attention_a_cache_takes_a_multiple() -> None:
    """Products that are written out in between cost a constant factor."""
    asked = work(part(cache_bytes=10**9))
    fused, unfused = step_of(asked), step_of(replace(asked, flash_attention=False))
    assert unfused.cards[0].attention_s == pytest.approx(CUDA.unfused_factor * fused.cards[0].attention_s)


def test_streams_share_the_weights_and_bring_their_caches() -> None:
    """Four streams read the weights once, four caches, and compute for three more."""
    asked = work(part(cache_bytes=10**8))
    one, four = step_of(asked).cards[0], step_of(replace(asked, streams=4)).cards[0]
    assert four.reading_s == pytest.approx(one.reading_s)
    assert four.attention_s == pytest.approx(4 * one.attention_s)
    assert four.batch_s > one.batch_s == 0


def test_many_streams_end_at_the_arithmetic() -> None:
    """With enough streams a step takes as long as its arithmetic, which then limits it."""
    step = step_of(work(part(), streams=4096))
    assert step.limited_by == "compute"


def test_streams_use_more_of_the_experts() -> None:
    """Two streams read less than twice the experts of one, many read all."""
    mixture = Weights(used_fraction=1 / 16, dense_flops_per_byte=4.0, expert_flops_per_byte=4.0)
    asked = work(part(dense_bytes=0, expert_bytes=16 * 10**8), weights=mixture)
    read = [step_of(replace(asked, streams=streams)).cards[0].read_bytes for streams in (1, 2, 1000)]
    assert read[0] == 10**8
    assert 10**8 < read[1] < 2 * 10**8
    assert read[2] == pytest.approx(16 * 10**8)


def test_experts_gain_nothing_from_being_cut() -> None:
    """Under tensor split each of two cards takes as long for its half of the experts as one for all of them."""
    mixture = Weights(used_fraction=1 / 16, dense_flops_per_byte=4.0, expert_flops_per_byte=4.0)
    half = part(dense_bytes=0, expert_bytes=8 * 10**8)
    cut = step_of(work(half, half, weights=mixture, arrangement="tensor"))
    whole = step_of(work(part(dense_bytes=0, expert_bytes=16 * 10**8), weights=mixture))
    assert cut.cards[0].reading_s == pytest.approx(whole.cards[0].reading_s)


def test_a_stack_of_experts_that_is_cut_costs_more_on_every_card() -> None:
    """Gathering and weighing its parts comes on top of its kernel; one card alone has nothing to gather."""
    cards = [part(expert_kernels=100)] * 2
    joint, serial = (step_of(work(*cards, arrangement=each)).cards[0] for each in ("tensor", "serial"))
    assert joint.launches_s - serial.launches_s == pytest.approx(100 * CUDA.expert_slice_s)
    alone = step_of(work(cards[0], part(dense_bytes=0), arrangement="tensor"))
    assert alone.cards[0].launches_s == pytest.approx(serial.launches_s)


def test_a_power_limit_slows_reads() -> None:
    """At 200 of 350 W decode keeps 94 % of its speed."""
    limited = step_of(work(part(replace(AMPERE, power_limit_w=200))))
    assert step_of(work(part())).cards[0].reading_s / limited.cards[0].reading_s == pytest.approx(0.94)


def test_nothing_is_said_without_a_bandwidth() -> None:
    """A card that works and whose bandwidth nobody stated gives no step."""
    asked = work(part(replace(AMPERE, bandwidth_bytes_per_s=None)))
    assert decode(asked, rates(asked), PLAIN) is None


@pytest.mark.parametrize(
    ("change", "basis"),
    [({}, "fitted"), ({"compute_capability": (6, 1)}, "modelled"), ({"compute_capability": None}, "assumed")],
)
def test_the_basis_is_that_of_the_generation(change: dict[str, object], basis: str) -> None:
    """Measured well, hardly, or not known at all."""
    assert step_of(work(part(replace(AMPERE, **change)))).basis == basis  # type: ignore[arg-type]


@given(st.floats(1e9, 1e13), st.floats(1.0, 10.0), st.integers(1, 10**11))
def test_more_bandwidth_never_slows(bandwidth: float, factor: float, size_bytes: int) -> None:
    """A card with faster memory is never slower."""
    slow, fast = (
        step_of(work(part(replace(AMPERE, bandwidth_bytes_per_s=each), dense_bytes=size_bytes, kernels=50)))
        for each in (bandwidth, bandwidth * factor)
    )
    assert fast.step_s <= slow.step_s


@pytest.mark.parametrize(
    ("name", "built", "constant"),
    [
        ("iq4_nl", None, "scattered_factor"),
        ("q8_0", date(2026, 4, 6), "scattered_factor"),
        ("q8_0", date(2026, 4, 21), None),
        ("q8_0", None, None),
        ("q4_1", None, "unordered_factor"),
        ("q5_K", date(2026, 4, 6), "unordered_factor"),
        ("q4_K", date(2026, 4, 6), None),
        ("f16", None, None),
    ],
)
def test_blocks_are_slow_unless_laid_out_anew(name: str, built: date | None, constant: str | None) -> None:
    """Under SYCL, by the type's block and by what the build reorders; no other backend minds."""
    weights = Weights(dense_flops_per_byte=4.0, type_fractions=((TENSOR_TYPE_BY_NAME[name], 1.0),))
    arc = replace(AMPERE, backend="sycl", generation="Xe2-HPG", compute_capability=None)
    asked = work(part(arc), weights=weights, built=built)
    sycl = CALIBRATION.backends["sycl"]
    assert sycl.scattered_factor > sycl.unordered_factor > 1.2
    assert scattering(asked, rates(asked).cards[0]) == pytest.approx(getattr(sycl, constant) if constant else 1.0)
    assert scattering(asked, rates(work(part())).cards[0]) == 1.0
