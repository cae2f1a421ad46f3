"""Root causes reported to users, the notifications of each target, and the messages waiting to be sent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from waterclock.ledger.store.schema import TEXT

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, empty: there were no alerts before."""
    op.create_table(
        "alerts",
        sa.Column("number", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("resolved_at", sa.BigInteger(), nullable=True),
        sa.Column("acknowledged_at", sa.BigInteger(), nullable=True),
        sa.Column("acknowledged_by", TEXT, nullable=True),
        sa.Column("acknowledged_why", TEXT, nullable=True),
        sa.Column("trouble", sa.JSON(), nullable=False),
        sa.Column("told", sa.JSON(), nullable=False),
        sa.Column("is_finished", sa.Boolean(), nullable=False),
    )
    _partial_index("alerts_unfinished", "alerts", ["number"], "NOT is_finished")
    op.create_table(
        "messages",
        sa.Column("number", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("target", TEXT, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("try_at", sa.BigInteger(), nullable=True),
        sa.Column("taken_until", sa.BigInteger(), nullable=True),
        sa.Column("error", TEXT, nullable=True),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
    )
    _partial_index("messages_unsent", "messages", ["target", "number"], "sent_at IS NULL")
    op.create_index("messages_by_age", "messages", ["target", "at"])
    op.create_table(
        "alerts_look",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
    )


def _partial_index(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
