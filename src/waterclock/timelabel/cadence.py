"""Defines cadences: how a table's windows divide time, and when each window is due."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from waterclock.errors import WaterclockError
from waterclock.timelabel.duration import elapsed_text
from waterclock.timelabel.instant import EPOCH, MONDAY, out_of_range_error, utc_of
from waterclock.timelabel.label import instant_of, label_of
from waterclock.timelabel.period import MINUTE_COUNTS, Period, TimeUnit, first_ordinal, index_of
from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import date_start, local_text, nominal_zone
from waterclock.timelabel.zone_history import skipped_dates

_NOTHING = timedelta(0)
_TICK = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_WEEK = timedelta(weeks=1)
_STEPS = {count: timedelta(minutes=count) for count in MINUTE_COUNTS}


@dataclass(frozen=True, slots=True)
class Cadence:
    """The length, delay and zone of a table's windows (docs/explain/time.md).

    Windows of minutes and hours are aligned to UTC in every zone; the zone then only applies to times without a zone.
    Days, weeks, months, quarters and years begin at the first instant of their local date. A day of 23 or 25 hours is
    one window; a date that the zone skipped is not a window. Every method takes aware datetimes and returns UTC.

    Raises E105 for an unknown zone and for boundaries that no label can name (a zone whose offset has seconds), E106
    for instants without a zone or beyond the years 1 to 9999, and E107 for a negative delay.
    """

    period: Period
    delay: timedelta = _NOTHING
    zone: str = "UTC"

    def __post_init__(self) -> None:
        nominal_zone(self.zone)
        if self.delay < _NOTHING:
            raise WaterclockError(
                "E107",
                f"a delay of {self.delay} is negative",
                why="a window is complete at its end, and due from then on",
                fix="leave DELAY out, or make it positive",
            )

    def __str__(self) -> str:
        """Return the cadence in DPL: `EVERY DAY DELAY 10 MINUTES ZONE 'Asia/Tokyo'`."""
        delay = f" DELAY {elapsed_text(self.delay)}" if self.delay else ""
        zone = f" ZONE '{self.zone}'" if self.zone != "UTC" else ""
        return f"EVERY {self.period}{delay}{zone}"

    def floor(self, t: datetime) -> datetime:
        """Return the last window boundary at or before `t`."""
        if t.tzinfo is not EPOCH.tzinfo:
            t = utc_of(t)
        grid = self._grid()
        if grid is None:
            return self._start(self._index(t))
        step, anchor = grid
        return t - (t - anchor) % step

    def ceil(self, t: datetime) -> datetime:
        """Return the first window boundary at or after `t`."""
        boundary = self.floor(t)
        return boundary if boundary == t else self.next(t)

    def next(self, t: datetime) -> datetime:
        """Return the first window boundary strictly after `t`."""
        if t.tzinfo is not EPOCH.tzinfo:
            t = utc_of(t)
        grid = self._grid()
        if grid is None:
            return self._start(self._index(t) + 1)
        step, anchor = grid
        try:
            return t - (t - anchor) % step + step
        except OverflowError:
            raise out_of_range_error(f"the window after {t.isoformat()}") from None

    def previous(self, t: datetime) -> datetime:
        """Return the last window boundary strictly before `t`."""
        try:
            return self.floor(t - _TICK)
        except OverflowError:
            raise out_of_range_error(f"the window before {t.isoformat()}") from None

    def is_boundary(self, t: datetime) -> bool:
        """Return whether a window starts (and another ends) at `t`."""
        return self.floor(t) == t

    def shift(self, t: datetime, n: int) -> datetime:
        """Return the boundary `n` windows after the boundary `t`, or before it for a negative `n`.

        Raises E103 if `t` is not a boundary.
        """
        if not self.is_boundary(t):
            raise self._no_start(t, t.isoformat())
        grid = self._grid()
        if grid is None:
            return self._start(self._index_of_rank(self._rank(utc_of(t)) + n))
        try:
            return utc_of(t) + n * grid[0]
        except OverflowError:
            raise out_of_range_error(f"{n} windows from {t.isoformat()}") from None

    def window_of(self, t: datetime) -> Window:
        """Return the window that contains `t`."""
        return Window(self.floor(t), self.next(t))

    def window(self, label: str) -> Window:
        """Return the window with this label. Raises E101 for a malformed label, E103 if no window starts then."""
        start = instant_of(label)
        if not self.is_boundary(start):
            raise self._no_start(start, f"label {label!r}")
        return Window(start, self.next(start))

    def windows(self, start: datetime, end: datetime) -> Iterator[Window]:
        """Yield all windows within `[start, end)`, oldest first, without gap or overlap."""
        start, end = utc_of(start), utc_of(end)
        if start >= end:
            return
        begin = self.ceil(start)
        while begin < end and (stop := self.next(begin)) <= end:
            yield Window(begin, stop)
            begin = stop

    def count(self, start: datetime, end: datetime) -> int:
        """Count the windows within `[start, end)`, without building them."""
        if start >= end:
            return 0
        return max(0, self._rank(self.floor(end)) - self._rank(self.ceil(start)))

    def due_at(self, window: Window) -> datetime:
        """Return the instant from which a window's batch is due: the window's end plus the delay, in elapsed time."""
        return window.end + self.delay

    def last_due(self, now: datetime) -> datetime:
        """Return the newest boundary `e` with `e + delay <= now`: the end of the newest due window."""
        try:
            return self.floor(now - self.delay)
        except OverflowError:
            raise out_of_range_error(f"{self.delay} before {now.isoformat()}") from None

    def _grid(self) -> tuple[timedelta, datetime] | None:
        """Return the length of the windows and one boundary if all windows are equally long in UTC, else None."""
        unit = self.period.unit
        if unit is TimeUnit.MINUTE:
            return _STEPS[self.period.count], EPOCH
        if self.zone == "UTC":
            if unit is TimeUnit.DAY:
                return _DAY, EPOCH
            if unit is TimeUnit.WEEK:
                return _WEEK, MONDAY
        return None

    def _index(self, t: datetime) -> int:
        """Return the number of the calendar window that contains `t`.

        If midnight occurs twice, a date starts at the first midnight, although the clock shows the previous date again
        later. For a skipped date, the result is the next window.
        """
        try:
            index = index_of(self.period.unit, t.astimezone(nominal_zone(self.zone)))
        except OverflowError:
            raise out_of_range_error(f"{t.isoformat()} in {self.zone}") from None
        while self._start(index + 1) <= t:
            index += 1
        return index

    def _start(self, index: int) -> datetime:
        try:
            ordinal = first_ordinal(self.period.unit, index)
        except ValueError:
            raise out_of_range_error(f"{self.period} number {index}") from None
        return date_start(self.zone, ordinal)

    def _rank(self, boundary: datetime) -> int:
        """Return the number of a boundary; the numbers of consecutive boundaries differ by 1."""
        grid = self._grid()
        if grid is not None:
            return (boundary - grid[1]) // grid[0]
        index = self._index(boundary)
        return index - bisect_left(skipped_dates(self.zone), index) if self.period.unit is TimeUnit.DAY else index

    def _index_of_rank(self, rank: int) -> int:
        if self.period.unit is TimeUnit.DAY:
            for skipped in skipped_dates(self.zone):
                rank += skipped <= rank
        return rank

    def _no_start(self, t: datetime, what: str) -> WaterclockError:
        near = (self.floor(t), self.next(t))
        labels = [label_of(boundary) for boundary in near]
        if self.zone != "UTC":
            labels = [f"{label} ({local_text(t, self.zone)})" for label, t in zip(labels, near, strict=True)]
        return WaterclockError(
            "E103",
            f"no window starts at {what}",
            why=f"the cadence is {self}",
            fix=f"use the nearest label: {' or '.join(labels)}",
        )
