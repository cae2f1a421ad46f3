"""Reads rows of a MariaDB or MySQL database into a Spark frame, in bounded memory and as of one moment.

A small result is passed to Spark directly. A big one is read by Spark's Python workers, in one part unless the option
`partitions` declares more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from waterclock.connectors.interface import Collected
from waterclock.connectors.mysql.extract import MysqlExtract, digest_of, parts_of, set_aside
from waterclock.connectors.mysql.rows import batches
from waterclock.connectors.sql.refusals import changed_meanwhile
from waterclock.connectors.sql.row_batches import collect_few_or_parts
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
    """Read the rows of `extract` in the open transaction if they are few; else Spark's workers read them."""
    return collect_few_or_parts(
        spark,
        close,
        extract,
        left_out,
        set_aside(connection, extract),
        partial(batches, connection),
        partial(parts_of, connection, unit, extract, partitions),
        _of_part,
    )


def _of_part(part: MysqlExtract) -> Iterator[pa.RecordBatch]:
    with part.database.open_for_reading(part.where) as connection:
        if part.digest is not None and digest_of(connection, part) != part.digest:
            why = "rows of a part changed after the read began: the parts would have different states"
            raise changed_meanwhile(part.where, why)
        yield from batches(connection, part)
