"""Reads rows of a DuckDB database into a Spark frame, as Arrow, in bounded memory and as of one moment.

A small result is passed to Spark directly. A big one is read by one Python worker of Spark, since DuckDB itself uses
all cores. Meanwhile the file stays open in this process, so that no other process can write to it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from waterclock.connectors.arrow_values import column
from waterclock.connectors.column_matching import type_mismatch_error
from waterclock.connectors.duckdb.database import DuckdbDatabase
from waterclock.connectors.duckdb.dialect import DIALECT, session_in
from waterclock.connectors.duckdb.types import DuckdbColumn, columns_of
from waterclock.connectors.local_times import local_column_to_instants
from waterclock.connectors.sql.server_collector import ServerCollector, ServerReader
from waterclock.connectors.sql.window_bounds import instants_of_counts, labels_of
from waterclock.connectors.sql.window_queries import PartialExtract, RequestedExpression
from waterclock.connectors.type_mismatch import TypeMismatch
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

BATCH_ROWS = 20_000
_FIRST_DAY, _LAST_DAY = ((day - date(1970, 1, 1)).days for day in (date.min, date.max))
_INFINITE_DAY = 2**31 - 1


@dataclass(frozen=True, slots=True)
class DuckdbRequestedColumn(RequestedExpression[DuckdbColumn]):
    """A column to read, with its description in the database."""

    @property
    def has_default_type(self) -> bool:
        """True if the type in the table is the column's default Spark type, so that Python converts no value."""
        return self.column.spark is not None and _normal_type(self.taken.type) == _normal_type(self.column.spark)

    @property
    def is_text(self) -> bool:
        """True if the column is read as text, because it is declared STRING and has another type."""
        return _normal_type(self.taken.type) == "string" and not self.has_default_type


@dataclass(frozen=True, slots=True)
class DuckdbExtract(PartialExtract[DuckdbDatabase, DuckdbRequestedColumn]):
    """A query for rows of a DuckDB table or query."""


def batches(
    connection: duckdb.DuckDBPyConnection, extract: DuckdbExtract, fetched: list[int] | None = None
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of an extract in batches of up to `BATCH_ROWS`, with labels if they are read by window.

    Raises E812 for type mismatches.
    """
    for batch in connection.sql(extract.query(DIALECT)).to_arrow_reader(BATCH_ROWS):
        if fetched is not None:
            fetched[0] += batch.num_rows
        made = _build_batch(batch, extract)
        if made.num_rows:
            yield made


def _build_batch(batch: pa.RecordBatch, extract: DuckdbExtract) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [batch.column(at) for at in range(len(extract.wanted))]
    if extract.by_window is None:
        arrays = [_convert_column(values, one, extract) for values, one in zip(columns, extract.wanted, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, [one.taken.name for one in extract.wanted])
    micros = batch.column(len(extract.wanted)).to_numpy(zero_copy_only=False).astype("int64")
    labels, kept = labels_of(instants_of_counts(micros, extract.by_window, extract.times), extract.by_window.windows)
    arrays = [
        _convert_column(values.filter(kept), one, extract) for values, one in zip(columns, extract.wanted, strict=True)
    ]
    names = [one.taken.name for one in extract.wanted]
    return pa.RecordBatch.from_arrays([*arrays, labels.filter(kept)], [*names, TIMELABEL])


def _convert_column(values: pa.Array, one: DuckdbRequestedColumn, extract: DuckdbExtract) -> pa.Array:
    """Convert values to the column's type. Raises E812 for a value that does not fit."""
    import pyarrow as pa

    try:
        if not one.has_default_type:
            return column(values.to_pylist(), one.taken.type, extract.times)
        if one.column.is_local:
            return local_column_to_instants(values.cast(pa.timestamp("us")), extract.times.zone)
        if one.column.time_kind == "timestamptz":
            return local_column_to_instants(values.cast(pa.int64()).cast(pa.timestamp("us")), "UTC")
        if pa.types.is_date(values.type):
            return _require_calendar(values)
        return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    except TypeMismatch as error:
        raise type_mismatch_error(one.taken, str(error.value), extract.where) from None
    except (pa.ArrowInvalid, OverflowError, ValueError) as error:
        raise type_mismatch_error(one.taken, str(error), extract.where) from error


def _require_calendar(days: pa.Array) -> pa.Array:
    """Return the dates. Raises TypeMismatch for an infinite date, or one outside of the years 1 to 9999."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = days.cast(pa.int32())
    beyond = numbers.filter(pc.or_(pc.less(numbers, _FIRST_DAY), pc.greater(numbers, _LAST_DAY)))
    if len(beyond):
        is_infinite = abs(beyond[0].as_py()) == _INFINITE_DAY
        raise TypeMismatch("infinity" if is_infinite else beyond.cast(pa.date32()).cast(pa.string())[0])
    return days


def _normal_type(type_name: str) -> str:
    """Return the normal form of a Spark type, in which all spellings of a type are equal."""
    name = type_name.strip().lower().replace(", ", ",")
    return {"integer": "int", "long": "bigint", "timestamp_ltz": "timestamp", "real": "float"}.get(name, name)


_READER = ServerReader(
    DIALECT,
    session_in,
    batches,
    times="a timestamp, a date",
    sign_time="TIMESTAMPTZ'{}+00'",
    sign_zone="UTC",
    extract=DuckdbExtract,
    requested=DuckdbRequestedColumn,
    place="path",
    stays_open=True,
)


@dataclass(frozen=True, slots=True)
class DuckdbCollector(ServerCollector["duckdb.DuckDBPyConnection", DuckdbColumn]):
    """Collects from a DuckDB database file."""

    database: DuckdbDatabase

    def clock(self, unit: Unit) -> None:
        """Return None: a database file has no clock."""

    @property
    def _source(self) -> DuckdbDatabase:
        return self.database

    @property
    def _reader(self) -> ServerReader[duckdb.DuckDBPyConnection]:
        return _READER

    def _columns(self, connection: duckdb.DuckDBPyConnection, unit: Unit) -> Sequence[DuckdbColumn]:
        return columns_of(connection, unit)
