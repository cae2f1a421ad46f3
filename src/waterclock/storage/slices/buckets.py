"""Writes the rows of each label in buckets (BUCKET BY): files by the hash of some columns, named as Spark names them.

Spark reads such files without an exchange where a join, a group or a window is by these columns. The bucket of a row is
the number of the task that writes it, which Spark has in the file's name; the name of a bucket's file has it once more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.files.filesystem import entry_path, files_below, move_file
from waterclock.spark_sql import quote_name
from waterclock.storage.slices.row_order import names_to_sort_by

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from waterclock.storage.slices.manifest import DataFile

_TASK = re.compile(r"part-(\d+)-[^./]*")
_BUCKET = re.compile(r".*_(\d+)(?:\..*)?")


@dataclass(frozen=True, slots=True)
class Bucketing:
    """The columns of BUCKET BY, and the number of buckets."""

    columns: tuple[str, ...]
    files: int

    def file_of(self, types: Mapping[str, str]) -> Column:
        """Return the bucket of a row, from 0 on, as Spark computes it."""
        hashed = F.hash(*(F.col(quote_name(name)) for name in names_to_sort_by(types, self.columns)))
        return F.pmod(hashed, F.lit(self.files))

    def curve_position(self, frame: DataFrame) -> Column | None:
        """Return None: the rows of each file are in the order of the columns alone."""
        del frame
        return None

    def to_manifest(self) -> dict[str, Any]:
        """Return the entries about buckets for the manifest of a slice."""
        return {"bucketed_by": self.columns, "buckets": self.files}

    def is_possible(self, frame: DataFrame) -> bool:
        """Return whether the rows have all columns."""
        return len(names_to_sort_by(frame.columns, self.columns)) == len(self.columns)

    def finish(
        self, spark: SparkSession, folder: str, paths: Iterable[str], *, was_split: bool
    ) -> Mapping[str, tuple[DataFile, ...]]:
        """Name the files after their buckets. Cost: that of `name_buckets`."""
        del spark
        if was_split:
            name_buckets(folder, paths, self.files)
        return {}


def name_buckets(folder: str, paths: Iterable[str], buckets: int) -> None:
    """Rename the files of slices that are not sealed yet after their buckets.

    Cost: a rename for each file, which in an object store is a copy.
    """
    for path in paths:
        leaf = entry_path(folder, path)
        for file in list(files_below(leaf)):
            task = _TASK.match(file.path)
            if task is not None and "/" not in file.path and file.path.endswith(".parquet"):
                rest = file.path[task.end() :]
                move_file(leaf / file.path, leaf / f"{task[0]}_{int(task[1]) % buckets:05d}{rest}")


def bucket_of(path: str) -> int | None:
    """Return the bucket that a file's name has, or None."""
    found = _BUCKET.fullmatch(path.rpartition("/")[2])
    return None if found is None else int(found[1])
