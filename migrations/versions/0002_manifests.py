"""Kinds and formats of models, and aliases of them.

Revision ID: 0002
Revises: 0001
Create Date: 2026-11-30
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("models", sa.Column("kind", sa.String(16), server_default=sa.text("'model'"), nullable=False))
    op.add_column("models", sa.Column("format", sa.String(16), server_default=sa.text("'gguf'"), nullable=False))
    op.create_table(
        "model_aliases",
        sa.Column("alias", sa.String(200), nullable=False),
        sa.Column("model_id", sa.String(80), nullable=False),
        sa.Column("added_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("alias", name="pk_model_aliases"),
    )


def downgrade() -> None:
    op.drop_table("model_aliases")
    op.drop_column("models", "format")
    op.drop_column("models", "kind")
