"""The ledger's tables in SQLAlchemy. `migrations/` creates them, called by `database`.

Instants are microseconds since 1970 (`instants`). Nothing here is specific to one database, except that partial indexes
state their condition for SQLite only; `migrations/` states it for every dialect. (Stating it here would load the other
dialects with each command.) `claims`, `claim_labels`, `revisions`, `inputs`, `schemas` and `events` only grow.
`batches`, `coverage`, `versions`, `codes`, `items`, `closings`, `alerts`, `messages`, `alerts_look`, `lineage_sent`,
`code_lineage`, `former_names` and the tables of offline measurements have the current state.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from waterclock.batches.records import WARNINGS
from waterclock.ledger.store.instants import Instant
from waterclock.ledger.store.renamed_tables import Name
from waterclock.ledger.store.texts import Text

metadata = sa.MetaData()

TEXT = Text()
NAME = Name()  # of a table, or the fingerprint of its code
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

AnyRow = sa.Row[*tuple[Any, ...]]  # a row of any query, with columns accessed by name

# Written as text in the indexes and in the queries that use them: a database matches them literally.
IS_OPEN = sa.text("claims.status = 'open'")
IS_TROUBLE = sa.text("batches.status IN ('failed', 'held')")
IS_SUSPECT = sa.text("batches.is_suspect")
IS_REQUESTED = sa.text("batches.requested IS NOT NULL")
IS_PARTIAL = sa.text("batches.missing IS NOT NULL")
IS_DONE = sa.text("claims.status = 'done'")
# Reads of more than 32 days, as microseconds. Any shorter read that reaches beyond an instant ends soon after it.
LONG = 2_764_800_000_000
IS_LONG = sa.text(f"inputs.high - inputs.low > {LONG}")
IS_SHORT = sa.text(f"inputs.high - inputs.low <= {LONG}")


# Rows are stored in the order of their key, if the database can do that: one tree to write instead of two.
_KEYED: dict[str, Any] = {"sqlite_with_rowid": False}


def columns(kind: Any, names: str, *, nullable: bool = False, primary_key: bool = False) -> tuple[sa.Column[Any], ...]:
    """Return columns of one type with these names, which are separated by blanks."""
    return tuple(sa.Column(name, kind, nullable=nullable, primary_key=primary_key) for name in names.split())


def made_by_claim(made: sa.Table, of: sa.Table, claim: sa.Column[Any]) -> sa.ColumnElement[bool]:
    """Build the condition that a row of `made` has the table and label of a row of `of`, and was made by `claim`."""
    return sa.and_(made.c.table_name == of.c.table_name, made.c.label == of.c.label, made.c.claim == claim)


def _partial(name: str, *columns: str, where: str) -> sa.Index:
    return sa.Index(name, *columns, sqlite_where=sa.text(where))


ledger = sa.Table(
    "ledger",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("project", TEXT),
    *columns(sa.BigInteger, "sequence last_claim"),
    sa.Column("flow", TEXT),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("moved_to", TEXT),
    # the pause of all tables, independent of a table's own
    sa.Column("paused_at", Instant),
    *columns(TEXT, "paused_by paused_why", nullable=True),
    # the running `rebuild --all`, as JSON
    sa.Column("rebuilding", TEXT),
    # the latest `recorded_at` of all revisions: none is recorded before it, even if the clock went back
    sa.Column("last_recorded", Instant),
    sa.Column("erasures", sa.BigInteger, nullable=False, server_default="0"),
)

flows = sa.Table(
    "flows",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("fingerprint", TEXT, nullable=False),
    *columns(Instant, "applied_at now"),
    *columns(TEXT, "who runner"),
)

tables = sa.Table(
    "tables",
    metadata,
    sa.Column("name", NAME, primary_key=True),
    *columns(TEXT, "kind type mode cadence zone keys"),
    sa.Column("is_declared", sa.Boolean, nullable=False),
    sa.Column("start", Instant),
    sa.Column("location", TEXT, nullable=False),
    sa.Column("head_version", sa.BigInteger, nullable=False),
    sa.Column("head_label", Instant),
    sa.Column("changes", sa.BigInteger, nullable=False),
    sa.Column("seconds", sa.Float),
    sa.Column("dropped_before", Instant),
    # the sum of the weights of all its current slices, from which the content of a state is computed
    sa.Column("sum_high", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("sum_low", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("paused_at", Instant),
    *columns(TEXT, "paused_by paused_why", nullable=True),
)

codes = sa.Table(
    "codes",
    metadata,
    *columns(NAME, "table_name code", primary_key=True),
    sa.Column("labels", sa.BigInteger, nullable=False),
    **_KEYED,
)

coverage = sa.Table(
    "coverage",
    metadata,
    sa.Column("table_name", NAME, primary_key=True),
    sa.Column("low", Instant, primary_key=True),
    sa.Column("high", Instant, nullable=False),
    **_KEYED,
)

claims = sa.Table(
    "claims",
    metadata,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("table_name", NAME, nullable=False),
    sa.Column("status", TEXT, nullable=False),
    sa.Column("code", NAME, nullable=False),
    *columns(TEXT, "flow runner who"),
    sa.Column("run", TEXT),
    sa.Column("now", Instant, nullable=False),
    sa.Column("target_version", sa.BigInteger, nullable=False),
    sa.Column("claimed_at", Instant, nullable=False),
    sa.Column("claimed_sequence", sa.BigInteger, nullable=False),
    sa.Column("lease_seconds", sa.Float, nullable=False),
    sa.Column("lease_until", Instant, nullable=False),
    sa.Column("closed_at", Instant),
    sa.Column("error", TEXT),
    sa.Column("is_transient", sa.Boolean),
    sa.Column("pool", TEXT),
    _partial("claims_open", "table_name", where="status = 'open'"),
    _partial("claims_done", "closed_at", where="status = 'done'"),
)

claim_labels = sa.Table(
    "claim_labels",
    metadata,
    sa.Column("claim", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("label", Instant, primary_key=True),
    sa.Column("table_name", NAME, nullable=False),
    sa.Column("prior_status", TEXT),
    sa.Column("prior_claim", sa.BigInteger),
    sa.Index("claim_labels_of_batch", "table_name", "label"),
    **_KEYED,
)

batches = sa.Table(
    "batches",
    metadata,
    sa.Column("table_name", NAME, primary_key=True),
    sa.Column("label", Instant, primary_key=True),
    sa.Column("end", Instant),
    sa.Column("status", TEXT),  # NULL: nothing is stored of it, the planner derives its state
    sa.Column("claim", sa.BigInteger),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("error", TEXT),
    sa.Column("is_transient", sa.Boolean),
    sa.Column("due_again", Instant),
    sa.Column("requested", TEXT),
    sa.Column("requested_sequence", sa.BigInteger),
    sa.Column("is_suspect", sa.Boolean, nullable=False),
    # the current revision; its claim is NULL before the first one
    *columns(sa.BigInteger, "current_claim version rows bytes", nullable=True),
    sa.Column("digest", TEXT),
    *columns(sa.BigInteger, "hash_high hash_low"),
    sa.Column("slice_path", TEXT),
    sa.Column("stands_from", Instant),
    sa.Column("code", NAME),
    sa.Column("recorded_at", Instant),
    # the missing inputs of the current revision, as JSON for `ledger_snapshot.parse_missing_inputs`
    sa.Column("missing", TEXT),
    # the number of quarantined rows of the current revision, NULL for none
    sa.Column("aside", sa.BigInteger),
    _partial("batches_partial", "table_name", "label", where="missing IS NOT NULL"),
    _partial("batches_aside", "table_name", "label", where="aside IS NOT NULL"),
    _partial("batches_in_trouble", "table_name", "label", where="status IN ('failed', 'held')"),
    _partial("batches_suspect", "table_name", "label", where="is_suspect"),
    _partial("batches_requested", "table_name", "label", where="requested IS NOT NULL"),
    **_KEYED,
)

revisions = sa.Table(
    "revisions",
    metadata,
    sa.Column("table_name", NAME, primary_key=True),
    sa.Column("label", Instant, primary_key=True),
    sa.Column("claim", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("end", Instant, nullable=False),
    *columns(sa.BigInteger, "version rows bytes"),
    sa.Column("digest", TEXT),
    sa.Column("slice_path", TEXT, nullable=False),
    sa.Column("stands_from", Instant),
    *columns(sa.JSON, "measures timings source"),
    sa.Column("recorded_at", Instant, nullable=False),
    sa.Column("recorded_sequence", sa.BigInteger, nullable=False),
    sa.Index("revisions_of_version", "table_name", "version"),
    **_KEYED,
)
# matches the JSON of both kinds of database; a quotation mark within a text is escaped there
HAS_WARNINGS = sa.and_(
    sa.cast(revisions.c.measures, sa.Text).like(f'%"{WARNINGS}": [%'),
    sa.cast(revisions.c.measures, sa.Text).not_like(f'%"{WARNINGS}": []%'),
)

inputs = sa.Table(
    "inputs",
    metadata,
    sa.Column("claim", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("label", Instant, primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    *columns(NAME, "reader table_name"),
    *columns(TEXT, "read kind"),
    *columns(Instant, "low high"),
    sa.Column("location", TEXT, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("content", TEXT, nullable=False),
    sa.Column("changes", sa.BigInteger, nullable=False),
    # cover all columns needed to find the readers of an interval, so that a scan never touches the table
    sa.Index("inputs_read", "table_name", "high", "low", "reader", "label", "claim"),
    _partial("inputs_read_long", "table_name", "high", "low", "reader", "label", "claim", where=f"high - low > {LONG}"),
    **_KEYED,
)

versions = sa.Table(
    "versions",
    metadata,
    sa.Column("table_name", NAME, primary_key=True),
    sa.Column("label", Instant, primary_key=True),
    sa.Column("claim", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("dropped_by", sa.BigInteger),
    **_KEYED,
)

items = sa.Table(
    "items",
    metadata,
    sa.Column("table_name", NAME, primary_key=True),
    sa.Column("item", TEXT, primary_key=True),
    sa.Column("label", Instant, nullable=False),
    sa.Column("claim", sa.BigInteger, nullable=False),
    sa.Column("data", sa.JSON, nullable=False),
    sa.Index("items_of_batch", "table_name", "label"),
    **_KEYED,
)

closings = sa.Table(
    "closings",
    metadata,
    sa.Column("table_name", NAME, primary_key=True),
    sa.Column("label", Instant, primary_key=True),
    sa.Column("tick", Instant),
    sa.Column("first", Instant),  # the original tick, if late rows reopened it; otherwise NULL
    sa.Column("looked", Instant),
    *columns(TEXT, "reason behind asked", nullable=True),
    sa.Column("who", TEXT, nullable=False),
    sa.Column("why", TEXT),
    sa.Column("at", Instant, nullable=False),
    sa.Index("closings_by_tick", "table_name", "tick", "label"),
    **_KEYED,
)

schemas = sa.Table(
    "schemas",
    metadata,
    sa.Column("table_name", NAME, primary_key=True),
    sa.Column("side", TEXT, primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("label", Instant, nullable=False),
    sa.Column("claim", sa.BigInteger, nullable=False),
    sa.Column("columns", sa.JSON, nullable=False),
    sa.Column("at", Instant, nullable=False),
    **_KEYED,
)

alerts = sa.Table(
    "alerts",
    metadata,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("opened_at", Instant, nullable=False),
    *columns(Instant, "resolved_at acknowledged_at", nullable=True),
    *columns(TEXT, "acknowledged_by acknowledged_why", nullable=True),
    sa.Column("trouble", sa.JSON, nullable=False),
    # the notifications sent, by target
    sa.Column("told", sa.JSON, nullable=False),
    sa.Column("is_finished", sa.Boolean, nullable=False),
    _partial("alerts_unfinished", "number", where="NOT is_finished"),
)

# messages, kept until they are sent and for a while after
messages = sa.Table(
    "messages",
    metadata,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("target", TEXT, nullable=False),
    sa.Column("at", Instant, nullable=False),
    sa.Column("body", sa.JSON, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    *columns(Instant, "try_at taken_until", nullable=True),
    sa.Column("error", TEXT),
    sa.Column("sent_at", Instant),
    _partial("messages_unsent", "target", "number", where="sent_at IS NULL"),
    sa.Index("messages_by_age", "target", "at"),
)

# the sequence up to which alerts were checked: a single row, which concurrent checks lock in turn
alerts_look = sa.Table(
    "alerts_look",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("at", Instant, nullable=False),
)

# the last event that was sent to OpenLineage: a single row, which concurrent senders lock in turn
lineage_sent = sa.Table(
    "lineage_sent",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("event", sa.BigInteger, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    *columns(Instant, "sent_at try_at taken_until", nullable=True),
    sa.Column("error", TEXT),
    sa.Column("left_out", sa.Integer, nullable=False, server_default="0"),
    sa.Column("refusal", TEXT),
)

# the column lineage of Python transforms, by code, as found in the plans of their batches
code_lineage = sa.Table(
    "code_lineage",
    metadata,
    *columns(NAME, "table_name code", primary_key=True),
    sa.Column("lineage", sa.JSON, nullable=False),
    sa.Column("at", Instant, nullable=False),
    **_KEYED,
)

# the last offline measurement of each table, by the logical clock of runs and by the ledger's clock
offline_looks = sa.Table(
    "offline_looks",
    metadata,
    sa.Column("table_name", NAME, primary_key=True),
    sa.Column("code", TEXT, nullable=False),
    *columns(Instant, "looked_at at"),
    sa.Column("labels", sa.Integer, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("error", TEXT),
    sa.Column("taken_until", Instant),
    **_KEYED,
)

# the offline measures of the rows that a claim made for a label; `states` are partial aggregates, merged for periods
offline_measures = sa.Table(
    "offline_measures",
    metadata,
    sa.Column("table_name", NAME, primary_key=True),
    sa.Column("label", Instant, primary_key=True),
    sa.Column("claim", sa.BigInteger, nullable=False),
    sa.Column("code", TEXT, nullable=False),
    sa.Column("found", sa.JSON, nullable=False),
    sa.Column("states", sa.JSON(none_as_null=True)),
    sa.Column("at", Instant, nullable=False),
    **_KEYED,
)

# the offline measurements of all labels of a span together
offline_spans = sa.Table(
    "offline_spans",
    metadata,
    sa.Column("table_name", NAME, primary_key=True),
    sa.Column("low", Instant, primary_key=True),
    sa.Column("high", Instant, nullable=False),
    sa.Column("labels", sa.Integer, nullable=False),
    sa.Column("code", TEXT, nullable=False),
    sa.Column("found", sa.JSON, nullable=False),
    sa.Column("at", Instant, nullable=False),
    **_KEYED,
)

# former names of tables and of their code
former_names = sa.Table(
    "former_names",
    metadata,
    sa.Column("former", TEXT, primary_key=True),
    sa.Column("current", TEXT, nullable=False),
    sa.Column("is_code", sa.Boolean, nullable=False),
    sa.Column("at", Instant, nullable=False),
    **_KEYED,
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("id", SERIAL, primary_key=True),
    sa.Column("at", Instant, nullable=False),
    *columns(TEXT, "kind who"),
    sa.Column("table_name", NAME),
    sa.Column("label", Instant),
    sa.Column("claim", sa.BigInteger),
    sa.Column("run", TEXT),
    sa.Column("data", sa.JSON, nullable=False),
    sa.Index("events_of_batch", "table_name", "label"),
)

# never exported: an old export would restore revoked tokens
access_tokens = sa.Table(
    "access_tokens",
    metadata,
    sa.Column("name", TEXT, primary_key=True),
    *columns(TEXT, "digest user_name rights"),  # rights: a list in JSON
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("created_by", TEXT, nullable=False),
    sa.Column("until", Instant, nullable=False),
    sa.Column("revoked_at", Instant),
    sa.Column("revoked_by", TEXT),
    sa.Index("access_tokens_by_digest", "digest", unique=True),
    **_KEYED,
)

# user actions, permitted or refused, for as long as the project keeps them; never exported
accesses = sa.Table(
    "accesses",
    metadata,
    sa.Column("id", SERIAL, primary_key=True),
    sa.Column("at", Instant, nullable=False),
    *columns(TEXT, "who sign_in action tables"),  # tables: JSON
    sa.Column("query", TEXT),
    *columns(TEXT, "address agent"),
    sa.Column("refusal", TEXT),
    sa.Column("times", sa.Integer, nullable=False),
    sa.Index("accesses_by_time", "at"),
    sa.Index("accesses_by_person", "who", "at"),
)

# the active runners; never exported, since they do not concern batches
runners = sa.Table(
    "runners",
    metadata,
    sa.Column("runner", TEXT, primary_key=True),
    *columns(TEXT, "who command flow"),
    *columns(Instant, "started_at seen_at"),
    sa.Column("lease_seconds", sa.Float, nullable=False),
)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("run", TEXT, primary_key=True),
    *columns(TEXT, "who command"),
    *columns(Instant, "now started_at"),
    sa.Column("ended_at", Instant),
    sa.Column("outcome", TEXT),
)
