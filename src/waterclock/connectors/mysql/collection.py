"""Brings rows of a MariaDB or MySQL database into a Spark frame, in bounded memory and of one moment.

A small result is handed to Spark as it is. A big one is read by Python workers of Spark, in one part unless the option
`partitions` says more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from waterclock.connectors.interface import Collected
from waterclock.connectors.mysql.extract import Extract, digest_of, parts_of, set_aside
from waterclock.connectors.mysql.rows import batches, schema_of
from waterclock.connectors.worker_errors import carrying
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from waterclock.connectors.mysql.database import Connection

DIRECT_ROWS = 50_000


def collected(
    spark: SparkSession,
    connection: Connection,
    close: Callable[[], None],
    unit: Unit,
    extract: Extract,
    left_out: tuple[str, ...],
    *,
    partitions: int = 1,
) -> Collected:
    """Read what `extract` asks for within the open transaction if it is small, else leave it to Spark's workers.

    `close` ends the transaction, here or when the frame is given up.
    """
    import pyarrow as pa

    counts = set_aside(connection, extract)
    came = [0]  # before those are left out that lie in no window: the server's bounds are wider than windows with gaps
    read = list(batches(connection, replace(extract, most=DIRECT_ROWS + 1), came))
    rows = sum(batch.num_rows for batch in read)
    source: dict[str, Any] = {"database": extract.database.name}
    if came[0] <= DIRECT_ROWS:
        close()
        frame = spark.createDataFrame(pa.Table.from_batches(read, schema_of(extract)))
        return Collected(frame, lambda: counts, left_out, {**source, "rows": rows}, is_empty=not rows)
    parts = parts_of(connection, unit, extract, partitions)
    close()  # the workers have transactions of their own

    def counts_at_the_end() -> Mapping[str, int]:
        return counts

    return Collected(_by_workers(spark, parts), counts_at_the_end, left_out, {**source, "parts": len(parts)})


def _by_workers(spark: SparkSession, parts: Sequence[Extract]) -> DataFrame:
    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                with carrying():
                    yield from _of_part(parts[number])

    fields = [(one.taken.name, one.taken.type) for one in parts[0].wanted]
    if parts[0].by_window:
        fields.append((TIMELABEL, "STRING"))
    ddl = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in fields)
    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(read, ddl)


def _of_part(part: Extract) -> Iterator[pa.RecordBatch]:
    with part.database.reading(part.where) as connection:
        if part.digest is not None and digest_of(connection, part) != part.digest:
            raise WaterclockError(
                "E814",
                "the database changed while it was read in parts",
                where=part.where,
                why="rows of a part are not what they were when the reading began: parts would be of different moments",
                fix="it is tried again; without the option partitions it is read in one transaction, whatever else"
                " happens",
                transient=True,
            )
        yield from batches(connection, part)
