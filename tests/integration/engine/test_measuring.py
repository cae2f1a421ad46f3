"""Measures of a batch are computed while it is written, stored with it, and compared with earlier batches."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described, labels
from waterclock.batches.audit_records import Revision

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT shop.orders PARTITIONED (id BIGINT, amount DECIMAL(10, 2), at TIMESTAMP) FROM shop.orders
  EVERY DAY BY DATA TIME at
  {said};
"""


def orders(counts: dict[int, int]) -> list[tuple[int, str, str]]:
    return [(n, f"{n}.50", f"2020-01-{at:02d} 12:00:00") for at, count in counts.items() for n in range(count)]


def shop(tmp_path: Path, spark: SparkSession, counts: dict[int, int], said: str) -> Tiny:
    tiny = Tiny(tmp_path, spark)
    tiny.source("orders", "id INTEGER, amount TEXT, at TEXT", orders(counts))
    tiny.declare(FLOW.format(said=said))
    return tiny


def revision(tiny: Tiny, at: int) -> Revision:
    with tiny.ledger() as ledger:
        made = ledger.past.audit("shop.orders", day(at)).current
    assert made is not None
    assert made.revision is not None
    return made.revision


def measures(tiny: Tiny, at: int) -> dict[str, Any]:
    return dict(revision(tiny, at).measures)


def test_measures_are_stored_with_their_types_and_can_be_queried(tmp_path: Path, spark: SparkSession) -> None:
    tiny = shop(tmp_path, spark, {1: 3, 2: 2}, "MEASURE PROFILE, sum(amount) AS revenue, max(at) AS newest")
    assert not (outcome := tiny.run(day(3))).failed, described(outcome)
    found = measures(tiny, 1)["measured"]
    assert found["revenue"] == {"value": "4.50", "type": "decimal(20,2)"}
    assert found["newest"]["value"] == "2020-01-01 12:00:00"
    assert found["rows"] == {"value": "3", "type": "bigint"}
    assert {name: found[f"id.{name}"]["value"] for name in ("nulls", "distinct", "min", "max")} == {
        "nulls": "0",
        "distinct": "3",
        "min": "0",
        "max": "2",
    }
    asked = "SELECT timelabel, value, type FROM waterclock.measures WHERE table = 'shop.orders' AND name = 'revenue'"
    assert tiny.rows(f"{asked} ORDER BY timelabel") == [
        (labels(1)[0], "4.50", "decimal(20,2)"),
        (labels(2)[0], "2.00", "decimal(20,2)"),
    ]


def jobs_of_a_batch(tmp_path: Path, spark: SparkSession, said: str) -> int:
    tiny = shop(tmp_path, spark, {1: 3, 2: 2}, said)
    assert not tiny.run(day(2)).failed
    before = int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())
    assert not (outcome := tiny.run(day(3))).failed, described(outcome)
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()) - before


def test_measures_and_rules_that_compare_them_add_no_spark_job(tmp_path: Path, spark: SparkSession) -> None:
    said = """MEASURE PROFILE, sum(amount) AS revenue
      EXPECT sum(amount) > 0.1 * last_good(sum(amount)), count(*) > usual(count(*)) / 2"""
    bare = jobs_of_a_batch(tmp_path / "bare", spark, "")
    assert jobs_of_a_batch(tmp_path / "measured", spark, said) == bare


def queries_of(tiny: Tiny, spark: SparkSession, now: int) -> int:
    """Run, and count the queries with a job."""
    store = spark._jsparkSession.sharedState().statusStore()
    settled = spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty
    settled()
    last = max((each.executionId() for each in executions(store)), default=-1)
    assert not (outcome := tiny.run(day(now))).failed, described(outcome)
    settled()
    return sum(each.executionId() > last and each.jobs().size() > 0 for each in executions(store))


def executions(store: Any) -> list[Any]:
    found = store.executionsList()
    return [found.apply(at) for at in range(found.size())]


def test_rules_and_measures_of_a_batch_with_quarantine_add_one_scan(tmp_path: Path, spark: SparkSession) -> None:
    asked = """count(DISTINCT id) > 0 AS ids ELSE WARN, count(DISTINCT amount) > 0 AS amounts ELSE WARN,
      count(*) >= 0.1 * last_good(count(*)) AS not_shrunk ELSE WARN MEASURE PROFILE, min(id) AS least"""
    counts = []
    for name, said in (("bare", ""), ("asked", f", {asked}")):
        tiny = shop(tmp_path / name, spark, {1: 3, 2: 2}, f"EXPECT id <> 1 ELSE QUARANTINE{said}")
        tiny.run(day(2))
        counts.append(queries_of(tiny, spark, 3))
    assert counts == [1, 2]


