"""Delivers sealed slices to a SQLite database in one transaction, once per claim.

`sql/database_delivery` describes the modes. `destination` creates or alters the table first.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import compress
from typing import TYPE_CHECKING, Any

from waterclock.connectors.delivering import Delivered, Delivery, DeliveryOutcome
from waterclock.connectors.slice_rows import to_portable_types
from waterclock.connectors.sql.database_delivery import SingleTransactionDeliverer
from waterclock.connectors.sql.database_errors import describe_missing_file
from waterclock.connectors.sql.delivery_record import DELIVERIES, INDEX
from waterclock.connectors.sql.destination_errors import equal_keys_error, lost_rows_error
from waterclock.connectors.sql.exact_values import StoredColumn, require_exact_values
from waterclock.connectors.sql.replace_where import replaced_rows
from waterclock.connectors.sql.sessions import SqlSession
from waterclock.connectors.sql.slice_tuples import row_batches_of_slice
from waterclock.connectors.sql.versioned_views import Columns
from waterclock.connectors.sql.view_tables import SqlViewTables, group_columns
from waterclock.connectors.sqlite.database import SqliteFile, split_table_name
from waterclock.connectors.sqlite.destination import is_key_coarse, prepare_table, read_stored_columns
from waterclock.connectors.sqlite.dialect import DIALECT, quote_identifier, session_in, table_of
from waterclock.flow.declarations import Unit
from waterclock.flow.enums import Mode
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    import pyarrow as pa

_SLICE_KEYS = "waterclock_kept"

_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {DELIVERIES} ("
    "project TEXT NOT NULL, claim INTEGER NOT NULL, publish TEXT NOT NULL, label TEXT NOT NULL, outcome TEXT NOT NULL,"
    " mode TEXT NOT NULL, row_count INTEGER NOT NULL, deleted_count INTEGER NOT NULL, note TEXT NOT NULL,"
    " delivered_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (project, claim, label)) WITHOUT ROWID"
)


class SqliteViewTables(SqlViewTables):
    """The tables and views of a SQLite database."""

    __slots__ = ()

    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`, the kind of object with the unit's name; empty if the name is free."""
        prefix, name = split_table_name(unit)
        sql = f"SELECT type FROM {prefix}sqlite_master WHERE lower(name) = lower(?)"
        row = self.session.first_of(sql, (name,))
        return str(row[0]) if row else ""

    def columns(self, parts: Sequence[Unit]) -> dict[str, Columns]:
        """Map the path of each table that exists to its columns. Cost: one statement."""
        paths = {part.path.rpartition(".")[2].lower(): part.path for part in parts}
        schema = parts[0].path.rpartition(".")[0] or "main" if parts else "main"
        rows = self.session.rows_of(
            f"SELECT m.name, x.name, x.type FROM {quote_identifier(schema)}.sqlite_master AS m"
            " JOIN pragma_table_xinfo(m.name, ?) AS x WHERE m.type = 'table'"
            " AND lower(m.name) IN (SELECT lower(value) FROM json_each(?)) ORDER BY m.name, x.cid",
            (schema, json.dumps(list(paths))),
        )
        return group_columns(((str(table).lower(), *column) for table, *column in rows), paths)

    def _instant(self, delivered_at: str) -> datetime:
        return datetime.fromisoformat(delivered_at).replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SqliteDeliverer(SingleTransactionDeliverer[sqlite3.Connection, Mapping[str, StoredColumn]]):
    """Delivers to a SQLite database file."""

    database: SqliteFile

    @property
    def _destination(self) -> SqliteFile:
        return self.database

    def _session(self, connection: sqlite3.Connection) -> SqlSession:
        return session_in(connection)

    def _prepare(self, connection: sqlite3.Connection, project: str, publish: str) -> None:
        del project, publish
        connection.execute(_CREATE)
        connection.execute(INDEX)

    def _has_record(self, connection: sqlite3.Connection) -> bool:
        sql = "SELECT 1 FROM sqlite_master WHERE name = ?"
        return connection.execute(sql, (DELIVERIES,)).fetchone() is not None

    def _tables(self, connection: sqlite3.Connection) -> SqliteViewTables:
        return SqliteViewTables(session_in(connection))

    def _destination_names(self, connection: sqlite3.Connection, unit: Unit) -> Mapping[str, str]:
        return {name: name for name in read_stored_columns(connection, unit)}

    def _find_missing_database(self) -> str | None:
        return describe_missing_file(self.database.path, may_create=self.database.may_create)

    def _prepare_table(
        self, connection: sqlite3.Connection, unit: Unit, delivery: Delivery, *, is_ours: bool
    ) -> Mapping[str, StoredColumn]:
        return prepare_table(connection, unit, delivery, is_ours=is_ours)

    def _deliver_rows(
        self, connection: sqlite3.Connection, unit: Unit, delivery: Delivery, there: Mapping[str, StoredColumn]
    ) -> Delivered:
        table = table_of(unit)
        rows = deleted = 0
        is_whole_merge = delivery.is_whole and delivery.mode is Mode.MERGE and not delivery.is_by_label
        if delivery.replaces_rows:
            sql, values = replaced_rows("DELETE", unit, delivery, DIALECT, {})
            deleted = connection.execute(sql, values).rowcount
        put = _insert_sql(table, delivery)
        # a MERGE writes fewer rows if some have newer labels, or if a key exists and there are no other columns
        must_take = delivery.mode is not Mode.MERGE or not (delivery.is_by_label or put.endswith("NOTHING"))
        is_coarse = delivery.mode is Mode.MERGE and is_key_coarse(connection, unit, delivery)
        kept = _create_key_table(connection, table, delivery) if is_whole_merge else ""
        condition = " AND ".join(f"{quote_identifier(key)} = ?" for key in delivery.keys)
        for change in _slice_chunks(delivery, there):
            if is_coarse:
                _require_distinct_keys(connection, unit, delivery, change.gone)
            if change.gone:
                deleted += connection.executemany(f"DELETE FROM {table} WHERE {condition}", change.gone).rowcount
            if is_coarse:
                for key, row in zip(change.keys, change.rows, strict=True):
                    _require_distinct_keys(connection, unit, delivery, [key])
                    connection.execute(put, row)
            else:
                taken = connection.executemany(put, change.rows).rowcount
                if must_take and 0 <= taken < len(change.rows):
                    raise lost_rows_error(unit, delivery, len(change.rows), taken)
            if kept:
                connection.executemany(kept, change.keys)
            rows += len(change.rows)
        if kept:
            deleted += _delete_other_keys(connection, table, delivery)
        return Delivered(delivery.claim, DeliveryOutcome.DELIVERED, delivery.label_text, rows, deleted, delivery.note)


