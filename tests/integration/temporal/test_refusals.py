from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # published without types
from pyspark.errors import PySparkException

from tests.histories import frame, lines, told
from waterclock.errors import WaterclockError
from waterclock.temporal import (
    Counts,
    FrameStatistics,
    compute_temporal,
    denorm_temporal,
    denorm_transactional,
    format_attribute,
    measure_temporal,
    nulls_are_values,
    refusal_of,
    union_sources,
    valid_at,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

RAW = "c string, t timestamp, city string, gone boolean"
PARENT = "p string, city string, rec_eff_time timestamp, rec_exp_time timestamp, rec_is_current boolean"
STOPPED = (PySparkException, Py4JJavaError)  # the latter if a broadcast stopped
FACTS = "p string, at timestamp, city_home string"


def refused(work: Callable[[], Any]) -> WaterclockError:
    with pytest.raises(WaterclockError) as caught:
        work()
    return caught.value


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        ({"natural_id": "d"}, "E301", "unknown column d"),
        ({"natural_id": []}, "E305", "a key without columns"),
        ({"natural_id": ["c", "C"]}, "E308", "duplicate columns: c"),
        ({"time": "tt"}, "E301", "unknown column tt"),
        ({"time": "city"}, "E302", "city is of type string, which is not an instant"),
        ({"time": "gone", "zone": "Asia/Tokyo"}, "E302", "gone is of type boolean, which is not an instant"),
        ({"time": "city", "zone": "Asia/Tokio"}, "E310", "unknown zone 'Asia/Tokio'"),
        ({"sequence": "seq"}, "E301", "unknown column seq"),
        ({"track": ["cty"]}, "E301", "unknown column cty"),
        ({"delete_when": "gon"}, "E301", "unknown column gon"),
        ({"nulls": {"cty": "value"}}, "E301", "unknown column cty"),
        ({"nulls": "values"}, "E310", "unknown value 'values'"),
        ({"nulls": {"city": "empty"}}, "E310", "unknown value 'empty'"),
    ],
)
def test_raw_rows_are_refused_before_anything_runs(
    spark: SparkSession, arguments: dict[str, Any], code: str, what: str
) -> None:
    raw = frame(spark, RAW, "c d1 Paris false")
    error = refused(lambda: compute_temporal(raw, **{"natural_id": "c", "time": "t", **arguments}))
    assert (error.code, error.what) == (code, what)


def test_a_misspelt_name_is_reported_with_the_nearest_name(spark: SparkSession) -> None:
    error = refused(lambda: compute_temporal(frame(spark, RAW, ""), "c", time="t", track="citty"))
    assert error.render() == (
        "E301 unknown column citty\n  compute_temporal\nwhy  the frame has city, gone\nfix  did you mean city?"
    )


@pytest.mark.parametrize("kind", ["map<string, int>", "array<map<string, int>>", "struct<a: variant>"])
def test_columns_of_types_without_comparison_are_refused(spark: SparkSession, kind: str) -> None:
    raw = spark.createDataFrame([], f"c string, t timestamp, a {kind}")
    assert refused(lambda: compute_temporal(raw, "c", time="t")).code == "E303"
    assert refused(lambda: compute_temporal(raw, "a", time="t")).code == "E303"


def test_versions_are_not_computed_of_versions(spark: SparkSession) -> None:
    made = compute_temporal(frame(spark, RAW, "c d1 Paris false"), "c", time="t")
    error = refused(lambda: compute_temporal(made, "c"))
    assert (error.code, error.what) == (
        "E308",
        "the rows already have columns that compute_temporal adds: rec_exp_time, rec_is_current",
    )


