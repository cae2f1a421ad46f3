"""Rules OVER TABLE of tables that fold and of publishes, in random lives of late, restated and deleted rows.

A rule is asked before its batch is shown, so what it told is held against what is there once it is: the rows of the
table, those at the destination, and for MERGE what all rows that were ever told come to when they are folded at once.
The rules are true of about every other state, so that one asked of another state shows soon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described
from waterclock.batches.records import warnings_of
from waterclock.cli.actions.release import release_batches
from waterclock.planner.plan import RECOLLECT
from waterclock.timelabel.label import instant_of, label_of
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DAYS = 5
Row = tuple[int, int | None, int, int]  # id, v, n, gone
Shown = tuple[int, int | None]

RULES: Mapping[str, tuple[str, Callable[[Sequence[Shown]], bool]]] = {
    "even": ("count(id) % 2 = 0", lambda rows: len(rows) % 2 == 0),
    "threes": ("coalesce(sum(v), 0) % 3 != 0", lambda rows: sum(v or 0 for _, v in rows) % 3 != 0),
    "keys": ("coalesce(sum(id), 0) % 5 > 1", lambda rows: sum(key for key, _ in rows) % 5 > 1),
    "known": ("count(DISTINCT v) = count(v)", lambda rows: _differ([v for _, v in rows if v is not None])),
}
EXPECT = ",\n".join(f"{text} AS {name} OVER TABLE ELSE WARN" for name, (text, _) in RULES.items())
DPL = f"""
COLLECT raw.sent PARTITIONED (id BIGINT, v INT, n INT, gone INT, at TIMESTAMP) FROM shop.sent
  EVERY DAY START 'FIRST' BY DATA TIME at;
TRANSFORM core.kept (id KEY, *) MERGE ORDER BY n DELETE WHEN gone = 1
  EXPECT {EXPECT}
AS SELECT id, v, n, gone FROM raw.sent;
TRANSFORM core.versions (id KEY, *) TEMPORAL AT at DELETE WHEN gone = 1
  EXPECT {EXPECT}
AS SELECT id, v, gone, at FROM raw.sent;
PUBLISH raw.sent TO out.labels EXPECT {EXPECT};
PUBLISH raw.sent TO out.newest MERGE ON (id) EXPECT {EXPECT};
PUBLISH core.kept TO out.kept EXPECT {EXPECT};
PUBLISH core.versions TO out.versions EXPECT {EXPECT};
"""
LAKE, OUT = ("core.kept", "core.versions"), ("out.labels", "out.newest", "out.kept", "out.versions")


def _differ(values: Sequence[int]) -> bool:
    return len(set(values)) == len(values)


def broken(rows: Sequence[Shown]) -> set[str]:
    """Return the rules that do not hold of some rows."""
    return {name for name, (_, holds) in RULES.items() if not holds(rows)}


class World:
    """A project, and what its source has told."""

    def __init__(self, tiny: Tiny, random: Random) -> None:
        self.tiny, self.random = tiny, random
        self.source: dict[int, list[Row]] = {number: self._rows() for number in range(1, DAYS + 1)}
        self.now, self.first = 3, 2
        self.steps: list[str] = []
        self.judged = 0
        tiny.declare(DPL.replace("FIRST", "2020-01-02"))

    def step(self) -> None:
        """A day passes, rows of a day come otherwise, or the days begin earlier: one label of each table is made."""
        odds = self.random.random()
        if self.now <= DAYS and odds < 0.35:
            self.now += 1
        elif self.first > 1 and odds < 0.6:
            self.first = 1
            self.tiny.declare(DPL.replace("FIRST", "2020-01-01"))
            self.steps.append("begins a day earlier")
        else:
            number = self.random.randrange(self.first, self.now)
            self.source[number] = self._rows()
            self.steps.append(f"{number} again: {self.source[number]}")
            with self.tiny.ledger() as ledger:
                ledger.decisions.request_restate("raw.sent", [day(number)], RECOLLECT, who="ann")
        self.run()

    def run(self) -> None:
        before = self.claims()
        rows = [(*row, f"2020-01-{it:02d} 12:00:00") for it, of_day in self.source.items() for row in of_day]
        self.tiny.source("sent", "id INTEGER, v INTEGER, n INTEGER, gone INTEGER, at TEXT", rows)
        outcome = self.tiny.run(day(self.now))
        assert not outcome.failed, (self.steps, described(outcome))
        self.steps.append(f"run {self.now}")
        self.check({table: claims[-1] for table, claims in self.claims().items() if claims != before.get(table)})

    def claims(self) -> dict[str, list[tuple[int, str]]]:
        """Return by table the claims whose batches are shown, with their labels, in the order in which they came."""
        found: dict[str, list[tuple[int, str]]] = {}
        with self.tiny.ledger() as ledger:
            for row in ledger.past.rows("batches"):
                if row["status"] == "done":
                    found.setdefault(row["table"], []).append((row["claim"], row["timelabel"]))
        return {table: sorted(claims) for table, claims in found.items()}

    def check(self, made: Mapping[str, tuple[int, str]]) -> None:
        """Hold what the newest batch of each table told against what is there."""
        kept = [(row[0], row[1]) for row in self.tiny.rows("SELECT id, v FROM core.kept")]
        assert sorted(kept, key=repr) == sorted(self.folded(), key=repr), self.steps
        for table, (_, label) in made.items():
            if table in LAKE:
                rows: Iterable[Any] = self.tiny.rows(f"SELECT id, v FROM {table}")
            elif table in OUT:
                rows = self.tiny.delivered(f"SELECT id, v FROM {table.partition('.')[2]}")
            else:
                continue
            with self.tiny.ledger() as ledger:
                audit = ledger.past.audit(table, instant_of(label))
                assert audit.current is not None
                assert audit.current.revision is not None
                told = {said.partition(":")[0] for said in warnings_of(audit.current.revision.measures)}
            assert told == broken(list(rows)), (table, label, self.steps)
            self.judged += 1

    def folded(self) -> list[Shown]:
        """Fold all rows that were told at once: of a key the last by `n`, then by label."""
        last: dict[int, tuple[tuple[int, int], Row]] = {}
        for number in range(self.first, self.now):
            for row in self.source[number]:
                last[row[0]] = max(last.get(row[0], ((-1, -1), row)), ((row[2], number), row))
        return [(key, row[1]) for key, (_, row) in last.items() if not row[3]]

    def _rows(self) -> list[Row]:
        pick, keys = self.random.choice, self.random.sample(range(1, 7), self.random.randint(0, 4))
        return [(key, pick([1, 2, 3, 4, None]), self.random.randint(1, 9), pick([0, 0, 1])) for key in keys]


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(12))
def test_a_table_rule_is_checked_against_the_resulting_table(seed: int, tmp_path: Path, spark: SparkSession) -> None:
    world = World(Tiny(tmp_path, spark), Random(seed))
    world.run()
    for _ in range(5):
        world.step()
    assert world.judged > 15


HELD = """
COLLECT raw.sent PARTITIONED (id BIGINT, v INT, n INT, gone INT, at TIMESTAMP) FROM shop.sent EVERY DAY BY DATA TIME at;
TRANSFORM core.kept (id KEY, *) MERGE ORDER BY n DELETE WHEN gone = 1
  EXPECT coalesce(sum(v), 0) <= 4 AS little OVER TABLE ELSE HOLD
