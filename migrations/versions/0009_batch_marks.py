"""What callers call their batches by, so that an upload that is sent again is the same batch.

Revision ID: 0009
Revises: 0008
Create Date: 2026-11-30
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "batch_marks",
        sa.Column("mark", sa.String(64), nullable=False),
        sa.Column("asked", sa.String(64), nullable=False),
        sa.Column("batch_id", sa.String(40), nullable=False),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["batches.id"], name="fk_batch_marks_batch_id_batches", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("mark", name="pk_batch_marks"),
    )
    op.create_index("ix_batch_marks_batch_id", "batch_marks", ["batch_id"])


def downgrade() -> None:
    op.drop_table("batch_marks")
