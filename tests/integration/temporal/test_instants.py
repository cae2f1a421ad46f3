"""Texts that become instants, compared with the meaning of their parts: every date, clock and zone combined."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import functions as sql

from tests.histories import frame, lines, micros, told
from waterclock.errors import WaterclockError
from waterclock.temporal import Counts, compute_temporal, nulls_are_values, refusal_of, union_sources
from waterclock.temporal.instants import instant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DECLARED = "Europe/Berlin"
# the parts of a spelling with their meanings; None: no valid time
DATES: Mapping[str, datetime | None] = {
    "2020-07-01": datetime(2020, 7, 1),  # noqa: DTZ001 - a date has no zone
    "2020-1-5": datetime(2020, 1, 5),  # noqa: DTZ001
    "2020-03-29": datetime(2020, 3, 29),  # noqa: DTZ001 - no 02:30 in Berlin
    "2020-10-25": datetime(2020, 10, 25),  # noqa: DTZ001 - 02:30 twice in Berlin
    "1969-12-31": datetime(1969, 12, 31),  # noqa: DTZ001
    "2020-02-30": None,
    "2020-13-01": None,
    "12020-07-01": None,
}
CLOCKS: Mapping[str, timedelta | None] = {
    "10": timedelta(hours=10),
    "9:5": timedelta(hours=9, minutes=5),
    "02:30": timedelta(hours=2, minutes=30),
    "02:30:00.25": timedelta(hours=2, minutes=30, milliseconds=250),
    "02:30:07,123456789": timedelta(hours=2, minutes=30, seconds=7, microseconds=123456),
    "23:59:59.999999": timedelta(days=1, microseconds=-1),
    "24:00": None,
    "10:60": None,
    "10:00:60": None,
    "10:00:": None,
}
ZONES: Mapping[str, timedelta | ZoneInfo | None] = {
    "": ZoneInfo(DECLARED),
    **dict.fromkeys(["Z", "z", "UTC", "utc", "GMT", "UT", "-00:00", "+00", "UTC+0"], timedelta()),
    **dict.fromkeys(["+05:30", "+0530", "GMT+5:30", "utc+0530"], timedelta(hours=5, minutes=30)),
    **dict.fromkeys(["+05:30:15", "+053015"], timedelta(hours=5, minutes=30, seconds=15)),
    **dict.fromkeys(["-03:30", "-0330", "UT-03:30"], -timedelta(hours=3, minutes=30)),
    **dict.fromkeys(["EST", "est", "-5", "-05", "Etc/GMT+5"], -timedelta(hours=5)),
    "MST": -timedelta(hours=7),
    "HST": -timedelta(hours=10),
    "+18:00": timedelta(hours=18),
    "+02:00[Europe/Berlin]": timedelta(hours=2),
    "Asia/Kolkata": ZoneInfo("Asia/Kolkata"),
    "Europe/Berlin": ZoneInfo("Europe/Berlin"),
    "America/Argentina/Buenos_Aires": ZoneInfo("America/Argentina/Buenos_Aires"),
    **dict.fromkeys(["CET", "CEST", "PST", "BST", "JST", "CST6CDT", "PM", "EST5", "Z+1", "Foo/Bar", "+530"]),
    **dict.fromkeys(["+18:01", "+19", "+05:61", "+05:30:", "+5:3", "+", "[Europe/Berlin]", "+01 Z", "Z Z"]),
}
BETWEEN = ("T", "t", " ", " \t", "\u00a0", "\u0085")
BEFORE_ZONE = ("", " ", "\t ", "\u00a0")
ALONE: Mapping[str, datetime | None] = {
    "2020": datetime(2020, 1, 1),  # noqa: DTZ001
    "2020-07": datetime(2020, 7, 1),  # noqa: DTZ001
    " \u00a02020-07-01\u0085\n": datetime(2020, 7, 1),  # noqa: DTZ001
    **dict.fromkeys(["", " ", "soon", "10:00", "T10:00Z", "10:00:00Z", "2020 10:00", "2020-07 10:00Z", "2020-07-01Z"]),
    **dict.fromkeys(["2020-07-01T", "2020-07-0110:00", "20200701", "202007", "-2020-07-01", "2020-07-01+02:00"]),
}


def meant(date: datetime | None, clock: timedelta | None, zone: timedelta | ZoneInfo | None) -> int | None:
    """Return the microseconds since 1970 for the parts of a text."""
    if date is None or clock is None or zone is None:
        return None
    local = date + clock
    if isinstance(zone, timedelta):
        return micros(local.replace(tzinfo=UTC) - zone)
    return micros(local.replace(tzinfo=zone).astimezone(UTC))


def test_every_spelling_of_a_time_is_the_instant_that_its_parts_mean(spark: SparkSession) -> None:
    wanted = {text: meant(date, timedelta(), ZoneInfo(DECLARED)) for text, date in ALONE.items()}
    for date, between, clock, gap, zone in product(DATES, BETWEEN, CLOCKS, BEFORE_ZONE, ZONES):
        wanted[f"{date}{between}{clock}{gap}{zone}"] = meant(DATES[date], CLOCKS[clock], ZONES[zone])
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        df = spark.createDataFrame([(text,) for text in wanted], "t string")
        at = sql.unix_micros(instant(df, "t", DECLARED, where="a test"))
        found = {row.t: row.at for row in df.select("t", at.alias("at")).collect()}
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    wrong = {text: (found[text], value) for text, value in wanted.items() if found[text] != value}
    assert not wrong, f"{len(wrong)} of {len(wanted)}, as {dict(list(wrong.items())[:5])}"
    assert sum(value is not None for value in wanted.values()) > 20_000


OUTSIDE = """
SELECT 'c' AS c, col1 AS a, timestamp_micros(col2) AS t FROM VALUES
    ('first', 0), ('open', 253402214400000000), ('after', 253402214400000001), ('before', -62135596800000001)
