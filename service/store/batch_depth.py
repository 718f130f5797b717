"""How much waits in the queue of batches."""

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.store.batch_tables import BatchTable
from service.store.batches import QUEUED, RUNNING, UNFINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """Jobs that wait and that are worked on, and rows of the latter that have no answer yet."""

    queued: int
    running: int
    rows_waiting: int


def queue_depth(session: Session) -> QueueDepth:
    """Count what is unfinished, from one query over its index."""
    waiting = func.coalesce(func.sum(BatchTable.rows - BatchTable.rows_done), 0)
    query = (
        select(BatchTable.status, func.count().label("jobs"), waiting.label("rows"))
        .where(BatchTable.status.in_(UNFINISHED))
        .group_by(BatchTable.status)
    )
    found = {row.status: (row.jobs, int(row.rows)) for row in session.execute(query)}
    return QueueDepth(
        queued=found.get(QUEUED, (0, 0))[0],
        running=found.get(RUNNING, (0, 0))[0],
        rows_waiting=sum(rows for _, rows in found.values()),
    )
