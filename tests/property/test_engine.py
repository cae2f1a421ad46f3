"""Random small flows through the real planner, ledger, engine and Delta, with outages, late rows and restatements.

What stands in the end is what a clean rebuild from the same sources comes to; what a tick answered once it answers
again, asked as known then; and no batch ran again whose inputs were what they had been.
"""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.tiny import Tiny, day, described
from waterclock.engine.query.query import query
from waterclock.engine.query.ticks import RequestedTick
from waterclock.errors import WaterclockError
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.sampled(1)]

SOURCE = "k INTEGER, v INTEGER, at TEXT, gone INTEGER"
COLUMNS = "(k BIGINT, v BIGINT, at TIMESTAMP, gone BIGINT)"
KEYED = "(k BIGINT KEY, v BIGINT, at TIMESTAMP, gone BIGINT)"
# {start}: the START, which may move back
COLLECTS = {
    "raw.sliced": f"COLLECT raw.sliced PARTITIONED {COLUMNS} FROM shop.one EVERY DAY {{start}} BY DATA TIME at;",
    "raw.appended": f"COLLECT raw.appended {COLUMNS} FROM shop.two EVERY DAY {{start}} BY DATA TIME at APPEND;",
    "raw.merged": f"COLLECT raw.merged {KEYED} FROM shop.two EVERY DAY {{start}} BY DATA TIME at "
    "MERGE ORDER BY at DELETE WHEN gone = 1;",
    "raw.versioned": f"COLLECT raw.versioned {KEYED} FROM shop.two EVERY DAY {{start}} BY DATA TIME at "
    "TEMPORAL AT at DELETE WHEN gone = 1;",
}
# {u}: the table that is read; all of them give the columns k and v
FROM_SLICES = (
    "PARTITIONED AS SELECT k, sum(v) AS v FROM {u} GROUP BY k",
    "PARTITIONED AS SELECT k % 2 AS k, max(v) AS v FROM PAST({u}, '2 days') GROUP BY k % 2",
    "AS SELECT k, sum(v) AS v FROM HISTORY({u}) GROUP BY k",
    "(k BIGINT KEY, v BIGINT) MERGE AS SELECT k, max(v) AS v FROM {u} GROUP BY k",
)
FROM_ANY = (
    "PARTITIONED AS SELECT k, v * 2 AS v FROM {u} WHERE v % 3 > 0",
    "APPEND AS SELECT k, v FROM {u} WHERE k = 1",
    "(k BIGINT KEY, v BIGINT) TEMPORAL AS SELECT k, v FROM {u}",
    "(k BIGINT, v BIGINT) AS SELECT 0L AS k, (SELECT sum(v) FROM PREVIOUS({self})) + (SELECT sum(v) FROM {u}) AS v",
    "AS SELECT count(DISTINCT k) AS k, sum(v) AS v FROM {u}",
)


class Seen(NamedTuple):
    """What all tables answered at a tick, known at an instant, while their START was a day of January."""

    tick: datetime
    known_at: datetime
    start: int
    answers: dict[str, list[Any]]


