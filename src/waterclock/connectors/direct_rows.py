"""Hands rows to Spark: few as they were read here, many as Python workers of Spark read them, each its part.

What is read here is held until Spark has taken it, so rows and bytes of it are bounded. A source that can say
beforehand that there are many is not read here at all; of one that cannot, the first rows are read twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from waterclock.connectors.worker_errors import carrying
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
    """Tell whether so many rows, of so many bytes as Arrow holds them, are read here."""
    return rows <= DIRECT_ROWS and size <= DIRECT_BYTES


def few(batches: Generator[pa.RecordBatch, None, None], came: Sequence[int] = (0,)) -> list[pa.RecordBatch] | None:
    """Read all batches; gives None as soon as they are not few, and ends the reading then.

    `came` counts the rows that the source sent, where not all of them are among the batches.
    """
    read: list[pa.RecordBatch] = []
    rows = size = 0
    with closing(batches):
        for batch in batches:
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if not are_few(max(rows, came[0]), size):
                return None
            read.append(batch)
    return read if are_few(came[0]) else None


@dataclass(slots=True)
class Fetching:
    """How many rows to ask a cursor for at a time: at most `most`, and as few as keep wide ones from filling memory.

    Some at first, then twice as many each time, while rows as wide as the last ones come to some MiB.
    """

    most: int
    rows: int = _FIRST_ROWS

    def __post_init__(self) -> None:
        self.rows = min(self.rows, self.most)

    def came(self, rows: int, size: int) -> None:
        """Note what came last: rows, and their bytes as Arrow holds them."""
        fitting = _BATCH_BYTES * rows // size if size else self.most
        self.rows = max(1, min(self.most, 2 * self.rows, fitting))


def by_workers(
    spark: SparkSession,
    parts: Sequence[Part],
    read: Callable[[Part], Iterator[pa.RecordBatch]],
    fields: Sequence[tuple[str, str]],
) -> DataFrame:
    """Return the rows of parts, each read by one task; `fields` are the names and Spark types of what `read` gives.

    Nothing is read before the frame is evaluated, and all of it anew each time. `read` and the parts are pickled; an
    error of ours that a worker meets comes home within Spark's (`worker_errors.carried`).
    """

    def batches(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                with carrying():
                    yield from read(parts[number])

    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(batches, ddl_of(fields))
