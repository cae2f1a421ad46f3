"""Finds windows that are not done by their DEADLINE, or will hardly be, batches that take long, and what is to blame.

A window is to be done so long after its end. Windows whose deadline was over before their table was claimed for the
first time are history, and count for none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from waterclock.batches.facts import LedgerSnapshot
from waterclock.batches.watching import AtWork, MadeLabel
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.graph import closure, parents_of
from waterclock.operations.freshness import fresh_to
from waterclock.operations.json import instant_text
from waterclock.planner.plan import NEEDS_SOMEBODY, Batch, Plan, Status
from waterclock.planner.request import Request
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from waterclock.ledger.ledger import Past
    from waterclock.operations.opening import Reading

_NOTHING = timedelta(0)
_GOES_ON, _PAUSED, _STOPPED = 0, 1, 2


class Stand(StrEnum):
    """How a window stands to its DEADLINE, or a batch to its RUNTIME."""

    MISSED = "missed"
    NEAR = "near"
    LONG = "long"


@dataclass(frozen=True, slots=True)
class Root:
    """The batch that is most upstream of all that a window waits for; itself where it waits for none."""

    table: str
    window: Window
    status: Status
    detail: str = ""

    @property
    def goes_on(self) -> bool:
        """Whether it goes on by itself: it is neither stopped nor paused."""
        return _rank(self.status) == _GOES_ON


@dataclass(frozen=True, slots=True)
class Due:
    """A window that has missed its deadline or is near it, or that took longer than it may.

    `by`: when it is to be done. `left`: how long what is left of it usually takes, as far as that is known; of one that
    takes long, how long it took so far. `fresh_to`: the end of its table's newest window that is done.
    """

    table: str
    window: Window
    by: datetime
    stand: Stand
    status: Status
    root: Root
    left: timedelta = _NOTHING
    fresh_to: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it for scripts."""
        return {
            "table": self.table,
            "label": self.window.label,
            "end": instant_text(self.window.end),
            "by": instant_text(self.by),
            "stands": str(self.stand),
            "status": str(self.status),
            "seconds": round(self.left.total_seconds(), 3),
            "fresh_to": instant_text(self.fresh_to),
            "cause": {
                "table": self.root.table,
                "label": self.root.window.label,
                "status": str(self.root.status),
                "detail": self.root.detail,
            },
        }


@dataclass(frozen=True, slots=True)
class Deadlines:
    """What is to be told of the deadlines of a flow's tables."""

    flow: Flow
    found: tuple[Due, ...] = ()

    def to_json(self) -> list[dict[str, Any]]:
        """Return it for scripts."""
        return [due.to_json() for due in self.found]


NO_DEADLINES = Deadlines(Flow(project="", tables={}))


def deadlines(at: Reading, names: Collection[str]) -> Deadlines:
    """Return which windows of some tables have missed their deadlines or are near them, upstream first, oldest first.

    Cost: nothing where no table has a deadline; else a plan of these tables and of all upstream of them, and up to
    four questions to the ledger.
    """
    meant = with_deadlines(at.flow, names)
    if not meant or at.ledger is None:
        return NO_DEADLINES
    plan = at.planner.plan(at.snapshot, at.now, Request(only=with_upstream(at.flow, meant), clock=at.ledger.now()))
    found = deadlines_of(at.flow, at.snapshot, plan, at.ledger.past, at.ledger.now(), meant)
    return Deadlines(at.flow, found)


def with_deadlines(flow: Flow, names: Iterable[str]) -> list[str]:
    """Return those of some tables that have a deadline."""
    return [name for name in names if flow.tables[name].deadline is not None]


def deadlines_of(
    flow: Flow, snapshot: LedgerSnapshot, plan: Plan, past: Past, clock: datetime, names: Collection[str]
) -> tuple[Due, ...]:
    """Return what `deadlines` does, by a plan of the tables and of all upstream; `clock` is the ledger's real one."""
    if not names:
        return ()
    timed = [name for name in names if flow.tables[name].runtime is not None]
    work = past.at_work(sorted(with_upstream(flow, names)))
    found = [*due_of(flow, snapshot, plan, names, _elapsed(work, clock))]
    if any(due.stand is Stand.MISSED for due in found):
        began = past.began_by(sorted({due.table for due in found}))
        if older := {due.table for due in found if due.table in began and is_history(due, began[due.table])}:
            began |= past.began(sorted(older))
        found = [due for due in found if not is_history(due, began.get(due.table))]
    newest = past.newest_made(timed, 1) if timed else {}
    found += long_ones(flow, snapshot, newest, [each for each in work if each.table in timed], clock)
    return tuple(found)


def is_history(due: Due, began: datetime | None) -> bool:
    """Tell whether a deadline was over when its table began; one of which nothing was ever claimed has not begun."""
    return due.stand is Stand.MISSED and (began is None or due.by <= began)


def due_of(
    flow: Flow,
    snapshot: LedgerSnapshot,
    plan: Plan,
    names: Collection[str],
    elapsed: Mapping[tuple[str, datetime], timedelta] | None = None,
) -> Iterator[Due]:
    """Yield the windows that have missed their deadline or are near it; pure, some microseconds a planned batch.

    What goes on is near where what is left, at its usual pace, would miss the deadline; what is stopped or paused, once
    half of the time is over that it has, or no more is left than making it takes. `elapsed`: how long batches that run
    have run.
    """
    paths = _Paths(flow, snapshot, plan.now, elapsed or {})
    for batch in plan.batches:
        path = paths.add(batch)
        table = flow.tables[batch.table]
        if table.deadline is None or batch.table not in names or batch.is_revision:
            continue
        by = table.deadline.after(batch.window.end, table.cadence.zone)
        due = table.cadence.due_at(batch.window)
        if by <= plan.now:
            stand = Stand.MISSED
        elif plan.now + path.left > by or (path.rank and plan.now - due >= (by - due) / 2):
            stand = Stand.NEAR
        else:
            continue
        yield Due(batch.table, batch.window, by, stand, batch.status, path.root, path.left, fresh_to(table, snapshot))


