"""The rebuild lock, which blocks all claims during `rebuild --all`."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from waterclock.ledger.store.schema import TEXT

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column for the rebuild lock."""
    op.add_column("ledger", sa.Column("rebuilding", TEXT, nullable=True))
