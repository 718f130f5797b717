"""Prompt processing: arithmetic, reading, overlap and the way past the host."""

from dataclasses import replace

import pytest

from service.core.prefill import PrefillWork, prefill_s, stage_s
from service.core.speed import Processor
from service.core.speed_constants import ATTENTION_RATE_FRACTION, BACKENDS, PIPELINED_SHARE

CARD = Processor(
    name="card",
    backend="cuda",
    bandwidth_bytes_per_s=1e12,
    bandwidth_fraction=1.0,
    prefill_flops_per_s=50e12,
    link_bytes_per_s=25e9,
)
HOST = Processor(
    name="host", backend="cpu", bandwidth_bytes_per_s=1e11, bandwidth_fraction=1.0, prefill_flops_per_s=1e12
)
NOTHING = (PrefillWork(), HOST)
WORK = PrefillWork(flops=50e12, weights_bytes=10**10)


def test_a_long_prompt_is_limited_by_arithmetic() -> None:
    """50 tera-operations take a second at 50 TFLOPS; reading 10 GB once takes less."""
    assert stage_s(WORK, CARD, ubatches=1, rows_per_expert=0) == pytest.approx(1.0)


def test_a_short_prompt_is_limited_by_reading() -> None:
    """With little to compute, the weights still have to be read."""
    assert stage_s(replace(WORK, flops=1.0), CARD, ubatches=1, rows_per_expert=0) == pytest.approx(0.01)


def test_experts_with_few_rows_cost_more() -> None:
    """Arithmetic in experts stretches by 1 + R ÷ rows."""
    work = replace(WORK, expert_flops=50e12)
    rows = BACKENDS["cuda"].expert_rows
    assert stage_s(work, CARD, ubatches=1, rows_per_expert=rows) == pytest.approx(2.0)


def test_attention_runs_at_a_part_of_the_rate() -> None:
    """Operations of attention take longer than as many of the weights."""
    work = replace(WORK, attention_flops=50e12)
    expected_s = 1 + 1 / ATTENTION_RATE_FRACTION
    assert stage_s(work, CARD, ubatches=1, rows_per_expert=0) == pytest.approx(expected_s)


def test_one_ubatch_gains_nothing_from_a_pipeline() -> None:
    """Two cards overlap only where there are several ubatches."""
    stages = [(WORK, CARD)] * 2
    assert prefill_s(stages, NOTHING, ubatches=1, pipelined=True) == prefill_s(stages, NOTHING, ubatches=1)
    many = prefill_s(stages, NOTHING, ubatches=100, pipelined=True)
    assert many == pytest.approx((1 - PIPELINED_SHARE) * 2 + PIPELINED_SHARE * (2 + 99) / 100)


def test_tensor_split_computes_at_the_same_time_and_meets() -> None:
    """Cards that share every layer take the slowest one's time and the meetings of every ubatch."""
    found = prefill_s([(WORK, CARD)] * 2, NOTHING, ubatches=4, together=True, sync_s=0.01)
    assert found == pytest.approx(1.0 + 4 * 0.01)


def test_weights_on_the_host_are_copied_to_a_card_where_that_is_faster() -> None:
    """A large prompt over weights in main memory is computed on the card that they are copied to."""
    host = (PrefillWork(flops=50e12, weights_bytes=10**9), HOST)
    alone = prefill_s([], host, ubatches=1)
    helped = prefill_s([(PrefillWork(flops=1.0, weights_bytes=1), CARD)], host, ubatches=1)
    assert alone == pytest.approx(50.0)
    assert helped == pytest.approx(10**9 / 25e9 + 1.0, rel=1e-3)


@pytest.mark.parametrize(
    "unknown", [replace(CARD, prefill_flops_per_s=None), replace(CARD, bandwidth_bytes_per_s=None)]
)
def test_a_missing_rate_gives_no_time(unknown: Processor) -> None:
    """Nothing is guessed where a rate that counts is not known."""
    assert prefill_s([(WORK, unknown)], NOTHING, ubatches=1) is None
    assert prefill_s([(PrefillWork(), unknown), (WORK, CARD)], NOTHING, ubatches=1) is not None