def long_ones(
    flow: Flow,
    snapshot: LedgerSnapshot,
    newest: Mapping[str, Sequence[MadeLabel]],
    work: Iterable[AtWork],
    clock: datetime,
) -> Iterator[Due]:
    """Yield the batches that take longer than RUNTIME, by table: one that runs, else the newest that is done.

    A claim of several labels may take that long for each.
    """
    running: set[str] = set()
    for each in work:
        table = flow.tables[each.table]
        took = clock - each.since
        if table.runtime is not None and took > table.runtime.elapsed() * each.labels:
            running.add(each.table)
            yield _long(table, table.cadence.window_of(each.first), Status.RUNNING, took, snapshot)
    for name, labels in newest.items():
        table = flow.tables[name]
        if name not in running and table.runtime is not None and labels and labels[-1].took > table.runtime.elapsed():
            window = Window(labels[-1].label, labels[-1].end)
            yield _long(table, window, Status.DONE, labels[-1].took, snapshot)


def _long(table: Table, window: Window, status: Status, took: timedelta, snapshot: LedgerSnapshot) -> Due:
    by = window.end if table.deadline is None else table.deadline.after(window.end, table.cadence.zone)
    root = Root(table.name, window, status)
    return Due(table.name, window, by, Stand.LONG, status, root, took, fresh_to(table, snapshot))


@dataclass(frozen=True, slots=True)
class _Path:
    """What is left until a batch is done: the usual time of it, and of what it waits for, the longest way through."""

    left: timedelta
    root: Root
    rank: int = _GOES_ON


@dataclass(slots=True)
class _Paths:
    """The longest way to each planned batch, told in the plan's order: upstream first, oldest first."""

    flow: Flow
    snapshot: LedgerSnapshot
    now: datetime
    elapsed: Mapping[tuple[str, datetime], timedelta]
    _labels: dict[str, list[datetime]] = field(default_factory=dict)
    _paths: dict[str, list[_Path]] = field(default_factory=dict)

    def add(self, batch: Batch) -> _Path:
        """Tell the way to a batch; all that it reads was told before."""
        name = batch.table
        path = self._of(batch)
        self._labels.setdefault(name, []).append(batch.label)
        self._paths.setdefault(name, []).append(path)
        return path

    def _of(self, batch: Batch) -> _Path:
        own = self._usual(batch)
        itself = _Path(own, Root(batch.table, batch.window, batch.status, batch.reason), _rank(batch.status))
        if itself.rank == _STOPPED or batch.status in {Status.RUNNING, Status.READY}:
            return itself
        ahead = max(self._ahead(batch), key=lambda path: (path.rank, path.left), default=None)
        if ahead is None and batch.causes:
            cause = batch.causes[0]
            ahead = _Path(_NOTHING, Root(cause.table, cause.window, cause.status, cause.detail), _rank(cause.status))
        if ahead is None or itself.rank > ahead.rank:
            return itself
        return _Path(ahead.left + own, ahead.root, ahead.rank)

    def _ahead(self, batch: Batch) -> Iterator[_Path]:
        """Yield the ways to what a batch waits for."""
        if self.flow.tables[batch.table].in_label_order and self._paths.get(batch.table):
            yield self._paths[batch.table][-1]
        for read in batch.reads:
            name = read.read.table
            labels = self._labels.get(name, [])
            low, high = bisect_left(labels, read.low), bisect_left(labels, read.high)
            if low < high:
                yield max(self._paths[name][low:high], key=lambda path: (path.rank, path.left))
            yield from self._not_due(name, read.low, read.high)

    def _not_due(self, name: str, low: datetime, high: datetime) -> Iterator[_Path]:
        """Yield the way to the last window of a read, where its DELAY is not over."""
        cadence = self.flow.tables[name].cadence
        end = cadence.floor(high)
        if end <= low or self.snapshot.of(name).covered.covers_instant(cadence.previous(end)):
            return
        window = Window(cadence.previous(end), end)
        due = cadence.due_at(window)
        if due > self.now:
            usual = timedelta(seconds=self.snapshot.of(name).seconds_per_batch or 0)
            yield _Path(due - self.now + usual, Root(name, window, Status.WAITING, "is not due yet"))

    def _usual(self, batch: Batch) -> timedelta:
        """Return how long a batch usually takes, as its table says where none was made yet; 0 where nobody knows."""
        seconds = self.snapshot.of(batch.table).seconds_per_batch
        said = self.flow.tables[batch.table].runtime
        usual = timedelta(seconds=seconds) if seconds is not None else said.elapsed() if said else _NOTHING
        return max(usual - self.elapsed.get((batch.table, batch.label), _NOTHING), _NOTHING)


def _rank(status: Status) -> int:
    if status in NEEDS_SOMEBODY:
        return _STOPPED
    return _PAUSED if status is Status.PAUSED else _GOES_ON


def _elapsed(work: Iterable[AtWork], clock: datetime) -> dict[tuple[str, datetime], timedelta]:
    return {(each.table, each.first): (clock - each.since) / each.labels for each in work}


def with_upstream(flow: Flow, names: Collection[str]) -> set[str]:
    """Return some tables with all that they read, directly or through others."""
    return {*names, *closure(names, parents_of(flow))}
