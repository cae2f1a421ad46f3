"""Random rules of what is read, restatements, replays and releases on the real engine, against the rules as Python.

After each step every batch that is done was asked the rules of its own code of what its input holds now: *rows read =
rows that the query saw + quarantined + dropped*, and what those rules refuse is shown by a release alone.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, labels
from waterclock.batches.ledger_snapshot import RECOMPUTE
from waterclock.cli.actions.release import release_batches
from waterclock.operations.project_opening import open_read_only
from waterclock.operations.replaying import find_replayable_labels
from waterclock.planner.plan import RECOLLECT
from waterclock.timelabel.label import instant_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAYS = 3
Row = tuple[int, int | None]  # id, amount


@dataclass(frozen=True)
class Rules:
    """The rules of one declaration: of amounts, of ids, and of how many rows there are."""

    low: int = 0
    of_low: str = "QUARANTINE"
    of_high: str = "DROP"
    least: int = 0

    @property
    def dpl(self) -> str:
        return f"""
COLLECT shop.orders PARTITIONED (id BIGINT, amount INT, at TIMESTAMP) FROM shop.orders EVERY DAY BY DATA TIME at;
TRANSFORM shop.some PARTITIONED
  EXPECT amount > {self.low} AS low OF shop.orders ELSE {self.of_low},
    id < 7 AS high OF shop.orders ELSE {self.of_high}, count(*) > {self.least} AS least OF shop.orders ELSE HOLD,
    amount < 9 AS made ELSE QUARANTINE
