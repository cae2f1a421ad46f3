"""Assigns rows to windows by their data time, with Spark SQL and in one pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError
from waterclock.files.object_stores import is_remote
from waterclock.spark_sql import cast_text, quote_name, sql_text
from waterclock.timelabel.label import TIMELABEL
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILE_KEY = "_waterclock_file"
TIME = "_waterclock_time"
NO_TIME = "rows without a data time"
UNREADABLE_TIME = "rows whose data time cannot be read"

_UNESCAPED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.!~*'()/:@&=+$,;")


def assign_windows(
    frame: DataFrame, windows: Sequence[Window], uncounted: Sequence[str]
) -> tuple[DataFrame, Callable[[], Mapping[str, int]]]:
    """Keep only the rows of the windows, and replace the columns `TIME` and `FILE_KEY` by the label.

    Return the frame, and a function that counts rows without a data time. Rows of the files `uncounted` are not
    counted: batches of other windows, in which these files arrived, count them. The count is collected while the frame
    is evaluated, so call the function after that.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as sf

    observation = Observation()
    is_counted = (
        f"{FILE_KEY} NOT IN ({', '.join(sql_text(file_key_of(path)) for path in uncounted)})" if uncounted else "TRUE"
    )
    counted = sf.expr(f"count_if({TIME} IS NULL AND {is_counted})").alias("rows")
    start, end = instant_literal(windows[0].start), instant_literal(windows[-1].end)
    kept = frame.observe(observation, counted).where(f"{TIME} >= {start} AND {TIME} < {end}")
    has_gaps = any(one.end != other.start for one, other in pairwise(windows))
    names = [quote_name(name) for name in frame.columns if name not in (TIME, FILE_KEY)]
    labelled = kept.selectExpr(*names, f"{label_sql(TIME, windows, has_gaps=has_gaps)} AS {TIMELABEL}")
    if has_gaps:
        labelled = labelled.where(f"{TIMELABEL} IS NOT NULL")

    def count_excluded_rows() -> Mapping[str, int]:
        rows = int(observation.get["rows"])
        return {NO_TIME: rows} if rows else {}

    return labelled, count_excluded_rows


def file_key_of(path: str) -> str:
    """Return a file's value in the column `FILE_KEY`: its URI, without `file:` if it is on this machine."""
    uri = file_uri_of(path)
    return uri if is_remote(path) else uri.removeprefix("file:").lstrip("/")


def file_key_sql(path: str) -> str:
    """Return SQL for `FILE_KEY`, from SQL for a file's path or URI as Spark writes it."""
    return f"trim(LEADING '/' FROM if(startswith({path}, 'file:'), substr({path}, 6), {path}))"


def file_uri_of(path: str) -> str:
    """Return a file's path as Spark writes it: percent-encoded, and as a `file:` URI if it is on this machine."""
    encoded = "".join(sign if sign in _UNESCAPED or not sign.isascii() else f"%{ord(sign):02X}" for sign in path)
    return encoded if is_remote(path) else f"file:{encoded}"


def label_sql(time: str, windows: Sequence[Window], *, has_gaps: bool) -> str:
    """Return SQL that determines the label of a time by binary search: log2(number of windows) comparisons per row.

    The time must not be before the first window. With `has_gaps`, a time in none of the windows has the label NULL.
    """
    if len(windows) == 1:
        label = sql_text(windows[0].label)
        return f"CASE WHEN {time} < {instant_literal(windows[0].end)} THEN {label} END" if has_gaps else label
    middle = len(windows) // 2
    earlier = label_sql(time, windows[:middle], has_gaps=has_gaps)
    later = label_sql(time, windows[middle:], has_gaps=has_gaps)
    return f"CASE WHEN {time} < {instant_literal(windows[middle].start)} THEN {earlier} ELSE {later} END"


def instant_literal(instant: datetime) -> str:
    """Format an instant as a Spark SQL literal."""
    return f"TIMESTAMP'{instant:%Y-%m-%d %H:%M:%S}Z'"


def instant_sql(value: str, type_name: str, zone: str) -> str:
    """Return SQL that converts a value to an instant.

    Values without a zone are in `zone`; a text may have its own offset. The result is NULL for a text that is not a
    time.
    Raises E815 for a type that is not a time.
    """
    kind = type_name.lower()
    if kind == "timestamp":
        return value
    if kind in ("timestamp_ntz", "date"):
        return f"to_utc_timestamp(CAST({value} AS TIMESTAMP), {sql_text(zone)})"
    if kind == "string":
        parsed = cast_text(value, "TIMESTAMP")
        has_offset = f"{value} RLIKE {sql_text(_OFFSET)}"
        return f"CASE WHEN {has_offset} THEN {parsed} ELSE to_utc_timestamp({parsed}, {sql_text(zone)}) END"
    raise WaterclockError(
        "E815",
        f"a data time cannot have the type {type_name}",
        why="a data time is of type TIMESTAMP, TIMESTAMP_NTZ, DATE or STRING",
        fix="declare one of these in the column list, or provide the column as text",
    )


# any text after a time of day is its zone: Z, +01:00, +01, UTC, Asia/Tokyo
_OFFSET = r":[0-9:.]*\s*[A-Za-z+-]"
