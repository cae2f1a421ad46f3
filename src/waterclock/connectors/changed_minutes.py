"""Tells which windows of a database server hold rows that changed: the server adds them up, by minutes of their times.

Which window a minute lies in is decided here, by the zones that windows are cut by; so what comes is at most a row for
each minute of the windows and each bound, whatever changed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from waterclock.connectors.changed_rows import Bounds, Counting, Tallies
from waterclock.connectors.values import EPOCH_UNITS, Times, instant_of
from waterclock.connectors.window_bounds import WindowFilter
from waterclock.timelabel.instant import EPOCH
from waterclock.timelabel.zone import nominal_zone

_MICROSECOND = timedelta(microseconds=1)
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)

Row = tuple[Any, Any, Any, Any, Any, Any]
"""A minute, how many limits its changes are not below, how many say a time, their sum, how many say none, the newest.

The newest is not above the clock where any is not.
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a server is to add up. Times are counts, as the server counts those of its columns.

    Rows are grouped by their own time in steps of `step`, and by how many of the `limits`, which ascend, their change
    is not below. Changes before `since` need not be looked at; None: all are.
    """

    limits: tuple[int, ...]
    since: datetime | None
    clock: int
    step: int


@dataclass(frozen=True, slots=True)
class ChangedIn:
    """Where to look: windows by the rows' own time, the column of their last change, and how the server is asked."""

    by_window: WindowFilter
    change: WindowFilter
    times: Times
    ask: Callable[[Asked], Iterable[Row]]

    def tally(self, bounds: Bounds) -> Tallies:
        """Add up what lies in each window at or above its bound."""
        windows = self.by_window.windows
        starts = [window.start for window in windows]
        limits = tuple(sorted({self._count(bound) for bound in bounds.values() if bound is not None}))
        tick = _DAY if self.change.kind == "date" else timedelta(seconds=1)
        counting = Counting(windows, datetime.now(UTC))
        for minute, above, rows, total, unsaid, last in self.ask(self._asked(bounds, limits)):
            at = self._instant(int(minute), self.by_window)
            place = bisect_right(starts, at) - 1
            if place < 0 or at >= windows[place].end:
                continue
            bound = bounds[starts[place]]
            if bound is not None and above <= limits.index(self._count(bound)):
                rows, total, last = 0, 0, None  # noqa: PLW2901 - they lie below the bound of their window
            newest = None if last is None else self._instant(int(last), self.change)
            counting.add(starts[place], int(rows), int(total or 0), int(unsaid), newest, tick)
        return counting.done()

    def _asked(self, bounds: Bounds, limits: tuple[int, ...]) -> Asked:
        step = _MINUTE // (EPOCH_UNITS[self.times.epoch] if self.by_window.is_number else _MICROSECOND)
        oldest = min((bound for bound in bounds.values() if bound is not None), default=None)
        # for an index; a day wider, as local times do not ascend where a clock is set: the limits are exact
        since = None if oldest is None or None in bounds.values() else oldest - _DAY
        return Asked(limits, since, self._count(datetime.now(UTC)), step)

    def _instant(self, count: int, of: WindowFilter) -> datetime:
        """Read a time as the server counts it: of one without a zone, as if it were in UTC."""
        if of.is_number:
            return EPOCH + count * EPOCH_UNITS[self.times.epoch]
        at = EPOCH + count * _MICROSECOND
        found = instant_of(at.replace(tzinfo=None), self.times) if of.is_local else at
        return found or at

    def _count(self, at: datetime) -> int:
        """Write an instant as the server counts times of change."""
        if self.change.is_number:
            return -(-(at - EPOCH) // EPOCH_UNITS[self.times.epoch])
        local = at.astimezone(nominal_zone(self.times.zone)).replace(tzinfo=UTC) if self.change.is_local else at
        return (local - EPOCH) // _MICROSECOND