def _require_distinct_keys(
    connection: sqlite3.Connection, unit: Unit, delivery: Delivery, keys: Sequence[tuple[Any, ...]]
) -> None:
    """Raise E876 for a key that the table's collation treats as equal to another key: `a` and `A` with NOCASE."""
    listed = ", ".join(map(quote_identifier, delivery.keys))
    condition = " AND ".join(f"{quote_identifier(key)} = ?" for key in delivery.keys)
    sql = f"SELECT {listed} FROM {table_of(unit)} WHERE {condition}"
    for key in keys:
        for found in connection.execute(sql, key).fetchall():
            if any(isinstance(own, str) and own != other for own, other in zip(key, found, strict=True)):
                named = ", ".join(map(str, key))
                raise equal_keys_error(unit, delivery, named, ", ".join(delivery.keys), "COLLATE BINARY")


def _create_key_table(connection: sqlite3.Connection, table: str, delivery: Delivery) -> str:
    """Create a temporary table for the keys of the slice. Return the SQL that inserts keys into it.

    Its columns have the affinities of the destination's columns. Otherwise SQLite could not use the table's index, and
    would scan all its rows for each row of the destination.
    """
    listed = ", ".join(quote_identifier(key) for key in delivery.keys)
    connection.execute(f"CREATE TEMP TABLE {_SLICE_KEYS} AS SELECT {listed} FROM {table} WHERE false")
    connection.execute(f"CREATE UNIQUE INDEX temp.{_SLICE_KEYS}_key ON {_SLICE_KEYS} ({listed})")
    return f"INSERT OR IGNORE INTO temp.{_SLICE_KEYS} VALUES ({', '.join('?' * len(delivery.keys))})"


def _delete_other_keys(connection: sqlite3.Connection, table: str, delivery: Delivery) -> int:
    same = " AND ".join(f"s.{quote_identifier(key)} = t.{quote_identifier(key)}" for key in delivery.keys)
    deleted = connection.execute(
        f"DELETE FROM {table} AS t WHERE NOT EXISTS (SELECT 1 FROM temp.{_SLICE_KEYS} AS s WHERE {same})"
    ).rowcount
    connection.execute(f"DROP TABLE temp.{_SLICE_KEYS}")
    return deleted


def _insert_sql(table: str, delivery: Delivery) -> str:
    names = delivery.column_names
    listed = ", ".join(quote_identifier(name) for name in names)
    # OR ABORT: a constraint with ON CONFLICT REPLACE would delete other rows, or replace NULL, without an error.
    # The alias lets `excluded` mean the new row also in a table of that name
    sql = f"INSERT OR ABORT INTO {table} AS t ({listed}) VALUES ({', '.join('?' * len(names))})"
    if delivery.mode is not Mode.MERGE:
        return sql
    keys = {key.lower() for key in delivery.keys}
    changed = [quote_identifier(name) for name in names if name.lower() not in keys]
    conflict = f" ON CONFLICT ({', '.join(quote_identifier(key) for key in delivery.keys)}) DO "
    if not changed:
        return f"{sql}{conflict}NOTHING"
    update = ", ".join(f"{name} = excluded.{name}" for name in changed)
    label = quote_identifier(TIMELABEL)
    guard = ""
    if delivery.is_by_label and TIMELABEL not in keys:
        guard = f" WHERE t.{label} IS NULL OR t.{label} <= excluded.{label}"
    return f"{sql}{conflict}UPDATE SET {update}{guard}"


@dataclass(frozen=True, slots=True)
class _SliceChunk:
    """A batch of a slice: the rows to write with their keys, and the keys to delete. No key is in both."""

    rows: list[tuple[Any, ...]]
    keys: list[tuple[Any, ...]]
    gone: list[tuple[Any, ...]]


def _slice_chunks(delivery: Delivery, there: Mapping[str, StoredColumn]) -> Iterator[_SliceChunk]:
    where = f"{delivery.publish}@{delivery.label_text}"
    names = [name for name, _ in delivery.columns]
    places = [names.index(key) for key in delivery.keys if key in names]

    def convert(values: pa.Array, name: str, kind: str) -> list[Any]:
        require_exact_values(values, there[name], where)
        plain: list[Any] = to_portable_types(values, kind).to_pylist()
        return plain

    for some in row_batches_of_slice(delivery, convert, with_marks=True, stored=there.values()):
        gone = [row[-1] for row in some]
        stays, keys = [not is_gone for is_gone in gone], [tuple(row[at] for at in places) for row in some]
        written = [row[:-1] for row in compress(some, stays)]
        yield _SliceChunk(written, list(compress(keys, stays)), list(compress(keys, gone)))
