"""Decode time from bytes, bandwidth and fixed times."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.estimate import Estimate
from service.core.speed import (
    Assumptions,
    Decode,
    DecodeWork,
    decode,
    gpu_processor,
    host_processor,
    prefill_flops_per_s,
)
from service.core.speed_constants import ASSUMED_RAM_BANDWIDTH_BYTES_PER_S, BACKENDS, GENERATIONS
from service.core.types import Gpu, Host

A = Assumptions(bandwidth_fraction=0.79, fixed_s_per_device=0.00074, ignore_kv_reads=True)
AMPERE = Gpu(
    slug="rtx-3090",
    name="GeForce RTX 3090",
    backend="cuda",
    compute_capability=(8, 6),
    total_bytes=24 * 2**30,
    usable_bytes=23 * 2**30,
    usable_basis="test",
    bandwidth_bytes_per_s=936.2e9,
    fp32_flops=35.58e12,
)
IDLE_HOST = (DecodeWork(), host_processor(Host(), ()))


def decode_on(*devices: tuple[DecodeWork, Gpu], assumptions: Assumptions = A, **options: object) -> Decode:
    pairs = [(work, gpu_processor(gpu, assumptions)) for work, gpu in devices]
    return decode(pairs, IDLE_HOST, is_moe=False, assumptions=assumptions, **options)  # type: ignore[arg-type]


def test_one_card_reads_its_bytes_and_takes_its_fixed_time() -> None:
    """19.32 GB over 79 % of 936 GB/s and 0.74 ms are 26.9 ms."""
    step = decode_on((DecodeWork(weights_bytes=19_320_000_000), AMPERE))
    assert step.step_s == pytest.approx(26.86e-3, rel=1e-3)
    assert step.limited_by == "memory_bandwidth"


def test_stages_of_a_layer_split_add_up() -> None:
    """Two cards that share the bytes take as long as one, and one more fixed time."""
    one = decode_on((DecodeWork(weights_bytes=20 * 10**9), AMPERE))
    two = decode_on(*[(DecodeWork(weights_bytes=10 * 10**9), AMPERE)] * 2)
    assert two.step_s - one.step_s == pytest.approx(0.00074)
    assert sum(two.device_s) == pytest.approx(two.step_s)


def test_cards_that_share_every_layer_read_at_the_same_time() -> None:
    """Tensor split takes the slowest card's time and the meetings."""
    work = DecodeWork(weights_bytes=10 * 10**9)
    step = decode_on((work, AMPERE), (work, AMPERE), together=True, syncs=160, sync_s=50e-6)
    assert step.step_s == pytest.approx(step.device_s[0] + 160 * 50e-6)
    assert sum(part.s for part in step.steps) == pytest.approx(step.step_s)


def test_a_card_without_work_costs_nothing() -> None:
    """An empty card adds no fixed time."""
    busy = (DecodeWork(weights_bytes=10**9), AMPERE)
    assert decode_on(busy, (DecodeWork(), AMPERE)).step_s == decode_on(busy).step_s


def test_steps_of_the_breakdown_add_up() -> None:
    """The parts that are listed make up the whole step."""
    step = decode_on(*[(DecodeWork(weights_bytes=10**9, kernels=100), AMPERE)] * 3, assumptions=Assumptions())
    assert sum(part.s for part in step.steps) == pytest.approx(step.step_s)


def test_main_memory_limits_what_lies_on_the_host() -> None:
    """Bytes on the host are read at the assumed bandwidth of main memory where none is stated."""
    host = (DecodeWork(weights_bytes=10 * 10**9), host_processor(Host(), ()))
    step = decode([(DecodeWork(weights_bytes=10**9), gpu_processor(AMPERE, A))], host, is_moe=False, assumptions=A)
    expected_s = 10e9 / (ASSUMED_RAM_BANDWIDTH_BYTES_PER_S * BACKENDS["cpu"].bandwidth_fraction)
    assert step.host_s == pytest.approx(expected_s)
    assert step.limited_by == "host_memory"


def test_a_host_shares_the_memory_of_an_integrated_gpu() -> None:
    """Where GPU and host have the same memory, the host reads it as fast."""
    shared = replace(AMPERE, unified_memory=True)
    assert host_processor(Host(), (shared,)).bandwidth_bytes_per_s == AMPERE.bandwidth_bytes_per_s


def test_stated_bandwidth_of_main_memory_counts() -> None:
    """What the request states is used."""
    assert host_processor(Host(ram_bandwidth_bytes_per_s=50e9), ()).bandwidth_bytes_per_s == 50e9


def test_an_old_build_launches_kernels_more_slowly() -> None:
    """The overhead factor stretches launches, not reads."""
    work = (DecodeWork(weights_bytes=10**9, kernels=200), AMPERE)
    new, old = (decode_on(work, assumptions=Assumptions(), overhead_factor=factor) for factor in (1.0, 2.06))
    launches_s = 200 * BACKENDS["cuda"].kernel_s + BACKENDS["cuda"].token_s
    assert old.step_s - new.step_s == pytest.approx(1.06 * launches_s)


def test_a_card_of_an_unknown_generation_gets_a_wider_range() -> None:
    """Without its generation a card's speed is assumed, and its range is twice as wide."""
    work = DecodeWork(weights_bytes=10**9)
    known = decode_on((work, AMPERE))
    unknown = decode_on((work, replace(AMPERE, compute_capability=None)))
    assert (known.basis, unknown.basis) == ("modelled", "assumed")
    assert unknown.range_fraction == 2 * known.range_fraction


@pytest.mark.parametrize("row", GENERATIONS, ids=lambda row: row.label)
def test_every_generation_is_found_by_its_compute_capability(row: object) -> None:
    """A card of each generation reads at that generation's share."""
    assert isinstance(row, type(GENERATIONS[0]))
    for capability in row.compute_capabilities:
        card = replace(AMPERE, compute_capability=capability)
        assert gpu_processor(card, Assumptions()).bandwidth_fraction == row.bandwidth_fraction


def test_prefill_rate_comes_from_shaders_then_from_tensor_cores() -> None:
    """Without an FP32 rate the tensor rate is used, without both there is none."""
    assert prefill_flops_per_s(AMPERE) == pytest.approx(1.7 * 35.58e12)
    tensor_only = replace(AMPERE, fp32_flops=None, fp16_tensor_flops=71e12)
    assert prefill_flops_per_s(tensor_only) == pytest.approx(0.6 * 71e12)
    assert prefill_flops_per_s(replace(AMPERE, fp32_flops=None)) is None


@given(st.floats(1e-6, 1e6), st.floats(0, 3))
def test_ranges_surround_the_middle(mid: float, width: float) -> None:
    """A range reaches as far down as up in proportion."""
    estimate = Estimate.around(mid, width)
    assert estimate.low <= estimate.mid <= estimate.high
    assert estimate.low * estimate.high == pytest.approx(mid * mid)


@given(st.floats(1e9, 1e13), st.floats(1.0, 10.0), st.integers(1, 10**11))
def test_more_bandwidth_never_slows(bandwidth: float, factor: float, size_bytes: int) -> None:
    """A card with faster memory is never slower."""
    work = DecodeWork(weights_bytes=size_bytes, kernels=50)
    slow = decode_on((work, replace(AMPERE, bandwidth_bytes_per_s=bandwidth)), assumptions=Assumptions())
    fast = decode_on((work, replace(AMPERE, bandwidth_bytes_per_s=bandwidth * factor)), assumptions=Assumptions())
    assert fast.step_s <= slow.step_s
