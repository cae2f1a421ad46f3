"""How is a sealed slice delivered to a SQLite database: in one transaction, once a claim?

The table `waterclock_deliveries` in the same database holds a row for each claim and label, written in the transaction
that brings the rows. A claim that has a row is not delivered again: it is the latch, and the way to see what stands.

REPLACE   of a regular table: all rows of the destination are replaced.
MERGE     of a regular table: keys that went are deleted, rows are put in place of those with their key. Columns of the
          destination that the publish does not name keep their values.
APPEND    and anything from a partitioned table: the destination has a column `timelabel`; a label's rows replace the
          rows of that label. A MERGE never changes a row that bears a newer label.

The destination is created by the first delivery, with an index on its keys or on `timelabel`; columns that it lacks
are added. Types: whole numbers INTEGER, floats REAL, DECIMAL(p,s) up to 15 digits (beyond: TEXT), BOOLEAN as 0 and 1,
DATE and TIMESTAMP as ISO text (`2013-01-01 05:00:00`, instants in UTC; it sorts as time), BINARY BLOB, nested ones
JSON text.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waterclock.connectors.interface import TIMELABEL, Delivered, Delivery, Outcome
from waterclock.connectors.sealed import batches_of, flat
from waterclock.connectors.sqlite import Database, quoted, table_of
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.flow import Mode, Unit

if TYPE_CHECKING:
    import pyarrow as pa

DELIVERIES = "waterclock_deliveries"
_KEPT = "waterclock_kept"

_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {DELIVERIES} ("
    "project TEXT NOT NULL, claim INTEGER NOT NULL, publish TEXT NOT NULL, label TEXT NOT NULL, outcome TEXT NOT NULL,"
    " mode TEXT NOT NULL, row_count INTEGER NOT NULL, deleted_count INTEGER NOT NULL, note TEXT NOT NULL,"
    " delivered_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (project, claim, label)) WITHOUT ROWID"
)
_INDEX = f"CREATE INDEX IF NOT EXISTS {DELIVERIES}_newest ON {DELIVERIES} (project, publish, outcome, label)"
_READ = f"SELECT claim, outcome, label, row_count, deleted_count, note FROM {DELIVERIES}"
_INSERT = (
    f"INSERT INTO {DELIVERIES} (project, claim, publish, label, outcome, mode, row_count, deleted_count, note)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


@dataclass(frozen=True, slots=True)
class SqliteDeliverer:
    """Delivers to a database file."""

    database: Database

    def deliver(self, unit: Unit, deliveries: Sequence[Delivery]) -> tuple[Delivered, ...]:
        """Bring the slices of a claim and their rows of `waterclock_deliveries` in one transaction.

        Raises  E820 for a table that holds rows of somebody else, E811 (transient) for a locked database, E810, E813,
                E821; nothing has changed then
        """
        where = f"{unit}@{', '.join(delivery.label_text for delivery in deliveries)}"
        with self.database.writing(where) as connection:
            stands = _prepare(connection, deliveries[0].project, deliveries[0].claim)
            if stands:
                return stands
            delivered = tuple(_deliver_one(connection, unit, delivery) for delivery in deliveries)
            fault("deliver.rows")
        fault("deliver.done")
        return delivered

    def kill(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered:
        """Write the claim's row without rows of data, unless it is there."""
        with self.database.writing(str(unit)) as connection:
            stands = _prepare(connection, project, claim)
            if stands:
                return stands[-1]
            connection.execute(_INSERT, (project, claim, publish, "", Outcome.KILLED.value, "", 0, 0, ""))
        return Delivered(claim, Outcome.KILLED, "", 0)

    def find(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered | None:
        """What stands under a claim; None where nothing does, or the database is not there yet."""
        del publish
        return self._read(unit, lambda connection: (_find(connection, project, claim) or (None,))[-1])

    def last(self, unit: Unit, project: str, publish: str) -> Delivered | None:
        """The newest label's newest delivery."""
        return self._read(unit, lambda connection: _newest(connection, project, publish))

    def _read(self, unit: Unit, ask: Callable[[sqlite3.Connection], Delivered | None]) -> Delivered | None:
        if self.database.may_create and not Path(self.database.path).exists():
            return None
        with self.database.reading(str(unit)) as connection:
            known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (DELIVERIES,)).fetchone()
            return ask(connection) if known else None


def sql_type(spark_type: str) -> str:
    """Give the declared type of a column that takes values of a Spark type."""
    kind = spark_type.strip().lower()
    if decimal := re.fullmatch(r"(?:decimal|dec|numeric)(?:\((\d+)(?:,\s*(\d+))?\))?", kind):
        digits, scale = int(decimal[1] or 10), int(decimal[2] or 0)
        return f"DECIMAL({digits},{scale})" if digits <= 15 else "TEXT"
    return _TYPES.get(kind, "TEXT")


_TYPES = {
    **dict.fromkeys(("tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long"), "INTEGER"),
    **dict.fromkeys(("float", "real", "double"), "REAL"),
    **dict.fromkeys(("timestamp", "timestamp_ltz", "timestamp_ntz"), "TIMESTAMP"),
    "boolean": "BOOLEAN",
    "date": "DATE",
    "binary": "BLOB",
}


