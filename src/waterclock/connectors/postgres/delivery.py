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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from waterclock.connectors.behind import is_behind, refuse_kind, whole
from waterclock.connectors.delivering import Delivered, Delivery, Outcome
from waterclock.connectors.delivery_record import DELIVERIES, INDEX, Record, no_record
from waterclock.connectors.overwrites import refuse_changed
from waterclock.connectors.parts import begin_part, drop_labels, drop_old_versions, labels_there, show
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
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.flow.choices import Mode
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    import pyarrow as pa

    from waterclock.connectors.postgres.database import Connection

_STAGED = "waterclock_staged"
_GONE = "waterclock_gone"
_Told = TypeVar("_Told")

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
class PostgresDeliverer:
    """Delivers to a database."""

    database: Database

    def deliver(self, unit: Unit, deliveries: Sequence[Delivery]) -> tuple[Delivered, ...]:
        """Bring the slices of a claim and their rows of `waterclock_deliveries` in one transaction.

        Raises  E820 for a table that holds rows of somebody else, E810 and E811 (transient) for a server that does not
                answer and a lock, E813, E821; nothing has changed then
        """
        where = f"{unit}@{', '.join(delivery.label_text for delivery in deliveries)}"
        first = deliveries[0]
        with self.database.writing(where, called=_called(first.project, first.claim)) as connection:
            _prepare(connection, first.project, first.publish)
            stands = _record(connection).find(first.project, first.claim)
            if stands:
                return stands
            delivered = tuple(_deliver_one(connection, unit, delivery) for delivery in deliveries)
            fault("deliver.rows")
        self._clean(unit, deliveries[0])
        fault("deliver.done")
        return delivered

    def labels(self, unit: Unit, project: str, publish: str) -> tuple[str, ...]:
        """Return the labels that have a table of their own behind the unit's view."""
        return self._read(unit, lambda connection: labels_there(Tables(connection), unit, project, publish)) or ()

    def drop(self, unit: Unit, project: str, publish: str, labels: Sequence[str]) -> int:
        """Drop the tables of labels behind the unit's view, in one transaction; gives how many there were."""
        with self.database.writing(str(unit)) as connection:
            _prepare(connection, project, publish)
            return drop_labels(Tables(connection), unit, project, publish, labels)

    def _clean(self, unit: Unit, delivery: Delivery) -> None:
        """Drop versions that are kept no longer; where a reader holds one, another delivery does."""
        if is_behind(unit) and not delivery.is_by_label:
            with suppress(WaterclockError), self.database.writing(str(unit)) as connection:
                drop_old_versions(Tables(connection), unit, delivery.project, delivery.publish)

    def kill(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered:
        """Write the claim's row without rows of data, unless it is there; end who still works for it first."""
        with self.database.opened(str(unit)) as connection:
            connection.execute(_END, (_called(project, claim),))
        with self.database.writing(str(unit)) as connection:
            _prepare(connection, project, publish)
            return _record(connection).kill(project, publish, claim)

    def find(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered | None:
        """What stands under a claim; None where nothing does."""
        del publish
        return self._read(unit, lambda connection: (_record(connection).find(project, claim) or (None,))[-1])

    def last(self, unit: Unit, project: str, publish: str) -> Delivered | None:
        """The newest label's newest delivery."""
        return self._read(unit, lambda connection: _record(connection).newest(project, publish))

    def lost(self, unit: Unit, project: str, publish: str, claim: int) -> str | None:
        """Look for the claim's rows of `waterclock_deliveries`, the table, and what the newest label brought there."""

        def ask(connection: Connection) -> str | None:
            there = {name: quoted(column.name) for name, column in columns_there(connection, unit).items()}
            return _record(connection).lost(unit, table_of(unit), project, publish, claim, there)

        return self._read(unit, ask, otherwise=no_record(claim))

    def _read(
        self, unit: Unit, ask: Callable[[Connection], _Told | None], *, otherwise: _Told | None = None
    ) -> _Told | None:
        with self.database.reading(str(unit)) as connection:
            known = connection.execute("SELECT to_regclass(%s)", (DELIVERIES,)).fetchone()
            return ask(connection) if known and known[0] else otherwise


def _called(project: str, claim: int) -> str:
    """Return what the server's views call a connection that delivers: a claim's number is its project's own."""
    return f"waterclock {claim} {project}"[:63]


def _prepare(connection: Connection, project: str, publish: str) -> None:
    """Make the record of deliveries where there is none, and wait for the publish's turn."""
    known = connection.execute("SELECT to_regclass(%s)", (DELIVERIES,)).fetchone()
    if not known or known[0] is None:
        connection.execute(_MAKE_LOCK)
        connection.execute(_CREATE)
        connection.execute(INDEX)
    connection.execute(_TURN, (f"waterclock {project} {publish}",))


def _record(connection: Connection) -> Record:
    return Record(connection.execute, "%s")


def _deliver_one(connection: Connection, unit: Unit, delivery: Delivery) -> Delivered:
    record = _record(connection)
    newest = record.newest(delivery.project, delivery.publish)
    if newest and not delivery.is_by_label and newest.label_text > delivery.label_text:
        delivered = Delivered(delivery.claim, Outcome.OLDER, delivery.label_text, 0, 0, delivery.note)
    elif is_behind(unit):
        refuse_kind(unit, delivery, Tables(connection).kind_at(unit), newest)
        delivered = _bring_behind(connection, unit, delivery)
    else:
        refuse_kind(unit, delivery, Tables(connection).kind_at(unit), newest)
        refuse_changed(unit, delivery, newest)
        there = settle_table(connection, unit, delivery, is_ours=newest is not None)
        delivered = _bring(connection, unit, delivery, there)
    record.put(delivery, delivered)
    return delivered


def _bring_behind(connection: Connection, unit: Unit, delivery: Delivery) -> Delivered:
    """Fill the table of a version or of a label, and have the view show it."""
    part, is_ours = begin_part(Tables(connection), unit, delivery)
    there = settle_table(connection, part, whole(delivery), is_ours=is_ours)
    delivered = _bring(connection, part, whole(delivery), there)
    show(Tables(connection), unit, delivery, part)
    return delivered


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
