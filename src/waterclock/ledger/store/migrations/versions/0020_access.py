"""Creates the tables of access tokens and of recorded accesses."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from waterclock.ledger.store.schema import SERIAL, TEXT

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables of access tokens and accesses, and their indexes."""
    op.create_table(
        "access_tokens",
        sa.Column("name", TEXT, primary_key=True),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("user_name", TEXT, nullable=False),
        sa.Column("rights", TEXT, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", TEXT, nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger()),
        sa.Column("revoked_by", TEXT),
        sqlite_with_rowid=False,
    )
    op.create_index("access_tokens_by_digest", "access_tokens", ["digest"], unique=True)
    op.create_table(
        "accesses",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("sign_in", TEXT, nullable=False),
        sa.Column("action", TEXT, nullable=False),
        sa.Column("tables", TEXT, nullable=False),
        sa.Column("query", TEXT),
        sa.Column("address", TEXT, nullable=False),
        sa.Column("agent", TEXT, nullable=False),
        sa.Column("refusal", TEXT),
        sa.Column("times", sa.Integer(), nullable=False),
    )
    op.create_index("accesses_by_time", "accesses", ["at"])
    op.create_index("accesses_by_person", "accesses", ["who", "at"])
