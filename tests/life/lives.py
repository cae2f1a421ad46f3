"""One life of a drawn flow, on the real engine or in the oracle alone: what happens to it, and what it must hold then."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tests.life.declarations import BY_LABEL, DONE, FOLDS, HELD, Declared, Fail, Hold
from tests.life.drawing import Flow, Pair, drawn_flow, pairs_of
from tests.life.oracle import TROUBLED, Oracle, Seen, Unexpected
from tests.life.rows import DAY, Row, Version, instant, minute
from tests.tiny import Tiny, day, described
from waterclock.engine.query.query import query
from waterclock.errors import WaterclockError
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LABELS = {label_of(day(number)): number for number in range(1, 32)}
STEPS = 9
LAST_DAY = 12


@dataclass
class World:
    """The engine's side of a life: a project in a folder."""

    tiny: Tiny
    flow: Flow

    def declare(self) -> None:
        self.tiny.declare("\n".join(table.dpl for table in self.flow.values()))

    def fill(self, name: str, rows: list[Row], seen: dict[int, str]) -> None:
        """Make a source what it is now; `seen`: by a row's time, when it was changed last."""
        columns = "k INTEGER, v INTEGER, at TEXT, gone INTEGER, seen TEXT"
        told = [(row.k, row.v, f"{instant(row.at):%F %T}", row.gone, seen[row.at]) for row in rows]
        self.tiny.source(name.partition(".")[2], columns, told)

    def run(self, today: int, only: list[str] | None) -> Any:
        return self.tiny.run(day(today), only=only) if only else self.tiny.run(day(today))

    def seen(self) -> dict[str, Seen]:
        """Look at all tables."""
        with self.tiny.opened() as work:
            status: dict[str, dict[int, str]] = {name: {} for name in self.flow}
            for row in work.ledger.past.rows("batches"):
                if row["status"] and row["table"] in status:
                    status[row["table"]][LABELS[row["timelabel"]]] = row["status"]
            return {
                name: Seen(status[name], self._rows(work, table))
                for name, table in self.flow.items()
                if table.kind != "PUBLISH"
            }

    @staticmethod
    def _rows(work: Any, table: Declared) -> Any:
        gone = "gone" if table.kind == "COLLECT" else "0"
        if table.mode == "TEMPORAL":
            found = query(work, f"SELECT k, v, rec_eff_time, rec_exp_time FROM {table.name}", limit=10_000).rows
            made = [Version(k, v, minute(at), minute(until)) for k, v, at, until in found]
            return tuple(sorted(made, key=lambda it: (it.k, it.at)))
        is_by_label = table.mode in BY_LABEL and not table.is_snapshot
        label = "timelabel" if is_by_label else "''"
        rows = query(work, f"SELECT {label}, k, v, at, {gone} FROM {table.name}", limit=10_000).rows
        if not is_by_label:
            return tuple(sorted(Row(k, v, minute(at), gone) for _, k, v, at, gone in rows))
        found = {}
        for label, k, v, at, gone in rows:
            found.setdefault(LABELS[label], []).append(Row(k, v, minute(at), gone))
        return {label: tuple(sorted(each)) for label, each in found.items()}

    def delivered(self, name: str) -> list[tuple[int, int]]:
        table = name.partition(".")[2]
        with closing(sqlite3.connect(self.tiny.root / "out.sqlite")) as database:
            try:
                return sorted(database.execute(f"SELECT k, v FROM {table}"))
            except sqlite3.OperationalError:
                return []


