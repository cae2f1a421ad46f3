"""Writes the rows of a slice to a PostgreSQL table by COPY, and merges them by their keys.

The server reports how many rows it stored. An error is raised if these are fewer than were sent, as triggers may drop
rows silently.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from waterclock.connectors.arrow_values import is_plain
from waterclock.connectors.delivering import Delivery
from waterclock.connectors.postgres.dialect import DIALECT, element_of, quote_identifier, table_of
from waterclock.connectors.postgres.stored_columns import PostgresDestinationColumn
from waterclock.connectors.slice_rows import deliverable_batches_of, to_json_text
from waterclock.connectors.sql.capabilities import GONE
from waterclock.connectors.sql.destination import stored_names
from waterclock.connectors.sql.destination_errors import equal_keys_error, lost_rows_error
from waterclock.connectors.sql.exact_values import require_exact_values
from waterclock.connectors.sql.replace_where import replaced_rows
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    import pyarrow as pa

    from waterclock.connectors.postgres.database import Connection

_STAGED = "waterclock_staged"
# row triggers BEFORE and INSTEAD OF, rules and policies can all leave rows out of a statement without an error
_FILTERS = (
    "SELECT relhasrules OR relrowsecurity OR EXISTS (SELECT FROM pg_trigger WHERE tgrelid = pg_class.oid"
    " AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 66 <> 0) FROM pg_class WHERE oid = to_regclass(%s)"
)


def has_filters(connection: Connection, unit: Unit) -> bool:
    """Return whether triggers, rules or policies of a table may leave rows out of a statement."""
    row = connection.execute(_FILTERS, (table_of(unit),)).fetchone()
    return row is not None and bool(row[0])


def put(
    connection: Connection,
    unit: Unit,
    delivery: Delivery,
    there: Mapping[str, PostgresDestinationColumn],
    *,
    is_filtered: bool,
) -> int:
    """Write the slice's rows into the table, and return their number. The caller deletes the rows that they replace.

    Raises E812 for a value that its column would not store exactly, E813 if not all rows were stored.
    """
    names = [there[name.lower()].name for name in delivery.column_names]
    sent, kept = _copy(connection, table_of(unit), names, delivery, there)
    if is_filtered or kept != sent:
        # a trigger may have stored them elsewhere: in a partition, or behind a view
        row = connection.execute(
            *replaced_rows("SELECT count(*)", unit, delivery, DIALECT, stored_names(there))
        ).fetchone()
        if row is None or row[0] != sent:
            raise lost_rows_error(unit, delivery, sent, row[0] if row else 0)
    return sent


def merge(
    connection: Connection,
    unit: Unit,
    delivery: Delivery,
    there: Mapping[str, PostgresDestinationColumn],
    *,
    is_filtered: bool,
) -> tuple[int, int]:
    """Merge the slice's rows into the table by their keys, through a temporary table.

    Return the numbers of rows written and deleted.
    Raises E812 for a value that its column would not store exactly, E813 if not all rows were stored, and E876 for two
    keys that the destination treats as equal.
    """
    table = table_of(unit)
    names = [there[name.lower()].name for name in delivery.column_names]
    listed = ", ".join(map(quote_identifier, names))
    connection.execute(f"CREATE TEMP TABLE {_STAGED} ON COMMIT DROP AS SELECT {listed} FROM {table} WHERE false")
    connection.execute(f"ALTER TABLE {_STAGED} ADD COLUMN {GONE} BOOLEAN NOT NULL")
    _copy(connection, _STAGED, [*names, GONE], delivery, there)
    connection.execute(f"ANALYZE {_STAGED}")
    keys = [there[key.lower()].name for key in delivery.keys]
    _require_distinct_keys(connection, unit, delivery, there)
    same = " AND ".join(f"s.{quote_identifier(key)} = t.{quote_identifier(key)}" for key in keys)
    conditions = [f"EXISTS (SELECT FROM {_STAGED} AS s WHERE s.{GONE} AND {same})"]
    if delivery.is_whole and not delivery.is_by_label:
        conditions.append(f"NOT EXISTS (SELECT FROM {_STAGED} AS s WHERE NOT s.{GONE} AND {same})")
    gone = sum(connection.execute(f"DELETE FROM {table} AS t WHERE {each}").rowcount for each in conditions)
    changed = [quote_identifier(name) for name in names if name not in keys]
    update = ", ".join(f"{name} = excluded.{name}" for name in changed)
    label = quote_identifier(there[TIMELABEL].name) if delivery.is_by_label else ""
    has_guard = label in changed
    guard = f" WHERE t.{label} IS NULL OR t.{label} <= excluded.{label}" if has_guard else ""
    on_conflict = f"UPDATE SET {update}{guard}" if changed else "NOTHING"
    taken = connection.execute(
        f"INSERT INTO {table} AS t ({listed}) SELECT {listed} FROM {_STAGED} WHERE NOT {GONE}"
        f" ON CONFLICT ({', '.join(map(quote_identifier, keys))}) DO {on_conflict}"
    ).rowcount
    row = connection.execute(f"SELECT count(*) FROM {_STAGED} WHERE NOT {GONE}").fetchone()
    rows = int(row[0]) if row else 0
    if is_filtered or taken != rows:
        passed = "true" if not changed else f"t.{label} > s.{label}" if has_guard else "false"
        stays = f"{_STAGED} AS s JOIN {table} AS t ON {same} WHERE NOT s.{GONE}"
        row = connection.execute(f"SELECT count(*), count(*) FILTER (WHERE {passed}) FROM {stays}").fetchone()
        there_now, passed_over = row or (0, 0)
        kept = there_now if not changed else min(taken + passed_over, there_now)
        if kept < rows:
            raise lost_rows_error(unit, delivery, rows, kept)
        for each in conditions if is_filtered else ():
            row = connection.execute(f"SELECT count(*) FROM {table} AS t WHERE {each}").fetchone()
            if row and row[0]:
                raise lost_rows_error(unit, delivery, rows, rows + row[0])
    connection.execute(f"DROP TABLE {_STAGED}")
    return rows, gone


def _require_distinct_keys(
    connection: Connection, unit: Unit, delivery: Delivery, there: Mapping[str, PostgresDestinationColumn]
) -> None:
    """Raise E876 for different keys that the destination's types treat as equal, such as `a` and `A` in citext."""
    columns = [there[key.lower()] for key in delivery.keys]
    kinds = {name.lower(): kind.lower() for name, kind in delivery.columns}
    coarse = [column for column in columns if column.is_coarse]
    if not coarse and all(
        column.is_text or (is_plain(kind) and kind != "string")
        for column, kind in ((column, kinds.get(column.name.lower(), "string")) for column in columns)
    ):
        return
    listed = ", ".join(f"s.{quote_identifier(column.name)}" for column in columns)
    grouped = f"SELECT {listed} FROM {_STAGED} AS s GROUP BY {listed} HAVING count(*) > 1 LIMIT 1"
    row = connection.execute(grouped).fetchone()
    if row is None and coarse:
        same = " AND ".join(
            f"s.{quote_identifier(column.name)} = t.{quote_identifier(column.name)}" for column in columns
        )
        other = " OR ".join(
            f's.{name}::text COLLATE "C" <> t.{name}::text COLLATE "C"'
            for name in (quote_identifier(column.name) for column in coarse)
        )
        joined = f"{_STAGED} AS s JOIN {table_of(unit)} AS t ON {same}"
        row = connection.execute(f"SELECT {listed} FROM {joined} WHERE {other} LIMIT 1").fetchone()
    if row is not None:
        better = 'a type or collation that distinguishes every character, such as TEXT COLLATE "C",'
        raise equal_keys_error(unit, delivery, ", ".join(map(str, row)), ", ".join(delivery.keys), better)


