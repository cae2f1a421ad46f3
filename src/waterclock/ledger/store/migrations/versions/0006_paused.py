"""Pauses of a table or of all: by whom, since when and why."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from waterclock.ledger.store.schema import TEXT

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the pause of each table, and that of all."""
    for table in ("tables", "ledger"):
        op.add_column(table, sa.Column("paused_at", sa.BigInteger(), nullable=True))
        op.add_column(table, sa.Column("paused_by", TEXT, nullable=True))
        op.add_column(table, sa.Column("paused_why", TEXT, nullable=True))
