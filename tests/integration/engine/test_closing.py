"""The books of a window are closed when a condition over the arrived rows is true; its rows are those before that."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.integration.engine.maintenance.test_ledger_rebuild import lose, rebuilt
from tests.model.books import CONDITIONS, LENGTH, START, Life
from tests.tiny import Tiny, day, described, labels
from waterclock.batches.ledger_snapshot import CONDITION, Closing
from waterclock.engine.maintenance.rebuild_all import rebuild_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT web.readings PARTITIONED (device STRING, id BIGINT, at TIMESTAMP, came TIMESTAMP)
  FROM shop.readings EVERY 6 HOURS BY DATA TIME came;
TRANSFORM web.daily PARTITIONED EVERY DAY
  CLOSE WHEN watermark(at, device) >= WINDOW_END() AND count(*) > 0 OR closed_by_hand()
AS SELECT id FROM UNTIL(web.readings, '1 day') WHERE at >= WINDOW_START() AND at < WINDOW_END();
TRANSFORM web.capped PARTITIONED EVERY DAY CLOSE WHEN watermark(at, device) >= WINDOW_END() PARTIAL AFTER 12 HOURS
AS SELECT id, IS_PARTIAL() AS is_partial FROM UNTIL(web.readings, '1 day')
WHERE at >= WINDOW_START() AND at < WINDOW_END();
"""


def fill(tiny: Tiny, rows: Iterable[tuple[str, int, datetime, datetime]]) -> None:
    columns = "device TEXT, id INT, at TEXT, came TEXT"
    tiny.source("readings", columns, [(device, id_, f"{at:%F %T}", f"{came:%F %T}") for device, id_, at, came in rows])


def test_windows_close_in_order_when_their_condition_over_arrived_rows_is_true(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FLOW)
    rows = [
        ("a", 1, day(1, 5), day(1, 5)), ("b", 2, day(1, 6), day(1, 7)), ("a", 3, day(2, 1), day(2, 1)),
        ("b", 4, day(1, 20), day(2, 7)),  # late, but before the window is closed
        ("b", 5, day(2, 3), day(2, 13)),  # now both have rows after the first day: closed at day 2, 18:00
        ("a", 6, day(1, 23), day(2, 19)),  # too late for the first day
        ("a", 7, day(3, 2), day(3, 3)),  # b sends no more rows
    ]  # fmt: skip
    fill(tiny, rows)
    first = tiny.run(day(2, 12))
    assert not first.failed, described(first)
    assert tiny.done("web.daily") == []
    assert first.plan is not None
    [open_] = [batch for batch in first.plan.batches if batch.table == "web.daily"]
    assert str(open_.status) == "waiting"
    assert open_.reason.startswith("open, checked up to 2020-01-02 12:00")
    assert "furthest behind: device b" in open_.reason
    assert tiny.rows("SELECT id, is_partial FROM web.capped ORDER BY id") == [(1, True), (2, True), (4, True)]

    second = tiny.run(day(3, 6))
    assert not second.failed, described(second)
    assert tiny.done("web.daily") == labels(1)
    assert tiny.rows("SELECT id FROM web.daily ORDER BY id") == [(1,), (2,), (4,)]
    check_that_a_tick_is_kept(tiny)


def check_that_a_tick_is_kept(tiny: Tiny) -> None:
    """Restate a slice of a closed window, rebuild the ledger from storage alone, and then all tables."""
    tick = tick_of(tiny)
    tiny.shop(f"INSERT INTO readings VALUES ('b', 8, '{day(1, 10):%F %T}', '{day(1, 14):%F %T}')")
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("web.readings", [day(1, 12)], "recollect", who="ann")
    wanted = [(1,), (2,), (4,), (8,)]
    for again in (None, rebuild_the_ledger, rebuild_all_tables):
        if again is not None:
            again(tiny)
        outcome = tiny.run(day(3, 6))
        assert not outcome.failed, described(outcome)
        assert tick_of(tiny) == tick == Closing(day(2, 18), None, CONDITION)
        assert tiny.rows("SELECT id FROM web.daily ORDER BY id") == wanted


def tick_of(tiny: Tiny) -> Closing:
    with tiny.ledger() as ledger:
        found = ledger.reads.closings("web.daily", [day(1)])[day(1)]
    return Closing(found.tick, None, found.reason)


def rebuild_the_ledger(tiny: Tiny) -> None:
    lose(tiny)
    rebuilt(tiny)


def rebuild_all_tables(tiny: Tiny) -> None:
    with tiny.opened() as work:
        assert "web.daily" in rebuild_all(work, day(3, 6)).tables


@pytest.mark.soak
def test_every_close_condition_yields_the_ticks_found_by_brute_force(tmp_path: Path, spark: SparkSession) -> None:
    """Spark finds the same ticks as brute force, for random rows."""
    random, hours, closed = Random(5), 24, 0
    tiny = Tiny(tmp_path, spark)
    conditions = {name: text for name, text in enumerate(CONDITIONS) if text != "closed_by_hand()"}
    flow = """COLLECT web.u PARTITIONED (id BIGINT, at TIMESTAMP, part STRING, came TIMESTAMP)
      FROM shop.u EVERY HOUR START '2024-01-01' BY DATA TIME came;"""
    for name, text in conditions.items():
        flow += f"""TRANSFORM web.t{name} PARTITIONED EVERY 4 HOURS CLOSE WHEN {text} AS SELECT id
          FROM UNTIL(web.u, '3 hours') WHERE at >= WINDOW_START() AND at < WINDOW_END();"""
    tiny.declare(flow)
    life = Life.of(random)
    life.reach = timedelta(hours=3)
    for _ in range(hours):
        life.arrive()
    rows = [(row, came) for came, rows in life.slices.items() for row in rows]
    said = [(row.id, row.at and f"{row.at:%F %T}", row.part, f"{came:%F %T}") for row, came in rows]
    tiny.source("u", "id INT, at TEXT, part TEXT, came TEXT", said)
    outcome = tiny.run(START + timedelta(hours=hours))
    assert not outcome.failed, described(outcome)
    with tiny.ledger() as ledger:
        found = {name: ledger.reads.closings(f"web.t{name}") for name in conditions}
    for name, text in conditions.items():
        life.condition, before = text, START
        for label in (START + LENGTH * number for number in range(hours // 4)):
            tick = life.first_tick(label, before, after=None)
            assert found[name].get(label, Closing()).tick == tick, (text, label)
            if tick is None:
                break
            before = tick
        closed += before > START
    assert closed > 2


def test_a_condition_that_spark_refuses_fails_its_table_alone(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    open_columns = FLOW.replace("came TIMESTAMP)", "came TIMESTAMP, *)")
    tiny.declare(open_columns.replace("count(*) > 0", "max(nothing) > 0"))
    fill(tiny, [("a", 1, day(1, 5), day(1, 5)), ("a", 2, day(2, 5), day(2, 5))])
    outcome = tiny.run(day(2, 12))
    [failed] = outcome.failed
    assert failed.group.table == "web.daily"
    assert failed.error is not None
    assert (failed.error.code, failed.error.where) == ("E730", "web.daily@20200101000000")
    assert "nothing" in str(failed.error)
    assert tiny.done("web.capped") == labels(1)
