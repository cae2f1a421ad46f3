"""Adds to each row its line number in its file, although Spark splits files and reads several splits in one task.

For each row Spark provides the split of the file and the number of rows that its task read before. An additional pass
counts the lines of each split. That pass and the scan split the files alike, because both read the same files by lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.connectors.files.type_errors import PATH
from waterclock.connectors.spark_file_metadata import METADATA
from waterclock.flow.origins import TYPES
from waterclock.spark_sql import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_BLOCK, _ID, _COUNTED = "_waterclock_block", "_waterclock_id", "_waterclock_counted"
LINE = f"""CASE WHEN {_ID} - {_COUNTED}.first BETWEEN 0 AND {_COUNTED}.rows - 1
    THEN {_COUNTED}.before + ({_ID} - {_COUNTED}.first) + 1
        + size(filter({_COUNTED}.skipped, each -> each <= {_ID} - {_COUNTED}.first)) END"""
UNKNOWN = f"CAST(NULL AS {TYPES['row']})"
SAME_LINES = frozenset(("UTF-8", "UTF8", "ISO-8859-1", "US-ASCII"))
_BLANK = r"value RLIKE '^[\\x00-\\x20]*$'"
_TASK_BITS = 33  # bits: an id is the task's number, shifted by this many bits, plus the number of the row in the task
_MOST_SKIPPED = 10_000
_FIELDS = "STRUCT<first: BIGINT, before: BIGINT, rows: BIGINT, skipped: ARRAY<BIGINT>>"


@dataclass(frozen=True, slots=True)
class _FileSplit:
    """A split of a file, which one task reads from the byte offset `block` on.

    `first` is Spark's row id of its first line, `top` that of its first line that is not blank, or None. `lines` counts
    its lines, `blank` the blank ones, and `lists` those that begin like a JSON list.
    """

    path: str
    block: int
    first: int
    lines: int
    blank: int
    top: int | None
    lists: int


def line_source_columns(metadata: str = METADATA) -> tuple[str, ...]:
    """Return the SQL of the columns that `add_line_columns` needs.

    `metadata` is Spark's metadata column in the frame.
    """
    return (
        f"{metadata}.file_path AS {PATH}",
        f"{metadata}.file_block_start AS {_BLOCK}",
        f"monotonically_increasing_id() AS {_ID}",
    )


def has_lines(reading: ReadOptions) -> bool:
    """Return whether lines can be counted: each row is a line, and a line end is one byte in the files' encoding."""
    return not reading.is_multiline and reading.encoding.upper() in SAME_LINES


def add_line_columns(
    spark: SparkSession, rows: DataFrame, paths: Sequence[str], *, skips: bool, header: bool = False
) -> DataFrame:
    """Add the columns that the expression `LINE` needs to rows that have the columns of `line_source_columns`.

    `skips`: the reader skips blank lines. `header`: it also skips the first line of a file that is not blank.

    Line numbers of a file are NULL if it has too many blank lines to keep in memory, or if a line contains a list of
    several rows. Cost: one pass over the files that counts their lines, and a small join.
    """
    text = spark.read.text(list(paths)).selectExpr("value", *line_source_columns())
    parts = _count_lines(text)
    skipped = _find_blank_lines(text, parts) if skips else {}
    counts = [
        (part.path, part.block, values) for part, values in _describe_splits(parts, skipped, skips=skips, header=header)
    ]
    known = spark.createDataFrame(counts, f"{PATH} STRING, {_BLOCK} BIGINT, {_COUNTED} {_FIELDS}")
    joined = rows.join(known.hint("broadcast"), [PATH, _BLOCK], "left")
    return joined.selectExpr(*map(quote_name, rows.columns), _COUNTED)


def _count_lines(text: DataFrame) -> list[_FileSplit]:
    counts = text.groupBy(PATH, _BLOCK)
    found = counts.agg(
        *_expressions(
            f"min({_ID})",
            "count(*)",
            f"count_if({_BLANK})",
            f"min(CASE WHEN NOT {_BLANK} THEN {_ID} END)",
            "count_if(ltrim(value) LIKE '[%')",
        )
    ).collect()
    return sorted((_FileSplit(*row) for row in found), key=lambda part: (part.path, part.block))


def _expressions(*texts: str) -> list[Column]:
    from pyspark.sql import functions as sf

    return [sf.expr(text) for text in texts]


def _find_blank_lines(text: DataFrame, parts: Iterable[_FileSplit]) -> dict[tuple[str, int], list[int]]:
    """Return Spark's row ids of the blank lines of each split; none for a split with too many of them."""
    few = {(part.path, part.block) for part in parts if 0 < part.blank <= _MOST_SKIPPED}
    if not few:
        return {}
    found = text.where(_BLANK).groupBy(PATH, _BLOCK).agg(*_expressions(f"collect_list({_ID})")).collect()
    return {(path, block): sorted(ids) for path, block, ids in found if (path, block) in few}


def _describe_splits(
    parts: Sequence[_FileSplit], skipped: dict[tuple[str, int], list[int]], *, skips: bool, header: bool
) -> Iterable[tuple[_FileSplit, tuple[int, int, int, list[int]]]]:
    """Yield for each split the id of its first row, the number of lines before it, its row count, and skipped lines.

    A row count of 0 means that the line numbers of the split are unknown.
    """
    skipped_places: dict[_FileSplit, list[int]] = {}
    for part in parts:
        ids = list(skipped.get((part.path, part.block), []))
        if header and part.block == 0 and part.top is not None:
            ids.append(part.top)
        skipped_places[part] = sorted(each - part.first for each in ids)
    firsts: dict[_FileSplit, int] = {}
    for task, members in groupby(sorted(parts, key=lambda part: part.first), key=lambda part: part.first >> _TASK_BITS):
        at = task << _TASK_BITS
        for part in members:
            firsts[part] = at if skips else part.first
            at += part.lines - part.blank - (header and part.block == 0 and part.top is not None)
    for _, of_file in groupby(parts, key=lambda part: part.path):
        before = 0
        for part in of_file:
            is_known = not skips or (len(skipped_places[part]) >= part.blank and not part.lists)
            rows = part.lines - len(skipped_places[part]) if is_known else 0
            yield part, (firsts[part], before, rows, [each - at for at, each in enumerate(skipped_places[part])])
            before += part.lines
