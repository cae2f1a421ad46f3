"""Creates all tables, indexes and views of the ledger of version 0.1.0.

Development versions reached the same schema in 19 steps, so a ledger of the last of them needs no upgrade. The next
revision is 0020.
"""

from __future__ import annotations

from types import ModuleType

import sqlalchemy as sa
from alembic import op

from waterclock.ledger.store import postgres, sqlite
from waterclock.ledger.store.schema import SERIAL, TEXT

revision = "0019"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create every table, index and view."""
    _make_declared_tables()
    _make_claims_and_batches()
    _make_inputs()
    _make_offline_measures()
    _make_messages()
    _make_events_and_runs()
    _make_views()


def _make_declared_tables() -> None:
    op.create_table(
        "ledger",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("project", TEXT),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("last_claim", sa.BigInteger(), nullable=False),
        sa.Column("flow", TEXT),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("moved_to", TEXT),
        sa.Column("paused_at", sa.BigInteger()),
        sa.Column("paused_by", TEXT),
        sa.Column("paused_why", TEXT),
        sa.Column("rebuilding", TEXT),
        sa.Column("last_recorded", sa.BigInteger()),
    )
    op.create_table(
        "flows",
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("fingerprint", TEXT, nullable=False),
        sa.Column("applied_at", sa.BigInteger(), nullable=False),
        sa.Column("now", sa.BigInteger(), nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("runner", TEXT, nullable=False),
    )
    op.create_table(
        "tables",
        sa.Column("name", TEXT, primary_key=True),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("type", TEXT, nullable=False),
        sa.Column("mode", TEXT, nullable=False),
        sa.Column("cadence", TEXT, nullable=False),
        sa.Column("zone", TEXT, nullable=False),
        sa.Column("keys", TEXT, nullable=False),
        sa.Column("is_declared", sa.Boolean(), nullable=False),
        sa.Column("start", sa.BigInteger()),
        sa.Column("location", TEXT, nullable=False),
        sa.Column("head_version", sa.BigInteger(), nullable=False),
        sa.Column("head_label", sa.BigInteger()),
        sa.Column("changes", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Float()),
        sa.Column("dropped_before", sa.BigInteger()),
        sa.Column("sum_high", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("sum_low", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("paused_at", sa.BigInteger()),
        sa.Column("paused_by", TEXT),
        sa.Column("paused_why", TEXT),
    )
    op.create_table(
        "codes",
        sa.Column("table_name", TEXT, primary_key=True),
        sa.Column("code", TEXT, primary_key=True),
        sa.Column("labels", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "coverage",
        sa.Column("table_name", TEXT, primary_key=True),
        sa.Column("low", sa.BigInteger(), primary_key=True),
        sa.Column("high", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "schemas",
        sa.Column("table_name", TEXT, primary_key=True),
        sa.Column("side", TEXT, primary_key=True),
        sa.Column("version", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("label", sa.BigInteger(), nullable=False),
        sa.Column("claim", sa.BigInteger(), nullable=False),
        sa.Column("columns", sa.JSON(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "former_names",
        sa.Column("former", TEXT, primary_key=True),
        sa.Column("current", TEXT, nullable=False),
        sa.Column("is_code", sa.Boolean(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "code_lineage",
        sa.Column("table_name", TEXT, primary_key=True),
        sa.Column("code", TEXT, primary_key=True),
        sa.Column("lineage", sa.JSON(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )


def _make_claims_and_batches() -> None:
    op.create_table(
        "claims",
        sa.Column("number", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("table_name", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("code", TEXT, nullable=False),
        sa.Column("flow", TEXT, nullable=False),
        sa.Column("runner", TEXT, nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("run", TEXT),
        sa.Column("now", sa.BigInteger(), nullable=False),
        sa.Column("target_version", sa.BigInteger(), nullable=False),
        sa.Column("claimed_at", sa.BigInteger(), nullable=False),
        sa.Column("claimed_sequence", sa.BigInteger(), nullable=False),
        sa.Column("lease_seconds", sa.Float(), nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.Column("closed_at", sa.BigInteger()),
        sa.Column("error", TEXT),
        sa.Column("is_transient", sa.Boolean()),
        sa.Column("pool", TEXT),
    )
    _partial_index("claims_done", "claims", ["closed_at"], "status = 'done'")
    _partial_index("claims_open", "claims", ["table_name"], "status = 'open'")
    op.create_table(
        "claim_labels",
        sa.Column("claim", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("label", sa.BigInteger(), primary_key=True),
        sa.Column("table_name", TEXT, nullable=False),
        sa.Column("prior_status", TEXT),
        sa.Column("prior_claim", sa.BigInteger()),
        sqlite_with_rowid=False,
    )
    op.create_index("claim_labels_of_batch", "claim_labels", ["table_name", "label"])
    op.create_table(
        "batches",
        sa.Column("table_name", TEXT, primary_key=True),
        sa.Column("label", sa.BigInteger(), primary_key=True),
        sa.Column("end", sa.BigInteger()),
        sa.Column("status", TEXT),
        sa.Column("claim", sa.BigInteger()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", TEXT),
        sa.Column("is_transient", sa.Boolean()),
        sa.Column("due_again", sa.BigInteger()),
        sa.Column("requested", TEXT),
        sa.Column("requested_sequence", sa.BigInteger()),
        sa.Column("is_suspect", sa.Boolean(), nullable=False),
        sa.Column("current_claim", sa.BigInteger()),
        sa.Column("version", sa.BigInteger()),
        sa.Column("rows", sa.BigInteger()),
        sa.Column("bytes", sa.BigInteger()),
        sa.Column("digest", TEXT),
        sa.Column("hash_high", sa.BigInteger(), nullable=False),
        sa.Column("hash_low", sa.BigInteger(), nullable=False),
        sa.Column("slice_path", TEXT),
        sa.Column("stands_from", sa.BigInteger()),
        sa.Column("code", TEXT),
        sa.Column("recorded_at", sa.BigInteger()),
        sa.Column("missing", TEXT),
        sa.Column("aside", sa.BigInteger()),
        sqlite_with_rowid=False,
    )
    _partial_index("batches_aside", "batches", ["table_name", "label"], "aside IS NOT NULL")
    _partial_index("batches_in_trouble", "batches", ["table_name", "label"], "status IN ('failed', 'held')")
    _partial_index("batches_partial", "batches", ["table_name", "label"], "missing IS NOT NULL")
    _partial_index("batches_requested", "batches", ["table_name", "label"], "requested IS NOT NULL")
    _partial_index("batches_suspect", "batches", ["table_name", "label"], "is_suspect")
    op.create_table(
        "revisions",
        sa.Column("table_name", TEXT, primary_key=True),
        sa.Column("label", sa.BigInteger(), primary_key=True),
        sa.Column("claim", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("digest", TEXT),
        sa.Column("slice_path", TEXT, nullable=False),
        sa.Column("stands_from", sa.BigInteger()),
        sa.Column("measures", sa.JSON(), nullable=False),
        sa.Column("timings", sa.JSON(), nullable=False),
        sa.Column("source", sa.JSON(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("recorded_sequence", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("revisions_of_version", "revisions", ["table_name", "version"])
    op.create_table(
        "versions",
        sa.Column("table_name", TEXT, primary_key=True),
        sa.Column("label", sa.BigInteger(), primary_key=True),
        sa.Column("claim", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("dropped_by", sa.BigInteger()),
        sqlite_with_rowid=False,
    )


def _make_inputs() -> None:
    op.create_table(
        "inputs",
        sa.Column("claim", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("label", sa.BigInteger(), primary_key=True),
        sa.Column("position", sa.Integer(), primary_key=True),
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
        sqlite_with_rowid=False,
    )
    op.create_index("inputs_read", "inputs", ["table_name", "high", "low", "reader", "label", "claim"])
    _partial_index(
        "inputs_read_long",
        "inputs",
        ["table_name", "high", "low", "reader", "label", "claim"],
        "high - low > 2764800000000",
    )
    op.create_table(
        "items",
        sa.Column("table_name", TEXT, primary_key=True),
        sa.Column("item", TEXT, primary_key=True),
        sa.Column("label", sa.BigInteger(), nullable=False),
        sa.Column("claim", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("items_of_batch", "items", ["table_name", "label"])
    op.create_table(
        "closings",
        sa.Column("table_name", TEXT, primary_key=True),
        sa.Column("label", sa.BigInteger(), primary_key=True),
        sa.Column("tick", sa.BigInteger()),
        sa.Column("first", sa.BigInteger()),
        sa.Column("looked", sa.BigInteger()),
        sa.Column("reason", TEXT),
        sa.Column("behind", TEXT),
        sa.Column("asked", TEXT),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("why", TEXT),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("closings_by_tick", "closings", ["table_name", "tick", "label"])


def _make_offline_measures() -> None:
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
        sqlite_with_rowid=False,
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
        sqlite_with_rowid=False,
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
        sqlite_with_rowid=False,
    )


def _make_messages() -> None:
    op.create_table(
        "alerts",
        sa.Column("number", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("resolved_at", sa.BigInteger()),
        sa.Column("acknowledged_at", sa.BigInteger()),
        sa.Column("acknowledged_by", TEXT),
        sa.Column("acknowledged_why", TEXT),
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
        sa.Column("try_at", sa.BigInteger()),
        sa.Column("taken_until", sa.BigInteger()),
        sa.Column("error", TEXT),
        sa.Column("sent_at", sa.BigInteger()),
    )
    op.create_index("messages_by_age", "messages", ["target", "at"])
    _partial_index("messages_unsent", "messages", ["target", "number"], "sent_at IS NULL")
    op.create_table(
        "alerts_look",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "lineage_sent",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("event", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("sent_at", sa.BigInteger()),
        sa.Column("try_at", sa.BigInteger()),
        sa.Column("taken_until", sa.BigInteger()),
        sa.Column("error", TEXT),
        sa.Column("left_out", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("refusal", TEXT),
    )


def _make_events_and_runs() -> None:
    op.create_table(
        "events",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("table_name", TEXT),
        sa.Column("label", sa.BigInteger()),
        sa.Column("claim", sa.BigInteger()),
        sa.Column("run", TEXT),
        sa.Column("data", sa.JSON(), nullable=False),
    )
    op.create_index("events_of_batch", "events", ["table_name", "label"])
    op.create_table(
        "runners",
        sa.Column("runner", TEXT, primary_key=True),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("command", TEXT, nullable=False),
        sa.Column("flow", TEXT, nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("lease_seconds", sa.Float(), nullable=False),
    )
    op.create_table(
        "runs",
        sa.Column("run", TEXT, primary_key=True),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("command", TEXT, nullable=False),
        sa.Column("now", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger()),
        sa.Column("outcome", TEXT),
    )


def _partial_index(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def _make_views() -> None:
    """Create the views for external readers."""
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    words = sqlite if is_sqlite else postgres
    queries = {
        "batches": _batches(words),
        "inputs": _inputs(words),
        "events": _events(words),
        "measures": _measures(words, is_sqlite=is_sqlite),
        "measured_spans": _measured_spans(words, is_sqlite=is_sqlite),
    }
    for name, query in queries.items():
        op.execute(f"CREATE VIEW waterclock_{name} AS {query}")


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


def _measures(words: ModuleType, *, is_sqlite: bool) -> str:
    name, value, kind = _measure_columns(is_sqlite=is_sqlite)
    online = "json_each(r.measures, '$.measured')" if is_sqlite else "json_each(r.measures -> 'measured')"
    of_batch = f"""
        SELECT b.table_name AS "table", {words.label_text("b.label")} AS timelabel, {name} AS name,
               {value} AS value, {kind} AS type, b.current_claim AS claim
        FROM batches b
    """
    return f"""
        {of_batch}
        JOIN revisions r ON r.table_name = b.table_name AND r.label = b.label AND r.claim = b.current_claim
        CROSS JOIN {online} AS m
        UNION ALL
        {of_batch}
        JOIN offline_measures o ON o.table_name = b.table_name AND o.label = b.label AND o.claim = b.current_claim
        CROSS JOIN json_each(o.found) AS m
    """


def _measured_spans(words: ModuleType, *, is_sqlite: bool) -> str:
    name, value, kind = _measure_columns(is_sqlite=is_sqlite)
    return f"""
        SELECT o.table_name AS "table", {words.label_text("o.low")} AS first, {words.label_text("o.high")} AS until,
               o.labels AS labels, {name} AS name, {value} AS value, {kind} AS type
        FROM offline_spans o
        CROSS JOIN json_each(o.found) AS m
    """


def _measure_columns(*, is_sqlite: bool) -> tuple[str, str, str]:
    """Return the SQL of a measure's name, value and type."""
    if is_sqlite:
        return "m.key", "json_extract(m.value, '$.value')", "json_extract(m.value, '$.type')"
    # compared by bytes, as all texts of the ledger
    return (
        '(m.key) COLLATE "C"',
        "(m.value ->> 'value') COLLATE \"C\"",
        "(m.value ->> 'type') COLLATE \"C\"",
    )
