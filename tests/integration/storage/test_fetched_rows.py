"""Rows that Spark returns to Python have the same times on machines in any zone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import pytest

from waterclock.storage.fetched_rows import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOON = datetime(2020, 7, 1, 12, tzinfo=UTC)
LOCAL_NOON = NOON.replace(tzinfo=None)
EVER, FOREVER = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


def test_timestamps_at_any_depth_of_a_row_are_returned_in_utc(spark: SparkSession) -> None:
    noon = "TIMESTAMP'2020-07-01 12:00:00'"
    frame = spark.sql(
        f"SELECT {noon} AS t, {noon} AS t, TIMESTAMP_NTZ'2020-07-01 12:00:00' AS n, DATE'2020-07-01' AS d, "
        f"array({noon}) AS a, map('k', {noon}) AS m, struct({noon} AS t, 1 AS x) AS s, CAST(NULL AS TIMESTAMP) AS z, "
        "parse_json('{\"x\": 1}') AS v"
    )
    day = date(2020, 7, 1)
    noons = (NOON, NOON, LOCAL_NOON, day, [NOON], {"k": NOON}, {"t": NOON, "x": 1})
    assert rows_of(frame, 9) == [(*noons, None, '{"x":1}')]


def test_timestamps_of_the_years_1_and_9999_can_be_fetched(spark: SparkSession) -> None:
    frame = spark.sql("SELECT TIMESTAMP'0001-01-01 00:00:00' AS t, TIMESTAMP'9999-12-31 23:59:59.999999' AS u")
    assert rows_of(frame, 1) == [(EVER, FOREVER)]


def test_rows_are_returned_in_query_order_up_to_the_limit(spark: SparkSession) -> None:
    times = spark.range(5).selectExpr("id", "timestamp_seconds(id) AS t").orderBy("id", ascending=False)
    assert [row[0] for row in rows_of(times, 2)] == [4, 3]
    assert [row[0] for row in rows_of(times.select("id"), 2)] == [4, 3]


def test_a_field_named_variant_is_not_treated_as_a_variant(spark: SparkSession) -> None:
    frame = spark.sql("SELECT named_struct('variant', 1) AS a, array(parse_json('[1]')) AS b, array() AS c")
    assert rows_of(frame, 1) == [({"variant": 1}, "[[1]]", [])]


def test_structs_may_be_null_within_other_values(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT array(named_struct('m', 1), NULL) AS a, map('a', named_struct('m', 1), 'b', NULL) AS b, "
        "named_struct('x', if(rand() < 2, NULL, named_struct('m', 1))) AS c"
    )
    assert rows_of(frame, 1) == [([{"m": 1}, None], {"a": {"m": 1}, "b": None}, {"x": None})]


def test_keys_of_maps_may_be_structs_and_arrays(spark: SparkSession) -> None:
    frame = spark.sql("SELECT map(named_struct('a', 1), 2) AS a, array(map(array(1), map(date'2020-01-02', 3))) AS b")
    assert rows_of(frame, 1) == [({"{'a': 1}": 2}, [{"[1]": {date(2020, 1, 2): 3}}])]
