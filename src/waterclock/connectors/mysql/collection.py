"""Reads rows of a MariaDB or MySQL database into a Spark frame, in bounded memory and as of one moment.

A small result is passed to Spark directly. A big one is read by Spark's Python workers, in one part unless the option
`partitions` declares more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from waterclock.connectors.direct_rows import DIRECT_ROWS, by_workers, few
from waterclock.connectors.interface import Collected
from waterclock.connectors.mysql.extract import MysqlExtract, digest_of, parts_of, set_aside
from waterclock.connectors.mysql.rows import batches, schema_of
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from waterclock.connectors.mysql.database import Connection


def collect_rows(
    spark: SparkSession,
    connection: Connection,
    close: Callable[[], None],
    unit: Unit,
    extract: MysqlExtract,
    left_out: tuple[str, ...],
    *,
    partitions: int = 1,
) -> Collected:
    """Read the rows of `extract` in the open transaction if they are few; else Spark's workers read them.

    `close` ends the transaction. It is called before the frame is returned; if the read fails, the caller ends it.
    """
    import pyarrow as pa

    counts = set_aside(connection, extract)
    came = [0]  # counts rows before those outside every window are dropped: the SQL bounds ignore gaps between windows
    read = few(batches(connection, replace(extract, most=DIRECT_ROWS + 1), came), came)
    source: dict[str, Any] = {"database": extract.database.name}
    if read is not None:
        close()
        table = pa.Table.from_batches(read, schema_of(extract))
        frame, source["rows"] = spark.createDataFrame(table), table.num_rows
        return Collected(frame, lambda: counts, left_out, source, is_empty=not table.num_rows)
    parts = parts_of(connection, unit, extract, partitions)
    close()  # the workers have transactions of their own
    fields = [(one.taken.name, one.taken.type) for one in extract.wanted]
    if extract.by_window:
        fields.append((TIMELABEL, "STRING"))
    frame = by_workers(spark, parts, _of_part, fields)
    return Collected(frame, lambda: counts, left_out, {**source, "parts": len(parts)})


def _of_part(part: MysqlExtract) -> Iterator[pa.RecordBatch]:
    with part.database.open_for_reading(part.where) as connection:
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
