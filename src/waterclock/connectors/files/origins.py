"""Tells of each row of a file from which it came, by the name that manifests list: it stays where the file moves."""

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

_FEW = 64
_FOUND = "_waterclock_of_file"


def told_apart(columns: Columns) -> tuple[Columns, frozenset[str]]:
    """Part a column list into what files hold, and what is asked of where their rows came from."""
    tells = frozenset(column.tells for column in columns.named if column.tells is not None)
    if not tells:
        return columns, tells
    return replace(columns, named=tuple(column for column in columns.named if column.tells is None)), tells


def with_file_names(spark: SparkSession, frame: DataFrame, items: Sequence[Item]) -> DataFrame:
    """Add to rows, which have `FILE_KEY`, the name of their file. Cost: an expression; of more files a small join."""
    frame, found = by_file(spark, frame, {item.path: item.name for item in items})
    return frame.selectExpr("*", f"{found} AS {IN_ROWS['file']}").drop(_FOUND)


def by_file(spark: SparkSession, frame: DataFrame, of: Mapping[str, str]) -> tuple[DataFrame, str]:
    """Return rows, which have `FILE_KEY`, and the SQL that gives what is known of their file's path; NULL of others."""
    by_key = {file_key_of(path): value for path, value in of.items()}
    if len(by_key) <= _FEW:
        pairs = ", ".join(sql_text(part) for pair in by_key.items() for part in pair)
        return frame, f"element_at(map({pairs}), {FILE_KEY})"
    known = spark.createDataFrame(list(by_key.items()), f"{FILE_KEY} STRING, {_FOUND} STRING")
    return frame.join(known.hint("broadcast"), FILE_KEY, "left"), _FOUND
