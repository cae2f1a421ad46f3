"""The windows of each table that RETAIN has dropped."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the instant before which a table has no more windows."""
    op.add_column("tables", sa.Column("dropped_before", sa.BigInteger(), nullable=True))
