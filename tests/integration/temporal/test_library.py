from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as sql

from tests.histories import frame, lines, told
from waterclock.temporal import (
    OPEN,
    Counts,
    compute_temporal,
    denorm_temporal,
    denorm_transactional,
    format_attribute,
    nulls_are_values,
    union_sources,
    valid_at,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PARENT = "p string, city string, rec_eff_time timestamp, rec_exp_time timestamp, rec_is_current boolean"


@contextmanager
def session_in(spark: SparkSession, zone: str) -> Iterator[None]:
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize(
    ("text", "spelt", "replaced", "wanted"),
    [
        ("  nEW \t\n orLEANs ", "upper", None, "NEW ORLEANS"),
        ("nEW orLEANs", "lower", None, "new orleans"),
        ("nEW orLEANs", "initcap", None, "New Orleans"),
        (" nEW   orLEANs", "none", None, "nEW orLEANs"),
        ("\u00a0a\u00a0\u2003b\u3000", "none", None, "a b"),
        ("\u0085a\u0085\tb\u0085", "none", None, "a b"),
        ("\u0085", "none", "?", "?"),
        ("\t", "upper", None, None),
        ("", "none", "?", "?"),
        (None, "upper", "n/a", "n/a"),
        ("jean-paul o'neil mcdonald", "initcap", None, "Jean-paul O'neil Mcdonald"),
        ("straße", "upper", None, "STRASSE"),
    ],
)
def test_a_text_is_cleaned_and_spelt(
    spark: SparkSession, text: str | None, spelt: str, replaced: str | None, wanted: str | None
) -> None:
    df = spark.createDataFrame([(text,)], "a string")
    for value in ("a", sql.col("a")):
        assert df.select(format_attribute(value, spelt, replaced)).first() == (wanted,)


def test_versions_in_effect_at_a_time(spark: SparkSession) -> None:
    parent = frame(spark, PARENT, "p x d1 d3 false | p y d3 ∞ true | q z d4 ∞ true")
    at = datetime(2020, 1, 3, tzinfo=UTC)
    for time in (at, sql.lit(at)):
        assert told(valid_at(parent, time)) == lines("p y d3 ∞")
    assert told(valid_at(parent, OPEN)) == []


def test_a_future_version_is_current_once_it_is_known(spark: SparkSession) -> None:
    raw = frame(spark, "c string, t timestamp, a string", "c d1 x").union(
        spark.sql("SELECT 'c', timestamp'9000-01-01 00:00:00Z', 'y'")
    )
    assert compute_temporal(raw, "c", time="t").where("rec_is_current").select("a").collect() == [("y",)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_times_become_instants_in_the_declared_zone_whatever_the_session_s(spark: SparkSession, zone: str) -> None:
    with session_in(spark, zone):
        for time in (
            "DATE'2020-07-01'",
            "TIMESTAMP_NTZ'2020-07-01 00:00:00'",
            "'2020-07-01'",
            "' 2020-07-01 00:00:00 '",
            "'2020-06-30T22:00:00Z'",
            "'2020-07-01T01:30:00+03:30'",
            "TIMESTAMP'2020-06-30 22:00:00Z'",
        ):
            raw = spark.sql(f"SELECT 'c' AS c, {time} AS t")
            made = compute_temporal(raw, "c", time="t", zone="Europe/Berlin")
            found = made.select(sql.unix_micros("rec_eff_time"), sql.unix_micros("rec_exp_time")).collect()
            assert found == [(1_593_554_400_000_000, 253_402_214_400_000_000)], time


def test_both_hours_of_an_autumn_night_are_kept_apart_in_any_session(spark: SparkSession) -> None:
    with session_in(spark, "America/New_York"):
        raw = spark.sql(
            "SELECT 'c' AS c, timestamp_micros(col1) AS t, col2 AS a "
            "FROM VALUES (1604208600000000, 'first'), (1604212200000000, 'second')"
        )
        made = compute_temporal(raw, "c", time="t").select("a", sql.unix_micros("rec_eff_time")).collect()
        assert sorted(made) == [("first", 1604208600000000), ("second", 1604212200000000)]
        local = spark.sql("SELECT 'c' AS c, TIMESTAMP_NTZ'2020-11-01 01:30:00.25' AS t")
        made = (
            compute_temporal(local, "c", time="t", zone="Europe/London")
            .select(sql.unix_micros("rec_eff_time"))
            .collect()
        )
        assert made == [(1604194200250000,)]


def test_a_text_that_is_no_time_is_left_out_and_counted(spark: SparkSession) -> None:
    counts = Counts()
    raw = frame(spark, "c string, t string, a string", "c 2020-01-01 x | c 2020-13-01 y | c soon y | c - y")
    assert told(compute_temporal(raw, "c", time="t", zone="UTC", counts=counts)) == lines("c d1 x ∞")
    assert counts.get.items() >= {"rows": 4, "no_time": 1, "bad_time": 2, "no_key": 0}.items()


def test_a_source_may_say_empty_where_others_say_nothing(spark: SparkSession) -> None:
    crm = frame(spark, "c string, t timestamp, name string", "c d1 Ann | c d5 Anna")
    web = frame(spark, "c string, t timestamp, city string, name string", "c d2 Paris - | c d3 - - | c d4 Lyon -")
    plain = compute_temporal(union_sources(crm, web), "c", time="t")
    assert told(plain.select("c", "rec_eff_time", "name", "city", "rec_exp_time", "rec_is_current")) == lines(
        "c d1 Ann Paris d4 | c d4 Ann Lyon d5 | c d5 Anna Lyon ∞"
    )
    both = compute_temporal(union_sources(crm, nulls_are_values(web, "city")), "c", time="t")
    assert told(both.select("c", "rec_eff_time", "name", "city", "rec_exp_time", "rec_is_current")) == lines(
        "c d1 Ann Paris d3 | c d3 Ann - d4 | c d4 Ann Lyon d5 | c d5 Anna Lyon ∞"
    )
    names = compute_temporal(union_sources(crm, nulls_are_values(web, "name")), "c", time="t", track="name")
    assert told(names.select("c", "rec_eff_time", "name", "rec_exp_time", "rec_is_current")) == lines(
        "c d1 Ann d2 | c d2 - d5 | c d5 Anna ∞"
    )


def test_a_delete_condition_deletes_keys_and_its_column_is_kept(spark: SparkSession) -> None:
    raw = frame(spark, "c string, t timestamp, op string, a int", "c d1 i 1 | c d2 d - | c d4 i 2")
    wanted = lines("c d1 i 1 d2 | c d4 i 2 ∞")
    for when in ("op = 'd'", sql.col("op") == "d"):
        assert told(compute_temporal(raw, "c", time="t", delete_when=when)) == wanted


def test_delete_and_data_at_one_time_are_ordered_by_sequence_else_data_wins(spark: SparkSession) -> None:
    raw = frame(
        spark, "c string, t timestamp, s int, gone boolean, a int", "c d1 1 false 1 | c d2 2 true - | c d2 1 false 2"
    )
    assert told(compute_temporal(raw, "c", time="t", delete_when="gone", sequence="s")) == lines("c d1 1 d2")
    assert told(compute_temporal(raw.drop("s"), "c", time="t", delete_when="gone")) == lines("c d1 1 d2 | c d2 2 ∞")


def test_history_that_was_loaded_late_may_reach_back(spark: SparkSession) -> None:
    parent = frame(spark, PARENT, "p x d3 d4 false | p y d5 ∞ true")
    facts = frame(spark, "p string, at timestamp", "p d1 | p d4 | p d6")
    found = denorm_transactional(facts, "p", "at", parent, "p", before_first="extend")
    assert told(found) == lines("p d1 x | p d4 - | p d6 y")


def test_roles_and_composite_keys_chain(spark: SparkSession) -> None:
    raw = frame(spark, "area string, id int, t timestamp, city string", "a 1 d1 Paris | b 1 d1 Rome | a 2 d1 Oslo")
    places = compute_temporal(raw, ["area", "id"], time="t")
    orders = frame(spark, "area string, from_id int, to_id int, at timestamp", "a 1 2 d2 | b 1 - d2 | - 1 1 d2")
    once = denorm_transactional(orders, ["area", "from_id"], "at", places, ["area", "id"], "from")
    both = denorm_transactional(once, ["area", "to_id"], "at", places, ["area", "id"], "to")
    assert told(both) == lines("a 1 2 d2 Paris Oslo | b 1 - d2 Rome - | - 1 1 d2 - -")


def test_a_chain_of_temporal_frames_is_rolled_up_from_the_top(spark: SparkSession) -> None:
    groups = compute_temporal(frame(spark, "g string, t timestamp, name string", "g d1 old | g d3 new"), "g", time="t")
    products = compute_temporal(frame(spark, "p string, t timestamp, g string", "p d2 g"), "p", time="t")
    sales = frame(spark, "p string, sold timestamp", "p d2 | p d4")
    known = {False: "p d2 g old | p d4 g old", True: "p d2 g old | p d4 g new"}
    for exact, wanted in known.items():
        flat = denorm_temporal(products, "g", groups, "g", "group", exact=exact)
        assert told(denorm_transactional(sales, "p", "sold", flat, "p")) == lines(wanted)


def test_equal_neighbours_of_a_pruned_parent_are_one_span(spark: SparkSession) -> None:
    raw = frame(spark, "p string, t timestamp, a string, b int", "p d2 x 1 | p d3 x 2 | p d4 y 2")
    parent = compute_temporal(raw, "p", time="t").drop("b")
    child = frame(
        spark,
        "c string, p string, rec_eff_time timestamp, rec_exp_time timestamp, rec_is_current boolean",
        "c p d1 ∞ true",
    )
    exact = denorm_temporal(child, "p", parent, "p", exact=True)
    assert told(exact) == lines("c p d1 d2 - | c p d2 d4 x | c p d4 ∞ y")


def test_a_parent_of_keys_alone_splits_nothing(spark: SparkSession) -> None:
    child = frame(spark, PARENT, "p x d1 d3 false")
    only_keys = child.drop("city")
    assert told(denorm_temporal(child, "p", only_keys, "p", exact=True)) == lines("p x d1 d3")
    assert told(denorm_temporal(child, "p", only_keys, "p")) == lines("p x d1 d3")


def empty(spark: SparkSession, schema: str) -> DataFrame:
    return spark.createDataFrame([], schema)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("exact", [False, True])
def test_empty_frames_give_empty_frames(spark: SparkSession, exact: bool) -> None:
    counts = Counts()
    none = compute_temporal(empty(spark, "p string, t timestamp, a string"), "p", time="t", counts=counts)
    assert told(none) == []
    assert set(counts.get.values()) == {0}
    child = frame(spark, PARENT, "p x d1 ∞ true")
    assert told(denorm_temporal(child, "p", none, "p", exact=exact)) == lines("p x d1 ∞ -")
    assert told(denorm_temporal(none, "p", child, "p", exact=exact)) == []


def test_a_kept_column_starts_no_version_and_has_the_value_of_the_first_row(spark: SparkSession) -> None:
    schema, rows = "c string, t timestamp, s int, a string, label string", "c d1 1 x L1 | c d2 1 x L2 | c d3 1 y L3"
    raw = frame(spark, schema, f"{rows} | c d3 2 - L4 | c d4 1 y -")
    made = compute_temporal(raw, "c", time="t", sequence="s", keep="label")
    assert told(made) == lines("c d1 x L1 d3 | c d3 y L4 ∞")