def _prepare(connection: sqlite3.Connection, project: str, claim: int) -> tuple[Delivered, ...]:
    connection.execute(_CREATE)
    connection.execute(_INDEX)
    return _find(connection, project, claim)


def _find(connection: sqlite3.Connection, project: str, claim: int) -> tuple[Delivered, ...]:
    rows = connection.execute(f"{_READ} WHERE project = ? AND claim = ? ORDER BY label", (project, claim))
    return tuple(_delivered(row) for row in rows)


def _newest(connection: sqlite3.Connection, project: str, publish: str) -> Delivered | None:
    row = connection.execute(
        f"{_READ} WHERE project = ? AND publish = ? AND outcome = ? ORDER BY label DESC, claim DESC LIMIT 1",
        (project, publish, Outcome.DELIVERED.value),
    ).fetchone()
    return _delivered(row) if row else None


def _delivered(row: Sequence[Any]) -> Delivered:
    claim, outcome, label, rows, deleted, note = row
    return Delivered(claim, Outcome(outcome), label, rows, deleted, note, is_repeat=True)


def _deliver_one(connection: sqlite3.Connection, unit: Unit, delivery: Delivery) -> Delivered:
    newest = _newest(connection, delivery.project, delivery.publish)
    if newest and not delivery.is_by_label and newest.label_text > delivery.label_text:
        delivered = Delivered(delivery.claim, Outcome.OLDER, delivery.label_text, 0, 0, delivery.note)
    else:
        _settle_table(connection, unit, delivery, is_ours=newest is not None)
        delivered = _bring(connection, unit, delivery)
    key = (delivery.project, delivery.claim, delivery.publish, delivery.label_text)
    counts = (delivered.rows, delivered.deleted, delivery.note)
    connection.execute(_INSERT, (*key, delivered.outcome.value, delivery.mode.value, *counts))
    return delivered


def _settle_table(connection: sqlite3.Connection, unit: Unit, delivery: Delivery, *, is_ours: bool) -> None:
    """Make the destination fit: create it, add columns it lacks, index its keys; refuse what is somebody else's."""
    table = table_of(unit)
    wanted = {name: sql_type(kind) for name, kind in delivery.columns}
    if delivery.is_by_label:
        wanted[TIMELABEL] = "TEXT"
    *schema, name = unit.path.split(".")
    prefix = f"{quoted(schema[0])}." if schema else ""
    known = {str(row[1]).lower() for row in connection.execute(f"PRAGMA {prefix}table_xinfo({quoted(name)})")}
    if not known:
        connection.execute(
            f"CREATE TABLE {table} ({', '.join(f'{quoted(column)} {kind}' for column, kind in wanted.items())})"
        )
    else:
        _refuse_foreign(connection, unit, delivery, is_ours=is_ours)
        for column, kind in wanted.items():
            if column.lower() not in known:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {quoted(column)} {kind}")
    if delivery.mode is Mode.MERGE:
        _index(connection, prefix, name, delivery.keys, is_unique=True)
    elif delivery.is_by_label:
        _index(connection, prefix, name, (TIMELABEL,), is_unique=False)


def _refuse_foreign(connection: sqlite3.Connection, unit: Unit, delivery: Delivery, *, is_ours: bool) -> None:
    other = connection.execute(
        f"SELECT project FROM {DELIVERIES} WHERE publish = ? AND project <> ? AND outcome = ? LIMIT 1",
        (delivery.publish, delivery.project, Outcome.DELIVERED.value),
    ).fetchone()
    has_rows = connection.execute(f"SELECT 1 FROM {table_of(unit)} LIMIT 1").fetchone()
    if not other and (is_ours or not has_rows or unit.options.get("adopt")):
        return
    raise WaterclockError(
        "E820",
        f"{unit} belongs to the project {other[0]}" if other else f"{unit} holds rows that are not ours",
        where=f"{unit}@{delivery.label_text}",
        why=f"a {delivery.mode.value} by {delivery.publish} would change rows that it has not brought",
        fix="publish to another table" if other else "empty it, publish to another table, or say OPTIONS (adopt true)",
    )


def _index(connection: sqlite3.Connection, prefix: str, table: str, columns: Sequence[str], *, is_unique: bool) -> None:
    wanted = {column.lower() for column in columns}
    rows = connection.execute(f"PRAGMA {prefix}table_xinfo({quoted(table)})").fetchall()
    if {str(row[1]).lower() for row in rows if row[5]} == wanted:
        return
    for _, index, unique, _, partial in connection.execute(f"PRAGMA {prefix}index_list({quoted(table)})").fetchall():
        members = [str(row[2]).lower() for row in connection.execute(f"PRAGMA {prefix}index_info({quoted(index)})")]
        if not partial and (set(members) == wanted if is_unique and unique else members[:1] == list(wanted)):
            return
    name = quoted(f"waterclock_{table}_{'key' if is_unique else TIMELABEL}")
    listed = ", ".join(quoted(column) for column in columns)
    kind = "UNIQUE INDEX" if is_unique else "INDEX"
    connection.execute(f"CREATE {kind} {prefix}{name} ON {quoted(table)} ({listed})")


