"""Random rows, late rows and restatements of a table that keeps each key once, against what a clean rebuild comes to.

The oracle makes all labels anew, oldest first: of rows with one key the last by the order stays, and none whose key an
earlier label within the reach holds. After each step the table holds what it says, and every batch has *in = table +
quarantined + dropped*.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, labels
from waterclock.planner.plan import RECOLLECT
from waterclock.timelabel.label import instant_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DAYS, REACH = 5, 3
Row = tuple[int | None, int | None]  # id, v

DPL = f"""
COLLECT raw.sent PARTITIONED (id BIGINT, v INT, at TIMESTAMP) FROM shop.sent EVERY DAY BY DATA TIME at;
TRANSFORM core.sent PARTITIONED (id KEY PAST {REACH} DAYS ORDER BY v%s ELSE %s, *) AS SELECT id, v FROM raw.sent;
TRANSFORM core.counts PARTITIONED AS SELECT count(*) AS many FROM core.sent;
"""


class World:
    """A project, and the oracle beside it."""

    def __init__(self, tiny: Tiny, random: Random) -> None:
        self.tiny = tiny
        self.random = random
        self.is_first = random.choice([True, False])
        self.action = random.choice(["DROP", "QUARANTINE"])
        self.source: dict[int, list[Row]] = {number: self._rows() for number in range(1, DAYS + 1)}
        self.told: dict[int, list[Row]] = {}
        self.steps: list[str] = []
        self.now = 2
        tiny.declare(DPL % (" DESC" if self.is_first else "", self.action))

    def step(self) -> None:
        """A day passes, or rows of a day that was collected come late, or go."""
        if self.now <= DAYS and self.random.random() < 0.5:
            self.now += self.random.randint(1, 2)
        else:
            number = self.random.randint(1, min(self.now - 1, DAYS))
            self.source[number] = self._rows() if self.random.random() < 0.5 else [*self.source[number], *self._rows()]
            self.steps.append(f"late rows of {number}: {self.source[number]}")
            if number in self.told:
                with self.tiny.ledger() as ledger:
                    ledger.decisions.request_restate("raw.sent", [day(number)], RECOLLECT, who="ann")
        self.run()

    def run(self) -> None:
        self.now = min(self.now, DAYS + 1)
        rows = [(*row, f"2020-01-{it:02d} 12:00:00") for it, of_day in self.source.items() for row in of_day]
        self.tiny.source("sent", "id INTEGER, v INTEGER, at TEXT", rows)
        outcome = self.tiny.run(day(self.now))
        assert not outcome.failed, (self.steps, described(outcome))
        self.steps.append(f"run {self.now}")
        for number in range(1, self.now):
            self.told[number] = list(self.source[number])

    def clean(self) -> dict[int, list[Row]]:
        """Make all labels from nothing."""
        made: dict[int, list[Row]] = {}
        for number in range(1, self.now):
            past = {row[0] for before in range(number - REACH + 1, number) for row in made.get(before, [])}
            groups: dict[int, list[int | None]] = defaultdict(list)
            for key, value in self.told[number]:
                if key is not None and key not in past:
                    groups[key].append(value)
            sign = -1 if self.is_first else 1
            made[number] = [
                (key, max(values, key=lambda value: (value is not None, sign * (value or 0))))
                for key, values in groups.items()
            ]
        return made

    def check(self) -> None:
        made = self.clean()
        found = self.tiny.rows("SELECT timelabel, id, v FROM core.sent")
        assert Counter(found) == Counter(
            (labels(number)[0], *row) for number, rows in made.items() for row in rows
        ), self.steps  # fmt: skip
        counts = dict(self.tiny.rows("SELECT timelabel, many FROM core.counts"))
        assert counts == {labels(number)[0]: len(rows) for number, rows in made.items()}
        with self.tiny.ledger() as ledger:
            for number, rows in made.items():
                audit = ledger.past.audit("core.sent", instant_of(labels(number)[0]))
                assert audit.current is not None
                assert audit.current.revision is not None
                measured = dict(audit.current.revision.measures)
                gone = {"quarantined": measured["quarantined"], "dropped": measured["dropped"]}
                out = len(self.told[number]) - len(rows)
                assert gone == {"quarantined": 0, "dropped": 0} | {
                    "quarantined" if self.action == "QUARANTINE" else "dropped": out
                }, self.steps
                assert measured["in"] == len(self.told[number])
                assert sum(measured["first"].values()) == out
                assert set(measured["first"]) <= {"KEY (id)", f"KEY (id) PAST {REACH} DAYS"}

    def _rows(self) -> list[Row]:
        pick = self.random.choice
        return [(pick([1, 2, 3, 4, None]), pick([1, 2, 3, None])) for _ in range(self.random.randint(0, 4))]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(12))
def test_each_key_is_stored_once_within_its_past_range_despite_late_rows(
    seed: int, tmp_path: Path, spark: SparkSession
) -> None:
    world = World(Tiny(tmp_path, spark), Random(seed))
    world.run()
    world.check()
    for _ in range(5):
        world.step()
        world.check()
