"""Measurements, and a counter of their changes.

Revision ID: 0003
Revises: 0002
Create Date: 2026-11-30
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "measurements",
        sa.Column("id", sa.String(80), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("code", sa.String(40), nullable=False),
        sa.Column("reason", sa.String(2000), nullable=False),
        sa.Column("metric", sa.String(40), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("stddev", sa.Double(), nullable=True),
        sa.Column("engine", sa.String(16), nullable=False),
        sa.Column("backend", sa.String(40), nullable=False),
        sa.Column("model", sa.String(400), nullable=True),
        sa.Column("rig", sa.String(400), nullable=False),
        sa.Column("build", sa.String(80), nullable=False),
        sa.Column("configuration", sa.String(64), nullable=True),
        sa.Column("request", sa.JSON(), nullable=True),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("source", sa.String(400), nullable=True),
        sa.Column("added_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.CheckConstraint("status IN ('accepted', 'quarantined')", name="ck_measurements_status"),
        sa.PrimaryKeyConstraint("id", name="pk_measurements"),
    )
    op.create_index("ix_measurements_configuration", "measurements", ["configuration"])
    op.create_index("ix_measurements_added_at", "measurements", ["added_at"])
    op.execute("INSERT INTO catalogues (name) VALUES ('measurements')")


def downgrade() -> None:
    op.execute("DELETE FROM catalogues WHERE name = 'measurements'")
    op.drop_table("measurements")
