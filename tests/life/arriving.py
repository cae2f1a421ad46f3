"""Draws a life's flow and the rows that arrive at its sources, databases and files: punctual, late or corrected."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from tests.life.drawing import Flow, drawn_flow, pairs_of
from tests.life.favour import OF_ALL, Met, Pair, operations
from tests.life.oracle import Oracle
from tests.life.parts import Retire
from tests.life.rows import DAY, File, Row, instant
from tests.life.world import World
from waterclock.timelabel.window import Window

LAST_DAY, LAST_SHORT_DAY = 12, 16


@dataclass
class Arriving:
    """A life's flow and its sources. `met`: pairs that other lives already covered, which this one avoids."""

    random: Random
    met: Met = field(default_factory=Met)
    world: World | None = None
    flow: Flow = field(init=False)
    oracle: Oracle = field(init=False)
    hours: int = field(init=False)
    longest: int = field(init=False)
    """The number of days of the longest window, and of hours of a day."""
    story: list[str] = field(default_factory=list)
    changed: dict[str, dict[int, str]] = field(default_factory=dict)
    pairs: set[Pair] = field(default_factory=set)
    happened: dict[str, set[str]] = field(default_factory=dict)
    """The declarations that each operation has met, by operation."""
    brings_old: dict[str, bool] = field(default_factory=dict)

    erased_rows: dict[str, list[Row]] = field(default_factory=dict)
    """The rows of erased persons, by source: the source still has them, but no table takes them."""
    known: list[tuple[datetime, int, dict[str, Any]]] = field(default_factory=list)
    """The content of all tables as of a tick, and when it was read: `--known-at` still returns it."""

    def __post_init__(self) -> None:
        self.flow = drawn_flow(self.random, self.met)
        self.add_people()
        self.hours = next(it.hours for it in self.flow.values())
        self.longest = max(it.size for it in self.flow.values())
        self.oracle = Oracle(dict(self.flow), today=self.random.choice((3, 4)) + self.longest - 1)
        self.pairs = pairs_of(self.flow)
        self.changed = {name: {} for name in self.flow}
        self.brings_old = {
            name: True for name, it in self.flow.items() if it.has(Retire) and self.random.random() < 0.5
        }

    def add_people(self) -> None:
        """Add declarations about people to the drawn flow; by default none."""

    @property
    def sources(self) -> list[str]:
        return [name for name, table in self.flow.items() if table.kind == "COLLECT"]

    def arrive(self, name: str, number: int, most: int = 3) -> None:
        if self.flow[name].is_by_file:
            for _ in range(self.random.randint(0, 2)):
                self.land(name, number)
            if self.random.random() < 0.7:
                self.land(name, number, is_last=True)
            return
        for _ in range(self.random.randint(0, most)):
            used = {row.at for row in (*self.oracle.source[name], *self.erased_rows.get(name, []))}
            at = self.random.choice([it for it in range((number - 1) * DAY, number * DAY, 7) if it not in used])
            self._put(name, self._row(name, at))

    def _row(self, name: str, at: int) -> Row:
        old = self.brings_old.get(name)
        row = Row(self.random.randint(1, 4), self.random.randint(1, 400), at, int(self.random.random() < 0.15))
        return row._replace(old=row.v + 1000 if old else None)

    def land(self, name: str, number: int, most: int = 2, *, is_last: bool = False) -> None:
        """Add a file of a day; the last file of a day marks the day as complete."""
        files = self.oracle.files[name]
        rows: list[Row] = []
        for _ in range(self.random.randint(0, most)):
            used = {row.at for file in files for row in file.rows} | {row.at for row in rows}
            about = max(1, number - self.random.choice((0, 0, 0, 1, 2, -1)))
            at = self.random.choice([it for it in range((about - 1) * DAY, about * DAY, 7) if it not in used])
            rows.append(self._row(name, at))
        place = 0 if is_last else 1 + max((file.place for file in files if file.day == number), default=0)
        if is_last and any(file.name == (number, 0) for file in files):
            return
        self.put_file(name, File(number, place, tuple(rows)))

    def put_file(self, name: str, file: File) -> None:
        """Put a file into the landing folder of a table, or replace the one of that name."""
        files = self.oracle.files[name]
        rows = tuple(row for row in file.rows if not self.oracle.is_erased(name, row.k))
        files[:] = [it for it in files if it.name != file.name] + [file._replace(rows=rows)]
        if self.world is not None:
            self.world.land(name, file)

    def _put(self, name: str, row: Row) -> None:
        if self.oracle.is_erased(name, row.k):
            self.erased_rows.setdefault(name, []).append(row)
            self.changed[name][row.at] = f"{self.moment(self.oracle.today):%F %T}"
            return
        rows = self.oracle.source[name]
        row = row._replace(old=row.v + 1000 if self.brings_old.get(name) else None)
        is_keyed = self.flow[name].is_keyed
        rows[:] = [it for it in rows if it.at != row.at and not (is_keyed and it.k == row.k)] + [row]
        self.oracle.touched[name].add(self.flow[name].window_of(row.day))
        now = self.moment(self.oracle.today) + timedelta(minutes=len(self.changed[name]) % 60)
        self.changed[name][row.at] = f"{now:%F %T}"

    def moment(self, number: int) -> datetime:
        """Return the instant at which a day begins."""
        return instant(number * DAY - DAY, self.hours)

    def _window(self, name: str, label: int) -> Window:
        return Window(self.moment(label), self.moment(label + self.flow[name].size))

    def advance(self) -> None:
        """Advance by a day or two, or by a long window."""
        for _ in range(self.random.choice((1, 1, 2, *[self.longest] * (self.longest > 1)))):
            if self.oracle.today < (LAST_DAY if self.hours == 24 else LAST_SHORT_DAY):
                for name in self.sources:
                    self.arrive(name, self.oracle.today)
                self.oracle.today += 1
        self._say("", f"it is day {self.oracle.today}")

    def late(self) -> None:
        name = self.pick(self.sources, "late rows")
        number = max(1, self.oracle.today - self.random.choice((1, 2, 2, 3, 4)))
        if self.flow[name].is_by_file:
            self.land(name, number)
        else:
            self.arrive(name, number, most=2)
        self._say(name, "late rows", number)

    def correct(self) -> None:
        name = self.pick(self.sources, "corrected", "vanished")
        if rows := self.oracle.source[name]:
            row = self.random.choice(rows)
            if self.flow[name].is_snapshot and self.random.random() < 0.5:
                rows.remove(row)
                self._say(name, "vanished", row.day)
            else:
                self._put(name, row._replace(v=self.random.randint(1, 400)))
                self._say(name, "corrected", row.day)

    def pick(self, names: Iterable[str], *whats: str) -> str:
        """Choose the table of an operation: often one whose declarations the operation has not met yet."""
        among = list(names)
        if self.random.random() < 0.75:
            gains = {name: sum(self.gain(what, name) for what in whats) for name in among}
            among = [name for name in among if gains[name] == max(gains.values())]
        return self.random.choice(among)

    def gain(self, what: str, name: str) -> int:
        """Return the value of an operation on a table for coverage, given the operations of this life so far."""
        return self.met.gain_of(what, self.flow[name].words - self.happened.get(what, set()))

    def most_gain(self, *whats: str) -> int:
        """Return the highest value for coverage of some operations over all tables, judged by their declarations."""
        gains = [
            self.gain(what, name)
            for name, table in self.flow.items()
            for what in {*whats} & {*OF_ALL, *operations(table)}
        ]
        return max(gains, default=0)

    def is_new(self, what: str) -> bool:
        """Return whether an operation would meet a new declaration, judged by the tables' declarations."""
        return self.most_gain(what) > 0

    def _say(self, name: str, what: str, label: int | None = None) -> None:
        self.story.append(f"{what} {name}{f'@{label}' if label else ''}")
        if name:
            self._meet(what, self.flow[name].words)

    def _say_of_all(self, what: str) -> None:
        self.story.append(what)
        for table in self.flow.values():
            self._meet(what, table.words)

    def _meet(self, what: str, words: AbstractSet[str]) -> None:
        self.happened.setdefault(what, set()).update(words)
        self.pairs.update((f"op {what}", word) for word in words)
