"""Prompt processing: arithmetic, reading, overlap and the way past the host."""

from dataclasses import replace
from datetime import date

import pytest

from service.core.timing.constants import CALIBRATION
from service.core.timing.prefill import missing_kernels, prefill_s, stage_s, unpacking_s
from service.core.timing.reductions import exchange_s, meeting_s
from service.core.timing.work import Exchange, Part, Weights, Work
from service.core.types import Backend
from tests.core.timing.machines import AMPERE, part, rates, work

CUDA = CALIBRATION.backends["cuda"]
LONG = {"prompt_tokens": 8192, "ubatch_tokens": 512}


def seconds(asked: Work) -> float:
    """Time of a prompt on cards that are known."""
    found = prefill_s(asked, rates(asked))
    assert found is not None
    return found


def stage(asked: Work) -> float:
    """Time of the first card's stage alone."""
    found = stage_s(asked, asked.cards[0], rates(asked).cards[0])
    assert found is not None
    return found


def test_a_long_prompt_is_limited_by_arithmetic() -> None:
    """Four operations a byte and token at the card's rate, and little more."""
    asked = work(part(), **LONG)
    rate = (rates(asked).cards[0].prompt_flops_per_s or (0.0, 0.0))[0]
    assert stage(asked) == pytest.approx(8192 * 4e10 / rate, rel=0.05)


def test_a_short_prompt_is_limited_by_reading() -> None:
    """With little to compute, the weights still have to be read."""
    asked = work(part(), prompt_tokens=1)
    assert stage(asked) == pytest.approx(1e10 / (rates(asked).cards[0].reading_bytes_per_s or 0), rel=0.01)


def test_experts_with_few_rows_cost_more() -> None:
    """Arithmetic in experts stretches by 1 + R / rows, so smaller ubatches take longer."""
    mixture = Weights(used_fraction=1 / 16, dense_flops_per_byte=4.0, expert_flops_per_byte=4.0)
    cards = part(dense_bytes=0, expert_bytes=16 * 10**9)
    large, small = (
        stage(work(cards, weights=mixture, prompt_tokens=4096, ubatch_tokens=tokens)) for tokens in (2048, 512)
    )
    assert small / large > 1.5


def test_attention_adds_to_the_matrices() -> None:
    """Operations of attention run at their own rate, and without flash attention at less of it."""
    asked = work(part(prompt_attention_flops=1e14), **LONG)
    rate = rates(asked).cards[0].prompt_attention_flops_per_s or 0
    fused = stage(asked) - stage(work(part(), **LONG))
    assert fused == pytest.approx(1e14 / rate)
    unfused = stage(replace(asked, flash_attention=False)) - stage(work(part(), **LONG))
    assert unfused == pytest.approx(CUDA.prefill_unfused_factor * fused)


def test_one_ubatch_gains_nothing_from_a_pipeline() -> None:
    """Two cards overlap only where there are several ubatches."""
    one = work(part(), part(), prompt_tokens=512)
    assert seconds(replace(one, copies=4)) == pytest.approx(seconds(one))
    many = work(part(), part(), **LONG)
    assert seconds(replace(many, copies=4)) < 0.75 * seconds(many)


def test_only_so_many_ubatches_are_under_way() -> None:
    """Eight cards with four copies gain no more than four cards would: a ubatch starts when one of four is done."""
    cards = [part(dense_bytes=10**9)] * 8
    serial, pipelined = (seconds(work(*cards, copies=copies, prompt_tokens=2**17)) for copies in (1, 4))
    share = CUDA.pipelined_fraction
    assert pipelined / serial == pytest.approx(1 - share + share / 4, rel=0.03)


def test_cards_that_share_every_layer_exchange_every_ubatch() -> None:
    """They take the slowest one's time, the meetings of every ubatch, and the bytes of every token."""
    exchange = Exchange(reductions=80, hidden_state_bytes=32768)
    asked = work(part(), part(), arrangement="tensor", exchange=exchange, **LONG)
    told = exchange_s(asked, rates(asked), 2, 8192) + 16 * 80 * meeting_s(asked, rates(asked), 2)
    assert seconds(asked) == pytest.approx(stage(asked) + told + CUDA.prompt_s)


def test_an_old_build_takes_longer() -> None:
    """Builds of 2023 stretch the arithmetic more than those of 2024, those more than the newest."""
    asked = work(part(), **LONG)
    times = [seconds(replace(asked, built=built)) for built in (date(2023, 11, 20), date(2024, 5, 9), None)]
    assert times == sorted(times, reverse=True)
    assert times[0] / times[2] == pytest.approx(CUDA.slow_2023_factor, rel=0.05)


def test_a_power_limit_slows_the_arithmetic() -> None:
    """At 200 of 350 W a prompt keeps 60 % of its speed."""
    limited = seconds(work(part(replace(AMPERE, power_limit_w=200)), **LONG))
    assert seconds(work(part(), **LONG)) / limited == pytest.approx(0.6, rel=0.02)


