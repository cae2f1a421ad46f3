"""Delivers a sealed slice to a PostgreSQL database: by COPY, in one transaction, once a claim.

The table `waterclock_deliveries` holds a row for each claim and label, written in the transaction that brings rows.
A claim that has a row is not delivered again: it is the latch, and the way to see what stands. Deliveries of a publish
take turns by a lock that bears its name; whoever kills a claim first ends the connection that still works for it, which
a runner that sleeps would hold for ever.

REPLACE   of a regular table: all rows of the destination are replaced, by DELETE and COPY: each reader sees the rows of
          before or of after, never none. (TRUNCATE, or a new table under the name, is empty to whoever began before.)
MERGE     of a regular table: keys that went are deleted, rows are put in place of those with their key. Columns of the
          destination that the publish does not name keep their values.
APPEND    and anything from a partitioned table: the destination has a column `timelabel`; a label's rows replace the
          rows of that label. A MERGE never changes a row that bears a newer label.

`destination` makes the table fit first.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.connectors.database_delivery import DeliversInOneTransaction
from waterclock.connectors.delivering import Delivered, Delivery, Outcome
from waterclock.connectors.delivery_record import DELIVERIES, INDEX, Record
from waterclock.connectors.postgres.behind import Tables
from waterclock.connectors.postgres.database import Database, quoted, table_of
from waterclock.connectors.postgres.destination import (
    There,
    columns_there,
    element_of,
    settle_table,
    some_rows,
)
from waterclock.connectors.rounding import Kept, refuse_rounded
from waterclock.connectors.sealed import batches_of, plain_text
from waterclock.connectors.values import is_plain
from waterclock.flow.choices import Mode
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    import pyarrow as pa

    from waterclock.connectors.postgres.database import Connection

_STAGED = "waterclock_staged"
_GONE = "waterclock_gone"

_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {DELIVERIES} ("
    "project TEXT NOT NULL, claim BIGINT NOT NULL, publish TEXT NOT NULL, label TEXT NOT NULL, outcome TEXT NOT NULL,"
    " mode TEXT NOT NULL, row_count BIGINT NOT NULL, deleted_count BIGINT NOT NULL, note TEXT NOT NULL,"
    " delivered_at TIMESTAMPTZ NOT NULL DEFAULT now(), PRIMARY KEY (project, claim, label))"
)
_MAKE_LOCK = "SELECT pg_advisory_xact_lock(hashtext('waterclock_deliveries'))"
_TURN = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
_END = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
    " WHERE application_name = %s AND usename = current_user AND datname = current_database()"
)


@dataclass(frozen=True, slots=True)
class PostgresDeliverer(DeliversInOneTransaction["Connection", Mapping[str, There]]):
    """Delivers to a database."""

    database: Database

    def kill(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered:
        """Write the claim's row without rows of data, unless it is there; end who still works for it first."""
        with self.database.opened(str(unit)) as connection:
            connection.execute(_END, (_called(project, claim),))
        return DeliversInOneTransaction.kill(self, unit, project, publish, claim)

    def _reading(self, where: str) -> AbstractContextManager[Connection]:
        return self.database.reading(where)

    def _writing(self, where: str, *, called: tuple[str, int] | None = None) -> AbstractContextManager[Connection]:
        return self.database.writing(where, called=_called(*called)) if called else self.database.writing(where)

    def _prepare(self, connection: Connection, project: str, publish: str) -> None:
        if not self._has_record(connection):
            connection.execute(_MAKE_LOCK)
            connection.execute(_CREATE)
            connection.execute(INDEX)
        connection.execute(_TURN, (f"waterclock {project} {publish}",))

    def _record(self, connection: Connection) -> Record:
        return Record(connection.execute, "%s")

    def _has_record(self, connection: Connection) -> bool:
        known = connection.execute("SELECT to_regclass(%s)", (DELIVERIES,)).fetchone()
        return known is not None and known[0] is not None

    def _tables(self, connection: Connection) -> Tables:
        return Tables(connection)

    def _table_of(self, unit: Unit) -> str:
        return table_of(unit)

    def _names_there(self, connection: Connection, unit: Unit) -> Mapping[str, str]:
        return {name: quoted(column.name) for name, column in columns_there(connection, unit).items()}

    def _settle(self, connection: Connection, unit: Unit, delivery: Delivery, *, is_ours: bool) -> Mapping[str, There]:
        return settle_table(connection, unit, delivery, is_ours=is_ours)

    def _bring(self, connection: Connection, unit: Unit, delivery: Delivery, there: Mapping[str, There]) -> Delivered:
        return _bring(connection, unit, delivery, there)


def _called(project: str, claim: int) -> str:
    """Return what the server's views call a connection that delivers: a claim's number is its project's own."""
    return f"waterclock {claim} {project}"[:63]


def _bring(connection: Connection, unit: Unit, delivery: Delivery, there: Mapping[str, There]) -> Delivered:
    table = table_of(unit)
    names = [there[name.lower()].name for name in _names(delivery)]
    deleted = 0
    if delivery.is_by_label:
        sql = f"DELETE FROM {table} WHERE {quoted(there[TIMELABEL].name)} = ".replace("%", "%%")
        deleted = connection.execute(f"{sql}%s", (delivery.label_text,)).rowcount
    elif delivery.mode is Mode.REPLACE:
        deleted = connection.execute(*some_rows("DELETE", unit, delivery, there)).rowcount
    if delivery.mode is not Mode.MERGE:
        rows = _copy(connection, table, names, delivery, there)
        return Delivered(delivery.claim, Outcome.DELIVERED, delivery.label_text, rows, deleted, delivery.note)
    rows, gone = _merge(connection, table, names, delivery, there)
    return Delivered(delivery.claim, Outcome.DELIVERED, delivery.label_text, rows, deleted + gone, delivery.note)


