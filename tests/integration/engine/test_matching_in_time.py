"""Matches within a time limit and first rows of a key, by reads of the past, compared with all rows at once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.integration.engine.test_watermarks import hour
from tests.model.late_rows import Row, Slices, firsts, pairs
from tests.tiny import Tiny, day, described

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAYS, LATE, BOUND = 5, 10, 20
FLOW = """
COLLECT web.views PARTITIONED (user STRING, id BIGINT, at TIMESTAMP, came TIMESTAMP)
  FROM shop.views EVERY DAY BY DATA TIME came WATERMARK at 10 HOURS;
COLLECT web.buys PARTITIONED (user STRING, id BIGINT, at TIMESTAMP, came TIMESTAMP)
  FROM shop.buys EVERY DAY BY DATA TIME came WATERMARK at 10 HOURS;
TRANSFORM web.bought PARTITIONED
AS SELECT v.id AS view, b.id AS buy FROM PAST(web.views, '3 days') v JOIN PAST(web.buys, '2 days') b
  ON v.user = b.user AND b.at BETWEEN v.at AND v.at + INTERVAL 20 HOURS
WHERE greatest(v.timelabel, b.timelabel) = TIMELABEL();
TRANSFORM web.once PARTITIONED
AS SELECT n.id FROM web.views n WHERE NOT EXISTS (
  SELECT 1 FROM PAST(web.views, '3 days') o
  WHERE o.user = n.user AND o.at > n.at - INTERVAL 20 HOURS AND o.at < n.at + INTERVAL 20 HOURS
    AND (o.timelabel < n.timelabel OR (o.timelabel = n.timelabel AND struct(o.at, o.id) < struct(n.at, n.id))));
"""


def random_rows(random: Random, first: int) -> Slices:
    """Return slices of days, in hours: rows of their day, some of the hours before it."""
    return [
        [
            Row(number * 24 + random.choice([random.randrange(24), -random.randrange(LATE)]), random.choice("uv"), "",
                first + number * 10 + at)
            for at in range(random.randrange(2, 5))
        ]
        for number in range(DAYS)
    ]  # fmt: skip


def fill(tiny: Tiny, table: str, slices: Slices) -> None:
    rows = [
        (row.key, row.id, f"{hour(row.at):%F %T}", f"{hour(number * 24 + 1):%F %T}")
        for number, some in enumerate(slices)
        for row in some
    ]
    tiny.source(table, "user TEXT, id INT, at TEXT, came TEXT", rows)


def compare(tiny: Tiny, views: Slices, buys: Slices) -> None:
    def flat(slices: Slices) -> Iterable[Row]:
        return (row for rows in slices for row in rows)

    found = [(view, buy) for view, buy in tiny.rows("SELECT view, buy FROM web.bought ORDER BY ALL")]
    assert found == pairs(flat(views), flat(buys), 0, BOUND)
    kept = [number for (number,) in tiny.rows("SELECT id FROM web.once ORDER BY ALL")]
    assert kept == sorted(number for number, is_first in firsts(views, BOUND).items() if is_first)


def test_matches_and_firsts_of_late_and_restated_rows_are_those_of_all_rows_at_once(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny, random = Tiny(tmp_path, spark), Random(1)
    tiny.declare(FLOW)
    views, buys = random_rows(random, 0), random_rows(random, 100)
    fill(tiny, "views", views)
    fill(tiny, "buys", buys)
    first = tiny.run(day(DAYS + 1, 1))
    assert not first.failed, described(first)
    assert pairs([it for rows in views for it in rows], [it for rows in buys for it in rows], 0, BOUND)
    compare(tiny, views, buys)

    views[1] = [*views[1][1:], Row(26, "u", "", 19)]
    fill(tiny, "views", views)
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("web.views", [day(2)], "recollect", who="ann")
    tiny.heard.finished_.clear()
    again = tiny.run(day(DAYS + 1, 2))
    assert not again.failed, described(again)
    compare(tiny, views, buys)
    groups = [report.group for report in tiny.heard.finished_ if report.group.table == "web.bought"]
    made = {batch.label for group in groups for batch in group.batches}
    assert made == {day(2), day(3), day(4)}  # as far as PAST reaches, and no further
