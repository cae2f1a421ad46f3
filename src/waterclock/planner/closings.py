"""Decides at which tick each window closes (CLOSE WHEN), and at which boundaries to check its condition.

    c(L) = the first boundary b >= e(L) of the table read by UNTIL at which the condition holds, and c(L) >= c(L-1)

Here c(L) is the closing tick of the window L, and e(L) its end. Windows close in order: a window stays open as long as
the one before it is open. Each boundary is checked once, when all slices before it are settled. With PARTIAL AFTER p
the first boundary at e + p or later closes the window even if the condition is not TRUE. If the condition's definition
changes, all boundaries of open windows are checked again; closed windows stay closed. `late_rows` finds the rows that
are too late for their windows, and the windows that these rows reopen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from itertools import groupby, islice

from waterclock.batches.ledger_snapshot import AT_LAST, BY_HAND, CONDITION, UNCHECKED, Closing, TableFacts
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Read, Table
from waterclock.flow.enums import ReadKind
from waterclock.flow.graph import late_tables
from waterclock.planner.input_binding import bind
from waterclock.planner.settlement import Settlement
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import local_text

MOST_PAIRS = 48
"""The maximum number of boundaries in one check, over all windows. Spark reads the rows again for each boundary."""
_MAX_OF_CHECKED, _MAX_OF_NEW = 24, 4
"""The maximum number of boundaries for one window that was checked before, and for one that was not."""


@dataclass(frozen=True, slots=True)
class ClosingCandidate:
    """A window and a boundary at which it may close."""

    window: Window
    boundary: datetime


@dataclass(frozen=True, slots=True)
class ClosingFacts:
    """The facts that decide when the windows of one table close, at one moment.

    `missing` are the windows still to be made. `settlement` has the settled windows of the tables that it reads.
    """

    table: Table
    flow: Flow
    past: TableFacts
    missing: IntervalSet
    settlement: Settlement
    starts: Mapping[str, datetime]
    now: datetime

    @property
    def open_ended_reads(self) -> tuple[Read, ...]:
        """The table's UNTIL references, which read up to the closing tick of a window."""
        return list_until_reads(self.table)

    @property
    def cadence(self) -> Cadence:
        """The cadence of the table that UNTIL reads. Windows close at its boundaries."""
        return self.flow.tables[list_until_reads(self.table)[0].table].cadence

    @property
    def condition_hash(self) -> str:
        """A short hash of the condition. Stored results of another condition are ignored."""
        return sha256(repr((self.table.closes, str(self.table.partial_after))).encode()).hexdigest()[:12]

    def last(self, window: Window) -> datetime | None:
        """Return the boundary at which PARTIAL AFTER closes a window in any case, or None without PARTIAL AFTER."""
        after = self.table.partial_after
        return None if after is None else self.cadence.ceil(after.add_to(window.end, self.table.cadence.zone))

    def windows(self) -> Iterator[Window]:
        """Yield the windows that are still to be made, oldest first."""
        return (window for low, high in self.missing for window in self.table.cadence.windows(low, high))

    def previous_closing(self, window: Window) -> datetime | None:
        """Return the closing tick of the newest window before this one that was not skipped, or None."""
        known = self.past.closings.items()
        closed = [(label, it.in_order) for label, it in known if label < window.start and it.in_order is not None]
        return max(closed)[1] if closed else None

    def first_open(self) -> Window | None:
        """Return the oldest open window, or None if all are closed."""
        return next((window for window in self.windows() if not self.is_closed(window)), None)

    def is_closed(self, window: Window) -> bool:
        """Return whether a window is closed."""
        closing = self.past.closings.get(window.start)
        return closing is not None and closing.tick is not None

    def find_settled_boundary(self, window: Window) -> datetime | None:
        """Return the newest boundary before which all inputs of a window are settled, or None.

        Slices after `now` are ignored, so a replay of the past closes windows at the same ticks as the past did.
        """
        ends = [self._find_boundary_of_read(read, window) for read in list_until_reads(self.table)]
        known = [end for end in ends if end is not None]
        return min(known) if len(known) == len(ends) else None

    def _find_boundary_of_read(self, read: Read, window: Window) -> datetime | None:
        cadence = self.flow.tables[read.table].cadence
        newest = cadence.last_due(self.now)
        low = bind(self.table, window, self.flow, self.starts, reads=[read])[0].low
        if low >= newest:
            return None
        gap = self.settlement.settled[read.table].first_gap(low, newest)
        return newest if gap is None else cadence.floor(gap[0]) if gap[0] > low else None

    def _is_checked(self, window: Window) -> bool:
        closing = self.past.closings.get(window.start, Closing())
        return closing.looked is not None and closing.asked == self.condition_hash

    def find_first_boundary(self, window: Window, *, is_first: bool) -> datetime:
        """Return the first boundary at which to check a window.

        `is_first`: it is the oldest open window, so the closing tick of the window before it is known.
        """
        closing = self.past.closings.get(window.start, Closing())
        bounds = [self.cadence.ceil(window.end)]
        if closing.looked is not None and self._is_checked(window):
            bounds.append(self.cadence.next(closing.looked))
        before = self.previous_closing(window) if is_first else None
        return max([*bounds, *([before] if before is not None else [])])

    @property
    def needs_check(self) -> bool:
        """Whether there are boundaries to check, or requested windows to which late rows may have to be added."""
        return bool(self.past.requested) or bool(self.pairs())

    def is_decided(self, boundary: datetime) -> bool:
        """Return whether all checks are past a boundary, so that it is known which windows were closed there."""
        first, closes = self.first_open(), self.table.closes
        if first is None or closes is None:
            return True
        begins = self.find_first_boundary(first, is_first=True)
        if not closes.is_asked:  # only a user closes windows, at a tick after all data that has arrived
            last = self.last(first)
            return last is None or max(begins, last) > boundary
        return begins > boundary

    def pairs(self) -> tuple[ClosingCandidate, ...]:
        """Return the windows and boundaries to check, oldest first. Empty if a check can find nothing new.

        If the oldest open window was checked before, only its own new boundaries are checked: the results of later
        windows count only after it closes. If it stayed open for long, later windows would be checked at every boundary
        with the same result.
        """
        first = self.first_open()
        limit = None if first is None else self.find_settled_boundary(first)
        found: list[ClosingCandidate] = []
        if first is None or limit is None or self.table.closes is None:
            return ()
        for window in (it for it in self.windows() if it.start >= first.start and not self.is_closed(it)):
            is_first = window == first
            most = _MAX_OF_CHECKED if is_first and self._is_checked(window) else _MAX_OF_NEW
            new = list(islice(self._boundaries(window, limit, is_first=is_first), most))
            if not new or len(found) + len(new) > MOST_PAIRS:
                break
            found += (ClosingCandidate(window, boundary) for boundary in new)
            if is_first and self._is_checked(window):
                break
        return tuple(found)

    def _boundaries(self, window: Window, limit: datetime, *, is_first: bool) -> Iterator[datetime]:
        boundary, last = self.find_first_boundary(window, is_first=is_first), self.last(window)
        if last is not None:
            limit = min(limit, max(last, boundary))
        if self.table.closes is not None and not self.table.closes.is_asked:  # only by hand: no condition to check
            if last is None:
                return
            boundary = max(boundary, last)
        while boundary <= limit:
            yield boundary
            boundary = self.cadence.next(boundary)

    def collect_closings(
        self, pairs: Sequence[ClosingCandidate], results: Mapping[ClosingCandidate, bool]
    ) -> list[tuple[Window, Closing]]:
        """Return the result of checking `pairs`: the windows that close, and how far the next open one was checked.

        `results` maps each pair to whether the condition is TRUE.
        """
        closings: list[tuple[Window, Closing]] = []
        before: datetime | None = None
        for window, run in groupby(pairs, key=lambda pair: pair.window):
            own = self.previous_closing(window)
            before = own if before is None else before if own is None else max(before, own)
            checked = [pair for pair in run if before is None or pair.boundary >= before]
            closing = self._find_closing(window, checked, results, before)
            if closing is None:
                if checked:
                    closings.append((window, Closing(looked=checked[-1].boundary, asked=self.condition_hash)))
                return closings
            closings.append((window, replace(closing, asked=self.condition_hash)))
            before = closing.tick
        return closings

    def _find_closing(
        self,
        window: Window,
        checked: Iterable[ClosingCandidate],
        results: Mapping[ClosingCandidate, bool],
        before: datetime | None,
    ) -> Closing | None:
        last = self.last(window)
        if last is not None and before is not None:
            last = max(last, before)
        for pair in checked:
            if results.get(pair):
                return Closing(pair.boundary, reason=CONDITION)
            if last is not None and pair.boundary >= last:
                return Closing(pair.boundary, reason=AT_LAST)
        return None


