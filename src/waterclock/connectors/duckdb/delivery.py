"""Delivers sealed slices to a DuckDB database as Arrow tables, in one transaction, once per claim.

`sql/database_delivery` describes the modes. Only one process can write to a file at a time. If two threads of a process
deliver the same claim, one of them fails at the primary key of the record of deliveries.

`destination` creates or alters the table first. A value that the destination's type would round or truncate is refused.
To find such values, each is cast to that type and back, and compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.connectors.arrow_values import is_plain
from waterclock.connectors.delivering import Delivered, Delivery, DeliveryOutcome
from waterclock.connectors.duckdb.database import DuckdbDatabase, first_of, kind_at
from waterclock.connectors.duckdb.destination import prepare_table, read_stored_columns, wanted_columns
from waterclock.connectors.duckdb.dialect import DIALECT, quote_identifier, session_in, table_of
from waterclock.connectors.slice_rows import deliverable_batches_of, to_json_text
from waterclock.connectors.sql.capabilities import GONE
from waterclock.connectors.sql.database_delivery import SingleTransactionDeliverer
from waterclock.connectors.sql.database_errors import describe_missing_file
from waterclock.connectors.sql.delivery_record import DELIVERIES, INDEX
from waterclock.connectors.sql.destination_errors import equal_keys_error
from waterclock.connectors.sql.exact_values import StoredColumn, ValueKind, require_exact_values
from waterclock.connectors.sql.replace_where import replaced_rows
from waterclock.connectors.sql.sessions import SqlSession
from waterclock.connectors.sql.staged_slices import merge, stage_of
from waterclock.connectors.sql.versioned_views import Columns
from waterclock.connectors.sql.view_tables import SqlViewTables, group_columns
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit
from waterclock.flow.enums import Mode
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_STAGED = "waterclock_staged"
_SLICE = "waterclock_slice"
_BITS = {"FLOAT": 24, "DOUBLE": 53}

_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {DELIVERIES} ("
    "project VARCHAR NOT NULL, claim BIGINT NOT NULL, publish VARCHAR NOT NULL, label VARCHAR NOT NULL,"
    " outcome VARCHAR NOT NULL, mode VARCHAR NOT NULL, row_count BIGINT NOT NULL, deleted_count BIGINT NOT NULL,"
    " note VARCHAR NOT NULL, delivered_at TIMESTAMPTZ NOT NULL DEFAULT now(), PRIMARY KEY (project, claim, label))"
)


_TableColumns = Mapping[str, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class DuckdbViewTables(SqlViewTables):
    """The tables and views of a DuckDB database."""

    connection: duckdb.DuckDBPyConnection

    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`, the kind of object with the unit's name; empty if the name is free."""
        return kind_at(self.connection, unit)

    def columns(self, parts: Sequence[Unit]) -> dict[str, Columns]:
        """Map the path of each table that exists to its columns. Cost: one statement."""
        paths = {part.path.rpartition(".")[2].lower(): part.path for part in parts}
        schema = parts[0].path.rpartition(".")[0] or "main" if parts else "main"
        rows = self.session.rows_of(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() SEMI JOIN duckdb_tables()"
            " USING (database_oid, table_oid) WHERE database_name = current_database()"
            " AND lower(schema_name) = lower(?) AND list_contains(?, lower(table_name))"
            " ORDER BY table_name, column_index",
            (schema, list(paths)),
        )
        return group_columns(((str(table).lower(), *column) for table, *column in rows), paths)


