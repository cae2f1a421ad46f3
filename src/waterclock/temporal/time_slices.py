"""Divides the time of keys with very many versions into slices, so that a join distributes their rows over tasks.

The time of a key with more than 32 versions is divided into equal slices, one for every eight versions. A slice that
more than 128 versions overlap, as after a burst, is divided into parts in the same way. The numbers `slice` and `part`
of a time never decrease over time, so a row always gets numbers that its version gets too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from waterclock.temporal.version_statistics import LONG_KEY

_VERSIONS_OF_A_SLICE = 8
_CROWDED_SLICE = 128
_SPREAD = 4096
_CUT = ("low", "width", "pieces")


@dataclass(frozen=True, slots=True)
class TimeCuts:
    """The division of time into slices and parts. Both frames have the columns `low`, `width` and `pieces`.

    `first` has a row for each key whose time is divided into slices, `second` for each slice that is divided into
    parts.
    """

    keys: tuple[str, ...]
    first: DataFrame
    second: DataFrame
    is_small: bool  # both frames can be broadcast

    @property
    def slice_keys(self) -> tuple[str, ...]:
        """The columns that identify a slice."""
        return (*self.keys, "slice")


def cuts_of(versions: DataFrame, keys: Sequence[str], *, is_small: bool) -> TimeCuts:
    """Return the division of time for versions with the columns `keys`, `eff` and `exp`.

    Cost: no job here; two groupings of narrow rows when the frames are read.
    """
    narrow = versions.select(*keys, "eff", "exp")
    first = _divide_time(narrow, keys, LONG_KEY)
    sliced = _explode_spans(
        narrow.join(_broadcast_if_small(first, is_small=is_small), list(keys)), "eff", "exp", "slice"
    )
    return TimeCuts(tuple(keys), first, _divide_time(sliced, [*keys, "slice"], _CROWDED_SLICE), is_small)


def add_slice_columns(rows: DataFrame, cuts: TimeCuts, moment: str) -> DataFrame:
    """Add the columns `slice` and `part` for the time in the column `moment`."""
    first = rows.join(_broadcast_if_small(cuts.first, is_small=cuts.is_small), list(cuts.keys), "left")
    first = first.withColumn("slice", _spread(cuts.keys, moment).otherwise(_piece_number(moment))).drop(*_CUT)
    second = first.join(_broadcast_if_small(cuts.second, is_small=cuts.is_small), list(cuts.slice_keys), "left")
    return second.withColumn("part", _piece_number(moment)).drop(*_CUT)


def over_periods(rows: DataFrame, cuts: TimeCuts, start: str, end: str, first_mark: str | None = None) -> DataFrame:
    """Repeat each row once for each time slice, and each part of it, that the row's period overlaps.

    Their numbers are added as the columns `slice` and `part`. `first_mark` names a column to add that is true for the
    first copy of a row.
    """
    first = rows.join(_broadcast_if_small(cuts.first, is_small=cuts.is_small), list(cuts.keys), "left")
    first = _explode_spans(first, start, end, "slice", first_mark=first_mark)
    first = first.withColumn("slice", _spread(cuts.keys, start).otherwise(sql.col("slice")))
    second = first.join(_broadcast_if_small(cuts.second, is_small=cuts.is_small), list(cuts.slice_keys), "left")
    return _explode_spans(second, start, end, "part", first_mark=first_mark)


def has_null_key(keys: Sequence[str]) -> Column:
    """Return the condition that any column of the key is null; such a key equals no other."""
    return reduce(or_, (sql.col(key).isNull() for key in keys))


def spread_key(moment: str) -> Column:
    """Return a negative slice number for a row that can match no version, so that such rows go to different tasks."""
    return -1 - sql.pmod(sql.xxhash64(moment), sql.lit(_SPREAD))


def _spread(keys: Sequence[str], moment: str) -> Column:
    return sql.when(has_null_key(keys), spread_key(moment))


def _piece_number(moment: str, less: int = 0) -> Column:
    """Return the number of the slice or part that contains a time, less some microseconds; 0 if it is not divided."""
    micros = f"unix_micros({moment}) - {less}L"
    return sql.expr(f"coalesce(least(greatest(({micros} - low) div width, 0L), pieces - 1), 0L)")


def _broadcast_if_small(cuts: DataFrame, *, is_small: bool) -> DataFrame:
    return sql.broadcast(cuts) if is_small else cuts


def _divide_time(rows: DataFrame, by: Sequence[str], most: int) -> DataFrame:
    """Return how the time of each group with more than `most` versions is divided: `low`, `width`, `pieces`.

    Pieces divide the time from the first end to the last start; times before or after belong to the outer pieces.
    """
    counted = rows.groupBy(*by).agg(
        sql.count(sql.lit(1)).alias("versions"),
        sql.unix_micros(sql.min("exp")).alias("low"),
        sql.unix_micros(sql.max("eff")).alias("high"),
    )
    pieces = f"versions div {_VERSIONS_OF_A_SLICE}"
    return counted.where(sql.col("versions") > most).select(
        *by,
        "low",
        sql.expr(pieces).alias("pieces"),
        sql.expr(f"greatest(high - low, 0L) div ({pieces}) + 1").alias("width"),
    )


def _explode_spans(rows: DataFrame, start: str, end: str, name: str, *, first_mark: str | None = None) -> DataFrame:
    spanned = rows.withColumn(name, sql.explode(sql.sequence(_piece_number(start), _piece_number(end, 1))))
    if first_mark is not None:
        is_begin = sql.col(name) == _piece_number(start)
        spanned = spanned.withColumn(
            first_mark, (sql.col(first_mark) & is_begin) if first_mark in rows.columns else is_begin
        )
    return spanned.drop(*_CUT)
