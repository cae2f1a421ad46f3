"""Defines the three columns that every temporal frame has, and selects the versions in effect at a time."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from waterclock.errors import WaterclockError
from waterclock.temporal.bounds import BEGINNING_MICROS, OPEN_MICROS
from waterclock.temporal.columns import exact_column, require_temporal

EFFECTIVE, EXPIRES, CURRENT = "rec_eff_time", "rec_exp_time", "rec_is_current"
RECORD = (EFFECTIVE, EXPIRES, CURRENT)


def open_end() -> Column:
    """Return the end of current versions, 9999-12-31 UTC; built from microseconds, so that no session zone applies."""
    return sql.timestamp_micros(sql.lit(OPEN_MICROS))


def earliest_instant() -> Column:
    """Return the start of the year 1, the earliest supported instant."""
    return sql.timestamp_micros(sql.lit(BEGINNING_MICROS))


def valid_at(df: DataFrame, time: datetime | Column) -> DataFrame:
    """Return the versions in effect at `time`: at most one for each key.

    Raises E306 for a frame that is not temporal, and E302 for a datetime without a zone.
    """
    require_temporal(df, where="valid_at")
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise WaterclockError(
                "E302", f"a time without a zone: {time.isoformat()}", where="valid_at", fix="give it a tzinfo"
            )
        time = sql.lit(time)
    return df.where((exact_column(EFFECTIVE) <= time) & (time < exact_column(EXPIRES)))
