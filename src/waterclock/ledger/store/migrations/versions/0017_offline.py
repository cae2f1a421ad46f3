"""Offline measurements: when they ran, and their results by label and by span of labels."""

from __future__ import annotations

from types import ModuleType

import sqlalchemy as sa
from alembic import op

from waterclock.ledger.store import postgres, sqlite
from waterclock.ledger.store.schema import TEXT

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, empty, and the views: of labels with both kinds of measures, and of spans."""
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    words = {"sqlite_with_rowid": False} if is_sqlite else {}
    op.create_table(
        "offline_looks",
        sa.Column("table_name", TEXT, primary_key=True),
        sa.Column("code", TEXT, nullable=False),
        sa.Column("looked_at", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("labels", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("error", TEXT),
        sa.Column("taken_until", sa.BigInteger()),
        **words,
    )
    op.create_table(
        "offline_measures",
        sa.Column("table_name", TEXT, primary_key=True),
        sa.Column("label", sa.BigInteger(), primary_key=True),
        sa.Column("claim", sa.BigInteger(), nullable=False),
        sa.Column("code", TEXT, nullable=False),
        sa.Column("found", sa.JSON(), nullable=False),
        sa.Column("states", sa.JSON()),
        sa.Column("at", sa.BigInteger(), nullable=False),
        **words,
    )
    op.create_table(
        "offline_spans",
        sa.Column("table_name", TEXT, primary_key=True),
        sa.Column("low", sa.BigInteger(), primary_key=True),
        sa.Column("high", sa.BigInteger(), nullable=False),
        sa.Column("labels", sa.Integer(), nullable=False),
        sa.Column("code", TEXT, nullable=False),
        sa.Column("found", sa.JSON(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        **words,
    )
    _make_views(sqlite if is_sqlite else postgres, is_sqlite=is_sqlite)


def _make_views(words: ModuleType, *, is_sqlite: bool) -> None:
    if is_sqlite:
        online, offline = "json_each(r.measures, '$.measured') AS m", "json_each(o.found) AS m"
        name, value, kind = "m.key", "json_extract(m.value, '$.value')", "json_extract(m.value, '$.type')"
    else:
        online, offline = "json_each(r.measures -> 'measured') AS m", "json_each(o.found) AS m"
        found = ("m.key", "m.value ->> 'value'", "m.value ->> 'type'")
        name, value, kind = (f'({one}) COLLATE "C"' for one in found)  # as all texts of the ledger
    of_batch = f"""
        SELECT b.table_name AS "table", {words.label_text("b.label")} AS timelabel, {name} AS name,
               {value} AS value, {kind} AS type, b.current_claim AS claim
        FROM batches b
    """
    op.execute("DROP VIEW IF EXISTS waterclock_measures")
    op.execute(f"""
        CREATE VIEW waterclock_measures AS
        {of_batch}
        JOIN revisions r ON r.table_name = b.table_name AND r.label = b.label AND r.claim = b.current_claim
        CROSS JOIN {online}
        UNION ALL
        {of_batch}
        JOIN offline_measures o ON o.table_name = b.table_name AND o.label = b.label AND o.claim = b.current_claim
        CROSS JOIN {offline}
    """)
    op.execute("DROP VIEW IF EXISTS waterclock_measured_spans")
    op.execute(f"""
        CREATE VIEW waterclock_measured_spans AS
        SELECT o.table_name AS "table", {words.label_text("o.low")} AS first, {words.label_text("o.high")} AS until,
               o.labels AS labels, {name} AS name, {value} AS value, {kind} AS type
        FROM offline_spans o
        CROSS JOIN {offline}
    """)
