"""The missing inputs of batches that did not wait for all of them (PARTIAL AFTER)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from waterclock.ledger.store.schema import TEXT

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the missing inputs to batches, and an index of the few batches that have any."""
    op.add_column("batches", sa.Column("missing", TEXT, nullable=True))
    lacks = sa.text("missing IS NOT NULL")
    columns = ["table_name", "label"]
    op.create_index("batches_partial", "batches", columns, sqlite_where=lacks, postgresql_where=lacks)
