"""Frames for tests of temporal functions, written and read as short text: `c1 d1 Paris - | c1 d3 Lyon A`.

`d3` is the third day of 2020 in UTC, `d3-` a microsecond before it, `∞` the open end, `-` null; other words are texts,
digits are whole numbers.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FIRST = datetime(2020, 1, 1, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OPEN = datetime(9999, 12, 31, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)


def day(number: int) -> datetime:
    """Return the start of a day of January 2020; the first day is 1."""
    return _FIRST + timedelta(days=number - 1)


def micros(time: datetime) -> int:
    """Return the microseconds since 1970."""
    return (time - _EPOCH) // _MICRO


def frame(spark: SparkSession, schema: str, text: str) -> DataFrame:
    """Return a frame of the rows in `text`."""
    rows = [tuple(_value(word) for word in row.split()) for row in text.split("|") if row.strip()]
    return spark.createDataFrame(rows, schema)


def told(df: DataFrame) -> list[str]:
    """Return the rows of a frame as text, in order; only the open end marks the current version."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import TimestampType

    columns = [
        sql.unix_micros(field.name).alias(field.name)
        if isinstance(field.dataType, TimestampType)
        else sql.col(field.name)
        for field in df.schema.fields
    ]
    times = {field.name for field in df.schema.fields if isinstance(field.dataType, TimestampType)}
    rows = [row.asDict() for row in df.select(*columns).collect()]
    for row in rows:
        if "rec_is_current" in row:
            assert row.pop("rec_is_current") == (row["rec_exp_time"] == micros(_OPEN))
    return sorted(
        (" ".join(_word(value, is_time=name in times) for name, value in row.items()) for row in rows),
        key=lambda line: line.replace("∞", "~"),
    )


def lines(text: str) -> list[str]:
    """Return rows in the format of `told`."""
    return sorted(
        (" ".join(row.split()) for row in text.split("|") if row.strip()), key=lambda line: line.replace("∞", "~")
    )


def _value(word: str) -> Any:
    if word == "-":
        return None
    if word == "∞":
        return _OPEN
    if word in {"true", "false"}:
        return word == "true"
    if word[0] == "d" and word[1:].rstrip("-").isdigit():
        return day(int(word[1:].rstrip("-"))) - (_MICRO if word.endswith("-") else timedelta())
    return int(word) if word.isdigit() else word


def _word(value: Any, *, is_time: bool) -> str:
    if value is None:
        return "-"
    if not is_time:
        return str(value).lower() if isinstance(value, bool) else str(value)
    if value == micros(_OPEN):
        return "∞"
    days, rest = divmod(value - micros(_FIRST), 86_400_000_000)
    return f"d{days + 1}" if rest == 0 else f"d{days + 2}-" if rest == 86_399_999_999 else str(value)
