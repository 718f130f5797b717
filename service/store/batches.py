"""Batch jobs: made, followed, ended and forgotten."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Select, delete, exists, func, select, update
from sqlalchemy.orm import Session

from service.store.batch_tables import BatchChunkTable, BatchResultTable, BatchTable, BatchUploadTable, BatchWorkerTable
from service.store.tables import JsonObject

QUEUED, RUNNING, FINISHED, FAILED, CANCELLED = "queued", "running", "finished", "failed", "cancelled"
UNFINISHED = (QUEUED, RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """A job at one moment."""

    id: str
    status: str
    kind: str
    form: str
    rules_version: str
    restarts: int
    layout: JsonObject | None
    rows: int | None
    rows_done: int
    rows_refused: int
    problem: JsonObject | None
    created_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEntry:
    """A job to keep, with what was uploaded and its SHA-256."""

    id: str
    kind: str
    form: str
    rules_version: str
    content: bytes
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A job under one release: nothing that was begun before a restart counts after it."""

    batch_id: str
    restarts: int


def keep_batch(session: Session, entry: BatchEntry) -> None:
    """Insert a job that waits."""
    session.add(
        BatchTable(id=entry.id, status=QUEUED, kind=entry.kind, form=entry.form, rules_version=entry.rules_version)
    )
    session.flush()
    session.add(BatchUploadTable(batch_id=entry.id, digest=entry.digest, content=entry.content))
    session.flush()


def batch(session: Session, batch_id: str) -> StoredBatch | None:
    """Read a job, None where there is none of that id."""
    row = session.get(BatchTable, batch_id, populate_existing=True)
    return None if row is None else _stored(row)


def latest_batches(session: Session, most: int) -> list[StoredBatch]:
    """Read the latest jobs, the newest first."""
    query = select(BatchTable).order_by(BatchTable.created_at.desc(), BatchTable.id).limit(most)
    return [_stored(row) for row in session.scalars(query)]


def unfinished_count(session: Session) -> int:
    """How many jobs wait or are worked on."""
    query = select(func.count()).select_from(BatchTable).where(BatchTable.status.in_(UNFINISHED))
    return session.scalar(query) or 0


def upload(session: Session, batch_id: str) -> tuple[bytes, str]:
    """Read what was uploaded, and the SHA-256 that it had when it came."""
    found = select(BatchUploadTable.content, BatchUploadTable.digest).where(BatchUploadTable.batch_id == batch_id)
    content, digest = session.execute(found).one()
    return content, digest


def end_batch(session: Session, batch_id: str, status: str, problem: JsonObject | None = None) -> bool:
    """End a job that is not ended yet, and say whether it was."""
    ended = (
        update(BatchTable)
        .where(BatchTable.id == batch_id, BatchTable.status.in_(UNFINISHED))
        .values(status=status, problem=problem, ended_at=func.now())
        .returning(BatchTable.id)
    )
    return session.scalar(ended) is not None


def fail_turn(session: Session, turn: Turn, problem: JsonObject) -> bool:
    """End a job with a problem, unless it ended or another release began it anew meanwhile; says whether it did."""
    return session.scalar(_locked(turn)) is not None and end_batch(session, turn.batch_id, FAILED, problem)


def begin_rows(session: Session, turn: Turn, rows: int, layout: JsonObject) -> bool:
    """Note what was read of a waiting job; False where that was done before, or the job is not to be done any more."""
    begun = (
        update(BatchTable)
        .where(BatchTable.id == turn.batch_id, BatchTable.restarts == turn.restarts, BatchTable.status == QUEUED)
        .values(status=RUNNING, rows=rows, layout=layout)
        .returning(BatchTable.id)
    )
    return session.scalar(begun) is not None


def count_rows(session: Session, turn: Turn, rows: int, refused: int) -> bool:
    """Count rows that are done, and end the job with its last; False where they are not wanted any more."""
    counted = (
        update(BatchTable)
        .where(BatchTable.id == turn.batch_id, BatchTable.restarts == turn.restarts, BatchTable.status == RUNNING)
        .values(rows_done=BatchTable.rows_done + rows, rows_refused=BatchTable.rows_refused + refused)
        .returning(BatchTable.rows, BatchTable.rows_done)
    )
    found = session.execute(counted).one_or_none()
    if found is None:
        return False
    if found.rows_done == found.rows:
        end_batch(session, turn.batch_id, FINISHED)
    return True


def orphans(session: Session, rules_version: str, silent_since: datetime) -> Sequence[str]:
    """Unfinished jobs of other releases of which no worker was seen since; locked for the transaction."""
    seen = exists().where(
        BatchWorkerTable.rules_version == BatchTable.rules_version, BatchWorkerTable.seen_at >= silent_since
    )
    query = (
        select(BatchTable.id)
        .where(BatchTable.status.in_(UNFINISHED), BatchTable.rules_version != rules_version, ~seen)
        .with_for_update(skip_locked=True)
    )
    return session.scalars(query).all()


def restart(session: Session, batch_id: str, rules_version: str) -> Turn:
    """Begin a job anew under another release, without a row of the earlier one's."""
    session.execute(delete(BatchResultTable).where(BatchResultTable.batch_id == batch_id))
    session.execute(delete(BatchChunkTable).where(BatchChunkTable.batch_id == batch_id))
    begun = (
        update(BatchTable)
        .where(BatchTable.id == batch_id)
        .values(
            status=QUEUED, rules_version=rules_version, restarts=BatchTable.restarts + 1, layout=None, rows=None,
            rows_done=0, rows_refused=0,
        )
        .returning(BatchTable.restarts)
    )  # fmt: skip
    return Turn(batch_id=batch_id, restarts=session.execute(begun).scalar_one())


def forget_batches(session: Session, kept: timedelta) -> int:
    """Delete jobs that ended longer ago than that, with all that belongs to them, and say how many."""
    old = delete(BatchTable).where(BatchTable.ended_at < func.now() - kept).returning(BatchTable.id)
    return len(session.scalars(old).all())


def _locked(turn: Turn) -> Select[str]:
    return (
        select(BatchTable.id)
        .where(BatchTable.id == turn.batch_id, BatchTable.restarts == turn.restarts)
        .with_for_update()
    )


def _stored(row: BatchTable) -> StoredBatch:
    return StoredBatch(**{name: getattr(row, name) for name in StoredBatch.__slots__})
