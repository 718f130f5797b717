"""Curves go through their plan, fall where physics says so, and show the cliff."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.contract.curves import Curves
from service.contract.validation import validate_request
from service.planning.curves import MOST_POINTS, USERS, curves_of, spaced
from tests.planner import builtin_planner

TWO_CARDS: dict[str, Any] = {
    "model": "llama-3.3-70b:Q4_K_M",
    "rig": {"gpus": ["2x rtx-3090"]},
    "workload": {"context_tokens": 16384},
}
QUESTIONS = {
    "two cards": TWO_CARDS,
    "context open": {"model": "qwen3-32b:Q4_K_M", "rig": {"gpus": ["rtx-3090"]}},
    "offloaded": TWO_CARDS | {"rig": {"gpus": ["rtx-3060-12gb"]}},
    "host alone": {"model": "qwen3-8b:Q4_K_M", "rig": {"gpus": []}},
    "mixed cards": TWO_CARDS | {"rig": {"gpus": ["rtx-3090", "rtx-5090"]}},
    "four streams": TWO_CARDS | {"workload": {"context_tokens": 16384, "parallel": 4}},
}


def curves(question: dict[str, Any]) -> Curves:
    return curves_of(builtin_planner().plan, validate_request(question))


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_curves_go_through_the_plan(question: dict[str, Any]) -> None:
    """With the plan's own context, streams and depth, every curve has the plan's own figures."""
    plan = builtin_planner().plan(validate_request(question))
    found = curves(question)
    assert found.plan_id == plan.id
    assert plan.speed is not None
    (memory,) = [point for point in found.memory if point.context_tokens == plan.workload.context_tokens]
    assert memory.device_total_bytes == [device.total_bytes for device in plan.devices]
    assert memory.verdict == plan.verdict
    users = {point.parallel: point for point in found.users}
    assert users[plan.workload.parallel].aggregate_decode_tokens_per_s == plan.speed.aggregate_decode_tokens_per_s
    if plan.workload.parallel == 1:
        assert found.decode[0].tokens_per_s.mid == pytest.approx(plan.speed.decode_tokens_per_s.mid)
        assert plan.speed.prefill_tokens_per_s is not None
        assert found.prefill[0].tokens_per_s.mid == pytest.approx(plan.speed.prefill_tokens_per_s.mid)


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_curves_are_short_and_fall(question: dict[str, Any]) -> None:
    """Speeds never rise with depth, memory never falls with context, and no curve has many points."""
    found = curves(question)
    for speeds in (found.decode, found.prefill):
        mids = [point.tokens_per_s.mid for point in speeds]
        assert mids == sorted(mids, reverse=True)
        depths = [point.depth_tokens for point in speeds]
        assert depths == sorted(set(depths))
        assert 1 <= len(depths) <= MOST_POINTS
    totals = [sum(point.device_total_bytes) + point.host_total_bytes for point in found.memory]
    assert totals == sorted(totals)
    assert len(found.memory) <= MOST_POINTS
    assert len(found.users) <= len(USERS)


def test_memory_shows_the_cliff() -> None:
    """The last context that fits is a point, and the next step does not fit."""
    found = curves(TWO_CARDS)
    verdicts = {point.context_tokens: point.verdict for point in found.memory}
    assert verdicts[found.fits_up_to_tokens] == "fits"
    assert verdicts[found.fits_up_to_tokens + 256] == "does_not_fit"
    assert found.fits_up_to_tokens == 22016


def test_decode_falls_off_the_cliff() -> None:
    """One step beyond what fits it falls, by what a driver moves to main memory; the planner's offload falls less."""
    found = curves(TWO_CARDS)
    points = {point.context_tokens: point for point in found.memory}
    before, beyond = points[found.fits_up_to_tokens], points[found.fits_up_to_tokens + 256]
    assert before.decode_tokens_per_s is not None
    assert beyond.decode_tokens_per_s is not None
    assert beyond.decode_tokens_per_s.mid < before.decode_tokens_per_s.mid
    assert before.offloaded_decode_tokens_per_s is None
    assert beyond.offloaded_decode_tokens_per_s is not None
    assert beyond.offloaded_decode_tokens_per_s.mid < before.decode_tokens_per_s.mid
    within = [point.decode_tokens_per_s for point in found.memory if point.verdict == "fits"]
    mids = [each.mid for each in within if each is not None]
    assert mids == pytest.approx([mids[0]] * len(mids), rel=0.01)


def test_a_long_context_spills_far() -> None:
    """Twice the context that fits makes decode several times slower, and worse than layers on the host."""
    question = {
        "model": "qwen3-32b:Q4_K_M", "rig": {"gpus": ["rtx-3090"]}, "workload": {"context_tokens": 32768},
    }  # fmt: skip
    stated = {**question, "engine": {"name": "llama.cpp", "n_gpu_layers": "all"}}
    spilled = builtin_planner().plan(validate_request(stated))
    offloaded = builtin_planner().plan(validate_request(question))
    assert spilled.verdict == "does_not_fit"
    assert offloaded.verdict == "fits_with_host_offload"
    assert spilled.speed is not None
    assert offloaded.speed is not None
    spill = spilled.speed.spill
    assert spill is not None
    assert spill.spilled_bytes == spilled.shortfall_bytes
    assert spill.slowdown > 4
    assert spill.decode_tokens_per_s.mid < offloaded.speed.decode_tokens_per_s.mid
    assert offloaded.speed.spill is None


def test_a_model_that_fits_nowhere_has_its_memory_shown() -> None:
    """Without a context that fits, memory goes up to the one asked for."""
    question = {
        "model": "llama-3.3-70b:Q8_0",
        "rig": {"gpus": ["rtx-3090"]},
        "engine": {"name": "llama.cpp", "n_gpu_layers": "all"},
        "workload": {"context_tokens": 8192},
    }
    found = curves(question)
    assert found.fits_up_to_tokens == 0
    assert {point.verdict for point in found.memory} == {"does_not_fit"}
    assert max(point.context_tokens for point in found.memory) == 8192


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(2, 20))
def test_spacing_keeps_its_ends(first: int, last: int, most: int) -> None:
    """Points are few, rising, and reach from the first to the last."""
    points = spaced(first, last, most)
    assert len(points) <= most
    assert points == sorted(set(points))
    assert points[0] == first
    assert points[-1] == max(first, last)