@dataclass
class Life:
    """One life. `met`: pairs that other lives have met already, of which this one meets fewer."""

    random: Random
    met: Collection[Pair] = ()
    world: World | None = None
    flow: Flow = field(init=False)
    oracle: Oracle = field(init=False)
    story: list[str] = field(default_factory=list)
    changed: dict[str, dict[int, str]] = field(default_factory=dict)
    pairs: set[Pair] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.flow = drawn_flow(self.random, self.met)
        self.oracle = Oracle({name: it for name, it in self.flow.items()}, today=self.random.choice((3, 4)))
        self.pairs = pairs_of(self.flow)
        self.changed = {name: {} for name in self.flow}

    @property
    def sources(self) -> list[str]:
        return [name for name, table in self.flow.items() if table.kind == "COLLECT"]

    def live(self) -> None:
        """Let things happen, run after them, and bring all to rest in the end."""
        for name in self.sources:
            for number in range(1, self.oracle.today + 1):
                self.arrive(name, number)
        self.run()
        for _ in range(STEPS):
            self.step()
        self.settle()

    # what happens

    def step(self) -> None:
        happening = self.random.choice(
            (self.advance, self.advance, self.late, self.correct, self.decide, self.ask, self.code, self.begin_earlier)
        )
        happening()
        if self.random.random() < 0.8:
            self.run()

    def arrive(self, name: str, number: int, most: int = 3) -> None:
        for _ in range(self.random.randint(0, most)):
            used = {row.at for row in self.oracle.source[name]}
            at = self.random.choice([it for it in range((number - 1) * DAY, number * DAY, 7) if it not in used])
            row = Row(self.random.randint(1, 4), self.random.randint(1, 400), at, int(self.random.random() < 0.15))
            self._put(name, row)

    def _put(self, name: str, row: Row) -> None:
        rows = self.oracle.source[name]
        rows[:] = [it for it in rows if it.at != row.at] + [row]
        self.oracle.touched[name].add(row.day)
        self.changed[name][row.at] = f"{instant(self.oracle.today * DAY - DAY):%F} 00:{len(self.changed[name]) % 60:02d}:00"

    def advance(self) -> None:
        """Let a day or two pass."""
        for _ in range(self.random.choice((1, 1, 2))):
            if self.oracle.today < LAST_DAY:
                for name in self.sources:
                    self.arrive(name, self.oracle.today)
                self.oracle.today += 1
        self._say("", f"it is day {self.oracle.today}")

    def late(self) -> None:
        name = self.random.choice(self.sources)
        number = max(1, self.oracle.today - self.random.choice((1, 2, 2, 3, 4)))
        self.arrive(name, number, most=2)
        self._say(name, "late rows", number)

    def correct(self) -> None:
        name = self.random.choice(self.sources)
        if rows := self.oracle.source[name]:
            row = self.random.choice(rows)
            self._put(name, row._replace(v=self.random.randint(1, 400)))
            self._say(name, "corrected", row.day)

    def decide(self) -> None:
        """Decide of a label that waits for somebody."""
        if troubles := self.oracle.troubles():
            self._decide(*self.random.choice(troubles))

    def _decide(self, name: str, label: int, status: str) -> None:
        book = self.oracle.books[name]
        verbs = ["retry", "retry"] + ["release"] * 3 * (status == HELD) + ["skip"] * (label not in book.shown)
        verb = self.random.choice(verbs)
        if verb == "retry" and self.flow[name].kind == "COLLECT" and self.random.random() < 0.7:
            for row in [row for row in self.oracle.source[name] if row.day == label and row.v % 20 in {7, 9}]:
                self._put(name, row._replace(v=row.v + 1))
        self._ask(verb, name, label)

    def ask(self) -> None:
        """Ask for a label that is done."""
        done = [
            (name, label)
            for name, book in self.oracle.books.items()
            for label, status in book.status.items()
            if status == DONE and self.flow[name].mode != "REPLACE"
        ]
        if done:
            name, label = self.random.choice(sorted(done))
            is_source = self.flow[name].kind == "COLLECT" and not self.flow[name].is_snapshot
            self._ask(self.random.choice(("recompute", "recollect")) if is_source else "recompute", name, label)

    def _ask(self, verb: str, name: str, label: int) -> None:
        self._say(name, verb, label)
        if self.world is not None:
            with self.world.tiny.ledger() as ledger:
                decisions, at = ledger.decisions, [day(label)]
                if verb == "retry":
                    decisions.retry(name, at, who="ann")
                elif verb == "release":
                    decisions.request_release(name, at, who="ann", why="known")
                elif verb == "skip":
                    from waterclock.timelabel.window import Window

                    decisions.skip(name, [Window(day(label), day(label + 1))], who="ann", why="lost")
                else:
                    decisions.request_restate(name, at, verb, who="ann")
        if verb == "skip":
            self.oracle.skip(name, label)
        else:
            self.oracle.ask(name, label, verb)

    def code(self) -> None:
        """Change the query of a transform."""
        names = [name for name, table in self.flow.items() if table.kind == "TRANSFORM"]
        name = self.random.choice(names)
        self.flow[name].code += 1
        self._say(name, "code changed")

    def begin_earlier(self) -> None:
        """Move START of a collect back."""
        names = [name for name in self.sources if self.flow[name].start > 1 and not self.flow[name].is_snapshot]
        if names:
            name = self.random.choice(names)
            self.flow[name].start -= 1
            self._say(name, "START moved back")

    def _say(self, name: str, what: str, label: int | None = None) -> None:
        self.story.append(f"{what} {name}{f'@{label}' if label else ''}")
        if name:
            self.pairs |= {(f"op {what}", word) for word in self.flow[name].words}

    # runs

    def run(self, *, is_last: bool = False) -> None:
        self.story.append(f"run on day {self.oracle.today}")
        seen = None
        outcome = None
        if self.world is not None:
            self.world.declare()
            for name in self.sources:
                self.world.fill(name, self.oracle.source[name], self.changed[name])
            outcome = self.world.run(self.oracle.today, None)
            seen = self.world.seen()
        for name in self.flow:
            if self.flow[name].kind == "PUBLISH":
                continue
            released = [label for label, verb in self.oracle.books[name].asked.items() if verb == "release"]
            options = self.oracle.options(name)
            self.oracle.take(name, options, seen[name] if seen else None)
            self.oracle.touched.get(name, set()).clear()
            for label in released:
                self.oracle.released(name, label)
        if outcome is not None:
            self._hold(outcome, is_last=is_last)

    def _hold(self, outcome: Any, *, is_last: bool) -> None:
        """Hold what a run says of itself, and what was delivered, against the tables."""
        assert self.world is not None
        if self.oracle.troubles():
            return
        assert not outcome.failed, described(outcome)
        for name, table in self.flow.items():
            if table.kind == "PUBLISH":
                shown = self.oracle.visible(table.of)
                rows = [row for each in shown.values() for row in each] if isinstance(shown, dict) else shown
                expected = sorted((row.k, row.v) for row in rows)
                if self.world.delivered(name) != expected:
                    raise Unexpected(f"{name} delivered {self.world.delivered(name)}, not {expected}")
        if is_last:
            assert outcome.plan is not None
            if outcome.plan.batches:
                raise Unexpected(f"still due: {outcome.plan.batches}")

    def settle(self) -> None:
        """Decide of all that waits for somebody, and run until nothing is left."""
        for _ in range(12):
            troubles = self.oracle.troubles()
            for name, label, status in troubles:
                self._decide(name, label, status)
            if not troubles:
                break
            self.run()
        self.advance()
        self.run(is_last=not self.oracle.troubles())

    def told(self) -> str:
        """Return the flow and all that happened, to find out why it failed."""
        return "\n".join([*(table.dpl for table in self.flow.values()), *self.story])


def lived(seed: int, root: Path | None = None, spark: SparkSession | None = None, met: Collection[Pair] = ()) -> Life:
    """Live one life; without a session in the oracle alone.

    Raises  Unexpected with the flow and its story
    """
    life = Life(Random(seed), met)
    if root is not None and spark is not None:
        life.world = World(Tiny(root, spark), life.flow)
    try:
        life.live()
    except (AssertionError, WaterclockError) as error:
        raise Unexpected(f"seed {seed}: {error}\n{life.told()}") from error
    return life


@cache
def met_before(seed: int) -> frozenset[Pair]:
    """Return the pairs that the lives of lesser seeds meet, by the oracle alone."""
    return frozenset() if seed == 0 else met_before(seed - 1) | lived(seed - 1, met=met_before(seed - 1)).pairs
