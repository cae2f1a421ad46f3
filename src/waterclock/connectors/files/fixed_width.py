"""Splits lines into fields of fixed width, with Spark SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.connectors.files.type_errors import PATH, build_raise_sql
from waterclock.spark_sql import sql_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LINE = "value"


def fields(lines: DataFrame, reading: ReadOptions) -> DataFrame:
    """Split lines into trimmed fields `c0`, `c1`, …, and keep the frame's other columns.

    Blank lines are skipped. A field is NULL if it is blank, equals the `null` text, or is beyond the end of its line.
    A line with text after the last field raises an error when the frame is evaluated.
    """
    others = [name for name in lines.columns if name != LINE]
    text = LINE if reading.is_utf8 else f"decode(CAST({LINE} AS BINARY), {sql_text(reading.encoding)})"
    rows = lines.selectExpr(*others, f"{text} AS {LINE}").where(f"trim({LINE}) != ''")
    if width := width_of(reading):
        beyond = build_raise_sql(PATH, f"the line after character {width}", f"trim(substring({LINE}, {width + 1}))")
        rows = rows.selectExpr(
            *others, f"CASE WHEN trim(substring({LINE}, {width + 1})) = '' THEN {LINE} ELSE {beyond} END AS {LINE}"
        )
    values = []
    for at, position in enumerate(reading.positions):
        count = f", {position.last - position.first + 1}" if position.last else ""
        field = f"trim(substring({LINE}, {position.first}{count}))"
        value = f"nullif({field}, '')"
        values.append((f"nullif({value}, {sql_text(reading.null)})" if reading.null else value) + f" AS c{at}")
    return rows.selectExpr(*others, *values)


def width_of(reading: ReadOptions) -> int | None:
    """Return the position of the last character of the last field; None if a field extends to the end of the line."""
    ends = [position.last for position in reading.positions]
    return None if None in ends else max(end for end in ends if end is not None)
