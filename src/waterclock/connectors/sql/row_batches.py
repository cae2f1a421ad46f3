"""Turns the rows of a database's cursor into Arrow batches of declared types, each row with its window's label."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeVar

from waterclock.connectors.arrow_values import column
from waterclock.connectors.column_matching import Taken, misfit
from waterclock.connectors.interface import Collected
from waterclock.connectors.spark_frames import DIRECT_ROWS, Fetching, by_workers, read_if_few
from waterclock.connectors.sql.columns import SqlExtract, arrow_schema_of
from waterclock.connectors.sql.reading import collect_in_driver
from waterclock.connectors.sql.window_queries import PartialExtract
from waterclock.connectors.type_mismatch import TypeMismatch

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

BATCH_ROWS = 10_000
_Part = TypeVar("_Part", bound="PartialExtract[Any, Any]")


def batches_of_rows(
    fetch: Callable[[int], Sequence[tuple[Any, ...]]],
    extract: SqlExtract[Any, Any],
    label: Callable[[Sequence[Any]], tuple[pa.Array, pa.Array]],
    came: list[int] | None = None,
) -> Generator[pa.RecordBatch, None, None]:
    """Yield fetched rows in batches of up to `BATCH_ROWS`, by window with labels.

    `label` returns, for the last values of rows, their labels and whether they are in a window. `came` counts the
    fetched rows, including those that belong to no window.

    Raises  E812 for a value that does not fit its column's type
    """
    import pyarrow as pa

    schema, fetching = arrow_schema_of(extract), Fetching(BATCH_ROWS)
    while rows := fetch(fetching.rows):
        if came is not None:
            came[0] += len(rows)
        labels: list[pa.Array] = []
        if extract.by_window:
            found, kept = label([row[-1] for row in rows])
            rows = list(compress(rows, kept.to_pylist()))
            labels = [found.filter(kept)]
        arrays = [_array([row[at] for row in rows], one.taken, extract) for at, one in enumerate(extract.wanted)]
        batch = pa.RecordBatch.from_arrays([*arrays, *labels], schema=schema)
        fetching.update(batch.num_rows, batch.nbytes)
        yield batch


def _array(values: Sequence[Any], taken: Taken, extract: SqlExtract[Any, Any]) -> pa.Array:
    try:
        return column(values, taken.type, extract.times)
    except TypeMismatch as error:
        raise misfit(taken, str(error.value), extract.where) from None


def collect_few_or_parts(
    spark: SparkSession,
    close: Callable[[], None],
    extract: _Part,
    left_out: tuple[str, ...],
    counts: Mapping[str, int],
    batches: Callable[[_Part, list[int]], Generator[pa.RecordBatch, None, None]],
    parts_of: Callable[[], list[_Part]],
    read_part: Callable[[_Part], Iterator[pa.RecordBatch]],
) -> Collected:
    """Read the rows of `extract` in the open transaction if they are few; else Spark's workers read its parts.

    `close` ends the transaction. It is called before the frame is returned; if the read fails, the caller ends it.
    """
    came = [0]  # counts rows before those outside every window are dropped: the SQL bounds ignore gaps between windows
    read = read_if_few(batches(replace(extract, most=DIRECT_ROWS + 1), came), came)
    source: dict[str, Any] = {"database": extract.database.name}
    if read is not None:
        close()
        return collect_in_driver(spark, read, arrow_schema_of(extract), counts, left_out, source)
    parts = parts_of()
    close()  # the workers have transactions of their own
    frame = by_workers(spark, parts, read_part, extract.fields)
    return Collected(frame, lambda: counts, left_out, {**source, "parts": len(parts)})
