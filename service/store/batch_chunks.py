"""Chunks of a job's rows, and the answers that are kept together with a chunk's end."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine, func, insert, select, update
from sqlalchemy.orm import Session

from service.store.batch_tables import BatchChunkTable, BatchResultTable, BatchTable
from service.store.batches import RUNNING, Turn, count_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Rows from `first_row` on, as they are kept; the first row of a job is 0."""

    first_row: int
    rows: int
    content: bytes


def keep_chunks(session: Session, turn: Turn, chunks: Sequence[Chunk]) -> None:
    """Insert chunks that wait."""
    values = [
        {"batch_id": turn.batch_id, "first_row": chunk.first_row, "rows": chunk.rows, "content": chunk.content}
        for chunk in chunks
    ]
    if values:
        session.execute(insert(BatchChunkTable), values)


def waiting_chunk(session: Session, turn: Turn, first_row: int) -> Chunk | None:
    """Read a chunk, None where it is done or its job is not to be done any more."""
    query = (
        select(BatchChunkTable.first_row, BatchChunkTable.rows, BatchChunkTable.content)
        .join(BatchTable, BatchTable.id == BatchChunkTable.batch_id)
        .where(
            BatchTable.id == turn.batch_id,
            BatchTable.restarts == turn.restarts,
            BatchTable.status == RUNNING,
            BatchChunkTable.first_row == first_row,
            BatchChunkTable.done_at.is_(None),
        )
    )
    found = session.execute(query).one_or_none()
    return None if found is None else Chunk(first_row=found.first_row, rows=found.rows, content=found.content)


def keep_results(session: Session, turn: Turn, first_row: int, results: Sequence[bytes], refused: int) -> bool:
    """End a chunk with its answers, all in the session's transaction, which is to be undone where this is False.

    False where another process ended it, the job was cancelled, or another release began it anew.
    """
    ended = (
        update(BatchChunkTable)
        .where(
            BatchChunkTable.batch_id == turn.batch_id,
            BatchChunkTable.first_row == first_row,
            BatchChunkTable.done_at.is_(None),
        )
        .values(done_at=func.now())
        .returning(BatchChunkTable.rows)
    )
    # the job's row first, so that a restart and this wait for each other
    if not count_rows(session, turn, len(results), refused):
        return False
    rows = session.scalar(ended)
    if rows is None:
        return False
    if rows != len(results):
        raise ValueError(f"{len(results)} results for a chunk of {rows} rows")
    values = [
        {"batch_id": turn.batch_id, "row": row, "result": result} for row, result in enumerate(results, first_row)
    ]
    session.execute(insert(BatchResultTable), values)
    return True


def chunks_with_results(database: Engine, batch_id: str) -> Iterator[tuple[Chunk, list[bytes]]]:
    """Every chunk of a finished job in the order of its rows, with its answers, one chunk at a time."""
    next_row = 0
    while True:
        with Session(database) as session:
            query = (
                select(BatchChunkTable.first_row, BatchChunkTable.rows, BatchChunkTable.content)
                .where(BatchChunkTable.batch_id == batch_id, BatchChunkTable.first_row >= next_row)
                .order_by(BatchChunkTable.first_row)
                .limit(1)
            )
            found = session.execute(query).one_or_none()
            if found is None:
                return
            next_row = found.first_row + found.rows
            results = (
                select(BatchResultTable.result)
                .where(
                    BatchResultTable.batch_id == batch_id,
                    BatchResultTable.row >= found.first_row,
                    BatchResultTable.row < next_row,
                )
                .order_by(BatchResultTable.row)
            )
            answers = list(session.scalars(results))
        yield Chunk(first_row=found.first_row, rows=found.rows, content=found.content), answers