"""


def test_no_version_begins_at_or_after_the_open_end_or_before_the_year_1(spark: SparkSession) -> None:
    counts = Counts()
    kept = compute_temporal(spark.sql(OUTSIDE), "c", time="t", counts=counts).collect()
    assert [(row.a, row.rec_is_current) for row in kept] == [("first", True)]
    assert counts.get.items() >= {"rows": 4, "no_time": 0, "bad_time": 3, "versions": 1}.items()
    for name in ("open", "after", "before"):
        made = compute_temporal(spark.sql(OUTSIDE).where(sql.col("a") == name), "c", time="t")
        with pytest.raises(Exception, match="E304 a time at which no version can begin") as stopped:
            made.collect()
        refusal = refusal_of(stopped.value)
        assert refusal is not None
        assert refusal.code == "E304"
        assert (refusal.why or "").startswith("its key and time are c, ")


def test_the_first_and_the_last_time_that_a_version_can_begin_at(spark: SparkSession) -> None:
    edges = spark.sql(
        "SELECT 'c' AS c, col1 AS a, timestamp_micros(col2) AS t "
        "FROM VALUES ('first', -62135596800000000), ('last', 253402214399999999)"
    )
    made = compute_temporal(edges, "c", time="t").select("a", sql.expr("rec_eff_time < rec_exp_time"), "rec_is_current")
    assert sorted(made.collect()) == [("first", True, False), ("last", True, True)]


def test_a_text_that_is_no_time_is_named_where_the_query_stops(spark: SparkSession) -> None:
    made = compute_temporal(frame(spark, "c string, t string, a string", "c soon x"), "c", time="t", zone="UTC")
    with pytest.raises(Exception, match="E304 a time at which") as stopped:
        made.collect()
    assert isinstance(refusal_of(stopped.value), WaterclockError)
    assert refusal_of(stopped.value).why == "its key and time are c, soon"  # type: ignore[union-attr]


def test_nulls_are_values_has_no_effect_on_key_time_sequence_and_delete_columns(spark: SparkSession) -> None:
    crm = frame(spark, "c string, t timestamp, s int, gone boolean, a string", "c d1 1 false x | c d1 2 false -")
    web = frame(spark, "c string, t timestamp, s int, gone boolean, a string", "c d3 1 true - | - d3 1 false y")
    raw = union_sources(crm, nulls_are_values(web, *web.columns))
    counts = Counts()
    made = compute_temporal(raw, "c", time="t", sequence="s", delete_when="gone", counts=counts)
    assert made.schema["c"].dataType.simpleString() == "string"
    assert told(made) == lines("c d1 x d3")
    assert counts.get.items() >= {"rows": 4, "no_key": 1, "no_time": 0, "bad_time": 0}.items()
