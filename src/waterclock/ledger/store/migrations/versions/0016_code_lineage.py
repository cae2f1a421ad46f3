"""What the columns of Python transforms are made of, as plans of their batches showed it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from waterclock.ledger.store.schema import TEXT

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table, empty: the next batch of each Python transform shows its plan."""
    words = {"sqlite_with_rowid": False} if op.get_bind().dialect.name == "sqlite" else {}
    op.create_table(
        "code_lineage",
        sa.Column("table_name", TEXT, primary_key=True),
        sa.Column("code", TEXT, primary_key=True),
        sa.Column("lineage", sa.JSON(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        **words,
    )
