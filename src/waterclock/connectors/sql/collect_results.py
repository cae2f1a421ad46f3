"""Builds the result of a collect from a database: from rows of this process, or a frame that Spark's workers read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from waterclock.connectors.interface import Collected

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def collect_in_driver(
    spark: SparkSession,
    read: Sequence[pa.RecordBatch],
    schema: pa.Schema,
    counts: Mapping[str, int],
    left_out: tuple[str, ...],
    source: Mapping[str, Any],
) -> Collected:
    """Build the result of a collect from rows of this process. `counts` are rows without a window, by reason."""
    import pyarrow as pa

    table = pa.Table.from_batches(read, schema)
    frame, description = spark.createDataFrame(table), {**source, "rows": table.num_rows}
    return Collected(frame, lambda: counts, left_out, description, is_empty=not table.num_rows)


def collect_while_open(
    frame: DataFrame,
    close: Callable[[], None],
    counts: Mapping[str, int],
    left_out: tuple[str, ...],
    source: Mapping[str, Any],
) -> Collected:
    """Build the result of a collect from a frame whose rows Spark's workers read while a transaction is open.

    `close` ends the transaction. It is called when the counts are requested, after the frame is evaluated, or when the
    frame is discarded. `counts` are rows without a window, by reason.
    """

    def counts_at_the_end() -> Mapping[str, int]:
        close()
        return counts

    return Collected(frame, counts_at_the_end, left_out, source, close=close)
