"""Splits the rows of each label into files by the values of some columns (CLUSTER BY), before they are written.

A search for values of these columns then opens few files of a label. Which rows a file gets follows from bounds: of one
column the greatest values of the files of the last slice, or else quantiles of a sample of that slice. So Spark does
not make the rows twice, as it does for `repartitionByRange`. Of several columns, the parts of each between 16 quantiles
are numbered, and the bits of the numbers alternate in one number, a position on a curve (Z-order).
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.files.filesystem import entry_path, file_exists, remove_file
from waterclock.spark_sql import literal_path, quote_name
from waterclock.storage.slices.file_splits import split_rows
from waterclock.storage.slices.manifest import DataFile, Manifest
from waterclock.storage.slices.row_order import names_to_sort_by, sort_rows
from waterclock.storage.slices.statistics import read_files

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TARGET_BYTES = 64 << 20
"""The size of a file that a slice is split into. A slice of less than twice this size is not split."""
MOST_FILES = 256
"""The most files that a label is split into."""
_SAMPLED_ROWS = 20_000
_BITS = 4
_MOST_TEXT = 64
_MOST_TIMES_MEDIAN = 2
_SEED = 7


@dataclass(frozen=True, slots=True)
class Clustering:
    """How the rows of each label are split into files.

    - `columns`: the columns of CLUSTER BY, and `files`: the number of files of a label; 1 if the rows are not split.
    - `bounds`: of each column the ascending values between its parts, as texts. One column has a part for each file,
      several have 16 parts each.
    - `steps`: of several columns the ascending positions on the curve at which a file begins, but of the first file.
    """

    columns: tuple[str, ...]
    files: int = 1
    bounds: tuple[tuple[str, ...], ...] = ()
    steps: tuple[int, ...] = ()

    def position(self, types: Mapping[str, str]) -> Column:
        """Return the number of a row's part, or its position on the curve. NULL is before all values."""
        parts = []
        for at, (name, texts) in enumerate(zip(names_to_sort_by(types, self.columns), self.bounds, strict=True)):
            numbers = [_spread(part, at, len(self.bounds)) for part in range(len(texts) + 1)]
            bounds = [F.lit(text).try_cast(types[name]) for text in texts]
            parts.append(part_of(F.col(quote_name(name)), bounds, numbers))
        return reduce(lambda one, other: one + other, parts)

    def file_of(self, types: Mapping[str, str]) -> Column:
        """Return the number of the file that a row belongs to, from 0 on."""
        position = self.position(types)
        if len(self.bounds) == 1:
            return position
        # a list of the file of each position: a search among the steps would compute the position at each step
        files = (str(bisect_right(self.steps, at)) for at in range(1 << _BITS * len(self.bounds)))
        return F.element_at(F.expr(f"array({', '.join(files)})"), position + 1)

    def curve_position(self, frame: DataFrame) -> Column | None:
        """Return the position on the curve, by which rows are sorted first; None for one column and unsplit rows."""
        return self.position(dict(frame.dtypes)) if len(self.bounds) > 1 and self.is_possible(frame) else None

    def is_possible(self, frame: DataFrame) -> bool:
        """Return whether the rows are split, and have all columns."""
        return self.files > 1 and len(names_to_sort_by(frame.columns, self.columns)) == len(self.columns)

    def to_manifest(self) -> dict[str, Any]:
        """Return nothing: the manifest's statistics of files are enough."""
        return {}

    def finish(
        self, spark: SparkSession, folder: str, paths: Iterable[str], *, was_split: bool
    ) -> Mapping[str, tuple[DataFile, ...]]:
        """Split large slices whose rows were not split yet. Cost: that of `split_written`."""
        return {} if was_split else split_written(spark, folder, paths, self)


def plan_clustering(spark: SparkSession, folder: str, columns: Sequence[str], last: Manifest | None) -> Clustering:
    """Return how the next slices are split, by the last slice.

    Cost: none if the last slice is small or was split by the same column into files of like size. Otherwise a job that
    reads the columns of a sample of it.
    """
    whole = Clustering(tuple(columns))
    if last is None or last.bytes < 2 * TARGET_BYTES:
        return whole
    files = _files_of(last.bytes)
    known = _bounds_of_files(last.files, columns[0]) if len(columns) == 1 else ()
    if known and files / 2 <= len(known) + 1 <= files * 2:
        return Clustering(tuple(columns), len(known) + 1, (known,))
    if not all(file_exists(entry_path(folder, file.path)) for file in last.files):  # they were joined, and removed
        return whole
    return _clustering_of_rows(spark, folder, columns, last.files, files)


def split_written(
    spark: SparkSession, folder: str, paths: Iterable[str], clustering: Clustering
) -> Mapping[str, tuple[DataFile, ...]]:
    """Write the files of slices that are not sealed yet again, split, where they are large.

    That the first large slice of a table is large is known only then. Return the files of the other slices. Cost: the
    footers of the files; those of a large slice are also read twice and written once.
    """
    small = {}
    for path in paths:
        files = read_files(entry_path(folder), path, also=clustering.columns)
        if sum(file.size for file in files) >= 2 * TARGET_BYTES:
            _split_slice(spark, folder, path, files, clustering)
        else:
            small[path] = files
    return small


