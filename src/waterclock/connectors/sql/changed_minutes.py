"""Finds the windows with changed rows in a database server, which groups the rows by the minute of their data time.

This process assigns the minutes to windows, by the zone rules that define windows. The server returns at most one row
for each minute and bound, however many rows changed.
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

Row = tuple[Any, Any, Any, Any, Any, Any]
"""An aggregate of changed rows.

Its values are: the minute of the rows' data time; how many limits are at or below their times of change; the number of
rows with a time of change; the sum of these times; the number of rows without one; and the newest time. The newest time
ignores times after the clock, unless all are after it.
"""


@dataclass(frozen=True, slots=True)
class MinuteAggregation:
    """The parameters of an aggregation that a server computes. Times are numbers in the unit of the server's columns.

    Rows are grouped by their data time in steps of `step`, and by how many of the ascending `limits` are at or below
    their time of change. Changes before `since` may be ignored; None: all changes count. `clock` is the current time.
    """

    limits: tuple[int, ...]
    since: datetime | None
    clock: int
    step: int


@dataclass(frozen=True, slots=True)
class MinuteChangeScan:
    """Counts changed rows by window. `by_window` filters by the data time; `change` is the column of the last change.

    `ask` runs the aggregation on the server.
    """

    by_window: WindowFilter
    change: WindowFilter
    times: Times
    ask: Callable[[MinuteChangeScan, MinuteAggregation], Iterable[Row]]

    def tally(self, bounds: Bounds) -> Tallies:
        """Count the changes in each window at or above the window's bound."""
        windows = self.by_window.windows
        starts = [window.start for window in windows]
        limits = tuple(sorted({self._count(bound) for bound in bounds.values() if bound is not None}))
        tick = _DAY if self.change.kind == "date" else timedelta(seconds=1)
        counting = TallyCounter(windows, datetime.now(UTC))
        for minute, above, rows, total, unsaid, last in self.ask(self, self._build_aggregation(bounds, limits)):
            at = self._instant(int(minute), self.by_window)
            place = bisect_right(starts, at) - 1
            if place < 0 or at >= windows[place].end:
                continue
            bound = bounds[starts[place]]
            if bound is not None and above <= limits.index(self._count(bound)):
                rows, total, last = 0, 0, None  # noqa: PLW2901 - they are below the bound of their window
            newest = None if last is None else self._instant(int(last), self.change)
            counting.add(starts[place], int(rows), int(total or 0), int(unsaid), newest, tick)
        return counting.to_tallies()

    def _build_aggregation(self, bounds: Bounds, limits: tuple[int, ...]) -> MinuteAggregation:
        step = _MINUTE // (EPOCH_UNITS[self.times.epoch] if self.by_window.is_number else _MICROSECOND)
        oldest = min((bound for bound in bounds.values() if bound is not None), default=None)
        # only lets the server use an index (the limits are exact): a day earlier, as local times can go back
        since = None if oldest is None or None in bounds.values() else oldest - _DAY
        return MinuteAggregation(limits, since, self._count(datetime.now(UTC)), step)

    def _instant(self, count: int, of: WindowFilter) -> datetime:
        """Convert a number that the server returned for a time to an instant.

        Times without a zone are counted by the server as if in UTC.
        """
        if of.is_number:
            return EPOCH + count * EPOCH_UNITS[self.times.epoch]
        at = EPOCH + count * _MICROSECOND
        found = instant_of(at.replace(tzinfo=None), self.times) if of.is_local else at
        return found or at

    def _count(self, at: datetime) -> int:
        """Convert an instant to the number that the server uses for a time of change."""
        if self.change.is_number:
            return -(-(at - EPOCH) // EPOCH_UNITS[self.times.epoch])
        local = at.astimezone(nominal_zone(self.times.zone)).replace(tzinfo=UTC) if self.change.is_local else at
        return (local - EPOCH) // _MICROSECOND
