"""The first tables of the ledger, and their views for external readers."""

from __future__ import annotations

from types import ModuleType

import sqlalchemy as sa
from alembic import op

from waterclock.ledger.store import postgres, sqlite
from waterclock.ledger.store.schema import SERIAL, TEXT

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create every table, index and view."""
    _tables()
    words = sqlite if op.get_bind().dialect.name == "sqlite" else postgres
    for name, query in (("batches", _batches(words)), ("inputs", _inputs(words)), ("events", _events(words))):
        op.execute(f"CREATE VIEW waterclock_{name} AS {query}")


def _tables() -> None:
    op.create_table(
        "batches",
        sa.Column("table_name", TEXT, nullable=False),
        sa.Column("label", sa.BigInteger(), nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=True),
        sa.Column("status", TEXT, nullable=True),
        sa.Column("claim", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", TEXT, nullable=True),
        sa.Column("is_transient", sa.Boolean(), nullable=True),
        sa.Column("due_again", sa.BigInteger(), nullable=True),
        sa.Column("requested", TEXT, nullable=True),
        sa.Column("requested_sequence", sa.BigInteger(), nullable=True),
        sa.Column("is_suspect", sa.Boolean(), nullable=False),
        sa.Column("current_claim", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=True),
        sa.Column("rows", sa.BigInteger(), nullable=True),
        sa.Column("bytes", sa.BigInteger(), nullable=True),
        sa.Column("digest", TEXT, nullable=True),
        sa.Column("hash_high", sa.BigInteger(), nullable=False),
        sa.Column("hash_low", sa.BigInteger(), nullable=False),
        sa.Column("slice_path", TEXT, nullable=True),
        sa.Column("stands_from", sa.BigInteger(), nullable=True),
        sa.Column("code", TEXT, nullable=True),
        sa.Column("recorded_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("table_name", "label"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "batches_in_trouble",
        "batches",
        ["table_name", "label"],
        unique=False,
        sqlite_where=sa.text("status IN ('failed', 'held')"),
        postgresql_where=sa.text("status IN ('failed', 'held')"),
    )
    op.create_index(
        "batches_requested",
        "batches",
        ["table_name", "label"],
        unique=False,
        sqlite_where=sa.text("requested IS NOT NULL"),
        postgresql_where=sa.text("requested IS NOT NULL"),
    )
    op.create_index(
        "batches_suspect",
        "batches",
        ["table_name", "label"],
        unique=False,
        sqlite_where=sa.text("is_suspect"),
        postgresql_where=sa.text("is_suspect"),
    )
    op.create_table(
        "claim_labels",
        sa.Column("claim", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("label", sa.BigInteger(), nullable=False),
        sa.Column("table_name", TEXT, nullable=False),
        sa.Column("prior_status", TEXT, nullable=True),
        sa.Column("prior_claim", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("claim", "label"),
        sqlite_with_rowid=False,
    )
    op.create_index("claim_labels_of_batch", "claim_labels", ["table_name", "label"], unique=False)
    op.create_table(
        "claims",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("table_name", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("code", TEXT, nullable=False),
        sa.Column("flow", TEXT, nullable=False),
        sa.Column("runner", TEXT, nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("run", TEXT, nullable=True),
        sa.Column("now", sa.BigInteger(), nullable=False),
        sa.Column("target_version", sa.BigInteger(), nullable=False),
        sa.Column("claimed_at", sa.BigInteger(), nullable=False),
        sa.Column("claimed_sequence", sa.BigInteger(), nullable=False),
        sa.Column("lease_seconds", sa.Float(), nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.Column("error", TEXT, nullable=True),
        sa.Column("is_transient", sa.Boolean(), nullable=True),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index(
        "claims_open",
        "claims",
        ["table_name"],
        unique=False,
        sqlite_where=sa.text("status = 'open'"),
        postgresql_where=sa.text("status = 'open'"),
    )
    op.create_table(
        "codes",
        sa.Column("table_name", TEXT, nullable=False),
        sa.Column("code", TEXT, nullable=False),
        sa.Column("labels", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_name", "code"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "coverage",
        sa.Column("table_name", TEXT, nullable=False),
        sa.Column("low", sa.BigInteger(), nullable=False),
        sa.Column("high", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_name", "low"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "events",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("table_name", TEXT, nullable=True),
        sa.Column("label", sa.BigInteger(), nullable=True),
        sa.Column("claim", sa.BigInteger(), nullable=True),
        sa.Column("run", TEXT, nullable=True),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("events_of_batch", "events", ["table_name", "label"], unique=False)
    op.create_table(
        "flows",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("fingerprint", TEXT, nullable=False),
        sa.Column("applied_at", sa.BigInteger(), nullable=False),
        sa.Column("now", sa.BigInteger(), nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("runner", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_table(
        "inputs",
        sa.Column("claim", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("label", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("reader", TEXT, nullable=False),
        sa.Column("table_name", TEXT, nullable=False),
        sa.Column("read", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("low", sa.BigInteger(), nullable=False),
        sa.Column("high", sa.BigInteger(), nullable=False),
        sa.Column("location", TEXT, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("content", TEXT, nullable=False),
        sa.Column("changes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("claim", "label", "position"),
        sqlite_with_rowid=False,
    )
    op.create_index("inputs_read", "inputs", ["table_name", "high", "low", "reader", "label", "claim"], unique=False)
    op.create_table(
        "items",
        sa.Column("table_name", TEXT, nullable=False),
        sa.Column("item", TEXT, nullable=False),
        sa.Column("label", sa.BigInteger(), nullable=False),
        sa.Column("claim", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("table_name", "item"),
        sqlite_with_rowid=False,
    )
    op.create_index("items_of_batch", "items", ["table_name", "label"], unique=False)
    op.create_table(
        "ledger",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project", TEXT, nullable=True),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("last_claim", sa.BigInteger(), nullable=False),
        sa.Column("flow", TEXT, nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "revisions",
        sa.Column("table_name", TEXT, nullable=False),
        sa.Column("label", sa.BigInteger(), nullable=False),
        sa.Column("claim", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("digest", TEXT, nullable=True),
        sa.Column("slice_path", TEXT, nullable=False),
        sa.Column("stands_from", sa.BigInteger(), nullable=True),
        sa.Column("measures", sa.JSON(), nullable=False),
        sa.Column("timings", sa.JSON(), nullable=False),
        sa.Column("source", sa.JSON(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("recorded_sequence", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_name", "label", "claim"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "runs",
        sa.Column("run", TEXT, nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("command", TEXT, nullable=False),
        sa.Column("now", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("outcome", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("run"),
    )
    op.create_table(
        "tables",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("type", TEXT, nullable=False),
        sa.Column("mode", TEXT, nullable=False),
        sa.Column("cadence", TEXT, nullable=False),
        sa.Column("zone", TEXT, nullable=False),
        sa.Column("keys", TEXT, nullable=False),
        sa.Column("is_declared", sa.Boolean(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=True),
        sa.Column("location", TEXT, nullable=False),
        sa.Column("head_version", sa.BigInteger(), nullable=False),
        sa.Column("head_label", sa.BigInteger(), nullable=True),
        sa.Column("changes", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "versions",
        sa.Column("table_name", TEXT, nullable=False),
        sa.Column("label", sa.BigInteger(), nullable=False),
        sa.Column("claim", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("dropped_by", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("table_name", "label", "claim"),
        sqlite_with_rowid=False,
    )


def _batches(words: ModuleType) -> str:
    return f"""
        SELECT b.table_name AS "table", {words.label_text("b.label")} AS timelabel,
               {words.time_text('b."end"')} AS window_end,
               b.status, b.claim, b.current_claim, b.attempts, b.rows, b.bytes, b.digest, b.version, b.code,
               {words.time_text("b.stands_from")} AS stands_from,
               {words.flag("b.is_suspect")} AS is_suspect, b.requested, b.error,
               {words.moment_text("b.due_again")} AS due_again, {words.moment_text("c.claimed_at")} AS claimed_at,
               {words.moment_text("b.recorded_at")} AS recorded_at, c.who, c.runner, c.run,
               {words.json_text("r.timings")} AS timings, {words.json_text("r.measures")} AS measures,
               {words.json_text("r.source")} AS source
        FROM batches b
        LEFT JOIN claims c ON c.number = b.claim
        LEFT JOIN revisions r ON r.table_name = b.table_name AND r.label = b.label AND r.claim = b.current_claim
    """


def _inputs(words: ModuleType) -> str:
    return f"""
        SELECT i.reader AS "table", {words.label_text("i.label")} AS timelabel, i.claim, i.position,
               i.table_name AS input, i.read, i.kind,
               {words.time_text("i.low")} AS low, {words.time_text("i.high")} AS high,
               i.location, i.version, i.content, {words.flag("b.claim IS NOT NULL")} AS is_current
        FROM inputs i
        LEFT JOIN batches b ON b.table_name = i.reader AND b.label = i.label AND b.current_claim = i.claim
    """


def _events(words: ModuleType) -> str:
    return f"""
        SELECT id, {words.moment_text("at")} AS at, kind, who, table_name AS "table",
               {words.label_text("label")} AS timelabel,
               claim, run, {words.json_text("data")} AS data
        FROM events
    """