@dataclass(frozen=True, slots=True)
class DuckdbDeliverer(SingleTransactionDeliverer["duckdb.DuckDBPyConnection", _TableColumns]):
    """Delivers to a DuckDB database file."""

    database: DuckdbDatabase

    @property
    def _destination(self) -> DuckdbDatabase:
        return self.database

    def _session(self, connection: duckdb.DuckDBPyConnection) -> SqlSession:
        return session_in(connection)

    def _prepare(self, connection: duckdb.DuckDBPyConnection, project: str, publish: str) -> None:
        del project, publish
        first_of(connection, _CREATE)
        first_of(connection, INDEX)

    def _has_record(self, connection: duckdb.DuckDBPyConnection) -> bool:
        sql = "SELECT 1 FROM duckdb_tables() WHERE database_name = current_database() AND table_name = ?"
        return first_of(connection, sql, (DELIVERIES,)) is not None

    def _tables(self, connection: duckdb.DuckDBPyConnection) -> DuckdbViewTables:
        return DuckdbViewTables(session_in(connection), connection)

    def _destination_names(self, connection: duckdb.DuckDBPyConnection, unit: Unit) -> Mapping[str, str]:
        return {name: spelt for name, (spelt, _) in read_stored_columns(connection, unit).items()}

    def _find_missing_database(self) -> str | None:
        return describe_missing_file(self.database.path, may_create=self.database.may_create)

    def _prepare_table(
        self, connection: duckdb.DuckDBPyConnection, unit: Unit, delivery: Delivery, *, is_ours: bool
    ) -> _TableColumns:
        return prepare_table(connection, unit, delivery, is_ours=is_ours)

    def _deliver_rows(
        self, connection: duckdb.DuckDBPyConnection, unit: Unit, delivery: Delivery, there: _TableColumns
    ) -> Delivered:
        table = table_of(unit)
        names = list(wanted_columns(delivery))
        is_staged = delivery.mode is Mode.MERGE or any(True for _ in _columns_of_other_type(delivery, there))
        if is_staged:
            _stage_slice(connection, delivery, there)
            _require_exact_values(connection, unit, delivery, there)
        deleted = 0
        if delivery.replaces_rows:
            names_there = {name: spelt for name, (spelt, _) in there.items()}
            deleted = _execute_update(connection, *replaced_rows("DELETE", unit, delivery, DIALECT, names_there))
        spelt = [there[name.lower()][0] for name in names]
        if not is_staged:
            rows = _write_rows(connection, table, spelt, names, delivery, there)
        else:
            if delivery.mode is Mode.MERGE:
                _require_distinct_keys(connection, unit, delivery, there)
                own = {name.lower(): name for name in names}
                of_there = {name: name_there for name, (name_there, _) in there.items()}
                staged = stage_of(session_in(connection), f"temp.{_STAGED}", delivery, of_there, own)
                _, gone = merge(session_in(connection), unit, delivery, staged)
                deleted += gone
                _require_distinct_keys(connection, unit, delivery, there)  # different keys within this delivery
            else:
                listed, taken = (", ".join(map(quote_identifier, some)) for some in (spelt, names))
                first_of(connection, f"INSERT INTO {table} ({listed}) SELECT {taken} FROM temp.{_STAGED}")
            row = first_of(connection, f"SELECT count(*) FROM temp.{_STAGED} WHERE NOT {GONE}")
            first_of(connection, f"DROP TABLE temp.{_STAGED}")
            rows = row[0] if row else 0
        return Delivered(delivery.claim, DeliveryOutcome.DELIVERED, delivery.label_text, rows, deleted, delivery.note)


def _require_distinct_keys(
    connection: duckdb.DuckDBPyConnection, unit: Unit, delivery: Delivery, there: Mapping[str, tuple[str, str]]
) -> None:
    """Raise E876 for a key that a collation treats as equal to another key of the table: `a` and `A` with NOCASE."""
    schema, _, name = unit.path.rpartition(".")
    sql = "SELECT sql FROM duckdb_tables() WHERE database_name = current_database() AND lower(schema_name) = lower(?)"
    row = first_of(connection, f"{sql} AND lower(table_name) = lower(?)", (schema or "main", name))
    texts = [key for key in delivery.keys if there[key.lower()][1] == "VARCHAR"]
    if not texts or row is None or "COLLATE" not in str(row[0]).upper():
        return
    same = " AND ".join(
        f"s.{quote_identifier(key)} = t.{quote_identifier(there[key.lower()][0])}" for key in delivery.keys
    )
    other = " OR ".join(
        f"encode(CAST(s.{quote_identifier(key)} AS VARCHAR)) <> encode(t.{quote_identifier(there[key.lower()][0])})"
        for key in texts
    )
    listed = ", ".join(f"s.{quote_identifier(key)}" for key in delivery.keys)
    joined = f"temp.{_STAGED} AS s JOIN {table_of(unit)} AS t ON {same}"
    found = first_of(connection, f"SELECT {listed} FROM {joined} WHERE {other} LIMIT 1")
    if found:
        keys = ", ".join(delivery.keys)
        raise equal_keys_error(unit, delivery, ", ".join(map(str, found)), keys, "no COLLATE")


def _stage_slice(connection: duckdb.DuckDBPyConnection, delivery: Delivery, there: _TableColumns) -> None:
    """Write the slice to a temporary table, with the types that a new destination would have."""
    wanted = wanted_columns(delivery, there)
    listed = ", ".join(f"{quote_identifier(name)} {kind}" for name, kind in wanted.items())
    first_of(connection, f"CREATE TEMP TABLE {_STAGED} ({listed}, {GONE} BOOLEAN NOT NULL)")
    names = [*wanted, GONE]
    _write_rows(connection, f"temp.{_STAGED}", names, names, delivery, there)