def test_a_row_without_key_or_time_fails_the_query_unless_such_rows_are_counted(spark: SparkSession) -> None:
    for raw, said in (("- d1 Paris false", "NULL, 2020-01-01 00:00:00"), ("c - Paris false", "c, NULL")):
        made = compute_temporal(frame(spark, RAW, raw), "c", time="t")
        for action in (made.collect, made.write.format("noop").mode("overwrite").save):
            with pytest.raises(PySparkException, match="E304 a row without key or time") as stopped:
                action()
            refusal = refusal_of(stopped.value)
            assert refusal is not None
            assert (refusal.code, refusal.what) == ("E304", "a row without key or time")
            assert refusal.why == f"its key and time are {said}"


def test_rows_declared_as_placed_are_not_checked_for_missing_keys(spark: SparkSession) -> None:
    raw = frame(spark, RAW, "c d1 Paris false | - d2 Rome false")
    made = compute_temporal(raw, "c", time="t", placed=True)
    assert sorted((row.c or "", row.city) for row in made.collect()) == [("", "Rome"), ("c", "Paris")]


def test_all_rows_left_out_are_counted_too(spark: SparkSession) -> None:
    counts = Counts()
    assert told(compute_temporal(frame(spark, RAW, "- d1 x false | c - y false"), "c", time="t", counts=counts)) == []
    assert counts.get == {
        "rows": 2,
        "no_key": 1,
        "no_time": 1,
        "bad_time": 0,
        "versions": 0,
        "keys": 0,
        "most_versions": 0,
        "long_keys": 0,
    }
    assert counts.numbers() == FrameStatistics(0, 0, 0, 0)


def test_counts_belong_to_one_result(spark: SparkSession) -> None:
    counts = Counts()
    compute_temporal(frame(spark, RAW, ""), "c", time="t", counts=counts)
    assert refused(lambda: compute_temporal(frame(spark, RAW, ""), "c", time="t", counts=counts)).code == "E312"


def test_counts_that_compute_temporal_did_not_fill_have_no_numbers() -> None:
    assert refused(Counts().numbers).code == "E312"


def test_a_parent_that_is_not_temporal_is_refused(spark: SparkSession) -> None:
    facts, raw = frame(spark, FACTS, ""), frame(spark, "p string, city string, rec_eff_time timestamp", "")
    error = refused(lambda: denorm_transactional(facts, "p", "at", raw, "p"))
    assert error.code == "E306"
    assert error.what == "not a temporal frame: it has no rec_exp_time timestamp, rec_is_current boolean"
    assert refused(lambda: denorm_temporal(facts, "p", frame(spark, PARENT, ""), "p")).code == "E306"
    assert refused(lambda: valid_at(facts, datetime(2020, 1, 1))).code == "E306"  # noqa: DTZ001 - frame checked first
    ntz = frame(spark, PARENT.replace("rec_exp_time timestamp", "rec_exp_time timestamp_ntz"), "")
    assert refused(lambda: denorm_transactional(facts, "p", "at", ntz, "p")).code == "E306"


def test_a_time_without_zone_is_refused(spark: SparkSession) -> None:
    naive = datetime(2020, 1, 1)  # noqa: DTZ001 - naive times are refused
    assert refused(lambda: valid_at(frame(spark, PARENT, ""), naive)).code == "E302"


def test_clashes_of_names_are_listed(spark: SparkSession) -> None:
    facts, parent = frame(spark, "p string, at timestamp, City string", ""), frame(spark, PARENT, "")
    error = refused(lambda: denorm_transactional(facts, "p", "at", parent, "p"))
    assert (error.code, error.what) == ("E308", "the child already has city")


def test_a_role_is_used_once(spark: SparkSession) -> None:
    facts, parent = frame(spark, FACTS, ""), frame(spark, PARENT, "")
    error = refused(lambda: denorm_transactional(facts, "p", "at", parent, "p", "home"))
    assert (error.code, error.what) == ("E307", "role home used twice")
    assert denorm_transactional(facts, "p", "at", parent, "p", "work").columns == ["p", "at", "city_home", "city_work"]


