"""What callers took of their rates, so that all processes of a database count together.

Revision ID: 0008
Revises: 0007
Create Date: 2026-11-30
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "rate_uses",
        sa.Column("policy", sa.String(16), nullable=False),
        sa.Column("caller", sa.String(32), nullable=False),
        sa.Column("until", MOMENT, nullable=False),
        sa.Column("changed_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("policy", "caller", name="pk_rate_uses"),
    )
    op.create_index("ix_rate_uses_changed_at", "rate_uses", ["changed_at"])


def downgrade() -> None:
    op.drop_table("rate_uses")