def list_until_reads(table: Table) -> tuple[Read, ...]:
    """Return the UNTIL references of a table: they are read until its windows close."""
    return tuple(read for read in table.reads if read.kind is ReadKind.UNTIL)


def open_words(books: ClosingFacts, window: Window) -> str:
    """Describe in words how far an open window was checked, and the condition for which it waits."""
    closes, closing = books.table.closes, books.past.closings.get(window.start, Closing())
    if closes is None:
        raise AssertionError(f"{books.table.name} closes no books")
    zone, last = books.table.cadence.zone, books.last(window)
    progress = "not checked yet" if closing.looked is None else f"checked up to {local_text(closing.looked, zone)}"
    progress = failed_check_words(closing) or progress
    behind = f"; furthest behind: {part_words(closing.behind)}" if closing.behind else ""
    at_last = "" if last is None else f"; closes at {local_text(last, zone)} at the latest"
    return f"open, {progress}: waits for {closes.text}{behind}{at_last}"


def failed_check_words(closing: Closing) -> str:
    """Describe the error if the condition could not be evaluated at the last check. Otherwise return ""."""
    message = f"its condition failed at the last check ({closing.why}; `waterclock run` shows the error)"
    return message if closing.reason == UNCHECKED else ""


def part_words(behind: str) -> str:
    """Format the part of the data that is furthest behind, a JSON object of columns, as text such as `site MUC2`."""
    try:
        columns = json.loads(behind)
    except ValueError:
        return behind
    return ", ".join(f"{name} {value}" for name, value in columns.items()) if isinstance(columns, dict) else behind


