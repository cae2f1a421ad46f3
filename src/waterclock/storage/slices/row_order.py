"""Sorts rows as they are written, so that readers skip the parts of a file that cannot contain what they search.

Spark compares a search with the least and greatest value of each page of a file, of some 20,000 rows. Sorting takes
place within the tasks that write, without a shuffle. Order is no part of a table's content: digests ignore it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.spark_sql import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_POSITION = "_waterclock_position"


def names_to_sort_by(columns: Iterable[str], sort_by: Sequence[str]) -> list[str]:
    """Return the columns among `columns` by which SORT BY orders rows, in its order.

    Others are left out: a slice of a MERGE may have fewer columns than its table.
    """
    known = {name.lower(): name for name in columns}
    return [known[name.lower()] for name in sort_by if name.lower() in known]


def sort_rows(
    frame: DataFrame, sort_by: Sequence[str], *, folders: Sequence[str] = (), position: Column | None = None
) -> DataFrame:
    """Return the frame with the rows of each task in the order of `sort_by`. Unchanged if it has none of these columns.

    It must be the last step before the write. `folders`: the columns by which the write makes folders; they come first,
    since Spark would otherwise sort the rows by them again. `position`: a value that comes before the columns. Cost: a
    sort in each task, which spills to disk.
    """
    names = names_to_sort_by(frame.columns, sort_by) if sort_by else []
    if not names:
        return frame
    if position is None:
        return frame.sortWithinPartitions(*map(_column, (*folders, *names)))
    # as a column: Spark would compute an expression again for each comparison
    placed = frame.withColumn(_POSITION, position)
    return placed.sortWithinPartitions(*map(_column, (*folders, _POSITION, *names))).drop(_POSITION)


def _column(name: str) -> Column:
    return F.col(quote_name(name))
