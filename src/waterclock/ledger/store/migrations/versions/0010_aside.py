"""The number of quarantined rows of a batch, for finding those that can be replayed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the number to batches, and an index of the few batches that have one."""
    op.add_column("batches", sa.Column("aside", sa.BigInteger, nullable=True))
    has_rows = sa.text("aside IS NOT NULL")
    columns = ["table_name", "label"]
    op.create_index("batches_aside", "batches", columns, sqlite_where=has_rows, postgresql_where=has_rows)
