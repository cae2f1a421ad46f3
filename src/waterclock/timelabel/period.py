"""Defines the legal window lengths: minutes that divide a day, and single calendar units."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from waterclock.errors import WaterclockError
from waterclock.similar_names import find_similar

_DAY_MINUTES = 1440
MINUTE_COUNTS = tuple(count for count in range(1, _DAY_MINUTES + 1) if _DAY_MINUTES % count == 0)
UNIT_WORDS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
_SHORT = {
    "S": "SECOND", "SEC": "SECOND", "M": "MINUTE", "MIN": "MINUTE", "H": "HOUR", "HR": "HOUR", "D": "DAY",
    "W": "WEEK", "WK": "WEEK", "MON": "MONTH", "MO": "MONTH", "Q": "QUARTER", "QTR": "QUARTER", "Y": "YEAR",
    "YR": "YEAR", "HOURLY": "HOUR", "DAILY": "DAY", "WEEKLY": "WEEK", "MONTHLY": "MONTH", "QUARTERLY": "QUARTER",
    "YEARLY": "YEAR", "ANNUALLY": "YEAR",
}  # fmt: skip
_SPAN = re.compile(r"(?:([0-9]{1,9})\s*)?([A-Za-z]+)")
_RULE = "minutes and hours must divide a day evenly; the count of DAY, WEEK, MONTH, QUARTER and YEAR is 1"


class TimeUnit(StrEnum):
    """The units of a period; an hour is a period of 60 minutes."""

    MINUTE = "MINUTE"
    DAY = "DAY"
    WEEK = "WEEK"
    MONTH = "MONTH"
    QUARTER = "QUARTER"
    YEAR = "YEAR"


_MINUTES = {
    "MINUTE": 1, "HOUR": 60, "DAY": 1440, "WEEK": 10080, "MONTH": 43830, "QUARTER": 131490, "YEAR": 525960,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Period:
    """A legal window length; `count` is above 1 only for minutes. Raises E102, naming the nearest legal lengths."""

    unit: TimeUnit
    count: int = 1

    def __post_init__(self) -> None:
        if self.count not in MINUTE_COUNTS if self.unit is TimeUnit.MINUTE else self.count != 1:
            raise _illegal(f"{self.count} {self.unit}{'' if self.count == 1 else 'S'}", self.count, self.unit)

    def __str__(self) -> str:
        """Return the canonical form: `DAY`, `HOUR`, `15 MINUTES`, `2 HOURS`; `parse_period` can parse it."""
        if self.unit is not TimeUnit.MINUTE:
            return str(self.unit)
        count, word = (self.count // 60, "HOUR") if self.count % 60 == 0 else (self.count, "MINUTE")
        return word if count == 1 else f"{count} {word}S"

    @property
    def minutes(self) -> int:
        """The length in minutes: exact for minutes, a mean for calendar units; for comparing lengths."""
        return self.count * _MINUTES[self.unit]


def parse_period(text: str) -> Period:
    """Parse a period as EVERY accepts it: `15 MINUTES`, `HOUR`, `1 hour`, `DAY`, in upper or lower case.

    Raises E102, with the nearest legal lengths, for text that is not a legal period.
    """
    amount, word = split_span(text)
    if word is None:
        raise _unreadable(text)
    count = 1 if amount is None else amount
    minutes = count * 60 if word == "HOUR" else count
    if word in {"MINUTE", "HOUR"} and minutes in MINUTE_COUNTS:
        return Period(TimeUnit.MINUTE, minutes)
    if word in {"SECOND", "MINUTE", "HOUR"} or count != 1:
        raise _illegal(text.strip(), count, word)
    return Period(TimeUnit(word))


def split_span(text: str) -> tuple[int | None, str | None]:
    """Split a text such as `15 MINUTES` into its number, None if it has none, and its unit: (15, 'MINUTE').

    Return (None, None) for other text.
    """
    match = re.fullmatch(r"(?:([0-9]{1,9})\s+)?([A-Za-z]+)", text.strip())
    word = unit_word(match[2]) if match else None
    if match is None or word is None:
        return None, None
    return (int(match[1]) if match[1] else None), word


def unit_word(word: str) -> str | None:
    """Return a unit of time in capitals and the singular: `hours` → `HOUR`; None for any other word."""
    upper = word.upper()
    return next((unit for unit in UNIT_WORDS if upper in {unit, unit + "S"}), None)


def correct_span(text: str) -> str | None:
    """Correct an abbreviated or misspelt unit in a text: `15m` → `15 MINUTES`, `2 huors` → `2 HOURS`.

    Return None if no unit is similar.
    """
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        return None
    upper = match[2].upper()
    word = unit_word(upper) or _SHORT.get(upper) or _SHORT.get(upper.removesuffix("S"))
    near = [word] if word else find_similar(upper.removesuffix("S"), UNIT_WORDS, most=1)
    if not near:
        return None
    plural = "" if match[1] is None or int(match[1]) == 1 else "S"
    return f"{match[1]} {near[0]}{plural}" if match[1] else near[0]


def nearest_periods(minutes: float, word: str) -> list[str]:
    """Return the legal periods next to a length in minutes, at most two: the longest up to it, the shortest above it.

    `word` is the unit as written: HOUR gives whole hours, DAY and longer give calendar units only. A length within 5 %
    of a calendar unit gives only that unit.
    """
    step = 60 if word == "HOUR" else 1
    counts = () if word in {"DAY", "WEEK", "MONTH", "QUARTER", "YEAR"} else MINUTE_COUNTS
    periods = [Period(TimeUnit.MINUTE, count) for count in counts if count % step == 0 and count < _DAY_MINUTES]
    periods += [Period(unit) for unit in TimeUnit if unit is not TimeUnit.MINUTE]
    for period in periods:
        if period.unit is not TimeUnit.MINUTE and abs(period.minutes - minutes) * 20 <= period.minutes:
            return [str(period)]
    below = [period for period in periods if period.minutes <= minutes][-1:]
    above = [period for period in periods if period.minutes > minutes][:1]
    return [str(period) for period in below + above]


def index_of(unit: TimeUnit, day: date) -> int:
    """Return the number of the calendar window of `unit` that contains a local date; consecutive ones differ by 1."""
    if unit is TimeUnit.DAY:
        return day.toordinal()
    if unit is TimeUnit.WEEK:
        return (day.toordinal() - 1) // 7  # day 1 of the calendar was a Monday
    if unit is TimeUnit.MONTH:
        return day.year * 12 + day.month - 1
    if unit is TimeUnit.QUARTER:
        return day.year * 4 + (day.month - 1) // 3
    return day.year


def first_ordinal(unit: TimeUnit, index: int) -> int:
    """Return the first local date of the calendar window with a number from `index_of`, as `date.toordinal` counts.

    Raises ValueError outside of the years 1 to 9999.
    """
    if unit is TimeUnit.DAY:
        return index
    if unit is TimeUnit.WEEK:
        return index * 7 + 1
    if unit is TimeUnit.MONTH:
        return date(index // 12, index % 12 + 1, 1).toordinal()
    if unit is TimeUnit.QUARTER:
        return date(index // 4, index % 4 * 3 + 1, 1).toordinal()
    return date(index, 1, 1).toordinal()


def _illegal(text: str, count: int, word: str) -> WaterclockError:
    minutes = count / 60 if word == "SECOND" else count * _MINUTES[word]
    return WaterclockError(
        "E102",
        f"{text!r} is not a window length",
        why=_RULE,
        fix=f"use the nearest: {' or '.join(nearest_periods(minutes, word))}",
    )


def _unreadable(text: str) -> WaterclockError:
    meant = correct_span(text)
    return WaterclockError(
        "E102",
        f"cannot read {text!r} as a period",
        fix=f"write {meant}" if meant else "write one such as 15 MINUTES, HOUR or DAY",
    )