def test_weights_on_the_host_are_copied_to_a_card_where_that_is_faster() -> None:
    """A large prompt over weights in main memory is computed on the card that they are copied to."""
    host = Part(gpu=None, dense_bytes=10**9)
    alone = work(host=host, prompt_tokens=512)
    helped = work(part(dense_bytes=1), host=host, prompt_tokens=512)
    link = rates(helped).cards[0].link_bytes_per_s
    assert seconds(helped) < seconds(alone)
    assert seconds(helped) > 10**9 / link


def test_few_tokens_are_computed_where_their_weights_lie() -> None:
    """Below 32 tokens nothing is copied."""
    host = Part(gpu=None, dense_bytes=10**9)
    helped = work(part(dense_bytes=1), host=host, prompt_tokens=16)
    assert seconds(helped) == pytest.approx(seconds(work(host=host, prompt_tokens=16)), rel=0.05)


@pytest.mark.parametrize("missing", ["fp32_flops", "bandwidth_bytes_per_s"])
def test_a_missing_rate_gives_no_time(missing: str) -> None:
    """Nothing is guessed where a rate that counts is not known; an idle card's does not count."""
    unknown = replace(AMPERE, **{missing: None})  # type: ignore[arg-type]
    asked = work(part(unknown), **LONG)
    assert prefill_s(asked, rates(asked)) is None
    idle = work(part(unknown, dense_bytes=0), part(), **LONG)
    assert prefill_s(idle, rates(idle)) is not None


RADEON = replace(
    AMPERE, slug="radeon", backend="rocm", generation="RDNA 3.5", compute_capability=None, fp32_flops=30e12,
    fp16_tensor_flops=60e12, bandwidth_bytes_per_s=256e9,
)  # fmt: skip
K_QUANTS = Weights(dense_flops_per_byte=4.0, superblocks=True)


def test_matrix_units_decide_where_kernels_use_them() -> None:
    """Under ROCm a prompt goes by the rate of the matrix units; without them by the lanes."""
    known = CALIBRATION.backends["rocm"]
    units = replace(RADEON, generation=None)
    found = rates(work(part(units))).cards[0].prompt_flops_per_s
    assert found is not None
    assert found[0] == pytest.approx(60e12 * known.matrix_fraction)
    without = rates(work(part(replace(units, fp16_tensor_flops=None)))).cards[0].prompt_flops_per_s
    assert without is not None
    assert without[0] == pytest.approx(2 * 30e12 * known.prefill_fraction)


@pytest.mark.parametrize(
    ("backend", "generation", "before", "since"),
    [
        ("rocm", "RDNA 3.5", date(2025, 11, 20), date(2025, 12, 10)),
        ("vulkan", "RDNA 4.0", date(2026, 1, 5), date(2026, 1, 20)),
        ("sycl", "Xe2-HPG", date(2026, 5, 25), date(2026, 6, 5)),
    ],
)
def test_builds_without_kernels_for_matrix_units_are_slower(
    backend: Backend, generation: str, before: date, since: date
) -> None:
    """By the factor of the generation, and not where it is known that a build has them."""
    card = replace(RADEON, backend=backend, generation=generation)
    asked = work(part(card), built=before, **LONG)
    factor = CALIBRATION.generation(backend, generation).untuned_factor
    assert factor < 0.8
    assert missing_kernels(asked, rates(asked).cards[0]) == pytest.approx(1 / factor)
    assert missing_kernels(replace(asked, tuned=True), rates(asked).cards[0]) == 1.0
    assert missing_kernels(replace(asked, built=since), rates(asked).cards[0]) == 1.0


def test_vulkan_had_no_products_for_large_blocks() -> None:
    """K-quants took longer until November 2025, blocks of 32 did not."""
    card = replace(RADEON, backend="vulkan")
    old = work(part(card), weights=K_QUANTS, built=date(2025, 10, 1), tuned=True)
    factor = CALIBRATION.backends["vulkan"].superblock_factor
    assert missing_kernels(old, rates(old).cards[0]) == factor > 1.5
    assert missing_kernels(replace(old, built=date(2025, 11, 5)), rates(old).cards[0]) == 1.0
    assert missing_kernels(replace(old, weights=replace(K_QUANTS, superblocks=False)), rates(old).cards[0]) == 1.0


def test_a_library_takes_weights_as_floats() -> None:
    """SYCL writes every weight out as 16 bits and reads it again, in every ubatch; CUDA does not."""
    card = part(replace(RADEON, backend="sycl", generation="Xe2-HPG"))
    asked = work(card, **LONG)
    processor = rates(asked).cards[0]
    rate = (processor.reading_bytes_per_s or 0.0) * CALIBRATION.backends["sycl"].unpacking_fraction
    assert unpacking_s(asked, asked.cards[0], 512, processor) == pytest.approx(16 * 2e10 * 4 / rate)
    floats = replace(asked, weights=replace(asked.weights, half_precision=True))
    assert unpacking_s(floats, asked.cards[0], 512, processor) == 0.0
    assert unpacking_s(work(part()), part(), 512, rates(work(part())).cards[0]) == 0.0
