"""Parses the five fields of a cron schedule into the minutes of a day and the days on which it fires."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from waterclock.errors import WaterclockError

_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_ITEM = re.compile(r"(?:\*|(?P<low>[0-9A-Z]+)(?:-(?P<high>[0-9A-Z]+))?)(?:/(?P<step>[0-9]+))?")


class Days(Enum):
    """The day fields of a cron schedule that restrict its days: day of month, day of week, or both."""

    EVERY = "every day"
    BY_DATE = "days of the month"
    BY_WEEKDAY = "days of the week"
    MIXED = "both"


@dataclass(frozen=True, slots=True)
class CronFields:
    """The parsed fields of a cron schedule: minutes since local midnight, ascending, and the days on which it fires.

    `days`: which of the two day fields restrict the days. In `weekdays` Sunday is 0.
    """

    minutes: tuple[int, ...]
    days: Days
    dates: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _WEEKDAYS),
)


_LONGEST = 1000


def parse_cron(text: str) -> CronFields:
    """Parse a cron schedule of five fields, or a macro such as `@daily`. Raises E104 for other texts.

    Sunday is 0, 7 or SUN, and 0 in the result.
    """
    if len(text) > _LONGEST:
        raise _unreadable(f"{text[:40]}…", f"it has {len(text)} characters", f"at most {_LONGEST}")
    words = _MACROS.get(text.strip().lower(), text).split()
    if len(words) != len(_FIELDS):
        raise _unreadable(text, f"it has {len(words)} fields", "five: minute, hour, day of month, month, day of week")
    minutes, hours, dates, months, weekdays = (
        _values(text, word.upper(), field) for word, field in zip(words, _FIELDS, strict=True)
    )
    weekdays = frozenset(day % 7 for day in weekdays)
    every_date, every_weekday = len(dates) == 31, len(weekdays) == 7
    # As in cron: with two restricted day fields a day matches either of them, or both if one starts with a star.
    either = not words[2].startswith("*") and not words[4].startswith("*")
    if (every_date and every_weekday) or (either and (every_date or every_weekday)):
        days = Days.EVERY
    elif every_date:
        days = Days.BY_WEEKDAY
    elif every_weekday:
        days = Days.BY_DATE
    else:
        days = Days.MIXED
    of_day = tuple(sorted(hour * 60 + minute for hour in hours for minute in minutes))
    return CronFields(of_day, days, dates, months, weekdays)


def _values(text: str, word: str, field: _Field) -> frozenset[int]:
    return frozenset(value for item in word.split(",") for value in _item_values(text, item, field))


def _item_values(text: str, item: str, field: _Field) -> range:
    match = _ITEM.fullmatch(item)
    if match is None:
        raise _unreadable(text, f"the {field.name} {item!r} is not plain cron", "numbers, lists, ranges and */steps")
    step = int(match["step"] or 1)
    if step == 0:
        raise _unreadable(text, f"the {field.name} {item!r} has a step of 0", "a step of 1 or more")
    if match["low"] is None:
        # 7 is a second name of Sunday, not an eighth day that a step could reach
        return range(field.low, min(field.high, 6 if field.names == _WEEKDAYS else field.high) + 1, step)
    low = _number(text, match["low"], field)
    if match["high"] is None:
        if match["step"]:
            raise _unreadable(
                text, f"the {field.name} {item!r} has a step after a single value", f"{low}-{field.high}/{step}"
            )
        return range(low, low + 1)
    high = _number(text, match["high"], field)
    if high < low:
        raise _unreadable(text, f"the {field.name} {item!r} runs backwards", f"{high}-{low}, or a list")
    return range(low, high + 1, step)


def _number(text: str, word: str, field: _Field) -> int:
    if word in field.names:
        return field.names.index(word) + (1 if field.low == 1 else 0)
    if not (word.isascii() and word.isdigit()) or not field.low <= int(word) <= field.high:
        raise _unreadable(text, f"the {field.name} {word!r} is not within {field.low}-{field.high}", "a value in it")
    return int(word)


def _unreadable(text: str, why: str, expected: str) -> WaterclockError:
    return WaterclockError(
        "E104",
        f"cannot read {text!r} as a cron schedule",
        why=why,
        fix=f"expected {expected}; or use EVERY and DELAY",
    )
