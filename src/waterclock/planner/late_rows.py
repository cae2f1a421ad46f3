"""Which windows take the rows of a slice no more, because they were closed, or not yet, because they begin later. Pure.

Of slices [s - d, c) a window with start s is made, where c is its closing tick (`closings`). So a row of slice a is

    late    where the window of its time was closed at c <= a
    early   where that window has s - d > a

and else it is in its window, or that is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from waterclock.batches.facts import BEGINNING, ClosedSince
from waterclock.flow.choices import ReadKind
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.late_rows import LateRows
from waterclock.planner.reads import bind, until_begins
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.window import Window


def closed_by(table: Table, late_rows: LateRows, since: ClosedSince, at: datetime, begins: datetime) -> IntervalSet:
    """Return the windows of `table` whose rows come too late in the slice that begins at `at`; `begins` is its START.

    A window that was left out takes its rows with it, until somebody takes that back.
    """
    cadence = table.cadence
    # what was done before CLOSE WHEN was said has read as far behind its end as UNTIL says
    high = cadence.floor(late_rows.reach.before(at, cadence.zone))
    high = high if since.first is None else min(high, since.first)
    before = IntervalSet.from_intervals([(begins, high)] if begins < high else []) & since.covered
    return (before | _closed(table, since, at)) - _windows(table, since.skipped)


def _closed(table: Table, since: ClosedSince, at: datetime) -> IntervalSet:
    """Return the windows whose books were closed by `at`, of those that were ever looked at."""
    cadence = table.cadence
    high = cadence.floor(at)
    if since.first is None or since.first >= high:
        return IntervalSet()
    span = IntervalSet.from_intervals([(since.first, high)])
    undone = (window.start for low, end in span - since.covered for window in cadence.windows(low, end))
    still = [label for label in undone if label not in since.closed]
    return span - _windows(table, [*still, *(label for label, tick in since.later.items() if tick > at)])


def _windows(table: Table, labels: Iterable[datetime]) -> IntervalSet:
    return IntervalSet.from_intervals((label, table.cadence.next(label)) for label in labels)


def early_from(table: Table, late_rows: LateRows, at: datetime, begins: datetime) -> datetime:
    """Return the start of the first window that does not read the slice which begins at `at`; `begins` is its START."""
    cadence = table.cadence
    start = cadence.floor(late_rows.reach.after(at, cadence.zone))
    while until_begins(table, late_rows.reach, start) > at:
        start = cadence.previous(start)
    while until_begins(table, late_rows.reach, start) <= at:
        start = cadence.next(start)
    return max(start, begins)


def may_open(table: Table, late_rows: LateRows, since: ClosedSince, at: datetime) -> tuple[Window, ...]:
    """Return the closed windows that a row of the slice which begins at `at` opens again: it is within MAX LATENESS."""
    if late_rows.within is None:
        return ()
    zone, cadence = table.cadence.zone, table.cadence
    closed = _closed(table, since, at) - _windows(table, since.skipped)
    found: list[Window] = []
    start = cadence.previous(cadence.floor(at))
    while since.first is not None and start >= since.first and late_rows.within.after(cadence.next(start), zone) > at:
        if closed.covers_instant(start):
            found.append(cadence.window_of(start))
        start = cadence.previous(start)
    return tuple(reversed(found))


def made_again(
    table: Table, flow: Flow, dropped: Mapping[str, tuple[datetime, datetime]], windows: Iterable[Window]
) -> tuple[Window, ...]:
    """Return those of some windows that can be made again: RETAIN has dropped nothing that they read, nor themselves.

    `dropped`: by table that it took something out of, the first window that ever was, and the first that is left.
    Late rows open no other window: it would take them from where they are kept, and never have them.
    """
    begins = dict.fromkeys(flow.tables, BEGINNING) | {name: first for name, (first, _) in dropped.items()}

    def is_whole(window: Window) -> bool:
        reads = [read for read in table.reads if read.kind is not ReadKind.LATEST]
        bound = bind(table, window, flow, begins, reads=reads)
        lows = [(read.read.table, read.low) for read in bound if read.low < read.high]
        return all(name not in dropped or low >= dropped[name][1] for name, low in [*lows, (table.name, window.start)])

    return tuple(filter(is_whole, windows))
