"""Each arrived row is in its window, stored as late, or in an open window, after any restatement or recompute."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described
from waterclock.engine.maintenance.rebuild_all import rebuild_all
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERY = "AS SELECT id, at FROM UNTIL(web.readings, '12 hours') WHERE at >= WINDOW_START() AND at < WINDOW_END();"
FLOW = f"""
COLLECT web.readings PARTITIONED (device STRING, id BIGINT, at TIMESTAMP, came TIMESTAMP)
  FROM shop.readings EVERY 6 HOURS BY DATA TIME came;
TRANSFORM web.closed PARTITIONED (id BIGINT, at TIMESTAMP) EVERY DAY
  CLOSE WHEN watermark(at, device) >= WINDOW_END() {QUERY}
TRANSFORM web.patient PARTITIONED (id BIGINT, at TIMESTAMP) EVERY 12 HOURS
  CLOSE WHEN watermark(at) >= WINDOW_END() MAX LATENESS 18 HOURS {QUERY}
TRANSFORM web.capped PARTITIONED (id BIGINT, at TIMESTAMP) EVERY 6 HOURS
  CLOSE WHEN watermark(at, device) >= WINDOW_END() AND count(*) > 5 PARTIAL AFTER 9 HOURS MAX LATENESS 6 HOURS {QUERY}
"""
TABLES = ("web.closed", "web.patient", "web.capped")


class Meters:
    """A source with rows that are late, early or without a time, and with changes of earlier rows."""

    def __init__(self, tiny: Tiny, random: Random) -> None:
        self.tiny, self.random, self.rows = tiny, random, 0
        tiny.source("readings", "device TEXT, id INT, at TEXT, came TEXT")

    def send(self, low: datetime, high: datetime) -> None:
        """Send some rows between two instants; some have other times."""
        for _ in range(self.random.randrange(2, 7)):
            came = low + (high - low) * self.random.random()
            at = came - timedelta(hours=self.random.choice([0, 0, 0, 1, 5, 9, 20, 40, -15, -40]))
            told = "NULL" if self.random.random() < 0.05 else f"'{at:%F %T}'"
            self.rows += 1
            self.tiny.shop(
                f"INSERT INTO readings VALUES ('{self.random.choice('ab')}', {self.rows}, {told}, '{came:%F %T}')"
            )

    def change(self) -> None:
        """Change the time of an existing row, or delete one."""
        number = self.random.randrange(1, self.rows + 1)
        if self.random.random() < 0.3:
            self.tiny.shop(f"DELETE FROM readings WHERE id = {number}")
        else:
            hours = self.random.randrange(-20, 20)
            self.tiny.shop(f"UPDATE readings SET at = datetime(at, '{hours} hours') WHERE id = {number}")


def require_all_rows_once(tiny: Tiny) -> tuple[int, int]:
    """Assert that each table has all arrived rows once; return the numbers of rows in windows and of late rows."""
    taken = aside = 0
    for table in TABLES:
        with tiny.opened() as work:
            cadence = work.flow.tables[table].cadence
        done = set(tiny.done(table))
        came = {id_: (at, label) for id_, at, label in tiny.rows("SELECT id, at, timelabel FROM web.readings")}
        held = tiny.rows(f"SELECT id, timelabel FROM {table}")
        kept = tiny.rows(f"SELECT id, timelabel, late_reason FROM {table}_late")
        places: dict[int, list[str]] = {id_: [] for id_ in came}
        for id_, label in held:
            assert label_of(cadence.floor(_utc(came[id_][0]))) == label
            places[id_].append(f"window {label}")
        for id_, label, reason in kept:
            assert came[id_][1] == label
            assert (reason == "no time") == (came[id_][0] is None)
            places[id_].append(f"{reason} {label}")
        for id_, (at, label) in came.items():
            assert len(places[id_]) <= 1, (table, id_, at, label, places[id_])
            is_before = at is not None and _utc(at) < day(1)
            is_open = at is not None and label_of(cadence.floor(_utc(at))) not in done
            assert places[id_] or is_before or is_open, (table, id_, at, label)
        taken, aside = taken + len(held), aside + len(kept)
    return taken, aside


def _utc(at: datetime) -> datetime:
    return at.replace(tzinfo=day(1).tzinfo) if at.tzinfo is None else at


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 12))
def test_no_row_is_lost_and_none_is_twice(seed: int, tmp_path: Path, spark: SparkSession) -> None:
    random = Random(seed)
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FLOW)
    meters = Meters(tiny, random)
    now, found = day(1), (0, 0)
    for step in range(4):
        later = now + timedelta(hours=6 * random.randrange(1, 5))
        meters.send(now, later)
        now = later
        with tiny.ledger() as ledger:
            if step and random.random() < 0.7:
                meters.change()
                past = [piece.label for piece in ledger.reads.slices("web.readings", day(1), now)]
                ledger.decisions.request_restate("web.readings", past, "recollect", who="ann")
            table = random.choice(TABLES)
            done = [piece.label for piece in ledger.reads.slices(table, day(1), now)] if step else []
            if done and random.random() < 0.6:
                ledger.decisions.request_restate(table, random.sample(done, k=1), "recompute", who="ann")
        outcome = tiny.run(now)
        assert not outcome.failed, described(outcome)
        found = require_all_rows_once(tiny)
    assert min(found) > 0
    with tiny.opened() as work:
        rebuild_all(work, now)
    assert require_all_rows_once(tiny) == found
    assert tiny.run(now).done == 0
