"""Converts rows of a source to Spark frames: a few rows are read in this process, many by Spark's Python workers.

Rows that are read here stay in memory until Spark has received them, so their number and bytes are limited. If a source
can report in advance that there are more, none are read here. If it cannot, the first rows are read twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from waterclock.connectors.worker_errors import encode_errors
from waterclock.spark_sql import ddl_of

if TYPE_CHECKING:
    from collections.abc import Generator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Part = TypeVar("Part")

DIRECT_ROWS = 50_000
DIRECT_BYTES = 64 << 20
_BATCH_BYTES = 8 << 20
_FIRST_ROWS = 256


def are_few(rows: float, size: float = 0) -> bool:
    """Return whether a result with this many rows and bytes (in Arrow) is small enough to be read in this process."""
    return rows <= DIRECT_ROWS and size <= DIRECT_BYTES


def read_if_few(
    batches: Generator[pa.RecordBatch, None, None], fetched: Sequence[int] = (0,)
) -> list[pa.RecordBatch] | None:
    """Read all batches if they are small enough; return None as soon as they exceed the limits.

    `fetched[0]` is the number of rows that the source has sent, which may be more than the batches contain.
    """
    read: list[pa.RecordBatch] = []
    rows = size = 0
    with closing(batches):
        for batch in batches:
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if not are_few(max(rows, fetched[0]), size):
                return None
            read.append(batch)
    return read if are_few(fetched[0]) else None


@dataclass(slots=True)
class FetchSize:
    """Adapts the number of rows to fetch from a cursor to their width, up to `most`.

    The number starts small and doubles each time, as long as rows as wide as the last ones fit into a few MiB.
    """

    most: int
    rows: int = _FIRST_ROWS

    def __post_init__(self) -> None:
        self.rows = min(self.rows, self.most)

    def update(self, rows: int, size: int) -> None:
        """Set the number of rows for the next fetch, given the rows of the last fetch and their bytes in Arrow."""
        fitting = _BATCH_BYTES * rows // size if size else self.most
        self.rows = max(1, min(self.most, 2 * self.rows, fitting))


def read_by_workers(
    spark: SparkSession,
    parts: Sequence[Part],
    read: Callable[[Part], Iterator[pa.RecordBatch]],
    fields: Sequence[tuple[str, str]],
) -> DataFrame:
    """Return a frame with the rows of all parts. Each part is read by one Spark task with `read`.

    `fields` are the names and Spark types of the columns. All parts are read each time the frame is evaluated, and not
    before. `read` and the parts are pickled. A Waterclock error in a worker is contained in Spark's error
    (`worker_errors.decode_error`).
    """

    def batches(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                with encode_errors():
                    yield from read(parts[number])

    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(batches, ddl_of(fields))
