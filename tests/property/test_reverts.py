"""Random restatements and reverts: every table is what a clean computation of the current collects gives.

The oracle computes each table in Python. It knows the rows of each revision of a collect, and which of them is current.
"""

from __future__ import annotations

import random
import sqlite3
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described
from waterclock.batches.earlier_revisions import TAKEN_BACK
from waterclock.cli.actions.revert import commit_reverts
from waterclock.errors import WaterclockError
from waterclock.operations.project_opening import open_read_only
from waterclock.operations.reverting import RevertPlan, RevertRequest, plan_revert
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DAYS, STEPS, KEYS = 2, 4, 3
NOW = day(DAYS + 1)
FLOW = """
COLLECT raw.o PARTITIONED (k BIGINT KEY, v BIGINT, at TIMESTAMP) FROM shop.o EVERY DAY BY DATA TIME at;
COLLECT raw.m (k BIGINT KEY, v BIGINT, gone BIGINT, at TIMESTAMP) FROM shop.m EVERY DAY BY DATA TIME at
  MERGE ORDER BY at DELETE WHEN gone = 1;
TRANSFORM marts.doubled PARTITIONED (k KEY, *) AS SELECT k, v * 2 AS v FROM raw.o;
TRANSFORM marts.past PARTITIONED AS SELECT max(v) AS v FROM PAST(raw.o, '2 days');
TRANSFORM marts.newest (k KEY, *) MERGE AS SELECT k, v FROM marts.doubled;
TRANSFORM marts.people PARTITIONED AS SELECT k, v FROM raw.m;
TRANSFORM marts.total (v BIGINT, days BIGINT)
  AS SELECT t.v + p.v AS v, p.days + 1 AS days FROM (SELECT coalesce(sum(v), 0) AS v FROM marts.doubled) t
  CROSS JOIN (SELECT coalesce(max(v), 0) AS v, coalesce(max(days), 0) AS days FROM PREVIOUS(marts.total)) p;
"""
COLLECTS, MADE = ("raw.o", "raw.m"), ("marts.doubled", "marts.past", "marts.newest", "marts.people", "marts.total")
Row = tuple[int, int, int]


@dataclass
class History:
    """The rows of each revision of the collects, and the current revision of each label."""

    rows: dict[tuple[str, int, int], tuple[Row, ...]] = field(default_factory=dict)
    current: dict[tuple[str, int], int] = field(default_factory=dict)

    def of(self, table: str, number: int) -> tuple[Row, ...]:
        return self.rows[table, number, self.current[table, number]]

    def tables(self) -> dict[str, list[tuple[Any, ...]]]:
        """Compute every table from the current rows of the collects."""
        numbers = range(1, DAYS + 1)
        labels = {number: label_of(day(number)) for number in numbers}
        doubled = [(labels[n], k, v * 2) for n in numbers for k, v, _ in self.of("raw.o", n)]
        newest: dict[int, tuple[Any, ...]] = {}
        state: dict[int, int] = {}
        past: list[tuple[Any, ...]] = []
        people: list[tuple[Any, ...]] = []
        for n in numbers:
            newest |= {k: (k, v * 2) for k, v, _ in self.of("raw.o", n)}
            seen = [v for earlier in (n - 1, n) if earlier for _, v, _ in self.of("raw.o", earlier)]
            past.append((labels[n], max(seen, default=None)))
            for k, v, gone in self.of("raw.m", n):
                state.pop(k, None)
                state |= {} if gone else {k: v}
            people += [(labels[n], k, v) for k, v in state.items()]
        return {
            "marts.doubled": doubled,
            "marts.past": past,
            "marts.newest": list(newest.values()),
            "marts.people": people,
            "marts.total": [(sum(v for _, _, v in doubled), DAYS)],
        }


