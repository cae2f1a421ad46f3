"""Random days, late rows and restatements of a table that is measured offline, against a count of all its rows.

After each look that was due every label has the values of the rows that readers see, and every week those of all rows
of its days, also where days are made again so late that what they had left to be put together is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
Row = tuple[int | None, str | None]
WEEKS = 4
MEASURED = ("many", "total", "mean", "least", "most", "odd", "people", "share", "exactly")
DPL = """
COLLECT shop.sent PARTITIONED (v INT, who STRING, at TIMESTAMP) FROM shop.sent EVERY DAY BY DATA TIME at
  MEASURE count(*) AS many, sum(v) AS total, avg(v) AS mean, min(who) AS least, max(v) AS most,
    count_if(v % 2 = 1) AS odd, approx_count_distinct(who) AS people, try_divide(count(v), count(*)) AS share,
    count(DISTINCT who) AS exactly OFFLINE 1 WEEK;
"""


def counted(rows: Sequence[Row]) -> dict[str, object]:
    """Count the measures over some rows."""
    values = [v for v, _ in rows if v is not None]
    people = {who for _, who in rows if who is not None}
    return {
        "many": len(rows),
        "total": sum(values) if values else None,
        "mean": round(sum(values) / len(values), 9) if values else None,
        "least": min(people) if people else None,
        "most": max(values) if values else None,
        "odd": sum(v % 2 == 1 for v in values),
        "people": len(people),
        "share": round(len(values) / len(rows), 9) if rows else None,
        "exactly": len(people),
    }


def value_of(name: str, text: str | None) -> object:
    if text is None or name == "least":
        return text
    return round(float(text), 9) if name in {"mean", "share"} else int(text)


class World:
    """A project, and what its source holds."""

    def __init__(self, tiny: Tiny, random: Random) -> None:
        self.tiny, self.random = tiny, random
        self.source = {number: self._rows() for number in range(1, 7 * WEEKS + 1)}
        self.steps: list[str] = []
        tiny.declare(DPL)

    def step(self, last: int) -> None:
        """Days up to `last` come, and some that came before come anew."""
        again = self.random.sample(range(1, last - 6), self.random.randint(1, 3)) if last > 7 else []
        for number in again:
            self.source[number] = self._rows()
        with self.tiny.ledger() as ledger:
            if again:
                ledger.decisions.request_restate("shop.sent", [*map(day, again)], "recollect", who="ann")
        rows = [(*row, f"2020-01-{it:02d} 12:00:00") for it, of_day in self.source.items() for row in of_day]
        self.tiny.source("sent", "v INTEGER, who TEXT, at TEXT", rows)
        outcome = self.tiny.run(day(last + 1))
        self.steps.append(f"to {last}, again {again}")
        assert not outcome.failed, (self.steps, described(outcome))
        self.check(last)

    def check(self, last: int) -> None:
        with self.tiny.ledger() as ledger:
            looked = ledger.offline.newest_runs()["shop.sent"]
            labels = [*ledger.past.rows("measures")]
            spans = [*ledger.past.rows("measured_spans")]
        assert (looked.error, looked.looked_at) == (None, day(last + 1)), self.steps
        found: dict[str, dict[str, object]] = {}
        for row in labels:
            found.setdefault(row["timelabel"], {})[row["name"]] = value_of(row["name"], row["value"])
        assert found == {label_of(day(it)): counted(self.source[it]) for it in range(1, last + 1)}, self.steps
        weeks: dict[datetime, list[Row]] = {}
        for number in range(1, last + 1):
            monday = day(number) - timedelta(days=day(number).weekday())
            weeks.setdefault(monday, []).extend(self.source[number])
        told: dict[str, dict[str, object]] = {}
        for row in spans:
            told.setdefault(row["first"], {})[row["name"]] = value_of(row["name"], row["value"])
        wanted = {label_of(monday): counted(rows) for monday, rows in weeks.items()}
        for of_week in wanted.values():
            del of_week["exactly"]
        assert told == wanted, self.steps

    def _rows(self) -> list[Row]:
        pick = self.random.choice
        return [(pick([1, 2, 3, 40, None]), pick(["a", "b", "c", "d", None])) for _ in range(self.random.randint(0, 4))]


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(8))
def test_measures_of_labels_and_weeks_equal_those_computed_from_all_rows(
    seed: int, tmp_path: Path, spark: SparkSession
) -> None:
    random = Random(seed)
    world = World(Tiny(tmp_path, spark), random)
    for week in range(1, WEEKS + 1):
        world.step(7 * week if random.random() < 0.7 else 7 * week - 1)
