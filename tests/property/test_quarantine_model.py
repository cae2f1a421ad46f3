"""Random rules, holds, releases, replays and restatements on the real engine, against what a clean rebuild comes to.

The oracle keeps of each day what its source says, what is kept of it, and what is shown; it knows the rules as Python.
After each step every batch has *in = table + quarantined + dropped*, and table and quarantine hold what the oracle
says: nobody sees a row or a label that its rules refused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described, labels
from waterclock.batches.ledger_snapshot import RECOMPUTE
from waterclock.cli.actions.release import release_batches
from waterclock.operations.project_opening import open_read_only
from waterclock.operations.replaying import find_replayable_labels
from waterclock.planner.plan import RECOLLECT
from waterclock.timelabel.label import instant_of, label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAYS = 3
Row = tuple[int | None, str | None]  # id, amount as text
NULL_ID, NO_INT, LOW, DOUBLED = "id", "amount INT", "positive", "KEY (id)"


@dataclass(frozen=True)
class Rules:
    """The rules of one declaration: what becomes of a row that breaks each, and up to how many."""

    low: int = 0
    of_low: str = "QUARANTINE"
    most: int | None = None
    then: str = "HOLD"
    of_null: str = "DROP"
    is_keyed: bool = False

    @property
    def dpl(self) -> str:
        key = "KEY ELSE QUARANTINE" if self.is_keyed else ""
        limit = f" AT MOST {self.most} ELSE {self.then}" if self.most is not None else ""
        return f"""
COLLECT shop.orders PARTITIONED (id BIGINT NOT NULL ELSE {self.of_null} {key}, amount INT ELSE QUARANTINE, at TIMESTAMP)
  FROM shop.orders EVERY DAY BY DATA TIME at
  EXPECT amount > {self.low} AS positive ELSE {self.of_low}{limit};
