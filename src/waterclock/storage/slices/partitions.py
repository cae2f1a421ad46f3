"""Writes the rows of each label in files of one value of a column each (PARTITION BY).

A search for a value then opens only its files, in every engine that uses the statistics of Delta's log. Into which file
a row goes follows from the values of the last slice. A new value is first in a file with another one; such a file is
written again, split by its values, before the slice is sealed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.errors import WaterclockError
from waterclock.files.filesystem import entry_path, remove_file
from waterclock.spark_sql import quote_name
from waterclock.storage.slices.clustering import part_of, rows_of
from waterclock.storage.slices.file_splits import split_rows
from waterclock.storage.slices.manifest import DataFile
from waterclock.storage.slices.row_order import names_to_sort_by, sort_rows
from waterclock.storage.slices.statistics import read_files

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MOST_VALUES = 200
"""The most values of PARTITION BY in a label: each has a file."""


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The column of PARTITION BY, and the known values as texts, ascending; none if they are not known.

    `sort_by`: the columns by which the rows of each file are ordered. `where`: the batch, for an error.
    """

    column: str
    values: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    where: str = ""

    @property
    def files(self) -> int:
        """The number of files of a label: one for each value, and the first one for NULL."""
        return len(self.values) + 1

    def file_of(self, types: Mapping[str, str]) -> Column:
        """Return the number of the file that a row belongs to. An unknown value is in that of the next known one."""
        [name] = names_to_sort_by(types, (self.column,))
        value = F.col(quote_name(name))
        bounds = [F.lit(text).try_cast(types[name]) for text in self.values[:-1]]
        part = part_of(value, bounds, range(1, len(self.values) + 1))
        return F.when(value.isNull(), F.lit(0)).otherwise(part)

    def curve_position(self, frame: DataFrame) -> Column | None:
        """Return None: the rows of each file are in the order of columns."""
        del frame
        return None

    def is_possible(self, frame: DataFrame) -> bool:
        """Return whether values are known, and the rows have the column."""
        return bool(self.values) and bool(names_to_sort_by(frame.columns, (self.column,)))

    def to_manifest(self) -> dict[str, Any]:
        """Return nothing: the manifest's statistics of files are enough."""
        return {}

    def finish(
        self, spark: SparkSession, folder: str, paths: Iterable[str], *, was_split: bool
    ) -> Mapping[str, tuple[DataFile, ...]]:
        """Split the files that have several values. Cost: that of `split_values`."""
        del was_split
        return split_values(spark, folder, paths, self)


def values_of_files(files: Sequence[DataFile], column: str) -> tuple[str, ...]:
    """Return the values of files that have one value each, ascending; nothing if a file has several or unknown ones."""
    found = set()
    for file in files:
        low, high, nulls = _bounds_of(file, column)
        if nulls == file.rows:
            continue
        if low is None or low != high or nulls:
            return ()
        found.add(low)
    return tuple(map(str, sorted(found)))


def split_values(
    spark: SparkSession, folder: str, paths: Iterable[str], wanted: Partitioning
) -> Mapping[str, tuple[DataFile, ...]]:
    """Write files of slices that are not sealed yet again, if they have several values: then each has one.

    Return the files of the slices that stay as they are. Raises E776 if a label has more than 200 values. Cost: the
    footers of the files; those with several values are read twice and written once.
    """
    kept = {}
    for path in paths:
        files = read_files(entry_path(folder), path, also=(wanted.column, *wanted.sort_by))
        mixed = [file for file in files if not _has_one_value(file, wanted.column)]
        if mixed:
            _split_files(spark, folder, path, mixed, wanted, len(files) - len(mixed))
        else:
            kept[path] = files
    return kept


def _split_files(
    spark: SparkSession, folder: str, path: str, files: Sequence[DataFile], wanted: Partitioning, others: int
) -> None:
    rows = rows_of(spark, folder, files)
    names = names_to_sort_by(rows.columns, (wanted.column,))
    if not names:
        return
    values = _read_values(rows, names[0])
    if len(values) + others > MOST_VALUES:
        raise WaterclockError(
            "E776",
            f"{wanted.column} has more than {MOST_VALUES} values in one label",
            where=wanted.where,
            why="PARTITION BY writes a file for each value, and small files are slow to write, list and read",
            fix=f"write CLUSTER BY ({wanted.column}), with files of about 64 MB, or name a coarser column",
        )
    split = Partitioning(wanted.column, values, wanted.sort_by)
    if len(files) == 1 and len(values) <= 1 and not _bounds_of(files[0], wanted.column)[2]:
        return  # one value, whose bounds are not exact in the statistics
    # beside the files that it reads, which are removed afterwards: nothing reads a slice that is not sealed
    placed = split_rows(rows, split, ()) if values else rows
    sort_rows(placed, split.sort_by).write.mode("append").parquet(str(entry_path(folder, path)))
    for file in files:
        remove_file(entry_path(folder, file.path))


def _read_values(rows: DataFrame, name: str) -> tuple[str, ...]:
    """Return the values of a column as texts, ascending, but at most one more than a label may have."""
    some = rows.select(F.col(quote_name(name)).alias("v")).where("v IS NOT NULL").distinct().limit(MOST_VALUES + 1)
    [row] = some.agg(F.expr("transform(sort_array(collect_list(v)), v -> CAST(v AS STRING))").alias("v")).collect()
    return tuple(row["v"] or ())


def _has_one_value(file: DataFile, column: str) -> bool:
    low, high, nulls = _bounds_of(file, column)
    return nulls == file.rows or (low is not None and low == high and nulls == 0)


def _bounds_of(file: DataFile, column: str) -> tuple[Any, Any, int | None]:
    stats = json.loads(file.stats, parse_float=Decimal)
    low, high, nulls = (
        next((value for name, value in stats[part].items() if name.lower() == column.lower()), None)
        for part in ("minValues", "maxValues", "nullCount")
    )
    return low, high, nulls
