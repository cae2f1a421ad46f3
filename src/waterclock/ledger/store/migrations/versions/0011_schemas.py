"""The schema versions of a table and its source, by their first batch."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from waterclock.ledger.store.schema import TEXT

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, empty: the next batch of each table adds its first version."""
    words = {"sqlite_with_rowid": False} if op.get_bind().dialect.name == "sqlite" else {}
    op.create_table(
        "schemas",
        sa.Column("table_name", TEXT, primary_key=True),
        sa.Column("side", TEXT, primary_key=True),
        sa.Column("version", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("label", sa.BigInteger(), nullable=False),
        sa.Column("claim", sa.BigInteger(), nullable=False),
        sa.Column("columns", sa.JSON(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        **words,
    )
