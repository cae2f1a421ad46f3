"""Reads rows of a DuckDB database into a Spark frame, as Arrow, in bounded memory and as of one moment.

A small result is passed to Spark directly. A big one is read by one Python worker of Spark, since DuckDB itself uses
all cores. The file stays open in this process meanwhile, so that no other process writes to it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from waterclock.connectors.column_matching import Taken, misfit
from waterclock.connectors.direct_rows import DIRECT_ROWS, are_few, by_workers, few
from waterclock.connectors.duckdb.database import DuckdbDatabase, first_of, quote_identifier
from waterclock.connectors.duckdb.types import DuckdbColumn
from waterclock.connectors.interface import Collected
from waterclock.connectors.local_times import instants_in, instants_of
from waterclock.connectors.misfits import TypeMismatch
from waterclock.connectors.sql.window_bounds import WindowFilter, labels_of, within
from waterclock.connectors.values import EPOCH_UNITS, Times, column
from waterclock.connectors.windowing import NO_TIME
from waterclock.errors import WaterclockError
from waterclock.spark_sql import ddl_of
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    import duckdb
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

BATCH_ROWS = 20_000
_MICROS = "_waterclock_micros"


@dataclass(frozen=True, slots=True)
class DuckdbRequestedColumn:
    """A requested column, with its description in the database."""

    taken: Taken
    column: DuckdbColumn

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
class DuckdbExtract:
    """Everything needed to read some rows, here or in a Python worker of Spark."""

    database: DuckdbDatabase
    where: str
    source: str
    wanted: tuple[DuckdbRequestedColumn, ...]
    times: Times
    by_window: WindowFilter | None = None


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
    read = None if _are_many(connection, extract) else few(batches(connection, extract))
    source: dict[str, Any] = {"path": extract.database.path}
    if read is not None:
        close()
        if not read:
            return Collected(_empty(spark, extract), lambda: counts, left_out, {**source, "rows": 0}, is_empty=True)
        table = pa.Table.from_batches(read)
        frame = spark.createDataFrame(table)
        return Collected(frame, lambda: counts, left_out, {**source, "rows": table.num_rows})

    def counts_at_the_end() -> Mapping[str, int]:
        close()
        return counts

    frame = by_workers(spark, [extract], _of_part, _fields(extract))
    return Collected(frame, counts_at_the_end, left_out, source, close=close)


def _are_many(connection: duckdb.DuckDBPyConnection, extract: DuckdbExtract) -> bool:
    """Return whether a table certainly has too many rows of the windows to be read in this process.

    Queries are not counted, since that would run them twice.
    """
    if extract.source.startswith("("):
        return False
    sql = f"SELECT count(*) FROM (SELECT 1 FROM {extract.source}{_condition(extract)} LIMIT {DIRECT_ROWS + 1})"
    row = first_of(connection, sql)
    return row is not None and not are_few(row[0])


def _empty(spark: SparkSession, extract: DuckdbExtract) -> DataFrame:
    return spark.createDataFrame([], ddl_of(_fields(extract)))


def _of_part(extract: DuckdbExtract) -> Iterator[pa.RecordBatch]:
    with extract.database.open_for_reading(extract.where) as connection:
        yield from batches(connection, extract)


def _fields(extract: DuckdbExtract) -> list[tuple[str, str]]:
    fields = [(one.taken.name, one.taken.type) for one in extract.wanted]
    if extract.by_window:
        fields.append((TIMELABEL, "STRING"))
    return fields


def batches(connection: duckdb.DuckDBPyConnection, extract: DuckdbExtract) -> Generator[pa.RecordBatch, None, None]:
    """Yield the wanted rows in batches of at most `BATCH_ROWS`, with their labels if they are read by window.

    Raises  E812 for a value that does not fit its column's type
    """
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
    labels, kept = labels_of(_instants(micros, extract.by_window, extract.times), extract.by_window.windows)
    arrays = [_array(values.filter(kept), one, extract) for values, one in zip(columns, extract.wanted, strict=True)]
    names = [one.taken.name for one in extract.wanted]
    return pa.RecordBatch.from_arrays([*arrays, labels.filter(kept)], [*names, TIMELABEL])


def _instants(micros: npt.NDArray[np.int64], by_window: WindowFilter, times: Times) -> npt.NDArray[np.int64]:
    if by_window.is_number:
        return micros * (EPOCH_UNITS[times.epoch] // timedelta(microseconds=1))
    return instants_of(micros, times.zone) if by_window.is_local else micros


def _array(values: pa.Array, one: DuckdbRequestedColumn, extract: DuckdbExtract) -> pa.Array:
    """Convert values to the column's type.

    Raises  E812 for a value that does not fit
    """
    import pyarrow as pa

    try:
        if not one.is_as_it_is:
            return column(values.to_pylist(), one.taken.type, extract.times)
        if one.column.is_local:
            return instants_in(values.cast(pa.timestamp("us")), extract.times.zone)
        if one.column.time_kind == "timestamptz":
            return instants_in(values.cast(pa.int64()).cast(pa.timestamp("us")), "UTC")
        return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    except TypeMismatch as error:
        raise misfit(one.taken, str(error.value), extract.where) from None
    except (pa.ArrowInvalid, OverflowError, ValueError) as error:
        raise misfit(one.taken, str(error), extract.where) from error


def set_aside(connection: duckdb.DuckDBPyConnection, extract: DuckdbExtract) -> Mapping[str, int]:
    """Count the rows without a time, which belong to no window. Cost: one scan of that column."""
    if extract.by_window is None:
        return {}
    name = quote_identifier(extract.by_window.time_column)
    row = first_of(connection, f"SELECT count(*) FROM {extract.source} WHERE {name} IS NULL")
    missing = int(row[0]) if row else 0
    return {NO_TIME: missing} if missing else {}


def require_time(found: DuckdbColumn, source: str, unit: str) -> str:
    """Return the kind of time that a column has.

    Raises  E815 for a column that is not a time
    """
    if found.time_kind is not None:
        return found.time_kind
    raise WaterclockError(
        "E815",
        f"{found.name} is of type {found.kind}, which is no time",
        where=unit,
        why="BY DATA TIME needs a timestamp, a date, or a whole number since 1970",
        fix=f"collect BY DATA TIME {found.name}_time FROM … QUERY"
        f" 'SELECT *, {quote_identifier(found.name)}::timestamptz"
        f" AS {quote_identifier(f'{found.name}_time')} FROM {source}'",
    )


def _kind(type_name: str) -> str:
    """Return a Spark type in a normal form, in which two spellings of a type are equal."""
    said = type_name.strip().lower().replace(", ", ",")
    return {"integer": "int", "long": "bigint", "timestamp_ltz": "timestamp", "real": "float"}.get(said, said)
