"""Exports the whole ledger as lines of JSON, complete and in order, which an empty ledger can load.

Data that only grows (claims, revisions, inputs, events, ...) is exported from the previous export on. Data about the
current state is exported in full. Each export names its predecessor, and the newest export makes up the ledger together
with this chain.

The first line is the head. A line `{"table", "columns"}` precedes the rows of each table, and each row is an array of
its columns as stored in the database. The last line is `{"rows"}` with their count: an export without it was cut off.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from waterclock.ledger.ledger_errors import unusable_export
from waterclock.ledger.store.database import NEWEST_SCHEMA, LedgerDatabase
from waterclock.ledger.store.erasure_tables import erased_persons, erasure_steps, erasures
from waterclock.ledger.store.instants import Instant, to_micros
from waterclock.ledger.store.schema import metadata
from waterclock.ledger.store.slice_weights import SET_SUMS
from waterclock.ledger.store.texts import storable, written_json

FORMAT = 1
_PAGE = 1000
_CURRENT_TABLES = (
    "ledger", "tables", "codes", "coverage", "batches", "versions", "items", "closings", "schemas",
    "alerts", "messages", "alerts_look", "lineage_sent", "code_lineage",
    "offline_looks", "offline_measures", "offline_spans", "former_names",
    *(table.name for table in (erasures, erased_persons, erasure_steps)),
)  # fmt: skip
# by the sequence, since a rebuild records its claims long after it took their numbers
_NEW_CLAIMS = "claim IN (SELECT number FROM claims WHERE claimed_sequence > :sequence)"
_GROWING_TABLES = {
    "flows": "number > :flows",
    "runs": "ended_at IS NULL OR ended_at >= :at OR started_at >= :at",
    "claims": "claimed_sequence > :sequence OR number IN (:open)",
    "claim_labels": _NEW_CLAIMS,
    "inputs": _NEW_CLAIMS,
    "revisions": "recorded_sequence > :sequence",
    "events": "id > :events",
}
EXPORTED_TABLES = frozenset({*_CURRENT_TABLES, *_GROWING_TABLES})
_SET_LAST_RECORDED = sa.text("UPDATE ledger SET last_recorded = (SELECT max(recorded_at) FROM revisions)")
# tables whose rows are exported again when they change, and their keys: the newest row counts
_KEYS = {"claims": "number", "runs": "run"}


@dataclass(frozen=True, slots=True)
class ExportHead:
    """The ledger and the moment that an export covers. `follows` names the previous export, None for a full one.

    `at` is in microseconds; `created_at` identifies the ledger. `open` are the claims that are still open, which later
    exports contain again. `renamed_at` is when a table was last renamed; earlier exports have the former names.
    """

    schema: str
    project: str | None
    created_at: int
    at: int
    sequence: int
    last_claim: int
    flows: int
    events: int
    open: tuple[int, ...] = ()
    follows: str | None = None
    format: int = FORMAT
    renamed_at: int = 0

    def continues(self, earlier: ExportHead) -> bool:
        """Return whether this is a later moment of the ledger of `earlier`, with the same schema and table names."""
        return (
            self.created_at == earlier.created_at
            and self.schema == earlier.schema
            and self.renamed_at == earlier.renamed_at
            and self.sequence >= earlier.sequence
            and self.events >= earlier.events
        )

    @classmethod
    def of_line(cls, line: str) -> ExportHead:
        """Parse the first line of an export. Raises E418 for any other line, or if newer code wrote it."""
        try:
            fields = json.loads(line)["export"]
            head = cls(**{**fields, "open": tuple(fields["open"])})
        except (ValueError, KeyError, TypeError) as error:
            raise unusable_export("its first line is not that of an export", str(error)) from error
        if head.format > FORMAT or head.schema > NEWEST_SCHEMA:
            raise unusable_export(
                "it was written by a newer version of waterclock", f"format {head.format}, schema {head.schema}"
            )
        return head


def export_lines(database: LedgerDatabase, earlier: Sequence[tuple[str, ExportHead]] = ()) -> Iterator[str]:
    """Return the lines of an export, as of one moment. `earlier` are the existing exports by name, newest first.

    Growing data is exported from the newest of them on that this ledger continues. Cost: one read transaction, which
    stays open until the last line is read; some microseconds a row.
    """
    with database.read() as connection:
        head = _build_head(connection, database)
        since = next(((name, known) for name, known in earlier if head.continues(known)), None)
        if since is not None:
            head = ExportHead(**{**_fields(head), "follows": since[0]})
        yield _format_line({"export": _fields(head)})
        rows = 0
        for name in (*_CURRENT_TABLES, *_GROWING_TABLES):
            where, values = _build_condition(name, None if since is None else since[1])
            for line in _table_lines(connection, name, where, values):
                rows += line.startswith("[")
                yield line
        yield _format_line({"rows": rows})


def moment(database: LedgerDatabase) -> ExportHead:
    """Return the head that an export taken now would have."""
    with database.read() as connection:
        return _build_head(connection, database)


def load(database: LedgerDatabase, exports: Iterable[Iterable[str]]) -> int:
    """Fill an empty ledger from a chain of exports, newest first, down to a full one. Return its number of batches.

    Raises E418 if a line cannot be read, or an export was cut off.
    """
    seen: dict[str, set[Any]] = {name: set() for name in _KEYS}
    with database.write() as write:
        write.execute(sa.text("DELETE FROM ledger"))
        for position, lines in enumerate(exports):
            wanted = {*_GROWING_TABLES, *(_CURRENT_TABLES if position == 0 else ())}
            _load_one(write.connection, lines, wanted, seen)
        write.execute(SET_SUMS)  # exports of older ledgers do not have them
        write.execute(_SET_LAST_RECORDED)
        # the loaded ledger is a new one: its exports do not continue those of the lost one
        write.execute(sa.text("UPDATE ledger SET created_at = :at, moved_to = NULL"), {"at": to_micros(write.at)})
        database.backend.count_on(write.connection)
        return int(write.execute(sa.text("SELECT count(*) FROM batches")).scalar_one())


def _build_head(connection: sa.Connection, database: LedgerDatabase) -> ExportHead:
    row = connection.execute(sa.text("SELECT project, created_at, sequence, last_claim FROM ledger")).one()
    newest = connection.execute(
        sa.text("SELECT (SELECT max(number) FROM flows) AS flows, (SELECT max(id) FROM events) AS events")
    ).one()
    still_open = connection.execute(sa.text("SELECT number FROM claims WHERE status = 'open'")).scalars()
    return ExportHead(
        schema=NEWEST_SCHEMA,
        project=row.project,
        created_at=row.created_at,
        at=to_micros(database.clock()),
        sequence=row.sequence,
        last_claim=row.last_claim,
        flows=newest.flows or 0,
        events=newest.events or 0,
        open=tuple(still_open),
        renamed_at=connection.execute(sa.text("SELECT max(at) FROM former_names")).scalar() or 0,
    )


def _fields(head: ExportHead) -> dict[str, Any]:
    return asdict(head)


def _build_condition(name: str, head: ExportHead | None) -> tuple[str, dict[str, Any]]:
    if head is None or name in _CURRENT_TABLES:
        return "", {}
    where = _GROWING_TABLES[name].replace(":open", ", ".join(map(str, head.open)) or "NULL")
    return where, {key: value for key, value in _fields(head).items() if f":{key}" in where}


def _table_lines(connection: sa.Connection, name: str, where: str, values: dict[str, Any]) -> Iterator[str]:
    columns = [column.name for column in metadata.tables[name].columns]
    query = sa.select(*map(_convert_for_sqlite, metadata.tables[name].columns))
    if where:
        query = query.where(sa.text(where))
    yield _format_line({"table": name, "columns": columns})
    with connection.execution_options(yield_per=_PAGE).execute(query, values) as rows:
        for row in rows:
            yield _format_line(list(row))


def _convert_for_sqlite(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """Return a column as stored in SQLite: instants and booleans as numbers, JSON as text."""
    if isinstance(column.type, sa.JSON):
        return sa.cast(column, sa.Text)
    if isinstance(column.type, sa.Boolean):
        return sa.cast(column, sa.Integer)
    return sa.type_coerce(column, sa.BigInteger) if isinstance(column.type, Instant) else column


def _format_line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


def _load_one(connection: sa.Connection, lines: Iterable[str], wanted: set[str], seen: dict[str, set[Any]]) -> None:
    rest = iter(lines)
    ExportHead.of_line(next(rest, ""))
    name, columns, rows, count, end = "", [""], list[dict[str, Any]](), 0, None
    for line in rest:
        value = _parse_line(line)
        if isinstance(value, list):
            count += 1
            row = dict(zip(columns, value, strict=True))
            if name in wanted and _is_new(name, row, seen):
                rows.append(row)
            if len(rows) >= _PAGE:
                rows = _insert_rows(connection, name, rows)
            continue
        rows = _insert_rows(connection, name, rows)
        name, columns, end = value.get("table", ""), value.get("columns", [""]), value.get("rows")
    if end != count:
        raise unusable_export("it was cut off", f"it declares {end} rows at its end, and has {count}")


def _parse_line(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise unusable_export("one of its lines cannot be read", str(error)) from error


def _is_new(name: str, row: dict[str, Any], seen: dict[str, set[Any]]) -> bool:
    key = _KEYS.get(name)
    if key is None:
        return True
    is_new = row[key] not in seen[name]
    seen[name].add(row[key])
    return is_new


def _insert_rows(connection: sa.Connection, name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if rows:
        columns = [column for column in metadata.tables[name].columns if column.name in rows[0]]
        listed = ", ".join(f'"{column.name}"' for column in columns)
        is_file = connection.dialect.name == "sqlite"
        values = ", ".join(f":{column.name}" if is_file else _value_sql(column) for column in columns)
        converted = [{column.name: _storable(column, row[column.name]) for column in columns} for row in rows]
        connection.execute(sa.text(f'INSERT INTO "{name}" ({listed}) VALUES ({values})'), converted)
    return []


def _storable(column: sa.Column[Any], value: Any) -> Any:
    """Convert a value of an older export to the form that every database can store."""
    if not isinstance(value, str):
        return value
    is_json = isinstance(column.type, sa.JSON) and any(word in value for word in ("NaN", "Infinity"))
    return written_json(json.loads(value)) if is_json else storable(value)


def _value_sql(column: sa.Column[Any]) -> str:
    """Return the SQL that converts an exported value for its column."""
    if isinstance(column.type, sa.JSON):
        return f"CAST(:{column.name} AS JSON)"
    return (
        f"CAST(CAST(:{column.name} AS INTEGER) AS BOOLEAN)"
        if isinstance(column.type, sa.Boolean)
        else f":{column.name}"
    )
