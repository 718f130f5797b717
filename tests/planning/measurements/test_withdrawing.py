"""Measurements that turn out to be wrong."""

import pytest
from sqlalchemy.orm import Session

from service.contract.measurements import MeasurementDocument, MeasurementQuery
from service.contract.request import PlanRequest
from service.planning.measurements.stored import listed_measurements
from service.planning.measurements.withdrawing import NoSuchMeasurement, withdraw_measurement
from service.store.audit import AuditFilter, audit_entries
from tests.measurements.printed import as_json, row
from tests.planning.measurements.conftest import Measuring

QUESTION = PlanRequest.model_validate({"model": "llama-3.1-8b:Q4_K_M", "rig": {"gpus": ["rtx-3090"]}})
SLOW = row(avg_ts=100.0)
RIGHT = row(avg_ts=141.0, stddev_ts=0.2)


def withdrawn(measuring: Measuring, one: MeasurementDocument, reason: str = "throttled") -> MeasurementDocument:
    return withdraw_measurement(measuring.planner.catalogues, measuring.database, one.id, reason)


def decode(measuring: Measuring) -> float:
    """What is predicted now."""
    plan = measuring.planner.plan(QUESTION)
    assert plan.speed is not None
    return plan.speed.decode_tokens_per_s.mid


def test_nothing_is_learned_from_it_any_more(measuring_anywhere: Measuring) -> None:
    """Predictions are what they were before it, and it is still there with the reason, however often it is sent."""
    modelled = decode(measuring_anywhere)
    (one,) = measuring_anywhere.bring(as_json([SLOW])).measurements
    assert decode(measuring_anywhere) < modelled
    gone = withdrawn(measuring_anywhere, one)
    assert (gone.status, gone.code, gone.reason) == ("quarantined", "withdrawn", "Withdrawn: throttled")
    assert (gone.value, gone.request, gone.added_at) == (one.value, one.request, one.added_at)
    assert decode(measuring_anywhere) == modelled
    assert measuring_anywhere.planner.calibration().count == 0
    assert measuring_anywhere.bring(as_json([SLOW])).measurements == [gone]
    assert decode(measuring_anywhere) == modelled


def test_what_contradicted_it_is_judged_again(measuring_anywhere: Measuring) -> None:
    """The oldest first: what agrees with it counts now too, what contradicts that does not."""
    (wrong,) = measuring_anywhere.bring(as_json([SLOW])).measurements
    right, same, other = (
        measuring_anywhere.bring(as_json([each])).measurements[0]
        for each in (RIGHT, row(avg_ts=140.9, stddev_ts=0.2), row(avg_ts=126.0, stddev_ts=0.2))
    )
    assert {one.code for one in (right, same, other)} == {"contradicts"}
    assert all(wrong.id in one.reason for one in (right, same, other))
    withdrawn(measuring_anywhere, wrong)
    found = {one.id: one for one in listed_measurements(measuring_anywhere.database, MeasurementQuery()).measurements}
    assert [(found[one.id].status, found[one.id].code) for one in (right, same, other)] == [
        ("accepted", ""),
        ("accepted", ""),
        ("quarantined", "contradicts"),
    ]
    assert found[other.id].reason.startswith((right.id, same.id))
    assert measuring_anywhere.planner.calibration().count == 2


def test_the_trail_says_what_became_of_it(measuring_anywhere: Measuring) -> None:
    """Every change of a verdict is a row; withdrawing again changes nothing."""
    (wrong,) = measuring_anywhere.bring(as_json([SLOW])).measurements
    (right,) = measuring_anywhere.bring(as_json([RIGHT])).measurements
    gone = withdrawn(measuring_anywhere, wrong)
    assert withdrawn(measuring_anywhere, wrong, "another reason") == gone
    with Session(measuring_anywhere.database) as session:
        changes = audit_entries(session, AuditFilter(kind="measurement"), limit=10)
    verdicts = [
        (each.entity, each.action, (each.before or {}).get("status"), (each.after or {}).get("code"))
        for each in changes
    ]
    assert verdicts == [
        (right.id, "update", "quarantined", ""),
        (wrong.id, "update", "accepted", "withdrawn"),
        (right.id, "create", None, "contradicts"),
        (wrong.id, "create", None, ""),
    ]
    assert changes[1].after is not None
    assert changes[1].after["reason"] == "Withdrawn: throttled"


def test_an_unknown_one_is_refused(measuring: Measuring) -> None:
    """Nothing is withdrawn that was never brought in."""
    with pytest.raises(NoSuchMeasurement):
        withdraw_measurement(measuring.planner.catalogues, measuring.database, "mea_none", "throttled")
