"""The event up to which the ledger was sent to a lineage tool."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from waterclock.ledger.store.schema import TEXT

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, empty: nothing was sent before."""
    op.create_table(
        "lineage_sent",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("event", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
        sa.Column("try_at", sa.BigInteger(), nullable=True),
        sa.Column("taken_until", sa.BigInteger(), nullable=True),
        sa.Column("error", TEXT, nullable=True),
    )
