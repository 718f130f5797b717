"""Measurements, addressed by what was read, which never changes; some accepted, some quarantined with the reason."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from service.store.audit import record_change
from service.store.database import insert_where_absent
from service.store.tables import JsonObject, MeasurementTable


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementEntry:
    """A measurement to keep."""

    id: str
    status: str
    code: str
    reason: str
    metric: str
    value: float | None
    stddev: float | None
    engine: str
    backend: str
    model: str | None
    rig: str
    build: str
    configuration: str | None
    request: JsonObject | None
    facts: JsonObject
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMeasurement(MeasurementEntry):
    """A measurement as it was kept at `added_at`."""

    added_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which measurements are asked for; None leaves all. gpu, model: a part of the name."""

    status: str | None = None
    metric: str | None = None
    engine: str | None = None
    backend: str | None = None
    gpu: str | None = None
    model: str | None = None


def keep_measurement(session: Session, entry: MeasurementEntry) -> bool:
    """Insert a measurement; False where the same one was kept before, which stays as it is."""
    if session.get(MeasurementTable, entry.id) is not None:
        return False
    insert_where_absent(session, MeasurementTable, _values(entry))
    after: JsonObject = {name: getattr(entry, name) for name in _AUDITED}
    record_change(session, "measurement", entry.id, before=None, after=after)
    return True


def change_verdict(session: Session, entry: MeasurementEntry, *, status: str, code: str, reason: str) -> None:
    """Change what became of a measurement; what was read stays."""
    now: JsonObject = {"status": status, "code": code, "reason": reason}
    session.execute(update(MeasurementTable).where(MeasurementTable.id == entry.id).values(now))
    before: JsonObject = {name: getattr(entry, name) for name in (*_AUDITED, "reason")}
    record_change(session, "measurement", entry.id, before=before, after=before | now)


def kept_measurements(session: Session, ids: Sequence[str]) -> dict[str, StoredMeasurement]:
    """Read measurements by their ids."""
    rows = session.scalars(select(MeasurementTable).where(MeasurementTable.id.in_(ids)))
    return {row.id: _stored(row) for row in rows}


def accepted_of(session: Session, configuration: str) -> list[StoredMeasurement]:
    """Read the accepted measurements of one configuration, the oldest first."""
    query = (
        select(MeasurementTable)
        .where(MeasurementTable.configuration == configuration, MeasurementTable.status == "accepted")
        .order_by(MeasurementTable.added_at, MeasurementTable.id)
    )
    return [_stored(row) for row in session.scalars(query)]


def quarantined_of(session: Session, configuration: str | None, code: str) -> list[StoredMeasurement]:
    """Read the measurements of one configuration that are quarantined for one reason, the oldest first."""
    query = (
        select(MeasurementTable)
        .where(
            MeasurementTable.configuration == configuration,
            MeasurementTable.status == "quarantined",
            MeasurementTable.code == code,
        )
        .order_by(MeasurementTable.added_at, MeasurementTable.id)
    )
    return [_stored(row) for row in session.scalars(query)]


def newest_used(session: Session, most: int) -> list[StoredMeasurement]:
    """Read the accepted measurements that answer a question, the newest first, `most` of them."""
    query = (
        select(MeasurementTable)
        .where(MeasurementTable.status == "accepted", MeasurementTable.configuration.is_not(None))
        .order_by(MeasurementTable.added_at.desc(), MeasurementTable.id)
        .limit(most)
    )
    return [_stored(row) for row in session.scalars(query)]


def measurements(session: Session, wanted: Filter, *, limit: int, offset: int) -> tuple[list[StoredMeasurement], int]:
    """Read a page of measurements, the newest first, and how many there are in all."""
    conditions = list(_conditions(wanted))
    total = session.scalar(select(func.count()).select_from(MeasurementTable).where(*conditions)) or 0
    query = (
        select(MeasurementTable)
        .where(*conditions)
        .order_by(MeasurementTable.added_at.desc(), MeasurementTable.id)
        .limit(limit)
        .offset(offset)
    )
    return [_stored(row) for row in session.scalars(query)], total


def _conditions(wanted: Filter) -> Iterator[ColumnElement[bool]]:
    table = MeasurementTable
    exact = (
        (table.status, wanted.status),
        (table.metric, wanted.metric),
        (table.engine, wanted.engine),
        (table.backend, wanted.backend),
    )
    for column, value in exact:
        if value is not None:
            yield column == value
    if wanted.gpu is not None:
        yield table.rig.icontains(wanted.gpu, autoescape=True)
    if wanted.model is not None:
        yield table.model.icontains(wanted.model, autoescape=True)


def _values(entry: MeasurementEntry) -> dict[str, object]:
    return {name: getattr(entry, name) for name in _COLUMNS}


def _stored(row: MeasurementTable) -> StoredMeasurement:
    return StoredMeasurement(**{name: getattr(row, name) for name in (*_COLUMNS, "added_at")})


_COLUMNS = (
    "id", "status", "code", "reason", "metric", "value", "stddev", "engine", "backend", "model", "rig", "build",
    "configuration", "request", "facts", "source",
)  # fmt: skip
# what the audit trail says of one; the rest of its row nobody changes
_AUDITED = ("status", "code", "metric", "value", "model", "rig", "build", "source")
