"""The tables of batch jobs; their queue's own tables lie in a schema beside (queue.py)."""

from datetime import datetime
from typing import Final

from sqlalchemy import CheckConstraint, ForeignKey, Index, LargeBinary, String, func, text
from sqlalchemy.orm import Mapped, mapped_column

from service.store.tables import JsonObject, Table


class BatchTable(Table):
    """A job: a table or list of questions, and how far its answers are.

    kind: what was sent; form: what is given back. restarts: how often another release took it over and began anew.
    layout: what its rows look like once they are read.
    """

    __tablename__ = "batches"
    __table_args__ = (
        CheckConstraint("status IN ('queued', 'running', 'finished', 'failed', 'cancelled')", name="status"),
        Index("ix_batches_status", "status"),
        Index("ix_batches_created_at", "created_at"),
    )

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    status: Mapped[str] = mapped_column(String(16))
    kind: Mapped[str] = mapped_column(String(8))
    form: Mapped[str] = mapped_column(String(8))
    rules_version: Mapped[str] = mapped_column(String(400))
    restarts: Mapped[int] = mapped_column(server_default=text("0"))
    layout: Mapped[JsonObject | None]
    rows: Mapped[int | None]
    rows_done: Mapped[int] = mapped_column(server_default=text("0"))
    rows_refused: Mapped[int] = mapped_column(server_default=text("0"))
    problem: Mapped[JsonObject | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    ended_at: Mapped[datetime | None]


class BatchUploadTable(Table):
    """What was uploaded, as it came, and its SHA-256."""

    __tablename__ = "batch_uploads"

    batch_id: Mapped[str] = mapped_column(ForeignKey("batches.id", ondelete="CASCADE"), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    content: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)


class BatchChunkTable(Table):
    """Some rows of a job that are answered and kept together."""

    __tablename__ = "batch_chunks"

    batch_id: Mapped[str] = mapped_column(ForeignKey("batches.id", ondelete="CASCADE"), primary_key=True)
    first_row: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    rows: Mapped[int]
    content: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    done_at: Mapped[datetime | None]


class BatchResultTable(Table):
    """The answer to one row; the key is what makes it the only one."""

    __tablename__ = "batch_results"

    batch_id: Mapped[str] = mapped_column(ForeignKey("batches.id", ondelete="CASCADE"), primary_key=True)
    row: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    result: Mapped[bytes] = mapped_column(LargeBinary)


class BatchWorkerTable(Table):
    """A process that answers jobs, while it says that it lives."""

    __tablename__ = "batch_workers"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    rules_version: Mapped[str] = mapped_column(String(400))
    seen_at: Mapped[datetime] = mapped_column(server_default=func.now())


class BatchMarkTable(Table):
    """What a caller calls a job by, as a digest, and the digest of what was asked."""

    __tablename__ = "batch_marks"
    __table_args__ = (Index("ix_batch_marks_batch_id", "batch_id"),)

    mark: Mapped[str] = mapped_column(String(64), primary_key=True)
    asked: Mapped[str] = mapped_column(String(64))
    batch_id: Mapped[str] = mapped_column(ForeignKey("batches.id", ondelete="CASCADE"))


METADATA: Final = Table.metadata
"""All tables of this release, those of tables.py included."""
