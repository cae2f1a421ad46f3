"""EXPECT rules OVER TABLE on folds and publishes: batches they hold or refuse, and their cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, labels
from waterclock.batches.ledger_snapshot import FOREVER
from waterclock.cli.actions.release import release_batches
from waterclock.engine.reads.as_of import list_state_steps
from waterclock.files.filesystem import entry_path, remove_folder
from waterclock.storage.folds.state_after import resulting_state
from waterclock.storage.slices.manifest import read_manifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = "id INTEGER, amount INTEGER, at TEXT"
ROWS = [(1, 5, "2020-01-01 10:00:00"), (2, 6, "2020-01-02 10:00:00"), (1, 7, "2020-01-03 10:00:00")]
FLOW = """
COLLECT shop.sent PARTITIONED (id BIGINT, amount INT, at TIMESTAMP) FROM shop.sent EVERY DAY BY DATA TIME at;
TRANSFORM shop.orders (id KEY, *) {mode} {rule} AS SELECT * FROM shop.sent;
"""


def shop(root: Path, spark: SparkSession, flow: str) -> Tiny:
    tiny = Tiny(root, spark)
    tiny.source("sent", COLUMNS, ROWS)
    tiny.declare(flow)
    return tiny


def restate(tiny: Tiny, number: int) -> None:
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.sent", [day(number)], "recollect", who="ann")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", ["MERGE ORDER BY at", "TEMPORAL AT at"])
def test_a_state_that_breaks_a_table_rule_is_held_before_it_is_visible(
    tmp_path: Path, spark: SparkSession, mode: str
) -> None:
    rule = "EXPECT sum(amount) <= 12 AS within OVER TABLE ELSE HOLD"
    tiny = shop(tmp_path, spark, FLOW.format(mode=mode, rule=rule))
    [report] = tiny.run(day(4)).failed
    assert report.error is not None
    assert (report.error.code, report.error.where) == ("E755", f"shop.orders@{labels(3)[0]}")
    assert "within: the table would not be (sum(amount) <= 12)" in report.error.what
    assert tiny.rows("SELECT sum(amount) FROM shop.orders") == [(11,)]
    # an earlier label that is made again is checked against the table that it produces
    tiny.shop("UPDATE sent SET amount = 8 WHERE id = 2")
    restate(tiny, 2)
    assert {str(it.error.where) for it in tiny.run(day(4)).failed if it.error} == {f"shop.orders@{labels(2)[0]}"}
    assert tiny.rows("SELECT sum(amount) FROM shop.orders") == [(11,)]
    assert release_batches(tmp_path, None, f"shop.orders@{labels(2)[0]}", "it may", None, yes=True, is_json=False) == 0
    assert tiny.rows("SELECT sum(amount) FROM shop.orders") == [(13,)]
    tiny.shop("UPDATE sent SET amount = 1 WHERE id = 2")
    restate(tiny, 2)
    assert not (outcome := tiny.run(day(4))).failed, described(outcome)
    with tiny.ledger() as ledger:
        ledger.decisions.retry("shop.orders", [day(3)], who="ann")
    is_held = mode.startswith("TEMPORAL")  # TEMPORAL keeps the 5 next to the 7
    assert bool(tiny.run(day(4)).failed) == is_held
    assert tiny.rows("SELECT sum(amount) FROM shop.orders") == [(6 if is_held else 8,)]


@pytest.mark.parametrize(
    "of",
    [
        "shop.sent TO out.sent",
        pytest.param("shop.sent TO out.sent MERGE ON (id)", marks=pytest.mark.soak),
        pytest.param("shop.orders TO out.sent", marks=pytest.mark.soak),
    ],
)
def test_nothing_is_delivered_that_a_destination_must_not_hold(tmp_path: Path, spark: SparkSession, of: str) -> None:
    flow = FLOW.format(mode="MERGE ORDER BY at", rule="")
    tiny = shop(tmp_path, spark, f"{flow} PUBLISH {of} EXPECT sum(amount) <= 12 AS within OVER TABLE;")
    for now in (2, 3):
        assert not (outcome := tiny.run(day(now))).failed, described(outcome)
    assert tiny.delivered("SELECT sum(amount) FROM sent") == [(11,)]
    [report] = tiny.run(day(4)).failed
    assert report.error is not None
    assert report.error.code == "E740"
    assert "within: the destination would not be (sum(amount) <= 12)" in report.error.what
    assert tiny.delivered("SELECT sum(amount) FROM sent") == [(11,)]


@pytest.mark.soak
def test_a_missing_slice_of_a_publish_is_reported_and_restored_by_recompute(
    tmp_path: Path, spark: SparkSession
) -> None:
    flow = FLOW.format(mode="MERGE ORDER BY at", rule="")
    tiny = shop(tmp_path, spark, f"{flow} PUBLISH shop.sent TO out.sent EXPECT sum(amount) < 50 OVER TABLE;")
    assert not tiny.run(day(3)).failed
    with tiny.opened() as work:
        [first, *_] = work.ledger.reads.slices("out.sent", day(1), day(2))
        remove_folder(entry_path(work.folder(work.flow.tables["out.sent"]), first.slice_path))
    [report] = tiny.run(day(4)).failed
    assert report.error is not None
    assert (report.error.code, report.error.what) == ("E387", f"the rows of {labels(1)[0]} in out.sent are not known")
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("out.sent", [day(1), day(2)], "recompute", who="ann")
        ledger.decisions.retry("out.sent", [day(3)], who="ann")
    assert not (outcome := tiny.run(day(4))).failed, described(outcome)
    assert tiny.delivered("SELECT sum(amount) FROM sent") == [(18,)]


@pytest.mark.parametrize("mode", ["MERGE ORDER BY at", pytest.param("TEMPORAL AT at", marks=pytest.mark.soak)])
def test_rules_of_the_table_cost_one_query(tmp_path: Path, spark: SparkSession, mode: str) -> None:
    def jobs() -> int:
        return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())

    spent = []
    for number, rule in enumerate(("", "EXPECT count(*) < 9 OVER TABLE, sum(amount) < 99 OVER TABLE ELSE WARN")):
        tiny = shop(tmp_path / str(number), spark, FLOW.format(mode=mode, rule=rule))
        assert not tiny.run(day(3)).failed
        before = jobs()
        assert not (outcome := tiny.run(day(4))).failed, described(outcome)
        spent.append(jobs() - before)
    assert spent[1] - spent[0] == 2  # one job before its shuffle, one after it


def test_of_a_merged_state_the_named_columns_are_read_once(tmp_path: Path, spark: SparkSession) -> None:
    flow = FLOW.replace("SELECT *", "SELECT *, 'x' AS note, 1 AS size").format(mode="MERGE ORDER BY at", rule="")
    tiny = shop(tmp_path, spark, flow)
    assert not (outcome := tiny.run(day(4))).failed, described(outcome)
    with tiny.opened() as work:
        table, steps = work.flow.tables["shop.orders"], list_state_steps(work.ledger, "shop.orders", FOREVER)
        newest = read_manifest(work.folder(table), steps[-1].slice_path)
        rows = resulting_state(spark, work.lake, table, [newest], steps, ["count(*) < 9", "max(size) = 1"])
        plan = str(rows.groupBy().max("size")._jdf.queryExecution().executedPlan())
    assert plan.count("Scan parquet") == 2, plan  # the previous state and the slice
    assert "note" not in plan
    assert rows.columns == ["timelabel", "id", "at", "size"]


@pytest.mark.parametrize(
    ("mode", "lost"),
    [
        ("PARTITIONED", (2, 3)),
        pytest.param("APPEND", (2, 3), marks=pytest.mark.soak),
        pytest.param("MERGE ORDER BY at", (2,), marks=pytest.mark.soak),
        pytest.param("TEMPORAL AT at", (2,), marks=pytest.mark.soak),
    ],
)
def test_table_rules_are_checked_while_damaged_slices_are_recomputed(
    tmp_path: Path, spark: SparkSession, mode: str, lost: tuple[int, ...]
) -> None:
    rule = "EXPECT sum(amount) < 99 AS bounded OVER TABLE"
    tiny = shop(tmp_path, spark, FLOW.format(mode=mode, rule=rule))
    assert not (outcome := tiny.run(day(4))).failed, described(outcome)
    [(before,)] = tiny.rows("SELECT sum(amount) FROM shop.orders")
    with tiny.opened() as work:
        folder = work.lake.folder("shop.orders")
        for number in lost:
            [kept] = work.ledger.reads.slices("shop.orders", day(number), day(number + 1))
            for file in read_manifest(folder, kept.slice_path).files:
                entry_path(folder, file.path).write_bytes(b"damaged")
        work.ledger.decisions.request_restate("shop.orders", [day(number) for number in lost], "recompute", who="ann")
    tiny.shop("UPDATE sent SET amount = amount + 10 WHERE at LIKE '2020-01-01%'")
    restate(tiny, 1)
    assert not (outcome := tiny.run(day(4))).failed, described(outcome)
    gained = 0 if mode.startswith("MERGE") else 10  # in a MERGE a later row of the key counts
    assert tiny.rows("SELECT sum(amount) FROM shop.orders") == [(before + gained,)]


MOVES = """
COLLECT shop.sent PARTITIONED (id BIGINT, at TIMESTAMP) FROM shop.sent EVERY DAY BY DATA TIME at LOOKBACK 3 DAYS
  {of_rows};
