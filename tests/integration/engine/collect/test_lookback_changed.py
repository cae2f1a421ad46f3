"""LOOKBACK ... CHANGED collects past windows again that the source reports as changed, once per change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, evening, labels
from waterclock.operations.lookback_report import lookbacks_json, read_last_lookbacks
from waterclock.operations.project_opening import open_read_only

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ORDERS = "id INTEGER, amount INTEGER, at TEXT, changed TEXT"
FLOW = """
COLLECT shop.orders PARTITIONED (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.orders
  EVERY DAY BY DATA TIME at LOOKBACK 2 DAYS CHANGED BY changed;
TRANSFORM sales.revenue PARTITIONED AS SELECT sum(amount) AS revenue FROM shop.orders;
"""
FILES = """
COLLECT land.visits PARTITIONED (id BIGINT, at TIMESTAMP) FROM land.acme.visits
  EVERY DAY BY DATA TIME at LOOKBACK 2 DAYS CHANGED;
"""


def claimed(tiny: Tiny, table: str, now: int) -> list[list[str]]:
    """Run a day, and return the labels of each claim of a table, including past ones."""
    with tiny.ledger() as ledger:
        before = {row["id"] for row in ledger.past.rows("events")}
    outcome = tiny.run(day(now))
    assert not outcome.failed, described(outcome)
    found: dict[int, list[str]] = {}
    with tiny.ledger() as ledger:
        for row in ledger.past.rows("events"):
            if row["kind"] == "claimed" and row["table"] == table and row["id"] not in before:
                found.setdefault(row["claim"], []).append(row["timelabel"])
    return [sorted(each) for each in found.values()]


def last_look(tiny: Tiny, table: str) -> dict[str, str]:
    """Return the windows that the newest scan found changed, with the reason, as `plan` and `status` show them."""
    with open_read_only(tiny.root, "dev", "2020-01-06") as at:
        told: dict[str, str] = lookbacks_json(read_last_lookbacks(at, [table]))[table]["changed"]
        return told


def order(number: int, of: int, changed: str) -> tuple[int, int, str, str]:
    return (number, 10, f"2020-01-{of:02d} 12:00:00", changed)


def test_windows_that_changed_alone_are_collected_again_and_each_change_once(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("orders", ORDERS, [order(n, n, f"2020-01-{n:02d} 12:00:01") for n in (1, 2, 3, 4)])
    tiny.declare(FLOW)
    tiny.run(day(4))
    tiny.shop("INSERT INTO orders VALUES (12, 7, '2020-01-02 13:00:00', '2020-01-04 09:00:00')")
    tiny.shop("INSERT INTO orders VALUES (11, 5, '2020-01-01 13:00:00', '2020-01-04 09:00:00')")  # beyond the LOOKBACK

    assert claimed(tiny, "shop.orders", 5) == [list(labels(2, 4))]
    told = [(each.rows, each.earlier) for each in tiny.heard.finished_ if each.group.table == "shop.orders"]
    assert told[-1] == (3, 1), "two rows of an earlier day, and one of its own"
    assert last_look(tiny, "shop.orders") == {labels(2)[0]: "changed up to 2020-01-04 09:00:00Z"}
    assert claimed(tiny, "shop.orders", 6) == [list(labels(5))], "a collected change is not collected again"

    assert tiny.rows("SELECT timelabel, revenue FROM sales.revenue ORDER BY timelabel") == list(
        zip(labels(1, 2, 3, 4, 5), (10, 17, 10, 10, None), strict=True)
    )
    with tiny.ledger() as ledger:
        restated = ledger.past.audit("shop.orders", day(2)).current
        assert restated is not None
        assert restated.revision is not None
        assert restated.revision.source["changed"] == "changed up to 2020-01-04 09:00:00Z"


def test_a_missing_changed_by_column_fails_only_the_batch_and_retry_works_after_a_fix(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("orders", ORDERS, [order(1, 1, "2020-01-01 12:00:01")])
    tiny.declare(FLOW.replace("CHANGED BY changed", "CHANGED BY chanced"))
    (failed,) = tiny.run(day(2)).failed
    assert failed.error is not None
    assert (failed.error.code, failed.error.fix) == ("E827", "did you mean changed?")

    tiny.declare(FLOW)
    with tiny.ledger() as ledger:
        ledger.decisions.retry("shop.orders", [day(1)], who="ann")
    assert not tiny.run(day(2)).failed
    assert tiny.rows("SELECT id FROM shop.orders") == [(1,)]


def test_late_files_for_past_windows_recollect_those_windows(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    for number in (1, 2, 3):
        tiny.land("visits", evening(number), f"id,at\n{number},2020-01-{number:02d} 12:00:00\n")
    tiny.declare(FILES)
    tiny.run(day(4))
    # the file of the 4th contains a row of the 2nd; that of the 5th none of earlier days
    tiny.land("visits", evening(4), "id,at\n4,2020-01-04 12:00:00\n42,2020-01-02 13:00:00\n")
    assert claimed(tiny, "land.visits", 5) == [list(labels(2, 4))]
    tiny.land("visits", evening(5), "id,at\n5,2020-01-05 12:00:00\n")
    tiny.land("visits", day(3, 6), "id,at\n33,2020-01-03 05:00:00\n")  # late, stamped within its window
    assert claimed(tiny, "land.visits", 6) == [list(labels(3, 5))]
    assert tiny.rows("SELECT id FROM land.visits ORDER BY id") == [(n,) for n in (1, 2, 3, 4, 5, 33, 42)]
