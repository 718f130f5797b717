"""Entries of the queue: which task, of which job, for which release's workers."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy.orm import Session

from service.planning.queue.release import queue_of
from service.store.batches import Turn
from service.store.queue import enqueue

READ: Final = "read"
ANSWER: Final = "answer"


def enqueue_upload(session: Session, turn: Turn, rules_version: str) -> None:
    """Have a job's upload read once the transaction is committed."""
    enqueue(session, READ, queue_of(rules_version), [_arguments(turn)])


def enqueue_chunks(session: Session, turn: Turn, rules_version: str, first_rows: Sequence[int]) -> None:
    """Have a job's chunks answered once the transaction is committed."""
    entries = [{**_arguments(turn), "first_row": first_row} for first_row in first_rows]
    enqueue(session, ANSWER, queue_of(rules_version), entries)


def _arguments(turn: Turn) -> dict[str, str | int]:
    return {"batch_id": turn.batch_id, "restarts": turn.restarts}