TRANSFORM shop.ids PARTITIONED {of_ids} AS SELECT id FROM shop.sent;
"""
ONCE = "EXPECT count(DISTINCT id) = count(*) AS each_once OVER TABLE"


@pytest.mark.parametrize(("of_rows", "of_ids"), [(ONCE, ""), pytest.param("", ONCE, marks=pytest.mark.soak)])
def test_a_row_that_moves_to_an_earlier_window_breaks_no_rule(
    tmp_path: Path, spark: SparkSession, of_rows: str, of_ids: str
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("sent", "id INTEGER, at TEXT", [(2, "2020-01-02 01:00:00"), (3, "2020-01-03 01:00:00")])
    tiny.shop("INSERT INTO sent VALUES (30, '2020-01-03 02:00:00')")
    tiny.declare(MOVES.format(of_rows=of_rows, of_ids=of_ids))
    assert not (outcome := tiny.run(day(4))).failed, described(outcome)
    tiny.shop("UPDATE sent SET at = '2020-01-02 02:00:00' WHERE id = 30")
    assert not (outcome := tiny.run(day(5))).failed, described(outcome)
    found = tiny.rows("SELECT timelabel, id FROM shop.ids ORDER BY ALL")
    second, third = labels(2, 3)
    assert found == [(second, 2), (second, 30), (third, 3)]
