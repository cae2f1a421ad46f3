"""Reads rows of a MariaDB or MySQL database into a Spark frame, in bounded memory and as of one moment.

A small result is passed to Spark directly. A big one is read by Spark's Python workers, in one part unless the option
`partitions` declares more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from waterclock.connectors.interface import Collected
from waterclock.connectors.mysql.extract import MysqlExtract, digest_of, parts_of, set_aside
from waterclock.connectors.mysql.rows import batches
from waterclock.connectors.spark_frames import DIRECT_ROWS, by_workers, read_if_few
from waterclock.connectors.sql.columns import arrow_schema_of
from waterclock.connectors.sql.reading import collect_in_driver
from waterclock.connectors.sql.refusals import changed_meanwhile
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from waterclock.connectors.mysql.statements import Connection


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
    counts = set_aside(connection, extract)
    came = [0]  # counts rows before those outside every window are dropped: the SQL bounds ignore gaps between windows
    read = read_if_few(batches(connection, replace(extract, most=DIRECT_ROWS + 1), came), came)
    source: dict[str, Any] = {"database": extract.database.name}
    if read is not None:
        close()
        return collect_in_driver(spark, read, arrow_schema_of(extract), counts, left_out, source)
    parts = parts_of(connection, unit, extract, partitions)
    close()  # the workers have transactions of their own
    frame = by_workers(spark, parts, _of_part, extract.fields)
    return Collected(frame, lambda: counts, left_out, {**source, "parts": len(parts)})


def _of_part(part: MysqlExtract) -> Iterator[pa.RecordBatch]:
    with part.database.open_for_reading(part.where) as connection:
        if part.digest is not None and digest_of(connection, part) != part.digest:
            why = "rows of a part changed after the read began: the parts would have different states"
            raise changed_meanwhile(part.where, why)
        yield from batches(connection, part)