def _names(delivery: Delivery) -> list[str]:
    return [name for name, _ in delivery.columns] + ([TIMELABEL] if delivery.is_by_label else [])


def _merge(
    connection: Connection, table: str, names: Sequence[str], delivery: Delivery, there: Mapping[str, There]
) -> tuple[int, int]:
    """Put rows in place of those with their keys, by a table of our own; give how many, and how many went."""
    listed = ", ".join(map(quoted, names))
    connection.execute(f"CREATE TEMP TABLE {_STAGED} ON COMMIT DROP AS SELECT {listed} FROM {table} WHERE false")
    connection.execute(f"ALTER TABLE {_STAGED} ADD COLUMN {_GONE} BOOLEAN NOT NULL")
    _copy(connection, _STAGED, [*names, _GONE], delivery, there)
    connection.execute(f"ANALYZE {_STAGED}")
    spelt = {name.lower(): name for name in names}
    keys = [spelt[key.lower()] for key in delivery.keys]
    same = " AND ".join(f"s.{quoted(key)} = t.{quoted(key)}" for key in keys)
    sql = f"DELETE FROM {table} AS t USING {_STAGED} AS s WHERE s.{_GONE} AND {same}"
    gone = connection.execute(sql).rowcount
    if delivery.is_whole and not delivery.is_by_label:
        kept = f"SELECT FROM {_STAGED} AS s WHERE NOT s.{_GONE} AND {same}"
        gone += connection.execute(f"DELETE FROM {table} AS t WHERE NOT EXISTS ({kept})").rowcount
    row = connection.execute(f"SELECT count(*) FROM {_STAGED} WHERE NOT {_GONE}").fetchone()
    changed = [quoted(name) for name in names if name not in keys]
    update = ", ".join(f"{name} = excluded.{name}" for name in changed)
    label = quoted(spelt.get(TIMELABEL, TIMELABEL))
    guard = (
        f" WHERE t.{label} IS NULL OR t.{label} <= excluded.{label}"
        if delivery.is_by_label and label in changed
        else ""
    )
    on_conflict = f"UPDATE SET {update}{guard}" if changed else "NOTHING"
    connection.execute(
        f"INSERT INTO {table} AS t ({listed}) SELECT {listed} FROM {_STAGED} WHERE NOT {_GONE}"
        f" ON CONFLICT ({', '.join(map(quoted, keys))}) DO {on_conflict}"
    )
    connection.execute(f"DROP TABLE {_STAGED}")
    return (int(row[0]) if row else 0), gone


def _copy(
    connection: Connection, table: str, names: Sequence[str], delivery: Delivery, there: Mapping[str, There]
) -> int:
    """Bring the slice's rows by COPY, as CSV that Arrow writes; give how many."""
    from pyarrow import csv

    rows, options, where = 0, csv.WriteOptions(include_header=False), delivery.publish
    listed = ", ".join(map(quoted, names))
    with connection.cursor().copy(f"COPY {table} ({listed}) FROM STDIN (FORMAT csv)") as copy:
        for batch in _batches(delivery, there, where, with_marks=table == _STAGED):
            text = io.BytesIO()
            csv.write_csv(batch, text, options)
            copy.write(text.getbuffer())
            rows += batch.num_rows
    return rows


def _batches(
    delivery: Delivery, there: Mapping[str, There], where: str, *, with_marks: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the slice's rows as text that PostgreSQL reads, with their labels, and whether they went `with_marks`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [name for name, _ in delivery.columns]
    marks = [name for name in (delivery.deleted_column, delivery.label_column) if name]
    for batch in batches_of(delivery.files, names + marks):
        columns = []
        for at, (name, kind) in enumerate(delivery.columns):
            into = there[name.lower()]
            if into.places is not None and not into.is_array:
                kept = Kept(into.name, into.places, "PostgreSQL")
                refuse_rounded(batch.column(at), kept, f"{where}@{delivery.label_text}")
            columns.append(_as_text(batch.column(at), kind, is_array=into.is_array))
        if delivery.is_by_label:
            label = pa.scalar(delivery.label_text)
            labels = batch[delivery.label_column] if delivery.label_column else None
            columns.append(pc.coalesce(labels, label) if labels is not None else pa.repeat(label, batch.num_rows))
        if with_marks:
            gone = batch[delivery.deleted_column] if delivery.deleted_column else None
            never = pa.repeat(pa.scalar(value=False), batch.num_rows)
            columns.append(never if gone is None else pc.fill_null(gone, fill_value=False))
        yield pa.RecordBatch.from_arrays(columns, names=[str(at) for at in range(len(columns))])


def _as_text(column: pa.Array, spark_type: str, *, is_array: bool) -> pa.Array:
    """Return what Arrow's CSV cannot say as the text that PostgreSQL reads: bytes, arrays, and JSON for the rest."""
    import pyarrow as pa

    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return pa.array([None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()], pa.string())
    if is_plain(spark_type):
        return column
    values = column.to_pylist(maps_as_pydicts="lossy")
    write = _array_text if is_array and element_of(spark_type) else plain_text
    return pa.array([None if value is None else write(value) for value in values], pa.string())


def _array_text(values: Sequence[Any]) -> str:
    """Write an array as PostgreSQL reads it: `{1,NULL,"a, b"}`."""
    return "{" + ",".join("NULL" if value is None else _element_text(value) for value in values) + "}"


def _element_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return _array_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        value = f"\\x{value.hex()}"
    elif isinstance(value, dict):
        value = plain_text(value)
    text = str(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