def test_batch_rules_are_checked_for_all_labels_of_a_group_at_once(tmp_path: Path, spark: SparkSession) -> None:
    said = "EXPECT count(DISTINCT id) > 1 AS ids ELSE WARN, count(*) > 2 AS many ELSE WARN"
    counts = []
    for name, days in (("two", 2), ("eight", 8)):
        tiny = shop(tmp_path / name, spark, dict.fromkeys(range(1, days + 1), 3) | {2: 1}, said)
        counts.append(queries_of(tiny, spark, days + 1))
        warned = [f"{at}" for at in range(1, days + 1) if measures(tiny, at)["warnings"]]
        assert warned == ["2"]
        assert len(measures(tiny, 2)["warnings"]) == 2
    assert counts[0] == counts[1] == 2  # the write, and the checks of its rows


def restate(tiny: Tiny, number: int) -> None:
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.orders", [day(number)], "recollect", who="ann")
    assert not (outcome := tiny.run(day(5))).failed, described(outcome)


SHRINKS = "EXPECT count(*) >= 0.5 * last_good(count(*)) AS not_shrunk ELSE {action}"


def test_a_batch_is_held_that_shrank_since_the_last_good_one(tmp_path: Path, spark: SparkSession) -> None:
    tiny = shop(tmp_path, spark, {1: 10, 2: 9, 3: 4, 4: 4}, SHRINKS.format(action="HOLD"))
    assert not (outcome := tiny.run(day(2))).failed, described(outcome)
    assert measures(tiny, 1)["passed over"] == ["not_shrunk: no batch before it for last_good(count(*))"]
    assert measures(tiny, 1)["warnings"] == []
    outcome = tiny.run(day(5))
    assert tiny.done("shop.orders") == labels(1, 2)
    [error] = {
        report.error.what for report in outcome.failed if report.error and labels(3)[0] in str(report.error.where)
    }
    assert error == (
        "shop.orders is held: not_shrunk: the batch is not (count(*) >= 0.5 * last_good(count(*))), "
        "where count(*) is 4; last_good(count(*)) is 9"
    )


def test_labels_of_one_group_are_compared_with_each_other(tmp_path: Path, spark: SparkSession) -> None:
    tiny = shop(tmp_path, spark, {1: 10, 2: 4, 3: 4, 5: 1}, SHRINKS.format(action="WARN"))
    assert not (outcome := tiny.run(day(6))).failed, described(outcome)
    assert [len(measures(tiny, at)["warnings"]) for at in (1, 2, 3, 4, 5)] == [0, 1, 0, 1, 0]
    assert measures(tiny, 4)["measured"]["count(*)"] == {"value": "0", "type": "bigint"}


def test_a_level_that_moved_is_a_trend_where_each_batch_is_as_the_one_before(
    tmp_path: Path, spark: SparkSession
) -> None:
    counts = {at: 11 if at <= 16 else 8 for at in range(1, 32)}
    said = "EXPECT trend(count(*), 14) > 0.8 AS steady ELSE WARN, trend(sum(amount), 14) < 2 AS grows ELSE WARN"
    tiny = shop(tmp_path, spark, counts, said)
    assert not (outcome := tiny.run(day(31) + timedelta(days=1))).failed, described(outcome)
    late = "steady: too few batches before it for trend(count(*), 14)"
    assert late in measures(tiny, 10)["passed over"]
    assert [len(measures(tiny, at)["warnings"]) for at in (10, 20, 24, 31)] == [0, 0, 0, 1]
    [warning] = measures(tiny, 31)["warnings"]
    # 9 to 12: one is added to counts
    assert warning == "steady: the batch is not (trend(count(*), 14) > 0.8), where trend(count(*), 14) is 0.75"


def test_of_rows_that_are_set_aside_nothing_is_measured(tmp_path: Path, spark: SparkSession) -> None:
    said = "EXPECT id <> 1 ELSE QUARANTINE, max(id) > last_good(max(id)) ELSE WARN MEASURE PROFILE, min(id) AS least"
    tiny = shop(tmp_path, spark, {1: 2, 2: 3}, said)
    assert not (outcome := tiny.run(day(3))).failed, described(outcome)
    found = [measures(tiny, at)["measured"] for at in (1, 2)]
    assert [(each["rows"]["value"], each["max(id)"]["value"], each["least"]["value"]) for each in found] == [
        ("1", "0", "0"),
        ("2", "2", "0"),
    ]
    assert found[1]["id.distinct"]["value"] == "2"
    assert measures(tiny, 2)["quarantined"] == 1


