"""The column lineage of Python transforms, as found in the plans of their batches."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from waterclock.ledger.store.schema import TEXT

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, empty: it is filled from the plan of each Python transform's next batch."""
    words = {"sqlite_with_rowid": False} if op.get_bind().dialect.name == "sqlite" else {}
    op.create_table(
        "code_lineage",
        sa.Column("table_name", TEXT, primary_key=True),
        sa.Column("code", TEXT, primary_key=True),
        sa.Column("lineage", sa.JSON(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        **words,
    )
