"""AWAIT: a window is collected once a file, a query or the next file shows that it is complete."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, evening, labels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT web.clicks PARTITIONED (id BIGINT) FROM land.acme.clicks EVERY DAY BY ARRIVAL TIME
  AWAIT 'acme/done/%Y-%m-%d' FOR 3 DAYS;
COLLECT web.next PARTITIONED (id BIGINT) FROM land.acme.clicks EVERY DAY BY ARRIVAL TIME AWAIT NEXT;
COLLECT shop.orders PARTITIONED (id BIGINT, at TIMESTAMP) FROM shop.orders EVERY DAY BY DATA TIME at
  AWAIT QUERY 'SELECT upto >= :window_end FROM loads';
TRANSFORM web.all PARTITIONED AS SELECT id FROM web.clicks;
"""


def test_windows_wait_for_their_await_condition_and_fail_after_its_time_limit(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FLOW)
    tiny.source("orders", "id INT, at TEXT", [(number, f"2020-01-0{number} 12:00:00") for number in (1, 2, 3)])
    tiny.source("loads", "upto TEXT", [("2020-01-03 00:00:00",)])
    for number in (1, 2, 3):
        tiny.land("clicks", evening(number), f"id\n{number}\n")
    done = tmp_path / "landing" / "new" / "acme" / "done"
    done.mkdir()
    (done / "2020-01-01").touch()

    first = tiny.run(day(4, 6))
    assert not first.failed, described(first)
    assert tiny.done("web.clicks") == labels(1)
    assert tiny.done("web.next") == labels(1, 2)  # a file of the third day exists, and none of the fourth
    assert tiny.done("shop.orders") == labels(1, 2)
    told = {held.table: (held.window.label, str(held.awaits)) for held in first.held_back}
    assert told["web.clicks"] == (labels(2)[0], "'acme/done/%Y-%m-%d' FOR 3 DAYS")
    assert told["shop.orders"][0] == labels(3)[0]

    (done / "2020-01-03").touch()  # that of the second day is still missing, so later days wait too
    assert tiny.run(day(5, 6)).done == 0
    late = tiny.run(day(6) + timedelta(hours=1))
    [failed] = late.failed
    assert failed.error is not None
    assert (failed.group.table, failed.error.code) == ("web.clicks", "E826")
    assert [batch.label for batch in failed.group.batches] == [day(2)]

    (done / "2020-01-02").touch()
    with tiny.ledger() as ledger:
        ledger.decisions.retry("web.clicks", [day(2)], who="ann")
    assert not tiny.run(day(6, 2)).failed
    assert tiny.done("web.all") == labels(1, 2, 3)
    assert tiny.rows("SELECT id FROM web.all ORDER BY id") == [(1,), (2,), (3,)]


def test_a_recompute_does_not_wait_for_the_await_condition(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FLOW)
    tiny.source("orders", "id INT, at TEXT")
    tiny.source("loads", "upto TEXT")
    for number in (1, 2):
        tiny.land("clicks", evening(number), f"id\n{number}\n")
    done = tmp_path / "landing" / "new" / "acme" / "done"
    done.mkdir()
    (done / "2020-01-01").touch()
    tiny.run(day(2, 6))
    (done / "2020-01-01").unlink()
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("web.clicks", [day(1)], "recompute", who="ann")
    again = tiny.run(day(2, 7))
    assert not again.failed, described(again)
    assert tiny.runs_of("web.clicks") == 2
