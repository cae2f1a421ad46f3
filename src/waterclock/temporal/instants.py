"""Converts a column of dates, texts or times without a zone to timestamps."""

from __future__ import annotations

from zoneinfo import available_timezones

from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql

from waterclock.errors import WaterclockError
from waterclock.similar_names import did_you_mean
from waterclock.temporal.columns import exact_column, require_columns
from waterclock.temporal.text_formats import BLANKS

_WITHOUT_ZONE = (types.TimestampNTZType, types.DateType, types.StringType)
_CLOCK = r"\d{1,2}(?::\d{1,2}(?::\d{1,2}(?:[.,]\d+)?)?)?"
_OFFSET = r"[+-](?:\d{1,2}(?::\d{2}){0,2}|\d{4}(?:\d{2})?)"
_NAME = r"[A-Za-z]+(?:[/_+-][A-Za-z0-9]+)*"
# groups: date, clock, offset, name of a zone
_SPELT = (
    rf"^(\d{{4}}(?:-\d{{1,2}}){{0,2}})(?:(?<=-\d{{1,2}}-\d{{1,2}})(?:[Tt]|{BLANKS})({_CLOCK})"
    rf"(?:(?:{BLANKS})?(?:(?:(?i:UTC|GMT|UT))?({_OFFSET})(?:\[[^\]]+\])?|({_NAME})))?)?$"
)
# names without a `/` that mean one offset at all times; CET, PST or BST mean another one in summer, or elsewhere
_FIXED = {"Z": "Z", "UTC": "Z", "UT": "Z", "GMT": "Z", "EST": "-05:00", "MST": "-07:00", "HST": "-10:00"}


def instant(df: DataFrame, name: str, zone: str | None, *, where: str) -> Column:
    """Return the column `name` as a TIMESTAMP. Dates, texts and times without a zone are interpreted in `zone`.

    A text is ISO 8601 or similar: a date or a part of one, or a date, `T` or blanks, and a time of at least the hour.
    It may end with a zone, which then applies: an offset (`+05:30`, `UTC+2`), `Z`, `UTC`, `GMT`, `EST`, `MST`, `HST` or
    a name of the tz database with a `/`. A text in any other form becomes null. The session's zone is never used.

    Raises E301 for an unknown column, E302 for a type that is not supported, or one without a zone if `zone` is None,
    and E310 for an unknown zone.
    """
    require_columns(df, [name], where=where)
    kind = df.schema[name].dataType
    if isinstance(kind, types.TimestampType):
        return exact_column(name)
    if zone is None or not isinstance(kind, _WITHOUT_ZONE):
        raise WaterclockError(
            "E302",
            f"{name} is of type {kind.simpleString()}, which is not an instant",
            where=where,
            why="times are compared as instants, and must not depend on the zone of the Spark session",
            fix=f"convert {name} to TIMESTAMP first, or pass its zone, such as zone='Europe/Berlin'"
            if isinstance(kind, _WITHOUT_ZONE)
            else f"convert {name} to TIMESTAMP first",
        )
    if zone not in available_timezones():
        raise WaterclockError(
            "E310", f"unknown zone {zone!r}", where=where, fix=did_you_mean(zone, available_timezones())
        )
    if isinstance(kind, types.StringType):
        return _instant_of_text(exact_column(name), zone)
    return _convert_to_instant(exact_column(name).cast("timestamp_ntz"), zone)


def _instant_of_text(text: Column, zone: str) -> Column:
    bare = sql.regexp_replace(text, f"^{BLANKS}|{BLANKS}$", "")
    date, clock, offset, name = (sql.regexp_extract(bare, _SPELT, group) for group in (1, 2, 3, 4))
    local = sql.concat_ws(" ", date, sql.translate(clock, ",", ".")).try_cast("timestamp_ntz")
    own = sql.when(offset != "", offset).otherwise(_zone_of_name(name))
    in_own = sql.concat(local.cast("string"), sql.lit(" "), own).try_cast("timestamp")
    return sql.when((offset != "") | (name != ""), in_own).otherwise(_convert_to_instant(local, zone))


def _zone_of_name(name: Column) -> Column:
    found = sql.when(name.contains("/"), name)
    for fixed, offset in _FIXED.items():
        found = found.when(sql.upper(name) == fixed, sql.lit(offset))
    return found


def _convert_to_instant(local: Column, zone: str) -> Column:
    date = local.cast("date")
    return sql.make_timestamp(
        sql.year(date),
        sql.month(date),
        sql.day(date),
        sql.hour(local),
        sql.minute(local),
        sql.extract(sql.lit("SECOND"), local),
        sql.lit(zone),
    )
