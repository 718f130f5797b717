"""Marks of Slack's requests, so that each is answered once whichever process gets it.

Revision ID: 0004
Revises: 0003
Create Date: 2026-11-30
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "slack_marks",
        sa.Column("mark", sa.String(64), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("mark", name="pk_slack_marks"),
    )
    op.create_index("ix_slack_marks_expires_at", "slack_marks", ["expires_at"])


def downgrade() -> None:
    op.drop_table("slack_marks")
