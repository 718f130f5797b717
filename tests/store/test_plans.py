"""Saved plans stay as they were first answered."""

from dataclasses import replace

from sqlalchemy import Engine

from service.store.database import transaction
from service.store.plans import PlanEntry, save_plan, saved_plan

PLAN = PlanEntry(
    id="pln_1",
    request={"model": "llama-3.3-70b", "rig": {"gpus": ["rtx-3090"]}},
    plan={"verdict": "fits", "devices": [{"weights_bytes": 42_500_000_000, "decode_s": 0.0441}], "fits": True},
    rules_version="llamacpp-1",
    data_version="2026-11",
)


def test_saved_plan_comes_back_as_it_was_answered(database: Engine) -> None:
    """Question and answer survive, with every key in its place."""
    with transaction(database) as session:
        saved = save_plan(session, PLAN)
    with transaction(database) as session:
        read = saved_plan(session, PLAN.id)
    assert read == saved
    assert (read.request, read.plan) == (PLAN.request, PLAN.plan)
    assert list(read.plan) == ["verdict", "devices", "fits"]
    assert (read.rules_version, read.data_version) == ("llamacpp-1", "2026-11")


def test_saving_again_keeps_the_first_answer(database: Engine) -> None:
    """A plan is immutable: the same id never gets another content."""
    with transaction(database) as session:
        first = save_plan(session, PLAN)
    with transaction(database) as session:
        assert save_plan(session, replace(PLAN, plan={"verdict": "does_not_fit"})) == first


def test_unknown_plan_is_none(database: Engine) -> None:
    """An id that was never saved gives nothing."""
    with transaction(database) as session:
        assert saved_plan(session, "pln_0") is None
