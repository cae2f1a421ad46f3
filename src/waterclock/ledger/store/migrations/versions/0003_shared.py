"""Support for several runners of one ledger: their rows, the pools they share, and the new place of a moved ledger."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from waterclock.ledger.store.schema import TEXT

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table of runners, the pool of a claim, and the place to which a ledger was moved."""
    op.add_column("ledger", sa.Column("moved_to", TEXT, nullable=True))
    op.add_column("claims", sa.Column("pool", TEXT, nullable=True))
    op.create_table(
        "runners",
        sa.Column("runner", TEXT, nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("command", TEXT, nullable=False),
        sa.Column("flow", TEXT, nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("lease_seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("runner"),
    )
