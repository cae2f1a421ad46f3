"""Which windows are open at a boundary, and what their rows up to there are made of. Pure.

    open at b:  s < b <= c(L)

A window that is closed just at b is among them. All of it follows from where books are closed, which is kept, so a
revision of a state holds the same windows. Where c(L) is not known yet, it must be known not to lie before b. c(L) is
where the books were closed at first: rows that open them again later belong to a closed window that is made again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from waterclock.batches.facts import BACKFILL, Closing
from waterclock.flow.choices import ReadKind
from waterclock.flow.declarations import Flow
from waterclock.planner.closings import Books
from waterclock.planner.plan import BoundRead, OpenWindow, ReadScope
from waterclock.planner.reads import bind
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import local_text

_INSTANT = timedelta(microseconds=1)
_NOT_LOOKED_AT = Closing()


def open_windows(books: Books, boundary: datetime, latest: Mapping[str, datetime]) -> tuple[OpenWindow, ...]:
    """Return the windows that are open at a boundary, oldest first, each with what it reads up to there.

    What is not read UNTIL is read as far as it goes at the boundary: of a window that has ended, at its own end.
    """
    return tuple(OpenWindow(window, _reads(books, window, boundary, latest)) for window in windows_at(books, boundary))


def windows_at(books: Books, boundary: datetime) -> list[Window]:
    """Return the windows that are open at a boundary, oldest first: there is always one."""
    cadence, closings = books.table.cadence, books.past.closings
    last = cadence.floor(boundary - _INSTANT)
    first_open = books.first_open()
    ticks = {label: tick for label, closing in closings.items() if (tick := closing.in_order) is not None}
    firsts = [label for label, tick in ticks.items() if tick >= boundary]
    firsts += [first_open.start] if first_open is not None else []
    first = min([label for label in firsts if label < boundary], default=last)
    windows = cadence.windows(min(first, last), cadence.next(last))
    return [each for each in windows if each.start == last or not _is_closed_before(books, each, boundary)]


def reads_of(opened: Iterable[OpenWindow]) -> tuple[BoundRead, ...]:
    """Return what a batch reads that makes several open windows: UNTIL as one span for all, all else each once."""
    reads = [bound for each in opened for bound in each.reads]
    spans: dict[object, BoundRead] = {}
    for bound in reads:
        key = bound.read if bound.read.kind is ReadKind.UNTIL else bound
        known = spans.get(key, bound)
        spans[key] = replace(known, low=min(known.low, bound.low), high=max(known.high, bound.high))
    return tuple(spans.values())


def not_known(books: Books, boundary: datetime) -> str | None:
    """Say why it is not known yet which windows are open at a boundary; None where it is."""
    first = books.first_open()
    if first is None or first.start >= boundary or books.is_decided(boundary):
        return None
    begins = books.begins(first, is_first=True)
    zone = books.table.cadence.zone
    return f"waits for a look at the books of {books.table.name}@{first.label} at {local_text(begins, zone)}"


def is_forgotten(books: Books, boundary: datetime) -> bool:
    """Tell whether windows that were open at a boundary have been closed since, and are not known here any more."""
    since = books.past.closings_from
    return since is not None and boundary < since


def states_asked(flow: Flow, force: Mapping[str, Collection[datetime]]) -> dict[tuple[str, str], Collection[datetime]]:
    """Return the states of open windows among labels that are asked for, as a snapshot of the ledger takes them."""
    return {(BACKFILL, name): labels for name, labels in force.items() if flow.tables[name].open_of is not None}


def _is_closed_before(books: Books, window: Window, boundary: datetime) -> bool:
    tick = books.past.closings.get(window.start, _NOT_LOOKED_AT).in_order
    return tick is not None and tick < boundary


def _reads(books: Books, window: Window, boundary: datetime, latest: Mapping[str, datetime]) -> tuple[BoundRead, ...]:
    table = books.table
    found: list[BoundRead] = []
    begun = Window(window.start, min(window.end, boundary))
    for read in table.reads:
        if read.kind is ReadKind.UNTIL:
            found += bind(table, window, books.flow, books.starts, reads=[read], closing=boundary)
        else:
            [bound] = bind(table, begun, books.flow, books.starts, latest, reads=[read])
            if bound.scope is ReadScope.SLICES and read.kind is not ReadKind.LATEST:
                high = books.flow.tables[read.table].cadence.floor(bound.high)
                bound = replace(bound, low=min(bound.low, high), high=high)
            found.append(bound)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a view shows of the state of open windows at `boundary`: these `windows`; None where there is no state.

    `ended`: the labels of those that are closed just there: all that belongs to them is in the state.
    """

    boundary: datetime | None
    windows: tuple[Window, ...] = ()
    ended: frozenset[datetime] = frozenset()


@dataclass(frozen=True, slots=True)
class Openings:
    """Where all windows of a table were closed, by label: which were open at a tick.

    `start` is the table's START, `boundaries` the cadence of the table that holds its open windows. `is_alone`: the
    table is asked by its view, and not by its own name as well.
    """

    cadence: Cadence
    boundaries: Cadence
    start: datetime
    closed: Mapping[datetime, datetime]
    is_alone: bool = True

    def first_at(self, tick: datetime) -> datetime:
        """Return the first window that was open at the last boundary before a tick, whether it had begun or not."""
        boundary = self.boundaries.floor(tick)
        after = min((label for label, at in self.closed.items() if at >= boundary), default=None)
        if after is not None:
            return after
        return self.cadence.next(max(self.closed)) if self.closed else self.start

    def shown_at(self, tick: datetime, done: IntervalSet, *, as_they_were: bool) -> Shown:
        """Return what a view shows of the state at the boundary before a tick.

        `as_they_were`: of all windows that were open there, also those that are `done` since, but for what was skipped
        without being closed; else of those that are not done.
        """
        boundary, first = self.boundaries.floor(tick), self.first_at(tick) if as_they_were else self.start
        spans = IntervalSet.from_intervals([(first, self.cadence.ceil(boundary))] if first < boundary else [])
        # who takes it back that a window was left out opens it behind windows that are closed
        spans = spans if as_they_were else spans - done
        windows = (window for low, high in spans for window in self.cadence.windows(low, high))
        shown = tuple(
            window
            for window in windows
            if self.closed.get(window.start, boundary) >= boundary
            and not (done.covers_instant(window.start) and not (as_they_were and window.start in self.closed))
        )
        ended = frozenset(window.start for window in shown if self.closed.get(window.start) == boundary)
        return Shown(boundary, shown, ended)
