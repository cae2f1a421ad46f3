"""Counts the changed rows of windows on a database server, which groups the rows by the minute of their data time.

This process assigns the minutes to windows, with the zone rules that define windows. The server returns at most one row
for each minute and limit, however many rows changed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from waterclock.connectors.arrow_values import EPOCH_UNITS, Times, instant_of
from waterclock.connectors.sql.changed_windows import Bounds, Tallies, TallyCounter
from waterclock.connectors.sql.window_bounds import WindowFilter
from waterclock.timelabel.instant import EPOCH
from waterclock.timelabel.zone import nominal_zone

_MICROSECOND = timedelta(microseconds=1)
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)

ChangedMinute = tuple[Any, Any, Any, Any, Any, Any]
"""An aggregate of the changed rows of one minute, as the server returns it.

Its values are: the minute of the rows' data time; how many limits are at or below their times of change; the number of
rows with a time of change; the sum of these times; the number of rows without one; and the newest time. Times after the
current time count as the newest only if no other time exists.
"""


@dataclass(frozen=True, slots=True)
class MinuteAggregation:
    """The parameters of a query that counts changed rows by minute. Times are numbers in the unit of their column.

    Rows are grouped by their data time in steps of `step`, and by how many of the ascending `limits` are at or below
    their time of change. Changes before `since` may be omitted; None if all count. `clock` is the current time.
    """

    limits: tuple[int, ...]
    since: datetime | None
    clock: int
    step: int


@dataclass(frozen=True, slots=True)
class MinuteChangeScan:
    """Counts changed rows by window. `by_window` has the column of the data time, `change` that of the last change.

    `ask` runs the query on the server and returns its rows.
    """

    by_window: WindowFilter
    change: WindowFilter
    times: Times
    ask: Callable[[MinuteChangeScan, MinuteAggregation], Iterable[ChangedMinute]]

    def tally(self, bounds: Bounds) -> Tallies:
        """Count the rows of each window that changed at or after the window's bound."""
        windows = self.by_window.windows
        starts = [window.start for window in windows]
        limits = tuple(sorted({self._to_server_number(bound) for bound in bounds.values() if bound is not None}))
        tick = _DAY if self.change.kind == "date" else timedelta(seconds=1)
        counting = TallyCounter(windows, datetime.now(UTC))
        for minute, above, rows, total, untimed, last in self.ask(self, self._build_aggregation(bounds, limits)):
            at = self._to_instant(int(minute), self.by_window)
            place = bisect_right(starts, at) - 1
            if place < 0 or at >= windows[place].end:
                continue
            bound = bounds[starts[place]]
            if bound is not None and above <= limits.index(self._to_server_number(bound)):
                rows, total, last = 0, 0, None  # noqa: PLW2901 - they are below the bound of their window
            newest = None if last is None else self._to_instant(int(last), self.change)
            counting.add(starts[place], int(rows), int(total or 0), int(untimed), newest, tick)
        return counting.to_tallies()

    def _build_aggregation(self, bounds: Bounds, limits: tuple[int, ...]) -> MinuteAggregation:
        step = _MINUTE // (EPOCH_UNITS[self.times.epoch] if self.by_window.is_number else _MICROSECOND)
        oldest = min((bound for bound in bounds.values() if bound is not None), default=None)
        # `since` only lets the server use an index, as the limits are exact. Local times can go back: hence the day
        since = None if oldest is None or None in bounds.values() else oldest - _DAY
        return MinuteAggregation(limits, since, self._to_server_number(datetime.now(UTC)), step)

    def _to_instant(self, count: int, of: WindowFilter) -> datetime:
        """Convert a number that the server returned for a time to an instant.

        The server counts times without a zone as if they were in UTC.
        """
        if of.is_number:
            return EPOCH + count * EPOCH_UNITS[self.times.epoch]
        at = EPOCH + count * _MICROSECOND
        found = instant_of(at.replace(tzinfo=None), self.times) if of.is_local else at
        return found or at

    def _to_server_number(self, at: datetime) -> int:
        """Convert an instant to the number that the server uses for a time of change."""
        if self.change.is_number:
            return -(-(at - EPOCH) // EPOCH_UNITS[self.times.epoch])
        local = at.astimezone(nominal_zone(self.times.zone)).replace(tzinfo=UTC) if self.change.is_local else at
        return (local - EPOCH) // _MICROSECOND
