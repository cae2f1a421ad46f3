"""Finds the windows that are open at a boundary, and the inputs of their rows up to there. Pure functions.

    open at b:  s < b <= c(L)

Here s is the start of the window L, and c(L) its closing tick. A window that closes exactly at b is open. The result
depends only on closing ticks, which are stored, so a revision of a state has the same windows. If c(L) is not known
yet, it must be known that it is not before b. c(L) is the tick at which the window first closed, even if late rows
reopened it afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from waterclock.batches.ledger_snapshot import BACKFILL
from waterclock.flow.declarations import Flow
from waterclock.flow.enums import ReadKind
from waterclock.planner.closings import ClosingFacts
from waterclock.planner.input_binding import bind
from waterclock.planner.plan import BoundRead, OpenWindow, ReadScope
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import local_text

_INSTANT = timedelta(microseconds=1)


def open_windows(books: ClosingFacts, boundary: datetime, latest: Mapping[str, datetime]) -> tuple[OpenWindow, ...]:
    """Return the windows that are open at a boundary, oldest first, each with its inputs up to the boundary.

    References other than UNTIL are bound as for a window that ends at the boundary, or at its own end if that is
    earlier.
    """
    return tuple(
        OpenWindow(window, _bind_open_window(books, window, boundary, latest)) for window in windows_at(books, boundary)
    )


def windows_at(books: ClosingFacts, boundary: datetime) -> list[Window]:
    """Return the windows that are open at a boundary, oldest first. There is always at least one."""
    cadence, closings = books.table.cadence, books.past.closings
    last = cadence.floor(boundary - _INSTANT)
    first_open = books.first_open()
    ticks = {label: tick for label, closing in closings.items() if (tick := closing.in_order) is not None}
    firsts = [label for label, tick in ticks.items() if tick >= boundary]
    firsts += [first_open.start] if first_open is not None else []
    first = min([label for label in firsts if label < boundary], default=last)
    windows = cadence.windows(min(first, last), cadence.next(last))
    return [each for each in windows if each.start == last or not _is_closed_before(books, each, boundary)]


def merge_reads(opened: Iterable[OpenWindow]) -> tuple[BoundRead, ...]:
    """Merge the inputs of open windows for the one batch that makes them: UNTIL as one span, others once each."""
    reads = [bound for each in opened for bound in each.reads]
    spans: dict[object, BoundRead] = {}
    for bound in reads:
        key = bound.read if bound.read.kind is ReadKind.UNTIL else bound
        known = spans.get(key, bound)
        spans[key] = replace(known, low=min(known.low, bound.low), high=max(known.high, bound.high))
    return tuple(spans.values())


def explain_unknown_windows(books: ClosingFacts, boundary: datetime) -> str | None:
    """Return why it is not known yet which windows are open at a boundary, or None if it is known."""
    first = books.first_open()
    if first is None or first.start >= boundary or books.is_decided(boundary):
        return None
    begins = books.find_first_boundary(first, is_first=True)
    zone = books.table.cadence.zone
    return f"waits for a check of the books of {books.table.name}@{first.label} at {local_text(begins, zone)}"


def is_forgotten(books: ClosingFacts, boundary: datetime) -> bool:
    """Return whether the ledger snapshot may not have the closing ticks of all windows that were open at a boundary."""
    since = books.past.closings_from
    return since is not None and boundary < since


def requested_open_labels(
    flow: Flow, force: Mapping[str, Collection[datetime]]
) -> dict[tuple[str, str], Collection[datetime]]:
    """Return the requested labels of tables of open windows, as the argument `asking` of `ledger.reads.snapshot`."""
    return {(BACKFILL, name): labels for name, labels in force.items() if flow.tables[name].open_of is not None}


def _is_closed_before(books: ClosingFacts, window: Window, boundary: datetime) -> bool:
    closing = books.past.closings.get(window.start)
    if closing is None:  # the snapshot has no closing of windows that were done long ago
        return books.past.covered.covers_instant(window.start)
    return closing.in_order is not None and closing.in_order < boundary


def _bind_open_window(
    books: ClosingFacts, window: Window, boundary: datetime, latest: Mapping[str, datetime]
) -> tuple[BoundRead, ...]:
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
class VisibleWindows:
    """The windows that a view shows from the state of open windows at `boundary`, which is None if there is no state.

    `ended` are the labels of windows that close exactly at the boundary: the state has all of their data.
    """

    boundary: datetime | None
    windows: tuple[Window, ...] = ()
    ended: frozenset[datetime] = frozenset()


@dataclass(frozen=True, slots=True)
class ClosingTicks:
    """The closing ticks of all closed windows of a table, by label. They determine which windows were open at a tick.

    `start` is the table's START; `boundaries` is the cadence of its table of open windows. `is_alone`: the query reads
    only the table's view, and not the table itself.
    """

    cadence: Cadence
    boundaries: Cadence
    start: datetime
    closed: Mapping[datetime, datetime]
    is_alone: bool = True

    def first_open_window(self, tick: datetime) -> datetime:
        """Return the start of the first window that was not closed before the last boundary at or before a tick."""
        boundary = self.boundaries.floor(tick)
        after = min((label for label, at in self.closed.items() if at >= boundary), default=None)
        if after is not None:
            return after
        return self.cadence.next(max(self.closed)) if self.closed else self.start

    def find_visible_windows(self, tick: datetime, done: IntervalSet, *, as_they_were: bool) -> VisibleWindows:
        """Return the windows that a view shows from the state at the last boundary at or before a tick.

        With `as_they_were`: all windows that were open at the boundary, including those that are `done` since, but
        without those that were skipped while open. Otherwise: the open windows that are not done.
        """
        boundary, first = self.boundaries.floor(tick), self.first_open_window(tick) if as_they_were else self.start
        spans = IntervalSet.from_intervals([(first, self.cadence.ceil(boundary))] if first < boundary else [])
        # revoking a skip makes the window open, although later windows are closed
        spans = spans if as_they_were else spans - done
        windows = (window for low, high in spans for window in self.cadence.windows(low, high))
        shown = tuple(
            window
            for window in windows
            if self.closed.get(window.start, boundary) >= boundary
            and not (done.covers_instant(window.start) and not (as_they_were and window.start in self.closed))
        )
        ended = frozenset(window.start for window in shown if self.closed.get(window.start) == boundary)
        return VisibleWindows(boundary, shown, ended)