def _split_slice(
    spark: SparkSession, folder: str, path: str, files: Sequence[DataFile], clustering: Clustering
) -> None:
    number = _files_of(sum(file.size for file in files))
    split = _clustering_of_rows(spark, folder, clustering.columns, files, number)
    rows = rows_of(spark, folder, files)
    if not split.is_possible(rows):
        return
    # beside the files that it reads, which are removed afterwards: nothing reads a slice that is not sealed
    rows = sort_rows(split_rows(rows, split, ()), split.columns, position=split.curve_position(rows))
    rows.write.mode("append").parquet(str(entry_path(folder, path)))
    for file in files:
        remove_file(entry_path(folder, file.path))


def _files_of(size: int) -> int:
    return min(-(-size // TARGET_BYTES), MOST_FILES)


def _bounds_of_files(files: Sequence[DataFile], column: str) -> tuple[str, ...]:
    """Return the greatest values of all files but the last, or nothing if their values or their sizes are no guide."""
    if len(files) < 2 or max(file.size for file in files) > _MOST_TIMES_MEDIAN * median(file.size for file in files):
        return ()
    spans = []
    for file in files:
        stats = json.loads(file.stats, parse_float=Decimal)
        low, high = (_value_of(stats[part], column) for part in ("minValues", "maxValues"))
        if low is None or high is None:
            return ()
        spans.append((low, high))
    spans.sort()
    if any(following[0] < span[1] for span, following in pairwise(spans)):
        return ()
    return tuple(str(high) for _, high in spans[:-1])


def _value_of(values: Mapping[str, Any], column: str) -> Any:
    return next((value for name, value in values.items() if name.lower() == column.lower()), None)


def _clustering_of_rows(
    spark: SparkSession, folder: str, columns: Sequence[str], files: Sequence[DataFile], number: int
) -> Clustering:
    """Return how rows like those of some files are split into `number` files. Cost: a job that reads the columns."""
    whole = Clustering(tuple(columns))
    rows = rows_of(spark, folder, files)
    names = names_to_sort_by(rows.columns, columns)
    if len(names) < len(columns):
        return whole
    types, share = dict(rows.dtypes), min(1.0, _SAMPLED_ROWS / max(1, sum(file.rows for file in files)))
    picked = rows.select(*(F.col(quote_name(name)) for name in names)).sample(share, _SEED)
    one = picked.agg(
        *(F.sort_array(F.collect_list(F.col(quote_name(name)))).alias(f"v{at}") for at, name in enumerate(names))
    )
    parts = number if len(names) == 1 else 1 << _BITS
    [row] = one.select(*(_quantiles(f"v{at}", parts).alias(f"v{at}") for at in range(len(names)))).collect()
    bounds = tuple(tuple(dict.fromkeys(text[:_MOST_TEXT] for text in row[at] or ())) for at in range(len(names)))
    if not all(bounds):
        return whole
    if len(names) == 1:
        return Clustering(tuple(columns), number, bounds)
    curve = Clustering(tuple(columns), number, bounds)
    positions = picked.select(curve.position(types).alias("v0")).agg(F.sort_array(F.collect_list("v0")).alias("v0"))
    [row] = positions.select(_quantiles("v0", number).alias("v0")).collect()
    steps = tuple(dict.fromkeys(int(text) for text in row[0] or ()))
    return replace(curve, steps=steps, files=len(steps) + 1)


def rows_of(spark: SparkSession, folder: str, files: Sequence[DataFile]) -> DataFrame:
    """Return the rows of files with all their columns, also those that are not columns of the table."""
    paths = [literal_path(str(entry_path(folder, file.path))) for file in files]
    return spark.read.option("recursiveFileLookup", "true").parquet(*paths)


def _quantiles(values: str, parts: int) -> Column:
    """Return the values between `parts` parts of like size of a sorted array, as texts; NULL for an empty array."""
    return F.expr(
        f"if(size({values}) = 0, NULL, transform(sequence(1, {parts - 1}), "
        f"i -> CAST(element_at({values}, greatest(1, CAST(i * size({values}) / {parts} AS INT))) AS STRING)))"
    )


def part_of(value: Column, bounds: Sequence[Column], numbers: Sequence[int]) -> Column:
    """Return the number of the part of a value, by a binary search. A part ends with its bound; NULL is in the first.

    `numbers` has a number for each part, one more than there are bounds.
    """
    if not bounds:
        return F.lit(numbers[0])
    middle = len(bounds) // 2
    later = part_of(value, bounds[middle + 1 :], numbers[middle + 1 :])
    return F.when(value > bounds[middle], later).otherwise(part_of(value, bounds[:middle], numbers[: middle + 1]))


def _spread(part: int, at: int, columns: int) -> int:
    """Return the bits of a part's number with room for those of the other columns between them."""
    if columns == 1:
        return part
    return sum((part >> bit & 1) << (bit * columns + columns - 1 - at) for bit in range(_BITS))
