"""Finds the changed windows of a landing folder: those with rows in a file that arrived since the last scan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.connectors.files.scanning import scan
from waterclock.connectors.interface import ChangedWindows, ChangeScanRequest, Item
from waterclock.connectors.windowing import FILE_KEY, TIME, file_key_of, instant_literal, label_sql
from waterclock.flow.declarations import Columns
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_NAMED = 3


def find_changed_windows(
    spark: Callable[[], SparkSession],
    items: Sequence[Item],
    request: ChangeScanRequest,
    reading: ReadOptions,
    columns: Columns,
    zone: str,
) -> ChangedWindows:
    """Return the windows that have rows in new files, and record the names and sizes of all files for the next scan.

    A file is new for a window if the last scan did not find it, or found it with another size, unless persons were
    erased from it since. Only new files are read. The driver receives only pairs of file and window, and no rows.
    """
    known_files = {start: mark.of_all.get("items", {}) for start, mark in request.marks.items()}
    new = [item for item in items if any(_is_new(item, known) for known in known_files.values())]
    changed: dict[datetime, list[str]] = {}
    if new:
        by_key = {file_key_of(item.path): item for item in new}
        for key, start in _find_file_windows(spark(), new, request, reading, columns, zone):
            item = by_key[key]
            if start in known_files and _is_new(item, known_files[start]):
                changed.setdefault(start, []).append(item.name)
    return ChangedWindows(
        {start: _describe_arrivals(sorted(names)) for start, names in changed.items()},
        {"items": {item.name: item.size for item in items}},
    )


def _is_new(item: Item, known: Mapping[str, int]) -> bool:
    size = known.get(item.name)
    return size is None or (size != item.size and size not in item.earlier_sizes)


def _find_file_windows(
    spark: SparkSession,
    items: Sequence[Item],
    request: ChangeScanRequest,
    reading: ReadOptions,
    columns: Columns,
    zone: str,
) -> list[tuple[str, datetime]]:
    """Return pairs of a file and a window's start, for all windows of which the file has rows."""
    windows = request.windows
    by_label: Mapping[str, Window] = {window.label: window for window in windows}
    stamps = {item.path: item.stamp for item in items}
    scanned = scan(spark, list(stamps), reading, columns, zone, time=request.time_column, stamps=stamps)
    has_gaps = any(one.end != other.start for one, other in pairwise(windows))
    within = f"{TIME} >= {instant_literal(windows[0].start)} AND {TIME} < {instant_literal(windows[-1].end)}"
    try:
        found = (
            scanned.frame.where(within)
            .selectExpr(FILE_KEY, f"{label_sql(TIME, windows, has_gaps=has_gaps)} AS label")
            .where("label IS NOT NULL")
            .distinct()
            .collect()
        )
    finally:
        scanned.close()
    return [(row[FILE_KEY], by_label[row["label"]].start) for row in found]


def _describe_arrivals(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more} arrived since"
