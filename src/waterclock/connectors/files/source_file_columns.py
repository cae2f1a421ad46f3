"""Adds to each row the name of its file (`_source.file`), which does not change when the file is archived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.connectors.interface import Item
from waterclock.connectors.windowing import FILE_KEY, file_key_of
from waterclock.flow.declarations import Columns
from waterclock.flow.origins import IN_ROWS
from waterclock.spark_sql import sql_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_INLINE = 64
_FILE_VALUE = "_waterclock_of_file"


def split_origin_columns(columns: Columns) -> tuple[Columns, frozenset[str]]:
    """Split a column list into columns of the files and the requested parts of `_source`, such as `file`."""
    fields = frozenset(column.metadata_field for column in columns.named if column.metadata_field is not None)
    if not fields:
        return columns, fields
    return replace(columns, named=tuple(column for column in columns.named if column.metadata_field is None)), fields


def with_file_names(spark: SparkSession, frame: DataFrame, items: Sequence[Item]) -> DataFrame:
    """Add a column with the name of each row's file, from the internal column `FILE_KEY` of the rows.

    Cost: an expression; for many files a small join.
    """
    frame, found = map_by_file(spark, frame, {item.path: item.name for item in items})
    return frame.selectExpr("*", f"{found} AS {IN_ROWS['file']}").drop(_FILE_VALUE)


def map_by_file(spark: SparkSession, frame: DataFrame, of: Mapping[str, str]) -> tuple[DataFrame, str]:
    """Look up a value for each row by its file. `of` maps file paths to values. The rows need `FILE_KEY`.

    Return the frame, which may have an additional column, and the SQL of the value: NULL for files that `of` omits.
    """
    by_key = {file_key_of(path): value for path, value in of.items()}
    if len(by_key) <= _MOST_INLINE:
        pairs = ", ".join(sql_text(part) for pair in by_key.items() for part in pair)
        return frame, f"element_at(map({pairs}), {FILE_KEY})"
    known = spark.createDataFrame(list(by_key.items()), f"{FILE_KEY} STRING, {_FILE_VALUE} STRING")
    return frame.join(known.hint("broadcast"), FILE_KEY, "left"), _FILE_VALUE
