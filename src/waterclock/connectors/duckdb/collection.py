"""Brings rows of a DuckDB database into a Spark frame, as Arrow, in bounded memory and of one moment.

A small result is handed to Spark as it is. A big one is read by one Python worker of Spark: DuckDB itself reads with
all cores. The file stays open here meanwhile, so that nobody writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from waterclock.connectors.column_matching import Taken, misfit
from waterclock.connectors.direct_rows import DIRECT_ROWS, are_few, by_workers, few
from waterclock.connectors.duckdb.database import DuckdbDatabase, first_of, quoted
from waterclock.connectors.duckdb.types import DuckdbColumn
from waterclock.connectors.interface import Collected
from waterclock.connectors.local_times import instants_in, instants_of
from waterclock.connectors.misfits import TypeMismatch
from waterclock.connectors.values import EPOCH_UNITS, Times, column
from waterclock.connectors.window_bounds import WindowFilter, labels_of, within
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
class DuckdbColumns:
    """A column that is taken, and what it is in the database."""

    taken: Taken
    column: DuckdbColumn

    @property
    def is_as_it_is(self) -> bool:
        """Whether it becomes what its type becomes by itself: nothing of a value has to be looked at."""
        return self.column.spark is not None and _kind(self.taken.type) == _kind(self.column.spark)

    @property
    def sql(self) -> str:
        """What is asked for it: its value as it is, else its text where it becomes one."""
        is_text = _kind(self.taken.type) == "string" and not self.is_as_it_is
        return self.column.text if is_text else self.column.asked


@dataclass(frozen=True, slots=True)
class DuckdbExtract:
    """All that is needed to read some rows, here or in a Python worker of Spark."""

    database: DuckdbDatabase
    where: str
    source: str
    wanted: tuple[DuckdbColumns, ...]
    times: Times
    by_window: WindowFilter | None = None


def collected(
    spark: SparkSession,
    connection: duckdb.DuckDBPyConnection,
    close: Callable[[], None],
    extract: DuckdbExtract,
    left_out: tuple[str, ...],
) -> Collected:
    """Read what `extract` asks for within the open transaction if it is small, else leave it to a worker of Spark.

    `close` ends the transaction: here for a small result, else when the counts of `set_aside` are asked for, which is
    after the frame was evaluated, or when the frame is given up.
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
    """Tell whether a table surely has more rows of the windows than are read here; a query would be answered twice."""
    if extract.source.startswith("("):
        return False
    sql = f"SELECT count(*) FROM (SELECT 1 FROM {extract.source}{_condition(extract)} LIMIT {DIRECT_ROWS + 1})"
    row = first_of(connection, sql)
    return row is not None and not are_few(row[0])


def _empty(spark: SparkSession, extract: DuckdbExtract) -> DataFrame:
    return spark.createDataFrame([], ddl_of(_fields(extract)))


def _of_part(extract: DuckdbExtract) -> Iterator[pa.RecordBatch]:
    with extract.database.reading(extract.where) as connection:
        yield from batches(connection, extract)


def _fields(extract: DuckdbExtract) -> list[tuple[str, str]]:
    fields = [(one.taken.name, one.taken.type) for one in extract.wanted]
    if extract.by_window:
        fields.append((TIMELABEL, "STRING"))
    return fields


def batches(connection: duckdb.DuckDBPyConnection, extract: DuckdbExtract) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows wanted, with their labels where they are wanted by window, at most `BATCH_ROWS` at a time.

    Raises  E812 for a value that does not fit its column's type
    """
    for batch in connection.sql(_query(extract)).to_arrow_reader(BATCH_ROWS):
        made = _made(batch, extract)
        if made.num_rows:
            yield made


def _query(extract: DuckdbExtract) -> str:
    selected = [f"{one.sql} AS {quoted(str(at))}" for at, one in enumerate(extract.wanted)]
    if extract.by_window:
        selected.append(f"{_micros(quoted(extract.by_window.time_column), extract.by_window)} AS {_MICROS}")
    return f"SELECT {', '.join(selected) or '1'} FROM {extract.source}{_condition(extract)}"


def _condition(extract: DuckdbExtract) -> str:
    if extract.by_window is None:
        return ""
    return f" WHERE {within(quoted(extract.by_window.time_column), extract.by_window, extract.times)}"


def _micros(name: str, by_window: WindowFilter) -> str:
    """Write a row's time as a number: microseconds since 1970, of a time without a zone as if it were in UTC."""
    if by_window.is_number:
        return f"CAST({name} AS BIGINT)"
    return f"epoch_us(CAST({name} AS {'TIMESTAMP' if by_window.is_local else 'TIMESTAMPTZ'}))"


def _made(batch: pa.RecordBatch, extract: DuckdbExtract) -> pa.RecordBatch:
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


def _array(values: pa.Array, one: DuckdbColumns, extract: DuckdbExtract) -> pa.Array:
    """Turn what was read into the column's type.

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
    """Count the rows without a time, which no window will ever take. Cost: one look at that column."""
    if extract.by_window is None:
        return {}
    name = quoted(extract.by_window.time_column)
    row = first_of(connection, f"SELECT count(*) FROM {extract.source} WHERE {name} IS NULL")
    missing = int(row[0]) if row else 0
    return {NO_TIME: missing} if missing else {}


def require_time(found: DuckdbColumn, source: str, unit: str) -> str:
    """Return the kind of time that a column says.

    Raises  E815 for one that says none
    """
    if found.time_kind is not None:
        return found.time_kind
    raise WaterclockError(
        "E815",
        f"{found.name} is of type {found.kind}, which is no time",
        where=unit,
        why="BY DATA TIME needs a timestamp, a date, or a whole number since 1970",
        fix=f"collect BY DATA TIME {found.name}_time FROM … QUERY"
        f" 'SELECT *, {quoted(found.name)}::timestamptz AS {quoted(f'{found.name}_time')} FROM {source}'",
    )


def _kind(type_name: str) -> str:
    """Return a Spark type so that two ways to write one are equal."""
    said = type_name.strip().lower().replace(", ", ",")
    return {"integer": "int", "long": "bigint", "timestamp_ltz": "timestamp", "real": "float"}.get(said, said)
