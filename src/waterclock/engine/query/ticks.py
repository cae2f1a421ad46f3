"""Finds as of which tick, and as known when, a query of several tables is answered."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from waterclock.batches.facts import BEGINNING, FOREVER
from waterclock.engine.query.views import with_views
from waterclock.engine.workplace import Workplace
from waterclock.ledger.ledger import Ledger
from waterclock.planner.open_windows import Shown
from waterclock.planner.planning import Planner
from waterclock.planner.ticks import Ticks, read_tick
from waterclock.planner.unanswered import may_lack, never_agreed, not_known, not_made
from waterclock.planner.worlds import Conflict, Worlds, past_now
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.label import label_of

# How far a look at the past reaches beyond where it must, so that few looks do: by so much, and at least so long.
_FURTHER = 8
_LEAST = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class AsOf:
    """What somebody asks for: a tick in the words of `planner.ticks.read_tick`, and as known when; None: as known now.

    `is_partial`: windows that are not there are left out, and named.
    """

    tick: str
    known_at: datetime | None = None
    zone: str = "UTC"
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class Gap:
    """Labels of a table in a row that an answer does without, from the first to the last."""

    table: str
    first: datetime
    last: datetime
    labels: int


@dataclass(frozen=True, slots=True)
class Moment:
    """As of which tick all tables are read, and what is known of them.

    `known_at`: only revisions recorded by then count; None: all. `is_rippling`: it was set because what the query reads
    was restated and not all has followed; it is the last instant at which all agreed. `behind`: the batches that have
    not followed, by table. `missing`: what is left out. `awaited`: of the newest tick, what newer ones wait for though
    later labels are made. `shown_open`: by table that is asked by its view, what of its open windows.
    """

    tick: datetime
    known_at: datetime | None = None
    is_rippling: bool = False
    behind: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)
    missing: tuple[Gap, ...] = ()
    awaited: tuple[Gap, ...] = ()
    shown_open: Mapping[str, Shown] = field(default_factory=dict)


def reservations(moment: Moment) -> list[str]:
    """Return in words what an answer as of a moment is made without: restatements that have not been followed, gaps."""
    said = []
    if moment.is_rippling and moment.known_at is not None:
        batches = ", ".join(
            f"{name}@{label_of(labels[0])}{f' and {len(labels) - 1} more' if len(labels) > 1 else ''}"
            for name, labels in moment.behind.items()
        )
        said.append(
            f"as of {label_of(moment.tick)} this is what was known at {moment.known_at:%Y-%m-%d %H:%M:%SZ}: what it "
            f"reads was restated since, and {batches} has not followed; `waterclock recompute` makes it again"
        )
    said += [f"without {gap.table}@{label_of(gap.first)}..{label_of(gap.last)}: not there" for gap in moment.missing]
    return said


def moment_of(work: Workplace, tables: Collection[str], asked: AsOf) -> Moment:
    """Find the moment at which tables, and views of such, are asked together, as `Questions.moment`."""
    return Questions(Planner(work.flow), work.ledger, work.real_now()).moment(tables, asked)


@dataclass(frozen=True, slots=True)
class Questions:
    """Finds moments by one ledger, at one time of its clock."""

    planner: Planner
    ledger: Ledger
    now: datetime

    def moment(self, tables: Collection[str], asked: AsOf) -> Moment:
        """Find the newest moment at which all tables have their content as of a tick, and all they rest on agrees.

        That is now, or as known then, unless something of it was restated and not all has followed: then the last
        instant before. One instant holds for all tables.

        Raises E521 for a tick in the future or before a table's first window, E522 where a window before the tick is
        not made, or was not by then, E518 where RETAIN dropped it, E523 where there is no such tick or instant, and
        as `read_tick`.
        Cost: one snapshot of the ledger; where something does not agree, or `known_at` is given, a look at what was
        committed since (`ledger.reads.history`), again for eight times the time where that is not far enough.
        """
        snapshot = self.ledger.reads.snapshot(self.planner.flow)
        ticks, tables = with_views(self.planner.flow, self.ledger, self.planner.ticks(snapshot, self.now), tables)
        said = read_tick(asked.tick, self.planner.flow, asked.zone)
        search = _Search(self, ticks, tuple(tables), asked)
        if asked.known_at is not None:
            worlds = search.worlds(said or FOREVER, asked.known_at)
            tick = said or ticks.latest_known(tables, worlds, asked.known_at, is_partial=asked.is_partial)
        else:
            modes = {name: node.table.mode for name, node in self.planner.graph.nodes.items()}
            worlds = Worlds(ticks.graph, snapshot, past_now(snapshot, modes, self.now))
            tick = said or ticks.latest(tables, is_partial=asked.is_partial)
            if said is None:
                return replace(search.moment(tick, worlds), awaited=search.awaited())
        return search.moment(tick, worlds)


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for the instant of one question."""

    questions: Questions
    ticks: Ticks
    tables: tuple[str, ...]
    asked: AsOf

    def worlds(self, tick: datetime, since: datetime) -> Worlds:
        """Return the worlds since an instant, of what lies before a tick."""
        asked = dict.fromkeys(self.tables, tick)
        history = self.questions.ledger.reads.history(self.questions.planner.flow, asked, since)
        return Worlds(self.ticks.graph, self.ticks.snapshot, history)

    def moment(self, tick: datetime, worlds: Worlds) -> Moment:
        """Return the newest moment as of a tick, going back restatement by restatement."""
        missing = self.ticks.missing(self.tables, tick)
        if any(not self._may_lack(name) for name in missing):
            raise not_made(self.ticks, missing, tick, is_partial=self.asked.is_partial)
        needs, at = self.ticks.kept(self.tables, tick), self.asked.known_at
        left_out = worlds.missing(needs, at)
        self._refuse_unknown(left_out, tick, worlds)
        conflicts = first = worlds.conflicts(needs, at)
        while conflicts:
            at = worlds.before(conflicts, at)
            if at < worlds.history.since:
                worlds = self.worlds(tick, self._further(at))
            lacks = worlds.missing(needs, at)
            if lacks != left_out:
                raise never_agreed(self.ticks, self._in_order(first), _more(lacks, left_out), tick)
            conflicts = worlds.conflicts(needs, at)
        return Moment(
            tick,
            at,
            is_rippling=bool(first),
            behind=_by_table(self._in_order(first)),
            missing=self._gaps(_joined(missing, left_out)),
            shown_open={
                name: openings.shown_at(tick, worlds.covered(name, at), as_they_were=True)
                for name, openings in self.ticks.opened.items()
            },
        )

    def awaited(self) -> tuple[Gap, ...]:
        """Return what newer ticks wait for though later labels are made; nothing where gaps are left out anyway."""
        if self.asked.is_partial:
            return ()
        found = self.ticks.awaited(self.tables)
        return self._gaps({name: IntervalSet.from_intervals([gap]) for name, gap in found.items()})

    def _refuse_unknown(self, left_out: Mapping[str, IntervalSet], tick: datetime, worlds: Worlds) -> None:
        """Refuse a question as known at an instant at which something of it was not made."""
        for name, gaps in left_out.items():
            if self.asked.known_at is not None and not self._may_lack(name):
                node = self.ticks.graph.nodes[name]
                first = worlds.first_made(name, node.table.cadence.floor(next(iter(gaps))[0]))
                raise not_known(node, gaps, tick, self.asked.known_at, first)

    def _may_lack(self, name: str) -> bool:
        return self.asked.is_partial and may_lack(self.ticks.graph.nodes[name])

    def _further(self, at: datetime) -> datetime:
        """Return since when to look at the past, so that it holds an instant."""
        passed = max(self.questions.now - at, _LEAST)
        return max(BEGINNING, at - _FURTHER * passed)

    def _in_order(self, conflicts: Collection[Conflict]) -> list[Conflict]:
        nodes = self.ticks.graph.nodes
        return sorted(conflicts, key=lambda each: (nodes[each.table].rank, each.label))

    def _gaps(self, missing: Mapping[str, IntervalSet]) -> tuple[Gap, ...]:
        found = []
        for name, gaps in missing.items():
            cadence = self.ticks.graph.nodes[name].table.cadence
            found += [Gap(name, low, cadence.previous(high), cadence.count(low, high)) for low, high in gaps]
        return tuple(found)


def _more(lacks: Mapping[str, IntervalSet], left_out: Mapping[str, IntervalSet]) -> dict[str, IntervalSet]:
    """Return what is missing beyond what was left out anyway."""
    found = {name: gaps - left_out.get(name, IntervalSet()) for name, gaps in lacks.items()}
    return {name: gaps for name, gaps in found.items() if gaps}


def _by_table(conflicts: Collection[Conflict]) -> dict[str, tuple[datetime, ...]]:
    found: dict[str, dict[datetime, None]] = {}
    for conflict in conflicts:
        found.setdefault(conflict.table, {})[conflict.label] = None
    return {name: tuple(labels) for name, labels in found.items()}


def _joined(some: Mapping[str, IntervalSet], others: Mapping[str, IntervalSet]) -> dict[str, IntervalSet]:
    return {name: some.get(name, IntervalSet()) | others.get(name, IntervalSet()) for name in (*some, *others)}