def _bring(connection: sqlite3.Connection, unit: Unit, delivery: Delivery) -> Delivered:
    table = table_of(unit)
    rows = deleted = 0
    is_whole_merge = delivery.is_whole and delivery.mode is Mode.MERGE and not delivery.is_by_label
    if delivery.is_by_label:
        sql = f"DELETE FROM {table} WHERE {quoted(TIMELABEL)} = ?"
        deleted = connection.execute(sql, (delivery.label_text,)).rowcount
    elif delivery.mode is Mode.REPLACE:
        deleted = connection.execute(f"DELETE FROM {table}").rowcount
    put = _insert_sql(table, delivery)
    kept = _remember_keys(connection, delivery) if is_whole_merge else ""
    condition = " AND ".join(f"{quoted(key)} = ?" for key in delivery.keys)
    for change in _changes(delivery):
        if change.gone:
            deleted += connection.executemany(f"DELETE FROM {table} WHERE {condition}", change.gone).rowcount
        connection.executemany(put, change.rows)
        if kept:
            connection.executemany(kept, change.keys)
        rows += len(change.rows)
    if kept:
        deleted += _delete_all_but(connection, table, delivery)
    return Delivered(delivery.claim, Outcome.DELIVERED, delivery.label_text, rows, deleted, delivery.note)


def _remember_keys(connection: sqlite3.Connection, delivery: Delivery) -> str:
    listed = ", ".join(quoted(key) for key in delivery.keys)
    connection.execute(f"CREATE TEMP TABLE {_KEPT} ({listed}, PRIMARY KEY ({listed}))")
    return f"INSERT OR IGNORE INTO temp.{_KEPT} VALUES ({', '.join('?' * len(delivery.keys))})"


def _delete_all_but(connection: sqlite3.Connection, table: str, delivery: Delivery) -> int:
    same = " AND ".join(f"kept.{quoted(key)} = {table}.{quoted(key)}" for key in delivery.keys)
    deleted = connection.execute(
        f"DELETE FROM {table} WHERE NOT EXISTS (SELECT 1 FROM temp.{_KEPT} AS kept WHERE {same})"
    ).rowcount
    connection.execute(f"DROP TABLE temp.{_KEPT}")
    return deleted


def _insert_sql(table: str, delivery: Delivery) -> str:
    names = [name for name, _ in delivery.columns] + ([TIMELABEL] if delivery.is_by_label else [])
    listed = ", ".join(quoted(name) for name in names)
    sql = f"INSERT INTO {table} ({listed}) VALUES ({', '.join('?' * len(names))})"
    if delivery.mode is not Mode.MERGE:
        return sql
    keys = {key.lower() for key in delivery.keys}
    changed = [quoted(name) for name in names if name.lower() not in keys]
    conflict = f" ON CONFLICT ({', '.join(quoted(key) for key in delivery.keys)}) DO "
    if not changed:
        return f"{sql}{conflict}NOTHING"
    update = ", ".join(f"{name} = excluded.{name}" for name in changed)
    label = quoted(TIMELABEL)
    guard = ""
    if delivery.is_by_label and TIMELABEL not in keys:
        old = f"{table.rpartition('.')[2]}.{label}"
        guard = f" WHERE {old} IS NULL OR {old} <= excluded.{label}"
    return f"{sql}{conflict}UPDATE SET {update}{guard}"


@dataclass(frozen=True, slots=True)
class _Change:
    """A batch of a slice: rows to put with their keys, and keys that went. A key is in one of both."""

    rows: list[tuple[Any, ...]]
    keys: list[tuple[Any, ...]]
    gone: list[tuple[Any, ...]]


def _changes(delivery: Delivery) -> Iterator[_Change]:
    names = [name for name, _ in delivery.columns]
    kinds = [kind for _, kind in delivery.columns]
    tail = (delivery.label_text,) if delivery.is_by_label else ()
    flag = [delivery.deleted_column] if delivery.deleted_column else []
    places = [names.index(key) for key in delivery.keys if key in names]
    for batch in batches_of(delivery.files, names + flag):
        values = _values(batch, kinds)
        went = batch.column(len(names)).to_pylist() if flag else [False] * len(values)
        rows = [row for row, is_gone in zip(values, went, strict=True) if not is_gone]
        gone = [row for row, is_gone in zip(values, went, strict=True) if is_gone]
        keys, gone_keys = ([tuple(row[at] for at in places) for row in some] for some in (rows, gone))
        yield _Change([row + tail for row in rows] if tail else rows, keys, gone_keys)


def _values(batch: pa.RecordBatch, kinds: Sequence[str]) -> list[tuple[Any, ...]]:
    columns = [flat(batch.column(at), kind).to_pylist() for at, kind in enumerate(kinds)]
    return list(zip(*columns, strict=True))