AS SELECT id, v, n, gone FROM raw.sent;
"""


class Held:
    """A MERGE table whose batches are held, released, made again and skipped, beside the slices that are shown."""

    def __init__(self, tiny: Tiny, random: Random) -> None:
        self.tiny, self.random, self.now = tiny, random, 2
        self.source: dict[int, list[Row]] = {number: some_rows(random) for number in range(1, DAYS + 2)}
        self.shown: dict[int, list[Row]] = {}
        self.steps: list[str] = []
        self.holds = 0
        tiny.declare(HELD)

    def folded(self, slices: Mapping[int, Sequence[Row]]) -> list[Shown]:
        last: dict[int, tuple[tuple[int, int], Row]] = {}
        for number, rows in slices.items():
            for row in rows:
                last[row[0]] = max(last.get(row[0], ((-1, -1), row)), ((row[2], number), row))
        return [(key, row[1]) for key, (_, row) in last.items() if not row[3]]

    def run(self) -> None:
        """Run, and say of each label that was attempted whether it was to be held."""
        rows = [(*row, f"2020-01-{it:02d} 12:00:00") for it, of_day in self.source.items() for row in of_day]
        self.tiny.source("sent", "id INTEGER, v INTEGER, n INTEGER, gone INTEGER, at TEXT", rows)
        self.tiny.heard.finished_.clear()
        self.tiny.run(day(self.now))
        for report in self.tiny.heard.finished_:
            if report.group.table != "core.kept":
                continue
            [batch] = report.group.batches
            number = batch.label.day
            would_be = self.folded({**self.shown, number: self.source[number]})
            is_little = sum(v or 0 for _, v in would_be) <= 4
            said = "held" if report.error else "shown"
            self.steps.append(f"{number} {said}: {self.source[number]}")
            assert (report.error is None) == is_little, self.steps
            assert report.error is None or report.error.code == "E755", described_error(report)
            if report.error is None:
                self.shown[number] = self.source[number]
            self.holds += report.error is not None
        self.check()

    def check(self) -> None:
        found = [(row[0], row[1]) for row in self.tiny.rows("SELECT id, v FROM core.kept")]
        assert sorted(found, key=repr) == sorted(self.folded(self.shown), key=repr), self.steps

    def step(self) -> None:
        """Show what is held, give it up, or let a day come, or come anew."""
        with self.tiny.ledger() as ledger:
            held = sorted(ledger.reads.held_labels("core.kept"))
        if held and self.random.random() < 0.5:
            label = self.random.choice(held)
            if self.random.random() < 0.6:
                which = f"core.kept@{label_of(label)}"
                release_batches(
                    self.tiny.root, None, which, "it may", f"2020-01-{self.now:02d}", yes=True, is_json=False
                )
                self.shown[label.day] = self.source[label.day]
                self.steps.append(f"{label.day} released")
                self.check()
            elif label.day not in self.shown:
                with self.tiny.ledger() as ledger:
                    ledger.decisions.skip("core.kept", [Window(label, day(label.day + 1))], who="ann", why="lost")
                self.steps.append(f"{label.day} skipped")
        elif self.now <= DAYS + 1 and self.random.random() < 0.5:
            self.now += 1
        else:
            number = self.random.randrange(1, self.now)
            self.source[number] = some_rows(self.random)
            with self.tiny.ledger() as ledger:
                ledger.decisions.request_restate("raw.sent", [day(number)], RECOLLECT, who="ann")
        self.run()


def described_error(report: Any) -> str:
    return str(report.error.render())


def some_rows(random: Random) -> list[Row]:
    keys = random.sample(range(1, 7), random.randint(0, 4))
    return [(key, random.choice([1, 2, 3, None]), random.randint(1, 9), random.choice([0, 0, 1])) for key in keys]


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(12))
def test_rows_held_by_a_table_rule_are_visible_only_after_their_release(
    seed: int, tmp_path: Path, spark: SparkSession
) -> None:
    world = Held(Tiny(tmp_path, spark), Random(seed))
    world.run()
    for _ in range(7):
        world.step()
