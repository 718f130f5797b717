"""Batch jobs and, in PostgreSQL, the queue that they go through.

Revision ID: 0007
Revises: 0006
Create Date: 2026-11-30
"""

import sqlalchemy as sa
from alembic import op

from service.store.queue import drop_queue, migrate_queue

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

# procrastinate's migrations as of its release 3.10; those of a later one are a migration of their own
NEWEST_OF_THE_QUEUE = "03.04.00_50_post_add_retry_failed_job_procedure.sql"


def upgrade() -> None:
    op.create_table(
        "batches",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("form", sa.String(8), nullable=False),
        sa.Column("rules_version", sa.String(400), nullable=False),
        sa.Column("restarts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("layout", sa.JSON(), nullable=True),
        sa.Column("rows", sa.Integer(), nullable=True),
        sa.Column("rows_done", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("rows_refused", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("problem", sa.JSON(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "status IN ('queued', 'running', 'finished', 'failed', 'cancelled')", name="ck_batches_status"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_batches"),
    )
    op.create_index("ix_batches_status", "batches", ["status"])
    op.create_index("ix_batches_created_at", "batches", ["created_at"])
    op.create_table(
        "batch_uploads",
        _batch_id(),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        _of_batch("batch_uploads"),
        sa.PrimaryKeyConstraint("batch_id", name="pk_batch_uploads"),
    )
    op.create_table(
        "batch_chunks",
        _batch_id(),
        sa.Column("first_row", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("done_at", sa.DateTime(timezone=True), nullable=True),
        _of_batch("batch_chunks"),
        sa.PrimaryKeyConstraint("batch_id", "first_row", name="pk_batch_chunks"),
    )
    op.create_table(
        "batch_results",
        _batch_id(),
        sa.Column("row", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("result", sa.LargeBinary(), nullable=False),
        _of_batch("batch_results"),
        sa.PrimaryKeyConstraint("batch_id", "row", name="pk_batch_results"),
    )
    op.create_table(
        "batch_workers",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("rules_version", sa.String(400), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_batch_workers"),
    )
    if op.get_bind().dialect.name == "postgresql":
        migrate_queue(op.get_bind(), NEWEST_OF_THE_QUEUE)


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        drop_queue(op.get_bind())
    for table in ("batch_workers", "batch_results", "batch_chunks", "batch_uploads", "batches"):
        op.drop_table(table)


def _batch_id() -> sa.Column[str]:
    return sa.Column("batch_id", sa.String(40), nullable=False)


def _of_batch(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["batch_id"], ["batches.id"], name=f"fk_{table}_batch_id_batches", ondelete="CASCADE"
    )
