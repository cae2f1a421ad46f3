"""Where a ledger was moved to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from waterclock.ledger.store.schema import TEXT

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the place to which a ledger was moved, from where on it is never written again."""
    op.add_column("ledger", sa.Column("moved_to", TEXT, nullable=True))