AS SELECT id, amount FROM shop.orders WHERE id % 2 = 0;
"""

    def asked(self, rows: list[Row]) -> Made:
        """Return what becomes of the rows of a batch."""
        found = Made()
        for row in rows:
            low, high = not (row[1] is not None and row[1] > self.low), row[0] >= 7
            found.broken.update([*(["low"] if low else []), *(["high"] if high else [])])
            fates = [of.split()[0] for of, breaks in ((self.of_low, low), (self.of_high, high)) if breaks]
            taken = next((fate for fate in fates if fate in {"QUARANTINE", "DROP"}), None)
            if taken is None:
                found.seen.append(row)
            else:
                found.fates[taken] += 1
                found.aside += [row[0]] if taken == "QUARANTINE" else []
        lows = found.broken["low"]
        is_beyond = "AT MOST 1" in self.of_low and lows > 1
        found.is_refused = (
            len(rows) <= self.least or is_beyond or bool(lows and self.of_low in {"HOLD", "FAIL"})
            or bool(found.broken["high"] and self.of_high == "HOLD")
        )  # fmt: skip
        return found


@dataclass
class Made:
    """What becomes of the rows that one batch reads."""

    seen: list[Row] = field(default_factory=list)
    aside: list[int] = field(default_factory=list)
    fates: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    is_refused: bool = False


@dataclass
class World:
    """A project, its rules by the code that they are, and what its source says."""

    tiny: Tiny
    random: Random
    rules: dict[str, Rules] = field(default_factory=dict)
    source: dict[int, list[Row]] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)

    def begin(self) -> None:
        self.source = {number: self._rows() for number in range(1, DAYS + 1)}
        self._write()
        self._declare(Rules())
        self.run()

    def step(self) -> None:
        act = self.random.choice(["restate", "restate", "mend", "mend", "replay", "retry", "release"])
        self.steps.append(act)
        getattr(self, f"_{act}")()
        self.run()
        self.check()

    def run(self) -> None:
        outcome = self.tiny.run(day(DAYS + 1))
        codes = {report.error.code for report in outcome.failed if report.error}
        assert codes <= {"E740", "E755"}, (self.steps, described(outcome))

    def check(self) -> None:
        with self.tiny.ledger() as ledger:
            audits = {at: ledger.past.audit("shop.some", day(at)) for at in self.source}
        shown: list[tuple[str, int, int | None]] = []
        aside: list[tuple[str, str | None, int]] = []
        for at, audit in audits.items():
            if audit.cell.status != "done" or audit.current is None or audit.current.revision is None:
                continue
            [label], told = labels(at), audit.current.revision.measures
            found = self.rules[audit.current.code].asked(self.source[at])
            assert found.is_refused is ("released" in told), (self.steps, at, told)
            door = told["input_rules"]["shop.orders"]
            counts = (door["in"], door["quarantined"], door["dropped"])
            assert counts == (len(self.source[at]), found.fates["QUARANTINE"], found.fates["DROP"]), self.steps
            assert door["broken"] == dict(found.broken), self.steps
            made = [row for row in found.seen if row[0] % 2 == 0]
            shown += [(label, *row) for row in made if row[1] is not None and row[1] < 9]
            aside += [(label, "shop.orders", id_) for id_ in found.aside]
            aside += [(label, None, row[0]) for row in made if not (row[1] is not None and row[1] < 9)]
        done = {label for at, audit in audits.items() if audit.cell.status == "done" for label in labels(at)}
        rows = self.tiny.rows("SELECT timelabel, id, amount FROM shop.some")
        assert sorted([row for row in rows if row[0] in done], key=str) == sorted(shown, key=str), self.steps
        rows = self.tiny.rows("SELECT timelabel, input, row FROM shop.some_quarantine")
        told_ = [(label, of, json.loads(row)["id"]) for label, of, row in rows if label in done]
        assert sorted(told_, key=str) == sorted(aside, key=str), self.steps

    def _restate(self) -> None:
        number = self.random.randint(1, DAYS)
        self.source[number] = self._rows()
        self._write()
        with self.tiny.ledger() as ledger:
            ledger.decisions.request_restate("shop.orders", [day(number)], RECOLLECT, who="ann")

    def _mend(self) -> None:
        pick = self.random.choice
        ladders = ["QUARANTINE", "QUARANTINE AT MOST 1 ELSE HOLD", "DROP", "WARN", "HOLD", "FAIL"]
        self._declare(
            Rules(pick([-3, 0, 3]), pick(ladders), pick(["DROP", "QUARANTINE", "WARN", "HOLD"]), pick([0, 2]))
        )

    def _replay(self) -> None:
        with open_read_only(self.tiny.root, None, None) as at:
            found = find_replayable_labels(at, "shop.some", None).get("shop.some", ())
        with self.tiny.ledger() as ledger:
            if found:
                ledger.decisions.request_restate("shop.some", found, RECOMPUTE, who="ann")

    def _retry(self) -> None:
        with self.tiny.ledger() as ledger:
            ledger.decisions.retry("shop.some", self._in("held", "failed"), who="ann")

    def _release(self) -> None:
        for at in self._in("held"):
            [label] = [it for number in self.source if day(number) == at for it in labels(number)]
            done = release_batches(self.tiny.root, None, f"shop.some@{label}", "fine", None, yes=True, is_json=False)
            assert done in {0, 1}

    def _in(self, *states: str) -> list[datetime]:
        found = self.tiny.batches().items()
        return [instant_of(label) for (name, label), status in found if name == "shop.some" and status in states]

    def _declare(self, rules: Rules) -> None:
        self.tiny.declare(rules.dpl)
        self.rules[self.tiny.load().flow.tables["shop.some"].fingerprint] = rules

    def _rows(self) -> list[Row]:
        amounts = (None, -2, 1, 2, 4, 5, 6, 8, 10)
        return [(self.random.randint(1, 8), self.random.choice(amounts)) for _ in range(self.random.randint(1, 6))]

    def _write(self) -> None:
        rows = [(*row, f"2020-01-0{number} 10:00:00") for number, of in self.source.items() for row in of]
        self.tiny.source("orders", "id INTEGER, amount INTEGER, at TEXT", rows)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(8))
def test_input_rows_are_read_quarantined_or_dropped_by_the_rules_of_their_code(
    tmp_path: Path, spark: SparkSession, seed: int
) -> None:
    world = World(Tiny(tmp_path, spark), Random(seed))
    world.begin()
    world.check()
    for _ in range(6):
        world.step()
