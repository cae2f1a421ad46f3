"""The ticks at which windows closed, and up to where open ones were checked (CLOSE WHEN)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from waterclock.ledger.store.schema import TEXT

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, empty: no window was closed before."""
    words = {"sqlite_with_rowid": False} if op.get_bind().dialect.name == "sqlite" else {}
    op.create_table(
        "closings",
        sa.Column("table_name", TEXT, primary_key=True),
        sa.Column("label", sa.BigInteger(), primary_key=True),
        sa.Column("tick", sa.BigInteger(), nullable=True),
        sa.Column("first", sa.BigInteger(), nullable=True),
        sa.Column("looked", sa.BigInteger(), nullable=True),
        sa.Column("reason", TEXT, nullable=True),
        sa.Column("behind", TEXT, nullable=True),
        sa.Column("asked", TEXT, nullable=True),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("why", TEXT, nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        **words,
    )
    op.create_index("closings_by_tick", "closings", ["table_name", "tick", "label"])
