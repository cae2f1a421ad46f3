"""Computes the expected answer to a query as of a tick by walking back through the commits one by one.

Shares no code with `planner.ticks` and `planner.known_states`. A world is the state after all commits up to an instant.
It is consistent if every batch that counts was made from the inputs of that state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from tests.model.driving import Commit
from tests.model.oracle import Key, earlier, floor, window_before, windows_of
from tests.model.toy import Rows, ToyTable
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Mode

Shown = dict[str, tuple[tuple[datetime, Rows], ...]]


@dataclass(slots=True)
class Past:
    """The history of a flow: its commits, skipped labels, and the tables' oldest labels after RETAIN."""

    flow: Flow
    starts: Mapping[str, datetime]
    log: list[Commit]
    skipped: Collection[Key]
    dropped: Mapping[str, datetime]

    def answer(
        self, tables: Collection[str], tick: datetime, known_at: datetime | None, *, is_partial: bool = False
    ) -> tuple[datetime | None, Shown] | None:
        """Return the instant of the newest commit in the answer, and the tables' content; None if it is refused."""
        worlds = self.worlds(known_at)
        first = next(worlds)
        missing = first.missing(tables, tick)
        if missing and not (is_partial and all(self._may_lack(name) for name, _ in missing)):
            return None
        for world in chain((first,), worlds):  # one mutable world: check each state before the next
            if world.missing(tables, tick) != missing:
                return None
            if world.agrees(tables, tick):
                return world.at, {name: world.shown(name, tick) for name in tables}
        return None

    def _may_lack(self, name: str) -> bool:
        return self.flow.tables[name].mode is not Mode.REPLACE

    def worlds(self, known_at: datetime | None) -> Iterator[World]:
        """Yield the worlds after each commit, newest first, and at last the one before all commits."""
        known = [commit for commit in self.log if known_at is None or commit.at <= known_at]
        world = World(self)
        replaced = [world.put(commit) for commit in known]
        while known:
            if world.at is None or known[-1].at != world.at:
                world.at = known[-1].at
            yield world
            at = known[-1].at
            while known and known[-1].at == at:
                world.take_back(known.pop(), replaced.pop())
        world.at = None
        yield world


@dataclass(slots=True)
class World:
    """The state after all commits up to the instant `at`."""

    past: Past
    at: datetime | None = None
    current: dict[Key, Commit] = field(default_factory=dict)
    tables: dict[str, ToyTable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tables = {name: ToyTable(table) for name, table in self.past.flow.tables.items()}

    def put(self, commit: Commit) -> Commit | None:
        """Apply a commit and return the one that it replaces."""
        key = (commit.table, commit.label)
        before = self.current.get(key)
        self.current[key] = commit
        self._show(commit)
        self.at = commit.at
        return before

    def take_back(self, commit: Commit, before: Commit | None) -> None:
        """Undo the newest commit."""
        key, toy = (commit.table, commit.label), self.tables[commit.table]
        del self.current[key], toy.slices[commit.label]
        toy.stands.pop(commit.label, None)
        if before is not None:
            self.current[key] = before
            self._show(before)

    def missing(self, tables: Collection[str], tick: datetime) -> frozenset[Key]:
        """Return the windows without a batch, among those that make up the tables as of a tick."""
        return frozenset(
            (name, start)
            for name in tables
            for start in self._wanted(self.past.flow.tables[name], tick)
            if (name, start) not in self.past.skipped and not self._is_there(name, start)
        )

    def agrees(self, tables: Collection[str], tick: datetime) -> bool:
        """Return whether all batches behind the tables' content, direct or indirect, read the inputs of this state."""
        to_do = [(name, label) for name in tables for label in self._labels(name, tick)]
        seen: set[Key] = set()
        while to_do:
            key = to_do.pop()
            if key in seen:
                continue
            seen.add(key)
            commit = self.current[key]
            if self._is_gone(commit) or self._waits_for_rest(commit):
                continue
            saw = tuple((read.read.table, self.tables[read.read.table].parts(read)) for read in commit.reads)
            if saw != commit.evidence:
                return False
            to_do += [
                (read.read.table, at) for read in commit.reads for at in self.tables[read.read.table].chosen(read)
            ]
        return True

    def shown(self, name: str, tick: datetime) -> tuple[tuple[datetime, Rows], ...]:
        """Return a table's content as of a tick, by slice."""
        slices = self.tables[name].slices
        return tuple((label, slices[label]) for label in self._labels(name, tick) if slices[label])

    def _show(self, commit: Commit) -> None:
        toy = self.tables[commit.table]
        toy.slices[commit.label] = commit.rows
        if commit.stands_from is not None:
            toy.stands[commit.label] = commit.stands_from

    def _wanted(self, table: Table, tick: datetime) -> list[datetime]:
        """List the starts of the windows that make up a table as of a tick."""
        b, start = floor(table, tick), self.past.starts[table.name]
        if table.mode is Mode.REPLACE:
            return [window_before(table, b).start]
        kept = start
        if table.retain is not None and table.mode is Mode.APPEND:
            kept = max(start, earlier(b, table.retain, table.cadence.zone))
        return [window.start for window in windows_of(table.cadence) if kept <= window.start and window.end <= b]

    def _is_there(self, name: str, start: datetime) -> bool:
        toy = self.tables[name]
        if toy.table.mode is Mode.REPLACE or toy.table.is_snapshot:
            return toy.standing(start) is not None
        return start in toy.slices and start >= self.past.dropped.get(name, start)

    def _labels(self, name: str, tick: datetime) -> list[datetime]:
        toy = self.tables[name]
        wanted = self._wanted(toy.table, tick)
        if toy.table.mode is Mode.REPLACE:
            standing = toy.standing(wanted[0])
            return [] if standing is None else [standing]
        if toy.table.is_snapshot:
            return [label for label in sorted(toy.slices) if toy.stands[label] < floor(toy.table, tick)]
        dropped = self.past.dropped.get(name)
        return [label for label in wanted if label in toy.slices and (dropped is None or label >= dropped)]

    def _waits_for_rest(self, commit: Commit) -> bool:
        """Return whether a batch was made without an input that is still missing: until then it follows no change."""
        return any(
            (it.table, window.start) not in self.past.skipped and not self._is_there(it.table, window.start)
            for it in commit.missing
            for window in windows_of(self.past.flow.tables[it.table].cadence)
            if it.low <= window.start < it.high and window.start >= self.past.starts[it.table]
        )

    def _is_gone(self, commit: Commit) -> bool:
        """Return whether RETAIN dropped the batch or one of its inputs."""
        dropped = self.past.dropped
        return commit.label < dropped.get(commit.table, commit.label) or any(
            read.low < min(read.high, dropped.get(read.read.table, read.low)) for read in commit.reads
        )
