"""The worked examples A to M of the semantics of temporal tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.histories import frame, lines, told
from waterclock.temporal import (
    Counts,
    FrameStatistics,
    compute_temporal,
    denorm_temporal,
    denorm_transactional,
    union_sources,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.sampled(1)]

RECORD = "rec_exp_time timestamp, rec_is_current boolean"
# no numbers: union and window; few versions: broadcast; many rows: shuffled hash; a long key: slices of time
NUMBERS = {
    "window": None,
    "broadcast": FrameStatistics(3, 1, 2, 0),
    "hash": FrameStatistics(1_000_000, 100_000, 2, 0),
    "buckets": FrameStatistics(1_000_000, 10_000, 100, 10, 0, 2_000_000_000_000_000),
    "slices": FrameStatistics(1_000_000, 100_000, 5_000, 10),
    "sorted slices": FrameStatistics(100_000_000, 100_000, 5_000, 10),
}
by_every_plan = pytest.mark.parametrize("numbers", NUMBERS.values(), ids=NUMBERS)


def versions(spark: SparkSession, schema: str, raw: str, **said: Any) -> list[str]:
    return told(compute_temporal(frame(spark, schema, raw), "c", time="t", **said))


def temporal(spark: SparkSession, key: str, attributes: str, text: str) -> DataFrame:
    schema = f"{key} string, rec_eff_time timestamp, {attributes}, rec_exp_time timestamp"
    flag = "rec_exp_time = timestamp'9999-12-31 00:00:00Z' AS rec_is_current"
    return frame(spark, schema, text).selectExpr("*", flag)


def test_a_repeats_and_duplicates_add_nothing_once_the_start_is_filled_back(spark: SparkSession) -> None:
    schema = "c string, t timestamp, city string, status string"
    raw = "c d1 - A | c d2 Paris - | c d3 Paris A | c d4 Lyon - | c d4 Lyon -"
    assert versions(spark, schema, raw) == lines("c d1 Paris A d4 | c d4 Lyon A ∞")
    assert versions(spark, schema, raw, fill_back=False) == lines("c d1 - A d2 | c d2 Paris A d4 | c d4 Lyon A ∞")


def test_b_filled_forward_first_and_then_back(spark: SparkSession) -> None:
    raw = "c d1 x - | c d2 - 1 | c d3 y 2"
    assert versions(spark, "c string, t timestamp, a string, b int", raw) == lines("c d1 x 1 d3 | c d3 y 2 ∞")


def test_c_ties_are_merged_attribute_by_attribute_in_sequence(spark: SparkSession) -> None:
    schema, raw = "c string, t timestamp, s int, a string, b int", "c d1 1 x - | c d1 2 - 2 | c d1 3 z -"
    assert versions(spark, schema, raw, sequence="s") == lines("c d1 z 2 ∞")
    assert versions(spark, schema, raw, sequence="s", nulls="value") == lines("c d1 z - ∞")


def test_d_null_is_missing_or_a_value(spark: SparkSession) -> None:
    schema, raw = "c string, t timestamp, a string", "c d1 x | c d2 - | c d3 x"
    assert versions(spark, schema, raw) == lines("c d1 x ∞")
    assert versions(spark, schema, raw, nulls="value") == lines("c d1 x d2 | c d2 - d3 | c d3 x ∞")


@by_every_plan
def test_e_a_deleted_key_has_no_version_until_it_reappears(
    spark: SparkSession, numbers: FrameStatistics | None
) -> None:
    raw = frame(
        spark,
        "c string, t timestamp, a string, b int, gone boolean",
        "c1 d1 x 1 false | c1 d3 - - true | c1 d5 x - - | c2 d1 y 2 - | c2 d2 - - true",
    )
    made = compute_temporal(raw, "c", time="t", delete_when="gone")
    assert told(made) == lines("c1 d1 x 1 d3 | c1 d5 x - ∞ | c2 d1 y 2 d2")

    facts = frame(spark, "f string, at timestamp", "c1 d2 | c1 d3 | c1 d4 | c2 d2 | c1 d6")
    found = denorm_transactional(facts, "f", "at", made, "c", numbers=numbers)
    assert told(found) == lines("c1 d2 x 1 | c1 d3 - - | c1 d4 - - | c2 d2 - - | c1 d6 x -")


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ("c d1 1 0 | c d3 1 - | c d2 2 -", "c d1 1 0 d2 | c d2 2 0 d3 | c d3 1 0 ∞"),
        ("c d1 1 0 | c d3 - 5 | c d2 9 -", "c d1 1 0 d2 | c d2 9 0 d3 | c d3 9 5 ∞"),
    ],
)
def test_f_a_late_row_finds_the_raw_rows_after_it(spark: SparkSession, raw: str, wanted: str) -> None:
    assert versions(spark, "c string, t timestamp, a int, b int", raw) == lines(wanted)


def test_g_two_sources_are_integrated_on_one_timeline(spark: SparkSession) -> None:
    crm = frame(spark, "c string, t timestamp, name string", "c d1 Ann | c d5 Anna")
    billing = frame(spark, "t timestamp, city string, c string", "d3 Paris c | d4 Paris c")
    both = compute_temporal(union_sources(crm, billing), "c", time="t")
    assert told(both) == lines("c d1 Ann Paris d5 | c d5 Anna Paris ∞")


def test_h_an_untracked_column_has_its_last_value_in_each_version(spark: SparkSession) -> None:
    schema, raw = "c string, t timestamp, first string, second int", "c d1 x 1 | c d2 x 2 | c d3 y 3 | c d4 y 4"
    assert versions(spark, schema, raw, track=["first"]) == lines("c d1 x 2 d3 | c d3 y 4 ∞")


def test_i_rows_without_key_or_time_are_left_out_and_counted(spark: SparkSession) -> None:
    counts = Counts()
    schema, raw = "c string, t timestamp, a string", "- d1 w | c1 - w | c1 d2 x"
    assert versions(spark, schema, raw, counts=counts) == lines("c1 d2 x ∞")
    left_out = {"rows": 3, "no_key": 1, "no_time": 1, "bad_time": 0}
    assert counts.get == left_out | {"versions": 1, "keys": 1, "most_versions": 1, "long_keys": 0}


@by_every_plan
def test_j_a_version_holds_from_its_start_and_not_at_its_end(
    spark: SparkSession, numbers: FrameStatistics | None
) -> None:
    parent = temporal(spark, "p", "a string", "p d2 x d4 | p d4 y ∞")
    facts = frame(spark, "k string, at timestamp", "p d1 | p d2 | p d4- | p d4")
    found = denorm_transactional(facts, "k", "at", parent, "p", numbers=numbers)
    assert told(found) == lines("p d1 - | p d2 x | p d4- x | p d4 y")


def test_k_a_state_as_known_at_a_time_uses_only_rows_delivered_by_then(spark: SparkSession) -> None:
    stage = frame(spark, "p string, t timestamp, price int, label timestamp", "p d1 10 d1 | p d1 12 d5")
    fact = frame(spark, "p string, at timestamp", "p d3")

    def priced(known_by: str) -> list[str]:
        known = stage.where(f"label <= timestamp'{known_by}'")
        prices = compute_temporal(known, "p", time="t", sequence="label")
        return told(denorm_transactional(fact, "p", "at", prices, "p"))

    assert priced("2020-01-03 00:00:00Z") == lines("p d3 10")
    assert priced("2020-01-05 00:00:00Z") == lines("p d3 12")


@by_every_plan
def test_l_exact_spans_follow_the_parent_inside_of_a_version(
    spark: SparkSession, numbers: FrameStatistics | None
) -> None:
    child = temporal(spark, "c", "p string", "c d1 p d5 | c d5 - ∞").select(
        "c", "rec_eff_time", "rec_exp_time", "p", "rec_is_current"
    )
    parent = temporal(spark, "p", "a string", "p d2 x d4 | p d4 y ∞")
    plain = denorm_temporal(child, "p", parent, "p", numbers=numbers)
    assert told(plain) == lines("c d1 d5 p - | c d5 ∞ - -")
    exact = denorm_temporal(child, "p", parent, "p", exact=True, numbers=numbers)
    assert told(exact) == lines("c d1 d2 p - | c d2 d4 p x | c d4 d5 p y | c d5 ∞ - -")


@by_every_plan
def test_m_the_hole_after_a_delete_is_a_span_of_its_own(spark: SparkSession, numbers: FrameStatistics | None) -> None:
    child = temporal(spark, "c", "p string", "c d1 p d5").select(
        "c", "rec_eff_time", "rec_exp_time", "p", "rec_is_current"
    )
    parent = temporal(spark, "p", "a string", "p d2 x d3")
    exact = denorm_temporal(child, "p", parent, "p", exact=True, numbers=numbers)
    assert told(exact) == lines("c d1 d2 p - | c d2 d3 p x | c d3 d5 p -")