def _write_rows(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    into: Sequence[str],
    names: Sequence[str],
    delivery: Delivery,
    there: _TableColumns,
) -> int:
    """Write the columns `names` of the slice to the columns `into` of a table. Return the number of rows."""
    import pyarrow as pa

    rows = 0
    listed, taken = (", ".join(map(quote_identifier, some)) for some in (into, names))
    for batch in _batches(delivery, there):
        connection.register(_SLICE, pa.Table.from_batches([batch]))
        rows += _execute_update(connection, f"INSERT INTO {table} ({listed}) SELECT {taken} FROM {_SLICE}")
        connection.unregister(_SLICE)
    return rows


def _batches(delivery: Delivery, there: _TableColumns) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a slice, with their labels if any, and a column `GONE` that is TRUE for deleted rows."""
    import pyarrow as pa

    names, wanted = [name for name, _ in delivery.columns], wanted_columns(delivery, there)
    marks = [name for name in (delivery.deleted_column, delivery.label_column) if name]
    for batch in deliverable_batches_of(delivery.files, names + marks, takes_far_times=True):
        for at, name in enumerate(names):
            spelt, kept = there[name.lower()]
            if kept in _BITS:
                into = StoredColumn(spelt, kept, holds=ValueKind.FLOAT, bits=_BITS[kept])
                require_exact_values(batch.column(at), into, f"{delivery.publish}@{delivery.label_text}")
        arrays = [
            batch.column(at) if is_plain(kind) or wanted[name].endswith("]") else _to_json(batch.column(at))
            for at, (name, kind) in enumerate(delivery.columns)
        ]
        columns = list(names)
        if delivery.is_by_label:
            own = pa.repeat(pa.scalar(delivery.label_text), batch.num_rows)
            row_labels = batch[delivery.label_column].cast(pa.string()) if delivery.label_column else None
            arrays.append(own if row_labels is None else row_labels.fill_null(delivery.label_text))
            columns.append(TIMELABEL)
        gone = batch[delivery.deleted_column].fill_null(False) if delivery.deleted_column else None  # noqa: FBT003 - Arrow's
        arrays.append(pa.repeat(pa.scalar(value=False), batch.num_rows) if gone is None else gone)
        yield pa.RecordBatch.from_arrays(arrays, [*columns, GONE])


def _to_json(values: pa.Array) -> pa.Array:
    import pyarrow as pa

    plain = values.to_pylist(maps_as_pydicts="lossy")
    return pa.array([None if value is None else to_json_text(value) for value in plain], pa.string())


def _require_exact_values(
    connection: duckdb.DuckDBPyConnection, unit: Unit, delivery: Delivery, there: Mapping[str, tuple[str, str]]
) -> None:
    """Raise E812 for the first value that a type of the destination would not store exactly."""
    for name, kind, spelt, kept in _columns_of_other_type(delivery, there):
        if kept == "VARCHAR" or kept in _BITS:  # a text stores every value; `_batches` has checked binary fractions
            continue
        value = quote_identifier(name)
        back = f"TRY_CAST(TRY_CAST({value} AS {kept}) AS {kind})"
        cut = f"NOT {GONE} AND {back} IS DISTINCT FROM {value}"
        row = first_of(connection, f"SELECT CAST({value} AS VARCHAR) FROM temp.{_STAGED} WHERE {cut} LIMIT 1")
        if row:
            raise WaterclockError(
                "E812",
                f"{spelt} cannot store {row[0]!r}",
                where=f"{unit}@{delivery.label_text}",
                why=f"the destination's column is {kept}, which would lose a part of it",
                fix=f"ALTER TABLE {unit.path} ALTER {quote_identifier(spelt)} TYPE {kind}; or cast in the transform",
            )


def _columns_of_other_type(
    delivery: Delivery, there: Mapping[str, tuple[str, str]]
) -> Iterator[tuple[str, str, str, str]]:
    """Yield the columns whose type differs in the destination: name and type in the slice, then name and type there."""
    for name, kind in wanted_columns(delivery, there).items():
        spelt, kept = there[name.lower()]
        if kept != kind:
            yield name, kind, spelt, kept


def _execute_update(connection: duckdb.DuckDBPyConnection, sql: str, values: Sequence[Any] = ()) -> int:
    """Run a statement and return the number of rows that it changed."""
    row = first_of(connection, sql, values)
    return int(row[0]) if row else 0