def _copy(
    connection: Connection,
    table: str,
    names: Sequence[str],
    delivery: Delivery,
    there: Mapping[str, PostgresDestinationColumn],
) -> tuple[int, int]:
    """Send the slice's rows by COPY, as CSV. Return the numbers of rows sent and of rows stored."""
    from pyarrow import csv

    rows, options = 0, csv.WriteOptions(include_header=False)
    listed = ", ".join(map(quote_identifier, names))
    cursor = connection.cursor()
    with cursor.copy(f"COPY {table} ({listed}) FROM STDIN (FORMAT csv)") as copy:
        for batch in _batches(delivery, there, with_marks=table == _STAGED):
            text = io.BytesIO()
            csv.write_csv(batch, text, options)
            copy.write(text.getbuffer())
            rows += batch.num_rows
    return rows, cursor.rowcount


def _batches(
    delivery: Delivery, there: Mapping[str, PostgresDestinationColumn], *, with_marks: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the slice's rows as text for PostgreSQL, with labels. `with_marks` adds a flag for deleted rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names, where = [name for name, _ in delivery.columns], f"{delivery.publish}@{delivery.label_text}"
    marks = [name for name in (delivery.deleted_column, delivery.label_column) if name]
    for batch in deliverable_batches_of(delivery.files, names + marks, takes_far_times=True):
        columns = []
        for at, (name, kind) in enumerate(delivery.columns):
            into = there[name.lower()]
            require_exact_values(batch.column(at), into.stored, where)
            columns.append(_to_text(batch.column(at), kind, is_array=into.stored.is_array))
        if delivery.is_by_label:
            label = pa.scalar(delivery.label_text)
            labels = batch[delivery.label_column] if delivery.label_column else None
            columns.append(pc.coalesce(labels, label) if labels is not None else pa.repeat(label, batch.num_rows))
        if with_marks:
            gone = batch[delivery.deleted_column] if delivery.deleted_column else None
            never = pa.repeat(pa.scalar(value=False), batch.num_rows)
            columns.append(never if gone is None else pc.fill_null(gone, fill_value=False))
        yield pa.RecordBatch.from_arrays(columns, names=[str(at) for at in range(len(columns))])


def _to_text(column: pa.Array, spark_type: str, *, is_array: bool) -> pa.Array:
    """Convert values that Arrow's CSV cannot represent to text for PostgreSQL: bytes, arrays, and others as JSON."""
    import pyarrow as pa

    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return pa.array([None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()], pa.string())
    if is_plain(spark_type):
        return column
    values = column.to_pylist(maps_as_pydicts="lossy")
    write = _array_text if is_array and element_of(spark_type) else to_json_text
    return pa.array([None if value is None else write(value) for value in values], pa.string())


def _array_text(values: Sequence[Any]) -> str:
    """Format an array as PostgreSQL does: `{1,NULL,"a, b"}`."""
    return "{" + ",".join("NULL" if value is None else _element_text(value) for value in values) + "}"


def _element_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return _array_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        value = f"\\x{value.hex()}"
    elif isinstance(value, dict):
        value = to_json_text(value)
    text = str(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
