"""An answer over the context: the same question at many lengths."""

from typing import Any

import pytest

from service.contract.plan import Plan
from service.contract.request import PlanRequest
from service.contract.validation import validate_request
from service.core.problems import UnknownModel
from service.planning.context_curve import context_curve
from tests.planner import builtin_planner


def question(context_tokens: int | None = None, **parts: Any) -> PlanRequest:
    return validate_request(
        {"model": "qwen3-32b:Q4_K_M", "rig": {"gpus": ["rtx-3090"]}, "workload": {"context_tokens": context_tokens}}
        | parts
    )


def ask(request: PlanRequest) -> Plan:
    return builtin_planner().plan(request)


def test_the_cliff_is_where_the_next_context_no_longer_fits() -> None:
    """The last length that fits and the first that does not are both on the curve."""
    curve = context_curve(ask, question())
    fitting = [tokens for tokens, plan in curve.plans if plan.fits]
    beyond = [tokens for tokens, plan in curve.plans if not plan.fits]
    assert curve.cliff_tokens == max(fitting)
    assert min(beyond) - max(fitting) == 256


def test_the_curve_goes_from_short_to_trained_contexts() -> None:
    """Lengths rise, end at the trained context, and hold the one that was asked for."""
    curve = context_curve(ask, question(5000))
    lengths = [tokens for tokens, _ in curve.plans]
    assert lengths == sorted(set(lengths))
    assert (lengths[0], lengths[-1]) == (2048, curve.plans[0][1].model.trained_context_tokens)
    assert 5000 in lengths


def test_longer_contexts_need_more_and_decode_slower() -> None:
    """Along the lengths that fit, memory grows and decode slows down."""
    fitting = [plan for _, plan in context_curve(ask, question()).plans if plan.fits]
    held = [plan.devices[0].total_bytes for plan in fitting]
    rates = [plan.speed.decode_tokens_per_s.mid for plan in fitting if plan.speed]
    assert held == sorted(held)
    assert len(rates) == len(fitting)
    assert rates == sorted(rates, reverse=True)


def test_a_rig_without_end_has_no_cliff() -> None:
    """Where every length fits, or none does, there is nothing to mark."""
    assert context_curve(ask, question(rig={"gpus": ["2x h100-sxm5-80gb"]})).cliff_tokens is None
    assert context_curve(ask, question(rig={"gpus": ["rtx-3060-12gb"]})).cliff_tokens is None


def test_a_question_without_answer_has_no_curve() -> None:
    """What is refused at any length is refused here."""
    with pytest.raises(UnknownModel):
        context_curve(ask, question(model="nothing"))