@dataclass
class Life:
    """A project, its random history, and the number of batches that took a slice back or were computed."""

    tiny: Tiny
    dice: random.Random
    known: History = field(default_factory=History)
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def fill(self, table: str, number: int) -> None:
        """Give a day of a source other rows, one for each key at most."""
        name = table.removeprefix("raw.")
        self.tiny.shop(f"DELETE FROM {name} WHERE at LIKE '2020-01-{number:02d}%'")
        for k in self.dice.sample(range(KEYS), self.dice.randint(0, KEYS)):
            v, gone = self.dice.randint(1, 3), int(self.dice.random() < 0.3)
            values = f"{k}, {v}, '2020-01-{number:02d} 0{k}:00:00'" + (f", {gone}" if name == "m" else "")
            self.tiny.shop(f"INSERT INTO {name} VALUES ({values})")

    def run(self) -> None:
        outcome = self.tiny.run(NOW)
        assert not outcome.failed, described(outcome)
        for table in COLLECTS:
            for number in range(1, DAYS + 1):
                claim = self.revisions(table, number)[-1].claim
                self.known.current[table, number] = claim
                if (table, number, claim) not in self.known.rows:
                    self.known.rows[table, number, claim] = self.source(table, number)

    def source(self, table: str, number: int) -> tuple[Row, ...]:
        name = table.removeprefix("raw.")
        gone = "gone" if name == "m" else "0"
        with closing(sqlite3.connect(self.tiny.root / "shop.sqlite")) as database:
            sql = f"SELECT k, v, {gone} FROM {name} WHERE at LIKE '2020-01-{number:02d}%' ORDER BY at"
            return tuple(database.execute(sql))

    def revisions(self, table: str, number: int) -> Any:
        with self.tiny.ledger() as ledger:
            return ledger.reads.earlier_revisions(table, [day(number)])[day(number)]

    def recollect(self) -> None:
        table, number = self.dice.choice(COLLECTS), self.dice.randint(1, DAYS)
        self.fill(table, number)
        with self.tiny.ledger() as ledger:
            ledger.decisions.request_restate(table, [day(number)], "recollect", who="a test")
        self.run()

    def revert(self) -> None:
        """Revert a label of a collect to any of its earlier revisions, and check what was predicted to follow."""
        table, number = self.dice.choice(COLLECTS), self.dice.randint(1, DAYS)
        targets = [each for each in self.revisions(table, number) if not each.is_current]
        if not targets:
            return
        target = self.dice.choice(targets)
        before = self.newest_claims()
        plan = self._revert(f"{table}@2020-01-{number:02d}", target.claim)
        rows = self.known.rows[table, number, target.claim]
        self.known.rows[table, number, self.revisions(table, number)[-1].claim] = rows
        self.run()
        back: dict[str, tuple[Any, ...]] = {}
        for (name, made), claim in self.newest_claims().items():
            if name in MADE and claim != before[name, made]:
                is_back = TAKEN_BACK in self.revisions(name, made)[-1].measures
                self.counts["taken back" if is_back else "computed"] += 1
                back |= {name: (*back.get(name, ()), day(made))} if is_back else {}
                if not is_back:
                    assert day(made) in plan.predicted.computed.get(name, ()), (name, made)
        for name, labels in plan.predicted.adopted.items():
            assert set(labels) <= set(back.get(name, ())), name

    def revert_made(self) -> None:
        """Revert a label of a transform. It is refused unless its inputs are what the revision read."""
        number = self.dice.randint(1, DAYS)
        made = self.revisions("marts.doubled", number)
        target = self.dice.choice(made)
        if target.is_current:
            return
        which = f"marts.doubled@2020-01-{number:02d}"
        if [it.content for it in target.inputs] == [it.content for it in made[-1].inputs]:
            self._revert(which, target.claim)
        else:
            with pytest.raises(WaterclockError, match="E759"):
                self._revert(which, target.claim)
        self.run()

    def _revert(self, which: str, claim: int) -> RevertPlan:
        with open_read_only(self.tiny.root, None, NOW.isoformat()) as at:
            plan = plan_revert(at, RevertRequest(which, claim))
        with self.tiny.opened() as work:
            commit_reverts(work, plan, "it was right", NOW)
        return plan

    def newest_claims(self) -> dict[tuple[str, int], int]:
        return {(name, n): self.revisions(name, n)[-1].claim for name in MADE for n in range(1, DAYS + 1)}

    def check(self) -> None:
        found = {
            name: sorted(self.tiny.rows(f"SELECT {columns} FROM {name}"), key=repr)
            for name, columns in (
                ("marts.doubled", "timelabel, k, v"), ("marts.past", "timelabel, v"), ("marts.newest", "k, v"),
                ("marts.people", "timelabel, k, v"), ("marts.total", "v, days"),
            )
        }  # fmt: skip
        wanted = {name: sorted(map(tuple, rows), key=repr) for name, rows in self.known.tables().items()}
        assert found == wanted


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(6))
def test_after_random_reverts_every_table_equals_a_clean_computation(
    tmp_path: Path, spark: SparkSession, seed: int
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FLOW)
    tiny.source("o", "k INTEGER, v INTEGER, at TEXT")
    tiny.source("m", "k INTEGER, v INTEGER, at TEXT, gone INTEGER")
    life = Life(tiny, random.Random(seed))
    for table in COLLECTS:
        for number in range(1, DAYS + 1):
            life.fill(table, number)
    life.run()
    life.check()
    life.recollect()
    for _ in range(STEPS):
        life.dice.choice((life.recollect, life.revert, life.revert, life.revert_made))()
        life.check()
    assert tiny.run(NOW).done == 0
    assert tiny.open_claims() == 0