def test_keys_pair_in_number_and_type(spark: SparkSession) -> None:
    facts, parent = frame(spark, "p int, q string, at timestamp", ""), frame(spark, PARENT, "")
    error = refused(lambda: denorm_transactional(facts, "p", "at", parent, "p"))
    assert (error.code, error.what) == ("E305", "keys of different types: p is int, p string")
    assert refused(lambda: denorm_transactional(facts, ["p", "q"], "at", parent, "p")).code == "E305"


def overlapping(spark: SparkSession) -> DataFrame:
    return frame(spark, PARENT, "p x d1 d5 false | p y d3 ∞ true | q z d1 ∞ true")


def test_periods_that_overlap_are_refused(spark: SparkSession) -> None:
    error = refused(lambda: measure_temporal(overlapping(spark), "p"))
    assert (error.code, error.why) == ("E309", "the key p is an example")
    facts = frame(spark, FACTS, "p d4 -")
    child = overlapping(spark).drop("city").where("p = 'q'").selectExpr("'p' AS p", "* except (p)")
    for joined in (
        denorm_transactional(facts, "p", "at", overlapping(spark), "p"),
        denorm_temporal(child, "p", overlapping(spark), "p", exact=True),
    ):
        with pytest.raises(STOPPED, match="E309 periods of a key") as stopped:
            joined.collect()
        refusal = refusal_of(stopped.value)
        assert refusal is not None
        assert (refusal.code, refusal.why) == ("E309", "the key is p")


def test_an_error_of_a_query_on_a_result_is_not_reported_as_a_refusal(spark: SparkSession) -> None:
    facts, made = frame(spark, FACTS, ""), compute_temporal(frame(spark, RAW, ""), "c", time="t")
    for result in (made, denorm_transactional(facts, "p", "at", overlapping(spark), "p")):
        with pytest.raises(PySparkException, match="UNRESOLVED_COLUMN") as raised:
            result.select("nothing").collect()
        assert refusal_of(raised.value) is None


@pytest.mark.parametrize("bad", ["p x d3 d3 false", "p x d3 d2 false", "- x d1 ∞ true", "p x - ∞ true"])
def test_invalid_validity_periods_are_refused(spark: SparkSession, bad: str) -> None:
    assert refused(lambda: measure_temporal(frame(spark, PARENT, bad), "p")).code == "E309"


def test_sources_agree_in_types(spark: SparkSession) -> None:
    one = frame(spark, "c string, t timestamp, n int", "c d1 1")
    for kind in ("c string, t timestamp, n bigint", "c string, t timestamp_ntz", "c int, t timestamp"):
        assert refused(partial(union_sources, one, frame(spark, kind, ""))).code == "E311"
    assert refused(union_sources).code == "E311"
    assert refused(lambda: union_sources(one, frame(spark, "C string, t timestamp", ""))).code == "E308"
    assert refused(lambda: nulls_are_values(one, "m")).code == "E301"


def test_an_unknown_format_is_refused() -> None:
    error = refused(lambda: format_attribute("city", "uper"))
    assert (error.code, error.fix) == ("E310", "did you mean upper?")


def test_names_may_have_any_signs(spark: SparkSession) -> None:
    raw = frame(spark, "`the.key` string, `a time` timestamp, `b``c` string, `k0` int", "p d1 x 1 | p d2 y 1")
    made = compute_temporal(raw, "the.key", time="a time")
    plainly = made.toDF("k", "rec_eff_time", "b", "k0", "rec_exp_time", "rec_is_current")
    assert told(plainly) == lines("p d1 x 1 d2 | p d2 y 1 ∞")
    facts = frame(spark, "`the.key` string, `at` timestamp, `eff` int, `a0` int", "p d2 5 6")
    found = denorm_transactional(facts, "the.key", "at", made, "the.key", "x.y")
    assert found.columns == ["the.key", "at", "eff", "a0", "b`c_x.y", "k0_x.y"]
    assert told(found.toDF("k", "at", "eff", "a0", "b", "k0")) == lines("p d2 5 6 y 1")
