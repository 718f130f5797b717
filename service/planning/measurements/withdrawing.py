"""Measurements that turn out to be wrong: they stay, with the reason, and nothing is learned from them any more."""

from typing import Final

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from service.contract.measurements import MeasurementDocument
from service.core.problems import PlanProblem
from service.planning.catalogues import Catalogues
from service.planning.measurements.earlier import judged_among_accepted
from service.planning.measurements.importing import measurement_document
from service.planning.measurements.judging import CONTRADICTS
from service.store.database import transaction
from service.store.measurements import StoredMeasurement, change_verdict, kept_measurements, quarantined_of
from service.store.revisions import lock_catalogue, move_revision

WITHDRAWN: Final = "withdrawn"


class NoSuchMeasurement(PlanProblem):
    """A measurement that was never brought in."""

    slug = "not-found"


def withdraw_measurement(
    catalogues: Catalogues, database: Engine, measurement_id: str, reason: str
) -> MeasurementDocument:
    """Quarantine a measurement for good, with the reason; one that is withdrawn stays as it is.

    Those that were quarantined because they contradicted it are judged again, the oldest first, and accepted where
    nothing else speaks against them. What is brought in again stays withdrawn. Raises NoSuchMeasurement.
    """
    with transaction(database) as session:
        # the first statement, as where measurements are brought in
        lock_catalogue(session, "measurements")
        stored = _found(session, measurement_id)
        if stored.code != WITHDRAWN:
            change_verdict(session, stored, status="quarantined", code=WITHDRAWN, reason=f"Withdrawn: {reason}")
            if stored.status == "accepted":
                _judge_again(session, stored.configuration)
            move_revision(session, "measurements")
        stored = _found(session, measurement_id)
    catalogues.changed()
    return measurement_document(stored)


def _judge_again(session: Session, configuration: str | None) -> None:
    for one in quarantined_of(session, configuration, CONTRADICTS):
        verdict = judged_among_accepted(session, one)
        if not verdict:
            change_verdict(session, one, status="accepted", code="", reason="")
        elif verdict.reason != one.reason:
            change_verdict(session, one, status="quarantined", code=verdict.code, reason=verdict.reason)


def _found(session: Session, measurement_id: str) -> StoredMeasurement:
    stored = kept_measurements(session, [measurement_id]).get(measurement_id)
    if stored is None:
        raise NoSuchMeasurement(f"There is no measurement {measurement_id[:80]!r}.")
    return stored
