"""Adds Spark's column `_metadata`, which has the file of each row, even if the files have a column of that name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

METADATA = "_metadata"
_RENAMED_METADATA = "_waterclock_metadata"


def show_metadata(frame: DataFrame, names: Iterable[str]) -> tuple[DataFrame, str]:
    """Return the frame of a file scan with Spark's metadata column, and the name of that column.

    `names` are the columns of the files. If one of them is called `_metadata`, Spark's column gets another name.
    """
    if all(name.lower() != METADATA for name in names):
        return frame, METADATA
    return frame.withColumn(_RENAMED_METADATA, frame.metadataColumn(METADATA)), _RENAMED_METADATA
