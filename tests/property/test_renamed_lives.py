"""Random lives of a project, each with and without renames of tables: all but the names is equal."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day
from waterclock.engine.query.query import query
from waterclock.engine.query.ticks import RequestedTick
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak]

FLOW = """
COLLECT {orders} PARTITIONED (id BIGINT, at TIMESTAMP, land STRING, amount INT ELSE QUARANTINE)
  FROM shop.orders EVERY DAY BY DATA TIME at LOOKBACK 2 DAYS{was_orders};
COLLECT {lands} (land STRING KEY, name STRING) FROM shop.lands EVERY DAY{was_lands};
TRANSFORM {daily} PARTITIONED EXPECT total < 1000 ELSE HOLD{was_daily}
AS SELECT sum(amount) AS total, count(*) AS n FROM {orders};
TRANSFORM {named} PARTITIONED{was_named}
AS SELECT o.id, o.amount, l.name FROM {orders} AS o LEFT JOIN {lands} AS l ON o.land = l.land;
TRANSFORM {all}{was_all} AS SELECT sum(total) AS total FROM HISTORY({daily});
TRANSFORM {week} PARTITIONED{was_week} AS SELECT sum(d.total) AS total FROM PAST({daily}, '3 days') AS d;
PUBLISH {all} TO out.total;
PUBLISH {named} TO out.named;
"""
BATCHES = "SELECT `table`, timelabel, status, attempts, digest FROM waterclock.batches"
FIRST = {part: f"a.{part}" for part in ("orders", "lands", "daily", "named", "all", "week")}


def rows_of(work: RunContext, name: str, as_of: RequestedTick | None = None) -> list[str]:
    try:
        return sorted(map(str, query(work, f"SELECT * FROM {name}", limit=1000, as_of=as_of).rows))
    except WaterclockError as error:
        return [error.code]


class Life:
    """A project and the current names of its tables."""

    def __init__(self, tiny: Tiny) -> None:
        self.tiny, self.names = tiny, dict(FIRST)
        tiny.source("orders", "id INTEGER, at TEXT, land TEXT, amount TEXT")
        tiny.source("lands", "land TEXT, name TEXT", [("de", "Germany"), ("fr", "France")])
        self.declare({})

    def declare(self, was: dict[str, str]) -> None:
        said = {f"was_{part}": f" WAS {was[part]}" if part in was else "" for part in self.names}
        self.tiny.declare(FLOW.format(**self.names, **said))

    def told(self, at: str | None) -> dict[object, Any]:
        found: dict[object, Any] = {}
        with self.tiny.opened() as work:
            for part, name in self.names.items():
                found[part] = rows_of(work, name)
                if at is not None:
                    found[part, at] = rows_of(work, name, RequestedTick(at))
            for part, aside in (("orders", "quarantine"), ("daily", "held")):
                found[part, aside] = len(rows_of(work, f"{self.names[part]}_{aside}"))
            parts = {name: part for part, name in self.names.items()}
            rows = query(
                work, "SELECT `table`, timelabel, status, attempts, digest FROM waterclock.batches", limit=10_000
            ).rows
            found["batches"] = sorted(str((parts.get(row[0], row[0]), *row[1:])) for row in rows)
        with self.tiny.ledger() as ledger:
            found["open"] = len(ledger.claims.open())
            made = Counter(
                (parts.get(row["table"], row["table"]), row["timelabel"], row["kind"])
                for row in ledger.past.rows("events")
                if row["kind"] in {"claimed", "done", "failed", "held", "released", "skipped"}
            )
            found["events"] = sorted(map(str, made.items()))
        for table in ("total", "named"):
            try:
                found["out", table] = sorted(map(str, self.tiny.delivered(f"SELECT * FROM {table}")))
            except sqlite3.OperationalError:
                found["out", table] = []  # not delivered yet
        return found


class Both:
    """A life with renames and one without, with the same events."""

    def __init__(self, root: Path, spark: SparkSession, random: Random) -> None:
        self.random, self.today, self.number = random, 2, 0
        self.plain, self.renamed = (Life(Tiny(root / each, spark)) for each in ("plain", "renamed"))
        self.log: list[Any] = []

    def sends(self, most: list[str]) -> None:
        """Add rows, early ones too, and change parents."""
        for _ in range(self.random.randint(1, 3)):
            self.number += 1
            of = self.random.randint(max(1, self.today - 3), self.today)
            amount, land = self.random.choice(most), self.random.choice(["de", "fr", "it"])
            row = f"{self.number}, '2020-01-{of:02d} 10:00:00', '{land}', '{amount}'"
            self.shop(f"INSERT INTO orders VALUES ({row})")
        if self.random.random() < 0.3:
            self.shop(f"UPDATE lands SET name = name || '{self.number}' WHERE land = 'de'")

    def shop(self, sql: str) -> None:
        for life in (self.plain, self.renamed):
            life.tiny.shop(sql)

    def renames(self) -> None:
        """Rename one to four tables in one flow."""
        names, was = self.renamed.names, {}
        for part in self.random.sample(list(FIRST), self.random.randint(1, 4)):
            now = f"{self.random.choice('abc')}.{part}{self.random.choice(['', '2', '_x'])}"
            if now != names[part]:
                was[part], names[part] = names[part], now
        self.renamed.declare(was)
        self.log.append(("rename", was, dict(names)))

    def decides(self) -> None:
        """Restate, release, pause or resume, as a user of the current flow does."""
        part, label = self.random.choice(list(FIRST)), [day(self.random.randint(1, max(1, self.today - 2)))]
        what = self.random.choice(["restate", "restate", "release", "pause", "resume"])
        told = []
        for life in (self.plain, self.renamed):
            name = life.names[part]
            with life.tiny.ledger() as ledger:
                ledger.declared.apply_pending_renames(life.tiny.load().flow)
                try:
                    if what == "restate":
                        verb = "recollect" if part in {"orders", "lands"} else "recompute"
                        ledger.decisions.request_restate(name, label, verb, who="ann")
                    elif what == "release":
                        ledger.decisions.request_release(life.names["daily"], label, who="ann", why="so")
                    elif what == "pause":
                        ledger.decisions.pause_tables([name], who="ann", why="so")
                    else:
                        ledger.decisions.resume_tables([name], who="ann")
                    told.append("")
                except WaterclockError as error:
                    told.append(error.code)
        self.log.append((what, part, label, told))
        assert told[0] == told[1], self.log

    def compares(self, at: str | None) -> None:
        """Run both, and compare all visible content."""
        done, told = [], []
        for life in (self.plain, self.renamed):
            outcome = life.tiny.run(day(self.today))
            done.append((outcome.done, len(outcome.failed)))
            told.append(life.told(at))
        assert done[0] == done[1], self.log
        for key in told[0]:
            assert told[0][key] == told[1][key], (key, self.log)


@pytest.mark.parametrize("seed", range(8))
def test_a_life_with_renames_differs_by_names_alone(tmp_path: Path, spark: SparkSession, seed: int) -> None:
    both = Both(tmp_path, spark, Random(seed))
    for step in range(6):
        both.sends(["10", "20", "7", "many", "5000"] if step else ["10"])
        if step and both.random.random() < 0.75:
            both.renames()
        for _ in range(both.random.randint(0, 2) if step else 0):
            both.decides()
        both.today += both.random.random() < 0.7
        asked = f"2020-01-{both.random.randint(2, both.today):02d}" if both.random.random() < 0.5 else None
        both.compares(asked if step > 1 else None)
    assert both.log