def test_a_batch_with_a_hot_key_is_held(tmp_path: Path, spark: SparkSession) -> None:
    said = """MEASURE skew(amount) AS skew
      EXPECT skew(amount) < 5 AS even ELSE HOLD, skew(id) <= 2 * last_good(skew(id)) AS as_before ELSE WARN"""
    even = [(n, f"{n}.50", "2020-01-01 12:00:00") for n in range(8)]
    hot = [(n, f"{n if n < 8 else 0}.50", "2020-01-02 12:00:00") for n in range(32)]
    tiny = Tiny(tmp_path, spark)
    tiny.source("orders", "id INTEGER, amount TEXT, at TEXT", even + hot)
    tiny.declare(FLOW.format(said=said))
    outcome = tiny.run(day(3))
    assert tiny.done("shop.orders") == labels(1)
    assert measures(tiny, 1)["measured"]["skew"] == {"value": "1.0", "type": "double"}
    [error] = [str(report.error) for report in outcome.failed if labels(2)[0] in str(report.error)]
    assert "even: the batch is not (skew(amount) < 5)" in error
    tiny.shop("DELETE FROM orders WHERE id > 15 AND at LIKE '2020-01-02%'")
    with tiny.ledger() as ledger:
        ledger.decisions.retry("shop.orders", [day(2)], who="ann")
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert tiny.done("shop.orders") == labels(1, 2, 3)
    assert float(measures(tiny, 2)["measured"]["skew"]["value"]) == pytest.approx(9 * 8 / 16, rel=0.1)
    assert measures(tiny, 3)["measured"]["skew"]["value"] == "1.0", "of no rows"


def test_a_publish_is_measured_though_it_would_be_linked(tmp_path: Path, spark: SparkSession) -> None:
    tiny = shop(tmp_path, spark, {1: 2}, "")
    flow = FLOW.format(said="") + "PUBLISH shop.orders TO shop.out MEASURE sum(amount) AS revenue;"
    tiny.declare(flow)
    assert not (outcome := tiny.run(day(2))).failed, described(outcome)
    assert tiny.rows("SELECT table, name, value FROM waterclock.measures") == [("shop.out", "revenue", "2.00")]


def test_an_old_label_is_compared_with_those_before_it(tmp_path: Path, spark: SparkSession) -> None:
    tiny = shop(tmp_path, spark, {1: 4, 2: 4, 3: 10, 4: 10}, SHRINKS.format(action="WARN"))
    assert not tiny.run(day(5)).failed
    tiny.shop("DELETE FROM orders WHERE at LIKE '2020-01-02%' AND id > 2")
    restate(tiny, 2)
    assert measures(tiny, 2)["measured"]["count(*)"]["value"] == "3"
    assert measures(tiny, 2)["warnings"] == []
    tiny.shop("DELETE FROM orders WHERE at LIKE '2020-01-02%' AND id > 0")
    restate(tiny, 2)
    assert len(measures(tiny, 2)["warnings"]) == 1


def test_a_rule_that_is_new_knows_how_many_rows_there_were_before(tmp_path: Path, spark: SparkSession) -> None:
    tiny = shop(tmp_path, spark, {1: 10, 2: 4}, "")
    assert not tiny.run(day(2)).failed
    both = SHRINKS.format(action="WARN") + ", max(id) < 2 * last_good(max(id)) AS grows"
    tiny.declare(FLOW.format(said=both))
    assert not tiny.run(day(3)).failed
    found = measures(tiny, 2)
    assert len(found["warnings"]) == 1
    assert found["passed over"] == ["grows: no batch before it for last_good(max(id))"]


def test_a_comparison_without_an_answer_names_its_rule(tmp_path: Path, spark: SparkSession) -> None:
    said = "EXPECT count(*) / last_good(count(*)) > 0.5 AS share, count(*) < 100 + last_good(count(*)) AS few"
    tiny = shop(tmp_path, spark, {2: 3}, said)
    outcome = tiny.run(day(3))
    [error] = {report.error for report in outcome.failed if report.error}
    assert error.code == "E757"
    assert error.what.startswith("rule share")
    assert "DIVIDE_BY_ZERO" in str(error.why)
