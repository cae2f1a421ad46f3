"""Reads rows of a DuckDB database into a Spark frame, as Arrow, in bounded memory and as of one moment.

A small result is passed to Spark directly. A big one is read by one Python worker of Spark, since DuckDB itself uses
all cores. The file stays open in this process meanwhile, so that no other process writes to it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from waterclock.connectors.arrow_values import column
from waterclock.connectors.column_matching import misfit
from waterclock.connectors.duckdb.database import DuckdbDatabase, first_of
from waterclock.connectors.duckdb.dialect import quote_identifier, source_of
from waterclock.connectors.duckdb.types import DuckdbColumn, columns_of
from waterclock.connectors.interface import Collected
from waterclock.connectors.local_times import instants_in
from waterclock.connectors.spark_frames import DIRECT_ROWS, are_few, by_workers, read_if_few
from waterclock.connectors.sql.collector import WINDOW_VALUE, SqlCollector, SqlReadRequest
from waterclock.connectors.sql.columns import (
    SqlExtract,
    SqlRequestedColumn,
    count_missing_times,
    no_time_error,
)
from waterclock.connectors.sql.reading import collected_while_open
from waterclock.connectors.sql.window_bounds import WindowFilter, instants_of_counts, labels_of, within
from waterclock.connectors.type_mismatch import TypeMismatch
from waterclock.flow.awaits import Awaits
from waterclock.flow.declarations import Unit
from waterclock.spark_sql import ddl_of
from waterclock.timelabel.label import TIMELABEL
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from pyspark.sql import SparkSession

BATCH_ROWS = 20_000
_MICROS = "_waterclock_micros"
_FIRST_DAY, _LAST_DAY = ((day - date(1970, 1, 1)).days for day in (date.min, date.max))
_INFINITE_DAY = 2**31 - 1


@dataclass(frozen=True, slots=True)
class DuckdbRequestedColumn(SqlRequestedColumn[DuckdbColumn]):
    """A requested column, with its description in the database."""

    @property
    def is_as_it_is(self) -> bool:
        """Whether it gets the same Spark type as without a declaration, so that Python converts no value."""
        return self.column.spark is not None and _kind(self.taken.type) == _kind(self.column.spark)

    @property
    def sql(self) -> str:
        """The SQL expression that reads the column: its text if that is declared, else its value."""
        is_text = _kind(self.taken.type) == "string" and not self.is_as_it_is
        return self.column.text if is_text else self.column.asked


@dataclass(frozen=True, slots=True)
class DuckdbExtract(SqlExtract[DuckdbDatabase, DuckdbRequestedColumn]):
    """The rows to read."""


def collect_rows(
    spark: SparkSession,
    connection: duckdb.DuckDBPyConnection,
    close: Callable[[], None],
    extract: DuckdbExtract,
    left_out: tuple[str, ...],
) -> Collected:
    """Read the rows of `extract` in the open transaction if they are few; else a worker of Spark reads them.

    `close` ends the transaction. For a small result it is called here. For a big one it is called when the counts of
    `set_aside` are requested, after the frame was evaluated, or when the frame is discarded.
    """
    import pyarrow as pa

    counts = set_aside(connection, extract)
    read = None if _are_many(connection, extract) else read_if_few(batches(connection, extract))
    source: dict[str, Any] = {"path": extract.database.path}
    if read is not None:
        close()
        if not read:
            empty = spark.createDataFrame([], ddl_of(extract.fields))
            return Collected(empty, lambda: counts, left_out, {**source, "rows": 0}, is_empty=True)
        table = pa.Table.from_batches(read)
        frame = spark.createDataFrame(table)
        return Collected(frame, lambda: counts, left_out, {**source, "rows": table.num_rows})
    frame = by_workers(spark, [extract], _of_part, extract.fields)
    return collected_while_open(frame, close, counts, left_out, source)


def _are_many(connection: duckdb.DuckDBPyConnection, extract: DuckdbExtract) -> bool:
    """Return whether a table certainly has too many rows for this process. Queries would run twice to be counted."""
    if extract.source.startswith("("):
        return False
    sql = f"SELECT count(*) FROM (SELECT 1 FROM {extract.source}{_condition(extract)} LIMIT {DIRECT_ROWS + 1})"
    row = first_of(connection, sql)
    return row is not None and not are_few(row[0])


def _of_part(extract: DuckdbExtract) -> Iterator[pa.RecordBatch]:
    with extract.database.open_for_reading(extract.where) as connection:
        yield from batches(connection, extract)


def batches(connection: duckdb.DuckDBPyConnection, extract: DuckdbExtract) -> Generator[pa.RecordBatch, None, None]:
    """Yield the wanted rows in batches of up to `BATCH_ROWS`, by window with labels. Raises  E812 for misfits."""
    for batch in connection.sql(_query(extract)).to_arrow_reader(BATCH_ROWS):
        made = _build_batch(batch, extract)
        if made.num_rows:
            yield made


def _query(extract: DuckdbExtract) -> str:
    selected = [f"{one.sql} AS {quote_identifier(str(at))}" for at, one in enumerate(extract.wanted)]
    if extract.by_window:
        selected.append(f"{_micros(quote_identifier(extract.by_window.time_column), extract.by_window)} AS {_MICROS}")
    return f"SELECT {', '.join(selected) or '1'} FROM {extract.source}{_condition(extract)}"


def _condition(extract: DuckdbExtract) -> str:
    if extract.by_window is None:
        return ""
    return f" WHERE {within(quote_identifier(extract.by_window.time_column), extract.by_window, extract.times)}"


def _micros(name: str, by_window: WindowFilter) -> str:
    """Return SQL for a row's time in microseconds since 1970, where a time without a zone counts as UTC."""
    if by_window.is_number:
        return f"CAST({name} AS BIGINT)"
    return f"epoch_us(CAST({name} AS {'TIMESTAMP' if by_window.is_local else 'TIMESTAMPTZ'}))"


