"""Converts the rows of a database cursor to Arrow batches of declared types, each row with the label of its window."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

from waterclock.connectors.arrow_values import column
from waterclock.connectors.column_matching import CollectedColumn, type_mismatch_error
from waterclock.connectors.spark_frames import FetchSize
from waterclock.connectors.sql.columns import SqlExtract, arrow_schema_of
from waterclock.connectors.sql.window_bounds import instants_of_counts, labels_of
from waterclock.connectors.type_mismatch import TypeMismatch

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 10_000


def batches_of_rows(
    fetch: Callable[[int], Sequence[tuple[Any, ...]]],
    extract: SqlExtract[Any, Any],
    label: Callable[[Sequence[Any]], tuple[pa.Array, pa.Array]],
    fetched: list[int] | None = None,
) -> Generator[pa.RecordBatch, None, None]:
    """Yield fetched rows in batches of up to `BATCH_ROWS`, with labels if they are read by window.

    `label` takes the last value of each row, and returns the rows' labels and whether they are in a window.
    `fetched[0]` is increased by the number of fetched rows, including those that are in no window.

    Raises E812 for a value that does not fit its column's type.
    """
    import pyarrow as pa

    schema, fetching = arrow_schema_of(extract), FetchSize(BATCH_ROWS)
    while rows := fetch(fetching.rows):
        if fetched is not None:
            fetched[0] += len(rows)
        labels: list[pa.Array] = []
        if extract.by_window:
            found, kept = label([row[-1] for row in rows])
            rows = list(compress(rows, kept.to_pylist()))
            labels = [found.filter(kept)]
        arrays = [
            _convert_column([row[at] for row in rows], one.taken, extract) for at, one in enumerate(extract.wanted)
        ]
        batch = pa.RecordBatch.from_arrays([*arrays, *labels], schema=schema)
        fetching.update(batch.num_rows, batch.nbytes)
        yield batch


def _convert_column(values: Sequence[Any], taken: CollectedColumn, extract: SqlExtract[Any, Any]) -> pa.Array:
    try:
        return column(values, taken.type, extract.times)
    except TypeMismatch as error:
        raise type_mismatch_error(taken, str(error.value), extract.where) from None


def labels_of_counts(extract: SqlExtract[Any, Any]) -> Callable[[Sequence[Any]], tuple[pa.Array, pa.Array]]:
    """Return a function that labels rows by their times, as numbers in the unit in which the database returns them."""

    def label(counts: Sequence[Any]) -> tuple[pa.Array, pa.Array]:
        import numpy as np

        by_window = extract.by_window
        if by_window is None:
            raise AssertionError("rows are labelled by windows")
        instants = instants_of_counts(np.array(counts, dtype="int64"), by_window, extract.times)
        return labels_of(instants, by_window.windows)

    return label
