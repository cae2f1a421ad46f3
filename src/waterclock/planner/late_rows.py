"""Finds the windows for which the rows of a slice are late or early. Pure functions.

A window with start s is made from the slices in [s - d, c): d is the span of UNTIL, c its closing tick (`closings`). So
a row of the slice with the label a is

    late    if the window of its time was closed at c <= a
    early   if that window has s - d > a

Otherwise it is in its window, or that window is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from waterclock.batches.ledger_snapshot import BEGINNING, ClosedSince
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import ReadKind
from waterclock.flow.late_rows import LateRows
from waterclock.planner.input_binding import bind, until_end, until_start
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.window import Window


def find_closed_windows(
    table: Table, late_rows: LateRows, since: ClosedSince, at: datetime, table_start: datetime
) -> IntervalSet:
    """Return the windows of `table` for which rows of the slice with label `at` are late.

    `table_start` is the table's START. Skipped windows are left out: their rows do not count as late while they are
    skipped.
    """
    cadence = table.cadence
    # windows that were done before CLOSE WHEN was declared have read past their end by the span of UNTIL
    high = cadence.floor(late_rows.reach.subtract_from(at, cadence.zone))
    # a calendar span added to the last days of a long month gives one instant for several ends
    while until_end(table, late_rows.reach, cadence.next(high)) <= at:
        high = cadence.next(high)
    high = high if since.first is None else min(high, since.first)
    before = IntervalSet.from_intervals([(table_start, high)] if table_start < high else []) & since.covered
    return (before | _find_checked_closed_windows(table, since, at)) - _build_interval_set(table, since.skipped)


def _find_checked_closed_windows(table: Table, since: ClosedSince, at: datetime) -> IntervalSet:
    """Return the windows that were closed by `at`, from the first window on that was ever checked."""
    cadence = table.cadence
    high = cadence.floor(at)
    if since.first is None or since.first >= high:
        return IntervalSet()
    span = IntervalSet.from_intervals([(since.first, high)])
    undone = (window.start for low, end in span - since.covered for window in cadence.windows(low, end))
    still = [label for label in undone if label not in since.closed]
    return span - _build_interval_set(table, [*still, *(label for label, tick in since.later.items() if tick > at)])


def _build_interval_set(table: Table, labels: Iterable[datetime]) -> IntervalSet:
    return IntervalSet.from_intervals((label, table.cadence.next(label)) for label in labels)


def first_window_after(table: Table, late_rows: LateRows, at: datetime, table_start: datetime) -> datetime:
    """Return the start of the first window that does not read the slice with label `at`.

    `table_start` is the table's START: the result is not before it.
    """
    cadence = table.cadence
    start = cadence.floor(late_rows.reach.add_to(at, cadence.zone))
    while until_start(table, late_rows.reach, start) > at:
        start = cadence.previous(start)
    while until_start(table, late_rows.reach, start) <= at:
        start = cadence.next(start)
    return max(start, table_start)


def find_reopenable_windows(table: Table, late_rows: LateRows, since: ClosedSince, at: datetime) -> tuple[Window, ...]:
    """Return the closed windows that a row in the slice with label `at` reopens, as it is within their MAX LATENESS."""
    if late_rows.within is None:
        return ()
    zone, cadence = table.cadence.zone, table.cadence
    closed = _find_checked_closed_windows(table, since, at) - _build_interval_set(table, since.skipped)
    found: list[Window] = []
    start = cadence.previous(cadence.floor(at))
    while since.first is not None and start >= since.first and late_rows.within.add_to(cadence.next(start), zone) > at:
        if closed.covers_instant(start):
            found.append(cadence.window_of(start))
        start = cadence.previous(start)
    return tuple(reversed(found))


def find_remakeable_windows(
    table: Table, flow: Flow, dropped: Mapping[str, tuple[datetime, datetime]], windows: Iterable[Window]
) -> tuple[Window, ...]:
    """Return the given windows that can be made again: RETAIN has dropped neither them nor any of their inputs.

    `dropped` maps each table that RETAIN has shortened to its first window ever and to the first that remains. Late
    rows may reopen only these windows. In other windows they would be removed from the table of late rows without being
    added to a window.
    """
    if not dropped:
        return tuple(windows)
    starts = dict.fromkeys(flow.tables, BEGINNING) | {name: first for name, (first, _) in dropped.items()}

    def is_whole(window: Window) -> bool:
        reads = [read for read in table.reads if read.kind is not ReadKind.LATEST]
        bound = bind(table, window, flow, starts, reads=reads)
        lows = [(read.read.table, read.low) for read in bound if read.low < read.high]
        return all(name not in dropped or low >= dropped[name][1] for name, low in [*lows, (table.name, window.start)])

    return tuple(filter(is_whole, windows))