def closed_words(closing: Closing, zone: str, written: Callable[[datetime, str], str] = local_text) -> str:
    """Describe in words at which tick a window closed, and why. `written` formats an instant in a zone."""
    if closing.tick is None:
        raise AssertionError("its books are open")
    because = f": {closing.why}" if closing.why else ""
    by_hand = f"by hand, by {closing.who}{because}"
    why = {CONDITION: "its condition held", BY_HAND: by_hand, AT_LAST: "by PARTIAL AFTER, its condition did not hold"}
    reason = f", {why[closing.reason]}" if closing.reason in why else ""
    return f"books closed at {written(closing.tick, zone)}{reason}"


def newest_closed(past: TableFacts, cadence: Cadence) -> datetime | None:
    """Return the end of the newest window that is closed or done, or None if there is none."""
    ends = [cadence.next(label) for label, closing in past.closings.items() if closing.tick is not None]
    return max([*ends, *(high for _, high in past.covered)], default=None)


def closed_windows(past: TableFacts, cadence: Cadence) -> IntervalSet:
    """Return the windows whose closing tick is known."""
    labels = (label for label, closing in past.closings.items() if closing.tick is not None)
    return IntervalSet.from_intervals((label, cadence.next(label)) for label in labels)


def require_closing_by_hand(table: Table) -> None:
    """Raise E266 if the table does not allow closing its windows by hand."""
    closes = table.closes
    if closes is None or not closes.is_by_hand:
        why = f"CLOSE WHEN {closes.text}" if closes else "it has no CLOSE WHEN"
        fix = f"add {'OR' if closes else 'CLOSE WHEN'} closed_by_hand()"
        raise _not_by_hand_error(table.name, f"windows of {table.name} are not closed by hand", why, fix)


def manual_closing_tick(books: ClosingFacts, window: Window) -> datetime:
    """Return the tick at which a user can close a window now: the newest boundary before which all inputs are settled.

    Raises E266 if the window cannot be closed by hand.
    """
    table = books.table
    first, where = books.first_open(), f"{table.name}@{window.label}"
    require_closing_by_hand(table)
    closing = books.past.closings.get(window.start)
    if books.past.covered.covers_instant(window.start) or (closing is not None and closing.tick is not None):
        has_late = bool(late_tables(books.flow, table.name))
        fix = f"`waterclock recompute {where}` adds the rows that arrived too late for it; " if has_late else ""
        fix += f"if it was skipped, `waterclock retry {where}` opens it"
        why = "a window is closed once, and a skipped one is not open"
        raise _not_by_hand_error(where, f"the books of {where} are closed", why, fix)
    begin, zone = books.starts[table.name], table.cadence.zone
    if window.start < begin:
        first_label = f"{table.name}@{table.cadence.window_of(begin).label}"
        raise _not_by_hand_error(where, f"{where} is before START", f"its first window is {first_label}")
    if window.end > books.now or first is None:
        raise _not_by_hand_error(
            where, f"{where} has not ended", f"it can be closed from {local_text(window.end, zone)} on"
        )
    if first.start < window.start:
        fix = f"run `waterclock close {table.name}@{first.label} --why ...`"
        what = f"the books of {table.name}@{first.label} are open"
        raise _not_by_hand_error(where, what, "windows are closed in order", fix)
    tick = books.find_settled_boundary(window)
    if tick is None or tick < books.cadence.ceil(window.end):
        raise _not_by_hand_error(
            where,
            f"not all inputs of {where} are settled",
            f"it can close at a boundary from {local_text(window.end, zone)} on, once all earlier inputs are settled",
            f"`waterclock plan {', '.join(read.table for read in books.open_ended_reads)}` shows what is missing",
        )
    before = books.previous_closing(window)
    return tick if before is None else max(tick, before)


def _not_by_hand_error(where: str, what: str, why: str, fix: str | None = None) -> WaterclockError:
    return WaterclockError("E266", what, where=where, why=why, fix=fix)