@dataclass
class History:
    """A random flow and all that happens to it; `seen` keeps what settled ticks answered, and when."""

    random: random.Random
    tiny: Tiny
    today: int = 4
    tables: list[str] = field(default_factory=list)
    start: int = 1
    texts: list[str] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)

    def begin(self) -> None:
        """Declare a flow of four collects and a few transforms, and fill the sources."""
        partitioned = {"raw.sliced"}
        self.tables = list(COLLECTS)
        self.start = self.random.randint(1, 3)
        self.texts = list(COLLECTS.values())
        for number in range(self.random.randint(3, 5)):
            name, u = f"made.t{number}", self.random.choice(self.tables)
            text = self.random.choice(FROM_SLICES + FROM_ANY if u in partitioned else FROM_ANY)
            self.texts.append(f"TRANSFORM {name} {text.format(u=u, self=name)};")
            self.tables.append(name)
            if text.startswith("PARTITIONED"):
                partitioned.add(name)
        for source in ("one", "two"):
            self.tiny.source(source, SOURCE, self.rows(1, 6))
        self.tiny.declare(self.flow)

    @property
    def flow(self) -> str:
        """The flow as it is declared now."""
        return "\n".join(self.texts).replace("{start}", f"START '2020-01-{self.start:02d}'")

    def rows(self, first: int, last: int) -> Iterator[tuple[Any, ...]]:
        """Return some rows for each day."""
        for number in range(first, last + 1):
            for _ in range(self.random.randint(0, 3)):
                yield self.row(number)

    def row(self, number: int) -> tuple[Any, ...]:
        pick = self.random.randint
        # no two changes of a key at one time: MERGE refuses to choose between them
        at = f"2020-01-{number:02d} {pick(0, 23):02d}:{pick(0, 59):02d}:{pick(0, 59):02d}"
        return pick(1, 3), pick(1, 99), at, int(pick(0, 5) == 0)

    def step(self) -> None:
        """Let something happen."""
        happening = self.random.choice(
            (self.advance, self.advance, self.rest, self.run_some, self.change, self.recompute, self.begin_earlier)
        )
        happening()

    def advance(self) -> None:
        self.today = min(self.today + 1, 7)
        self.run()

    def rest(self) -> None:
        self.today = min(self.today + 1, 7)

    def run(self) -> None:
        outcome = self.tiny.run(day(self.today))
        assert not outcome.failed, f"{self.flow}\n{described(outcome)}"
        assert outcome.plan is not None
        assert not outcome.plan.batches, f"{self.flow}\n{outcome.plan.batches}"
        with self.tiny.ledger() as ledger:
            self.seen.append(Seen(day(self.today), ledger.now(), self.start, self.answers(self.tiny)))

    def run_some(self) -> None:
        some = self.random.sample(self.tables, k=3)
        outcome = self.tiny.run(day(self.today), only=some)
        assert not outcome.failed, f"{self.flow}\n{described(outcome)}"

    def change(self) -> None:
        """Change what the sources hold of a day that is done, and ask them for it again."""
        done = self.tiny.done("raw.sliced")
        if not done:
            return
        number = self.random.randint(self.start, self.start + len(done) - 1)
        for source in ("one", "two"):
            if self.random.random() < 0.5:
                self.tiny.shop(f"DELETE FROM {source} WHERE at LIKE '2020-01-{number:02d}%' AND k = 1")
            k, v, at, gone = self.row(number)
            self.tiny.shop(f"INSERT INTO {source} VALUES ({k}, {v}, '{at}', {gone})")
        for name in COLLECTS:
            self.ask(name, number, "recollect")

    def recompute(self) -> None:
        self.ask(self.random.choice(self.tables), self.random.randint(self.start, self.today - 1), "recompute")

    def begin_earlier(self) -> None:
        """Move START back, which is known from the next run on."""
        if self.start > 1:
            self.start -= self.random.randint(1, self.start - 1)
            self.tiny.declare(self.flow)

    def ask(self, table: str, number: int, verb: str) -> None:
        if label_of(day(number)) in self.tiny.done(table):
            with self.tiny.ledger() as ledger:
                ledger.decisions.request_restate(table, [day(number)], verb, who="somebody")

    def answers(self, tiny: Tiny, **as_of: Any) -> dict[str, list[Any]]:
        """Ask every table for all its rows."""
        with tiny.opened() as work:
            moment = RequestedTick(**as_of) if as_of else None
            return {
                name: sorted(query(work, f"SELECT * FROM {name}", limit=10_000, as_of=moment).rows, key=repr)
                for name in self.tables
            }


@pytest.mark.parametrize("seed", range(8))
def test_a_random_history_yields_the_rows_of_a_clean_rebuild(
    seed: int, tmp_path: Path, spark: SparkSession, *, is_long: bool
) -> None:
    history = History(random.Random(seed), Tiny(tmp_path / "lived", spark))
    history.begin()
    for _ in range(7 if is_long else 3):
        history.step()
    history.run()
    clean = Tiny(tmp_path / "clean", spark)
    shutil.copy(tmp_path / "lived" / "shop.sqlite", tmp_path / "clean" / "shop.sqlite")
    clean.declare(history.flow)
    outcome = clean.run(day(history.today))
    assert not outcome.failed, described(outcome)
    assert history.seen[-1].answers == history.answers(clean), history.flow
    for seen in history.seen:
        moment = {"tick": label_of(seen.tick), "known_at": seen.known_at}
        if seen.start == history.start:
            assert history.answers(history.tiny, **moment) == seen.answers, f"{moment}\n{history.flow}"
        else:  # the windows since the new START were not known then
            with pytest.raises(WaterclockError, match="E522"):
                history.answers(history.tiny, **moment)
    assert_each_ran_for_a_reason(history.tiny)


def assert_each_ran_for_a_reason(tiny: Tiny) -> None:
    """Hold that a batch ran again only where somebody asked, or what it reads was different."""
    with tiny.ledger() as ledger:
        asked = {
            (row["table"], row["timelabel"])
            for row in ledger.past.rows("events")
            if str(row["kind"]).endswith("requested")
        }
        read: dict[tuple[str, str], dict[int, set[Any]]] = defaultdict(lambda: defaultdict(set))
        for row in ledger.past.rows("inputs"):
            read[row["table"], row["timelabel"]][row["claim"]].add((row["position"], row["content"]))
    for key, claims in read.items():
        contents = [claims[claim] for claim in sorted(claims)]
        needless = [one for one, other in pairwise(contents) if one == other]
        assert not needless or key in asked, key
