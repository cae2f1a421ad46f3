"""Defines durations. Hours and shorter units are elapsed time; days and longer units follow a zone's calendar."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal, cast

from waterclock.errors import WaterclockError
from waterclock.timelabel.instant import out_of_range_error, utc_of
from waterclock.timelabel.period import UNIT_WORDS, correct_span, split_span
from waterclock.timelabel.zone import date_start, first_instant, nominal_zone, resolve_local

DurationUnit = Literal["SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"]
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400, "WEEK": 604800}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_INTERVAL = re.compile(r"""INTERVAL\s+(?:(['"])(?P<quoted>.*)\1|(?P<plain>.*))""", re.IGNORECASE | re.DOTALL)
_QUOTED_NUMBER = re.compile(r"""INTERVAL\s+(['"])\s*(?P<number>[0-9]+)\s*\1\s*(?P<unit>[A-Za-z]+)""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Duration:
    """A number of units, such as 7 DAYS. Its length depends on the instant from which it is counted."""

    amount: int
    unit: DurationUnit

    def __post_init__(self) -> None:
        if self.amount < 0 or self.unit not in UNIT_WORDS:
            raise _unreadable(f"{self.amount} {self.unit}")

    def __str__(self) -> str:
        """Return the canonical form, `1 HOUR` or `7 DAYS`, which `parse_duration` can parse."""
        return f"{self.amount} {self.unit}{'' if self.amount == 1 else 'S'}"

    def subtract_from(self, instant: datetime, zone: str) -> datetime:
        """Return the instant that is this duration before another.

        Seconds, minutes and hours are elapsed time. Days and longer units are counted on the calendar of `zone` and
        keep the local time. From the start of a local date they lead to the start of a local date, even across clock
        changes. In a shorter month the result is its last day (31 March less 1 MONTH is 28 or 29 February).
        """
        return self._shift_instant(instant, zone, -1)

    def add_to(self, instant: datetime, zone: str) -> datetime:
        """Return the instant that is this duration after another, by the rules of `subtract_from`."""
        return self._shift_instant(instant, zone, 1)

    def to_timedelta(self) -> timedelta:
        """Return the duration as elapsed time, as for DELAY: a day is 24 hours. Raises E107 for months and longer."""
        if self.unit in _MONTHS:
            raise WaterclockError(
                "E107",
                f"{self} has no fixed length",
                why="this place needs elapsed time, and months differ in length",
                fix=f"use days: {self.amount * _MONTHS[self.unit] * 30} DAYS",
            )
        try:
            return timedelta(seconds=self.amount * _SECONDS[self.unit])
        except OverflowError:
            raise out_of_range_error(str(self)) from None

    def _shift_instant(self, instant: datetime, zone: str, sign: int) -> datetime:
        t = utc_of(instant)
        try:
            if self.unit in {"SECOND", "MINUTE", "HOUR"}:
                return t + sign * self.to_timedelta()
            local = t.astimezone(nominal_zone(zone)).replace(tzinfo=None)
            target = self._moved_date(local.date(), sign)
        except (OverflowError, ValueError):
            raise out_of_range_error(f"{self} {'after' if sign > 0 else 'before'} {t.isoformat()}") from None
        if t == first_instant(zone, local.toordinal()):
            return date_start(zone, target.toordinal())
        return resolve_local(datetime.combine(target, local.time()), zone)

    def _moved_date(self, day: date, sign: int) -> date:
        if self.unit in {"DAY", "WEEK"}:
            return day + sign * self.to_timedelta()
        months = day.year * 12 + day.month - 1 + sign * self.amount * _MONTHS[self.unit]
        year, month = months // 12, months % 12 + 1
        if not 1 <= year <= 9999:
            raise OverflowError
        return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))


def parse_duration(text: str) -> Duration:
    """Parse a duration such as `2 HOURS` or `7 days`, or Spark's `INTERVAL 7 DAYS` or `INTERVAL '7 days'`.

    Raises E107 for other text.
    """
    body = text.strip()
    if match := _QUOTED_NUMBER.fullmatch(body):
        body = f"{match['number']} {match['unit']}"
    elif match := _INTERVAL.fullmatch(body):
        body = match["quoted"] or match["plain"] or ""
    amount, unit = split_span(body)
    if amount is None or unit is None:
        raise _unreadable(text)
    return Duration(amount, cast("DurationUnit", unit))


def elapsed_text(span: timedelta) -> str:
    """Return elapsed time in the largest unit that gives a whole number: 90 minutes → `90 MINUTES`, 0 → `0 SECONDS`."""
    seconds = span // timedelta(seconds=1)
    for unit in ("DAY", "HOUR", "MINUTE"):
        if seconds and seconds % _SECONDS[unit] == 0:
            return str(Duration(seconds // _SECONDS[unit], unit))
    return str(Duration(seconds, "SECOND"))


def _unreadable(text: str) -> WaterclockError:
    meant = correct_span(text)
    if meant and meant in UNIT_WORDS:
        meant = f"1 {meant}"
    return WaterclockError(
        "E107",
        f"cannot read {text!r} as a duration",
        why="a duration is a number and a unit: SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER or YEAR",
        fix=f"write {meant}" if meant else "write one such as 2 HOURS or 7 DAYS",
    )
