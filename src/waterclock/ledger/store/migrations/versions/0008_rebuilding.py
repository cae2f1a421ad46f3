"""Who makes all tables anew, so that nobody else claims a batch meanwhile."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from waterclock.ledger.store.schema import TEXT

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what holds claims back while all tables are made anew."""
    op.add_column("ledger", sa.Column("rebuilding", TEXT, nullable=True))
