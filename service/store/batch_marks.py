"""What callers call their jobs by: each mark is of one job, for as long as that is kept."""

from dataclasses import dataclass

from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Session

from service.store.batch_tables import BatchMarkTable


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMark:
    """A mark, the digest of what was asked under it, and the job that was made of that."""

    mark: str
    asked: str
    batch_id: str


def batch_mark(session: Session, mark: str) -> BatchMark | None:
    """Read a mark, None where no job that is still kept has it."""
    row = session.get(BatchMarkTable, mark)
    return None if row is None else BatchMark(mark=row.mark, asked=row.asked, batch_id=row.batch_id)


def keep_mark(session: Session, mark: BatchMark) -> bool:
    """Insert a mark; False where another job has it, also one that another process keeps at this moment."""
    values = {"mark": mark.mark, "asked": mark.asked, "batch_id": mark.batch_id}
    kept = postgresql.insert(BatchMarkTable).values(values).on_conflict_do_nothing().returning(BatchMarkTable.mark)
    return session.scalar(kept) is not None
