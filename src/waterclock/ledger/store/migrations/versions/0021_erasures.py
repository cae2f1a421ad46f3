"""Creates the tables of erasures, and the number of the last one, which each claim reads without a further query."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from waterclock.ledger.store.schema import TEXT

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, and add the number to the ledger's own row."""
    op.create_table(
        "erasures",
        sa.Column("number", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("subject", TEXT, nullable=False),
        sa.Column("key_name", TEXT, nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("why", TEXT, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger()),
    )
    op.create_table(
        "erased_persons",
        sa.Column("erasure", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("hash", TEXT, primary_key=True),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "erasure_steps",
        sa.Column("erasure", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("step", TEXT, primary_key=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.add_column("ledger", sa.Column("erasures", sa.BigInteger(), nullable=False, server_default="0"))