TRANSFORM shop.sums PARTITIONED AS SELECT count(*) AS orders, sum(amount) AS total FROM shop.orders;
"""

    def made_of(self, rows: list[Row]) -> Made:
        """Return what a batch of these rows comes to."""
        found = Made()
        alone = []
        for row in rows:
            breaks = [name for name, holds in self._holds().items() if not holds(row)]
            found.broken.update(breaks)
            fates = {NULL_ID: self.of_null, NO_INT: "QUARANTINE", LOW: self.of_low}
            taken = next((name for name in breaks if fates[name] in {"QUARANTINE", "DROP"}), None)
            if taken is None:
                alone.append(row)
            elif fates[taken] == "DROP":
                found.dropped += 1
            else:
                found.aside.append(row)
        doubled = Counter(row[0] for row in alone) if self.is_keyed else Counter[int | None]()
        found.shown = [row for row in alone if doubled[row[0]] < 2]
        found.aside += [row for row in alone if doubled[row[0]] > 1]
        low = found.broken[LOW]
        if low and (self.of_low in {"HOLD", "FAIL"} or (self.most is not None and low > self.most)):
            found.verdict = self.of_low if self.most is None or low <= self.most else self.then
        return found

    def _holds(self) -> dict[str, Callable[[Row], bool]]:
        return {
            NULL_ID: lambda row: row[0] is not None,
            NO_INT: lambda row: row[1] is None or is_int(row[1]),
            LOW: lambda row: row[1] is not None and is_int(row[1]) and int(row[1]) > self.low,
        }


@dataclass
class Made:
    """What became of the rows of a batch; `verdict`: HOLD, FAIL or nothing."""

    shown: list[Row] = field(default_factory=list)
    aside: list[Row] = field(default_factory=list)
    dropped: int = 0
    broken: Counter[str] = field(default_factory=Counter)
    verdict: str = ""

    @property
    def kept(self) -> list[Row]:
        return [*self.shown, *self.aside]


@dataclass
class Day:
    """What the oracle knows of one day: its source, the revision that is shown, and what is held."""

    source: list[Row]
    shown: Made | None = None
    code: Rules | None = None
    held: tuple[Made, Rules] | None = None
    trouble: str = ""
    asked: str = ""


@dataclass
class World:
    """A project, and the oracle beside it."""

    tiny: Tiny
    random: Random
    rules: Rules = field(default_factory=Rules)
    days: dict[int, Day] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)

    def begin(self) -> None:
        self.rules = replace(self.rules, is_keyed=self.random.choice([True, False]))  # another key is another table
        self.days = {number: Day(self._rows()) for number in range(1, DAYS + 1)}
        self._write()
        self.tiny.declare(self.rules.dpl)

    def step(self) -> None:
        act = self.random.choice(["source", "rules", "rules", "retry", "recollect", "recompute", "replay", "release"])
        number = self.random.randint(1, DAYS)
        self.steps.append(f"{act} {number}")
        getattr(self, f"_{act}")(number, self.days[number])
        self.run()

    def run(self) -> None:
        for known in self.days.values():
            if known.trouble or (known.shown is not None and not known.asked):
                continue
            rows = known.shown.kept if known.asked == RECOMPUTE and known.shown else known.source
            made = self.rules.made_of(rows)
            if made.verdict:
                known.trouble = made.verdict
                known.held = (made, self.rules) if made.verdict == "HOLD" else None
            else:
                known.shown, known.code, known.asked, known.held = made, self.rules, "", None
        outcome = self.tiny.run(day(DAYS + 1))
        assert all(report.error and report.error.code in {"E740", "E755"} for report in outcome.failed), (
            self.steps, described(outcome),
        )  # fmt: skip

    def _source(self, _: int, known: Day) -> None:
        known.source = self._rows()
        self._write()

    def _rules(self, *_: object) -> None:
        pick = self.random.choice
        self.rules = Rules(
            pick([-3, 0, 3]), pick(["QUARANTINE", "QUARANTINE", "DROP", "WARN", "HOLD", "FAIL"]),
            pick([None, 0, 1, 2]), pick(["HOLD", "HOLD", "FAIL"]), pick(["DROP", "QUARANTINE"]), self.rules.is_keyed,
        )  # fmt: skip
        if self.rules.of_low == "FAIL":
            self.rules = replace(self.rules, most=None)
        if self.rules.of_low == "HOLD" and self.rules.most is not None:
            self.rules = replace(self.rules, then="FAIL")
        self.tiny.declare(self.rules.dpl)

    def _retry(self, number: int, known: Day) -> None:
        if known.trouble:
            with self.tiny.ledger() as ledger:
                ledger.decisions.retry("shop.orders", [day(number)], who="ann")
            known.trouble, known.held = "", None

    def _recollect(self, number: int, known: Day, verb: str = RECOLLECT) -> None:
        if known.shown is not None and not known.trouble:
            with self.tiny.ledger() as ledger:
                ledger.decisions.request_restate("shop.orders", [day(number)], verb, who="ann")
            known.asked = verb

    def _recompute(self, number: int, known: Day) -> None:
        self._recollect(number, known, RECOMPUTE)

    def _replay(self, *_: object) -> None:
        with open_read_only(self.tiny.root, None, None) as at:
            found = find_replayable_labels(at, "shop.orders", None).get("shop.orders", ())
            meant = [
                it for it, known in self.days.items() if known.shown and known.shown.aside and known.code != self.rules
            ]
            assert [label_of(label) for label in found] == labels(*meant), self.steps
            for number in meant:
                self._recollect(number, self.days[number], RECOMPUTE)

    def _release(self, number: int, known: Day) -> None:
        if known.held is None:
            return
        assert (
            release_batches(
                self.tiny.root, None, f"shop.orders@{labels(number)[0]}", "it is right", None, yes=True, is_json=False
            )
            == 0
        )
        known.shown, known.code = known.held
        known.held, known.trouble, known.asked = None, "", ""

    def check(self) -> None:
        """Hold what is there against the oracle."""
        shown = self.tiny.rows("SELECT timelabel, id, amount FROM shop.orders")
        done = {labels(it)[0]: known.shown for it, known in self.days.items() if known.shown}
        wanted = [(label, row[0], row[1] and int(row[1])) for label, made in done.items() for row in made.shown]
        assert Counter(shown) == Counter(wanted), self.steps
        aside = self.tiny.rows("SELECT timelabel, row FROM shop.orders_quarantine")
        found = Counter((label, *plain(json.loads(row))) for label, row in aside)
        assert found == Counter((label, *row) for label, made in done.items() for row in made.aside), self.steps
        status = {label: said for (table, label), said in self.tiny.batches().items() if table == "shop.orders"}
        for number, known in self.days.items():
            label = labels(number)[0]
            assert status.get(label) == (
                known.trouble.lower().replace("hold", "held").replace("fail", "failed") or "done"
            )
            if known.shown is not None:
                self._check_counts(label, known.shown)

    def _check_counts(self, label: str, made: Made) -> None:
        with self.tiny.ledger() as ledger:
            audit = ledger.past.audit("shop.orders", instant_of(label))
        assert audit.current is not None
        assert audit.current.revision is not None
        measures: dict[str, Any] = dict(audit.current.revision.measures)
        parts = (audit.current.revision.rows, measures["quarantined"], measures["dropped"])
        assert parts == (len(made.shown), len(made.aside), made.dropped), self.steps
        assert measures["in"] == sum(parts)
        assert sum(measures["first"].values()) == len(made.aside) + made.dropped

    def _rows(self) -> list[Row]:
        amounts = ["-5", "-1", "1", "2", "2", "7", "9", "x", None]
        ids = [1, 2, 3, 4, 5, None]
        return [(self.random.choice(ids), self.random.choice(amounts)) for _ in range(self.random.randint(0, 6))]

    def _write(self) -> None:
        rows = [(*row, f"2020-01-{it:02d} 12:00:00") for it, known in self.days.items() for row in known.source]
        self.tiny.source("orders", "id INTEGER, amount TEXT, at TEXT", rows)


def is_int(text: str) -> bool:
    return text.lstrip("-").isdigit()


def plain(row: dict[str, Any]) -> Row:
    amount = row.get("amount")
    return row.get("id"), None if amount is None else str(amount)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(12))
def test_visible_and_quarantined_rows_equal_those_of_a_clean_rebuild(
    seed: int, tmp_path: Path, spark: SparkSession
) -> None:
    world = World(Tiny(tmp_path, spark), Random(seed))
    world.begin()
    world.run()
    world.check()
    for _ in range(7):
        world.step()
        world.check()
