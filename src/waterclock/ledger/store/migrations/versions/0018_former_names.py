"""The former names of renamed tables and of their code."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from waterclock.ledger.store.schema import TEXT

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, empty."""
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    words = {"sqlite_with_rowid": False} if is_sqlite else {}
    op.create_table(
        "former_names",
        sa.Column("former", TEXT, primary_key=True),
        sa.Column("current", TEXT, nullable=False),
        sa.Column("is_code", sa.Boolean(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        **words,
    )