def _build_batch(batch: pa.RecordBatch, extract: DuckdbExtract) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [batch.column(at) for at in range(len(extract.wanted))]
    if extract.by_window is None:
        arrays = [_array(values, one, extract) for values, one in zip(columns, extract.wanted, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, [one.taken.name for one in extract.wanted])
    micros = batch.column(len(extract.wanted)).to_numpy(zero_copy_only=False).astype("int64")
    labels, kept = labels_of(instants_of_counts(micros, extract.by_window, extract.times), extract.by_window.windows)
    arrays = [_array(values.filter(kept), one, extract) for values, one in zip(columns, extract.wanted, strict=True)]
    names = [one.taken.name for one in extract.wanted]
    return pa.RecordBatch.from_arrays([*arrays, labels.filter(kept)], [*names, TIMELABEL])


def _array(values: pa.Array, one: DuckdbRequestedColumn, extract: DuckdbExtract) -> pa.Array:
    """Convert values to the column's type. Raises  E812 for a value that does not fit."""
    import pyarrow as pa

    try:
        if not one.is_as_it_is:
            return column(values.to_pylist(), one.taken.type, extract.times)
        if one.column.is_local:
            return instants_in(values.cast(pa.timestamp("us")), extract.times.zone)
        if one.column.time_kind == "timestamptz":
            return instants_in(values.cast(pa.int64()).cast(pa.timestamp("us")), "UTC")
        if pa.types.is_date(values.type):
            return _require_calendar(values)
        return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    except TypeMismatch as error:
        raise misfit(one.taken, str(error.value), extract.where) from None
    except (pa.ArrowInvalid, OverflowError, ValueError) as error:
        raise misfit(one.taken, str(error), extract.where) from error


def _require_calendar(days: pa.Array) -> pa.Array:
    """Refuse infinite dates, which are numbers of days in Arrow, and those outside of the years 1 to 9999."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = days.cast(pa.int32())
    beyond = numbers.filter(pc.or_(pc.less(numbers, _FIRST_DAY), pc.greater(numbers, _LAST_DAY)))
    if len(beyond):
        is_infinite = abs(beyond[0].as_py()) == _INFINITE_DAY
        raise TypeMismatch("infinity" if is_infinite else beyond.cast(pa.date32()).cast(pa.string())[0])
    return days


def set_aside(connection: duckdb.DuckDBPyConnection, extract: DuckdbExtract) -> Mapping[str, int]:
    """Count the rows without a time, which belong to no window. Cost: one scan of that column."""
    if extract.by_window is None:
        return {}
    name = quote_identifier(extract.by_window.time_column)
    return count_missing_times(first_of(connection, f"SELECT count(*) FROM {extract.source} WHERE {name} IS NULL"))


def require_time(found: DuckdbColumn, source: str, unit: str) -> str:
    """Return the kind of time that a column has. Raises  E815 for a column that is not a time."""
    if found.time_kind is not None:
        return found.time_kind
    fix = (
        f"collect BY DATA TIME {found.name}_time FROM … QUERY 'SELECT *, {quote_identifier(found.name)}::timestamptz"
        f" AS {quote_identifier(f'{found.name}_time')} FROM {source}'"
    )
    raise no_time_error(found.name, found.kind, unit, "a timestamp, a date, or an integer that counts from 1970", fix)


def _kind(type_name: str) -> str:
    """Return a Spark type in a normal form, in which two spellings of a type are equal."""
    said = type_name.strip().lower().replace(", ", ",")
    return {"integer": "int", "long": "bigint", "timestamp_ltz": "timestamp", "real": "float"}.get(said, said)


@dataclass(frozen=True, slots=True)
class DuckdbCollector(SqlCollector["duckdb.DuckDBPyConnection", "DuckdbColumn"]):
    """Collects from a DuckDB database file."""

    database: DuckdbDatabase

    def clock(self, unit: Unit) -> None:
        """Return None: a database file has no clock of its own."""

    def has_sign(self, unit: Unit, awaits: Awaits, window: Window, zone: str) -> bool:
        """Return whether the first value of AWAIT's query is TRUE or a number other than 0: the window is complete.

        :window_start and :window_end are instants (TIMESTAMPTZ); :timelabel is the label.
        """
        del zone
        values = {"window_start": window.start, "window_end": window.end, TIMELABEL: window.label}
        used = {name: values[name] for name in WINDOW_VALUE.findall(awaits.text)}
        with self.database.open_for_reading(str(unit)) as connection:
            row = first_of(connection, WINDOW_VALUE.sub(r"$\1", awaits.text), used)
        return row is not None and bool(row[0])

    @property
    def _source(self) -> DuckdbDatabase:
        return self.database

    def _columns(self, connection: duckdb.DuckDBPyConnection, unit: Unit) -> Sequence[DuckdbColumn]:
        return columns_of(connection, unit)

    def _time_kind(self, column: DuckdbColumn, unit: Unit) -> str:
        return require_time(column, source_of(unit), str(unit))

    def _collect(
        self,
        spark: SparkSession,
        connection: duckdb.DuckDBPyConnection,
        close: Callable[[], None],
        request: SqlReadRequest[DuckdbColumn],
    ) -> Collected:
        unit, columns = request.unit, tuple(DuckdbRequestedColumn(*each) for each in request.wanted)
        of_unit = (str(unit), source_of(unit), columns, request.times, request.by_window)
        return collect_rows(spark, connection, close, DuckdbExtract(self.database, *of_unit), request.left_out)
