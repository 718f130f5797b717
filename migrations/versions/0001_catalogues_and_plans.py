"""Catalogues of cards and models, and saved plans.

Revision ID: 0001
Revises:
Create Date: 2026-11-29
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    create_catalogues()
    create_gpus()
    create_models()
    op.create_table(
        "saved_plans",
        sa.Column("id", sa.String(80), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.Column("rules_version", sa.String(80), nullable=False),
        sa.Column("data_version", sa.String(80), nullable=False),
        sa.Column("created_at", MOMENT, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_saved_plans"),
    )


def create_catalogues() -> None:
    catalogues = op.create_table(
        "catalogues",
        sa.Column("name", sa.String(16), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("builtin_digest", sa.String(64), nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_catalogues"),
    )
    op.bulk_insert(catalogues, [{"name": "gpus"}, {"name": "models"}])


def create_gpus() -> None:
    op.create_table(
        "gpus",
        sa.Column("slug", sa.String(80), nullable=False),
        sa.Column("record", sa.JSON(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("origin", sa.String(8), nullable=False),
        sa.Column("version", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("updated_at", MOMENT, server_default=sa.func.now(), nullable=False),
        sa.CheckConstraint("origin IN ('builtin', 'user')", name="ck_gpus_origin"),
        sa.PrimaryKeyConstraint("slug", name="pk_gpus"),
    )


def create_models() -> None:
    op.create_table(
        "models",
        sa.Column("id", sa.String(80), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("quant", sa.String(40), nullable=False),
        sa.Column("architecture", sa.String(80), nullable=False),
        sa.Column("tensor_count", sa.Integer(), nullable=False),
        sa.Column("tensor_data_bytes", sa.BigInteger(), nullable=False),
        sa.Column("parameters", sa.BigInteger(), nullable=False),
        sa.Column("active_parameters", sa.BigInteger(), nullable=False),
        sa.Column("trained_context_tokens", sa.BigInteger(), nullable=False),
        sa.Column("header_xz", sa.LargeBinary(), nullable=False),
        sa.Column("origin", sa.String(8), nullable=False),
        sa.Column("source", sa.String(2000), nullable=True),
        sa.Column("added_at", MOMENT, server_default=sa.func.now(), nullable=False),
        sa.CheckConstraint("origin IN ('builtin', 'user')", name="ck_models_origin"),
        sa.PrimaryKeyConstraint("id", name="pk_models"),
    )
    op.create_index("ix_models_name_quant", "models", ["name", "quant"])
    builtin = sa.text("origin = 'builtin'")
    op.create_index(
        "uq_models_builtin_name_quant",
        "models",
        ["name", "quant"],
        unique=True,
        sqlite_where=builtin,
        postgresql_where=builtin,
    )


def downgrade() -> None:
    for table in ("saved_plans", "models", "gpus", "catalogues"):
        op.drop_table(table)
