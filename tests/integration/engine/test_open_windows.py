"""The open windows of a table that closes its books: made at each boundary, and shown with the closed ones."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described
from waterclock.engine.query.notebook import resolve
from waterclock.engine.query.query import query
from waterclock.engine.query.ticks import RequestedTick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT web.readings PARTITIONED (device STRING, id BIGINT, at TIMESTAMP, came TIMESTAMP)
  FROM shop.readings EVERY 6 HOURS BY DATA TIME came;
TRANSFORM web.names (device STRING KEY, name STRING) EVERY DAY
AS SELECT DISTINCT device, upper(device) AS name FROM HISTORY(web.readings);
TRANSFORM web.daily PARTITIONED (device STRING KEY, name STRING, readings BIGINT) OPTIONS (open_windows 'kept')
  EVERY DAY CLOSE WHEN watermark(at, device) >= WINDOW_END()
  EXPECT count(*) > 0
AS SELECT device, name, count(*) AS readings FROM UNTIL(web.readings, '1 day') LEFT JOIN web.names USING (device)
WHERE at >= WINDOW_START() AND at < WINDOW_END() GROUP BY ALL;
"""
ROWS = [
    ("a", 1, day(1, 5), day(1, 5)),
    ("b", 2, day(1, 6), day(1, 7)),
    ("a", 3, day(2, 1), day(2, 1)),
    ("b", 4, day(1, 20), day(2, 7)),  # late, but before the window is closed
    ("b", 5, day(2, 3), day(2, 13)),  # now both have rows after the first day: closed at day 2, 18:00
    ("a", 6, day(1, 23), day(2, 19)),  # too late for the first day
    ("a", 7, day(3, 2), day(3, 3)),  # b sends no more rows
]


def fill(tiny: Tiny, rows: Iterable[tuple[str, int, datetime, datetime]]) -> None:
    columns = "device TEXT, id INT, at TEXT, came TEXT"
    tiny.source("readings", columns, [(device, id_, f"{at:%F %T}", f"{came:%F %T}") for device, id_, at, came in rows])


def test_open_windows_are_made_at_each_boundary_and_shown_with_the_closed_ones(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FLOW)
    fill(tiny, ROWS)
    first = tiny.run(day(2, 12))
    assert not first.failed, described(first)
    open_ = "SELECT window_label, name, readings FROM web.spd_daily ORDER BY ALL"
    assert tiny.rows(open_) == [
        ("20200101000000", "A", 1), ("20200101000000", "B", 2), ("20200102000000", "A", 1),
    ]  # fmt: skip
    view = "SELECT timelabel, device, readings, is_closed FROM web.daily_view ORDER BY ALL"
    assert tiny.rows(view) == [  # no batch of web.daily is made yet
        ("20200101000000", "a", 1, False), ("20200101000000", "b", 2, False), ("20200102000000", "a", 1, False),
    ]  # fmt: skip

    second = tiny.run(day(3, 6))
    assert not second.failed, described(second)
    closed = [("20200101000000", "a", 1, True), ("20200101000000", "b", 2, True)]
    now = [("20200102000000", "a", 1, False), ("20200102000000", "b", 1, False), ("20200103000000", "a", 1, False)]
    assert tiny.rows(view) == [*closed, *now]
    with tiny.opened() as work:
        latest = query(work, f"{view}", limit=100, as_of=RequestedTick("latest"))
        assert latest.moment is not None
        assert latest.moment.tick == day(3, 6)
        assert list(latest.rows) == [*closed, *now]
        then = query(work, view, limit=100, as_of=RequestedTick("2020-01-02 12:00"))
        assert list(then.rows) == [(*row[:3], False) for row in closed] + [("20200102000000", "a", 1, False)]
    shown = resolve("web.daily_view", "2020-01-03 06:00", project=tmp_path)
    assert shown.where("NOT is_closed").count() == len(now)
    assert resolve("web.readings_view", project=tmp_path).count() == len(ROWS)
