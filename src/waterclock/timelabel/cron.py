"""Converts a cron schedule to a cadence. Schedules are not evaluated later (docs/decisions/cron-is-compiled.md)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from math import gcd

from waterclock.errors import WaterclockError
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.cron_fields import CronFields, Days, parse_cron
from waterclock.timelabel.period import MINUTE_COUNTS, Period, TimeUnit, nearest_periods
from waterclock.timelabel.zone_history import HISTORY_END, offset_changes

_DAY = 1440
_EVERY_MONTH = frozenset(range(1, 13))
_QUARTERS = frozenset({1, 4, 7, 10})
_LONGEST = dict(enumerate((31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), start=1))


def compile_cron(text: str, zone: str = "UTC") -> Cadence:
    """Convert a cron schedule to a cadence: `10 * * * *` is EVERY HOUR DELAY 10 MINUTES.

    Each time the schedule fires, the last window that ended before becomes due. Around clock changes this may be
    earlier or later than the schedule, because days are whole windows and the delay is elapsed time. A weekly schedule
    on another day than Monday, or a monthly one on another day than the first, gives a delay of days.

    Raises E104 if the text is not a cron schedule, or if its intervals are not a legal period (the error names the
    nearest legal ones), and E105 for an unknown zone.
    """
    fields = parse_cron(text)
    period, delay = _CronCompiler(text, fields, zone).compile()
    return Cadence(period, delay, zone)


@dataclass(frozen=True, slots=True)
class _CronCompiler:
    text: str
    fields: CronFields
    zone: str

    def compile(self) -> tuple[Period, timedelta]:
        fields = self.fields
        if fields.days is Days.EVERY:
            if fields.months != _EVERY_MONTH:
                raise self._refusal("it fires every day of some months and never in the others", "EVERY DAY")
            return self._within_day() if len(fields.minutes) > 1 else self._calendar(TimeUnit.DAY, 0)
        if len(fields.minutes) > 1:
            raise self._refusal(
                "it fires several times on some days, never on others", self._each(*self._periods_by_gap())
            )
        if fields.days is Days.BY_WEEKDAY:
            return self._weekly()
        if fields.days is Days.BY_DATE:
            return self._monthly()
        raise self._refusal("it combines days of the month and days of the week", "EVERY DAY or EVERY WEEK")

    def _within_day(self) -> tuple[Period, timedelta]:
        minutes = self.fields.minutes
        step = _DAY // len(minutes)
        if set(self._gaps()) != {step} or step not in MINUTE_COUNTS:
            raise self._refusal(self._unequal(), self._each(*self._periods_by_gap()))
        shifts = self._offset_minutes()
        delays = {(minutes[0] - offset) % step for offset in shifts}
        if len(delays) > 1:
            common = gcd(*(offset - min(shifts) for offset in shifts))
            finer = max(count for count in MINUTE_COUNTS if common % count == 0 and step % count == 0)
            raise self._refusal(
                f"windows of {Period(TimeUnit.MINUTE, step)} follow the UTC grid, and the offset of "
                f"{self.zone} changes by {common} minutes: two of them a year would be shorter or longer",
                f"EVERY {Period(TimeUnit.MINUTE, finer)}, EVERY DAY, or the same schedule with ZONE 'UTC'",
            )
        return Period(TimeUnit.MINUTE, step), timedelta(minutes=delays.pop())

    def _weekly(self) -> tuple[Period, timedelta]:
        weekdays = self.fields.weekdays
        if self.fields.months != _EVERY_MONTH:
            raise self._refusal("it fires in some months only", "EVERY WEEK")
        if len(weekdays) > 1:
            raise self._refusal("its days of the week are not equally far apart", "EVERY DAY or EVERY WEEK")
        return self._calendar(TimeUnit.WEEK, (min(weekdays) - 1) % 7)

    def _monthly(self) -> tuple[Period, timedelta]:
        months = self.fields.months
        dates = [day for day in self.fields.dates if any(day <= _LONGEST[month] for month in months)]
        if not dates:
            raise self._refusal("it never fires: none of its months has such a day", "EVERY MONTH")
        if len(dates) > 1:
            raise self._refusal("its days of the month are not equally far apart", "EVERY WEEK or EVERY MONTH")
        day = min(dates)
        if months == _EVERY_MONTH:
            return self._constant(TimeUnit.MONTH, day, last=28, lead=0)
        if months == _QUARTERS:
            return self._constant(TimeUnit.QUARTER, day, last=30, lead=0)
        if months == {1}:
            return self._constant(TimeUnit.YEAR, day, last=31, lead=0)
        if months == {2}:
            return self._constant(TimeUnit.YEAR, day, last=28, lead=31)
        if len(months) == 1:
            raise self._refusal(
                "the year before it has 365 or 366 days, so its delay is not a fixed time", "EVERY YEAR"
            )
        if len(months) == 4:
            raise self._refusal("it fires in months that do not all start a quarter", "EVERY QUARTER: '… 1 1,4,7,10 *'")
        raise self._refusal("the months it fires in are not whole quarters", "EVERY MONTH or EVERY QUARTER")

    def _constant(self, unit: TimeUnit, day: int, *, last: int, lead: int) -> tuple[Period, timedelta]:
        if day > last:
            raise self._refusal(f"day {day} is not in each of its months", f"EVERY {unit}")
        return self._calendar(unit, lead + day - 1)

    def _calendar(self, unit: TimeUnit, days: int) -> tuple[Period, timedelta]:
        return Period(unit), timedelta(days=days, minutes=self.fields.minutes[0])

    def _gaps(self) -> Counter[int]:
        minutes = self.fields.minutes
        following = (*minutes[1:], minutes[0] + _DAY)
        return Counter(after - before for before, after in zip(minutes, following, strict=True))

    def _periods_by_gap(self) -> list[str]:
        """Return the periods nearest to the most frequent distance between two firings."""
        gap = self._gaps().most_common(1)[0][0]
        near = nearest_periods(gap, "HOUR" if gap % 60 == 0 else "MINUTE")
        if gap in MINUTE_COUNTS and gap < _DAY:
            return [str(Period(TimeUnit.MINUTE, gap)), "DAY"]
        return near

    def _unequal(self) -> str:
        gaps = sorted(self._gaps())
        return f"it fires {' or '.join(str(gap) for gap in gaps[:3])} minutes apart, and windows are equally long"

    def _offset_minutes(self) -> set[int]:
        """Return the zone's offsets from UTC, in minutes, under its rules for future years."""
        changes = offset_changes(self.zone)
        ends = (*(at for at, _ in changes[1:]), HISTORY_END)
        lasting = {offset for (_, offset), end in zip(changes, ends, strict=True) if end.year >= 2037}
        return {offset // timedelta(minutes=1) for offset in lasting}

    def _each(self, *periods: str) -> str:
        return " or ".join(f"EVERY {period}" for period in periods)

    def _refusal(self, why: str, legal: str) -> WaterclockError:
        return WaterclockError(
            "E104",
            f"the schedule {self.text!r} has no uniform windows",
            why=why,
            fix=f"use the nearest: {legal}",
        )
