"""Parses the values that people enter into their stored form: a text that Spark casts to the column's type, or None.

Equal values have equal stored texts, so rows are compared as texts. Surrounding blanks are removed, and an empty text
is None.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Context, Decimal

from waterclock.flow.forms import FormField
from waterclock.timelabel.zone import nominal_zone

Row = Mapping[str, str | None]
"""A stored row: the text of each column that has a value."""

MOST_CHARACTERS = 10_000
"""The maximum length of a value."""

DECIMAL_POINT = "decimals are separated by a point"
_EXACT = Context(prec=MOST_CHARACTERS + 1000)
_MOST_FLOAT = (2 - 2**-23) * 2.0**127
_RANGES = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "INTEGER": 31, "BIGINT": 63}
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:[ \u00a0\u202f'\u2019][0-9]{3})+(?:\.[0-9]+)?")
_COMMA_GROUPS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_BOOLEANS = {"true": "true", "yes": "true", "false": "false", "no": "false"}
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MIDNIGHT = re.compile(r"[ T]00:00(?::00)?$")  # spreadsheets add it to dates
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029\ud800-\udfff]")


class InvalidValue(ValueError):
    """A value that cannot be stored. `message` is a clause for the person who entered it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotANumber(InvalidValue):
    """A text for a number that is not written as one."""


def parse_value(field: FormField, text: str | None, zone: str, *, decimal_comma: bool = False) -> str | None:
    """Return the stored text of an entered value; None for an empty one. Raises `InvalidValue`.

    Numbers may have blanks or apostrophes between thousands. With `decimal_comma`, a comma separates decimals.
    """
    entered = (text or "").replace("\r\n", "\n").replace("\r", "\n").strip()
    if not entered:
        return None
    if len(entered) > MOST_CHARACTERS:
        raise InvalidValue(f"it has {len(entered)} characters, and at most {MOST_CHARACTERS} are stored")
    if _UNPRINTABLE.search(entered):
        raise InvalidValue("it contains a control character")
    stored = _parse_typed(field.type, entered, zone, decimal_comma=decimal_comma)
    if field.choices and stored not in field.choices:
        raise InvalidValue(f"it is none of {', '.join(field.choices[:20])}")
    return stored


def _parse_typed(kind: str, text: str, zone: str, *, decimal_comma: bool) -> str:
    if kind == "STRING":
        return text
    if kind == "BOOLEAN":
        if text.lower() not in _BOOLEANS:
            raise InvalidValue("it is neither true nor false")
        return _BOOLEANS[text.lower()]
    if kind == "DATE":
        return _parse_date(text)
    if kind == "TIMESTAMP":
        return _parse_timestamp(text, zone)
    try:
        return _parse_number(kind, text.replace(".", " ").replace(",", ".") if decimal_comma else text)
    except NotANumber as error:
        if "," not in text or decimal_comma:
            raise
        raise NotANumber(error.message + _comma_hint(kind, text)) from error


def _parse_number(kind: str, text: str) -> str:
    number = _plain_number(text)
    if kind in {"FLOAT", "DOUBLE"}:
        value = float(number)
        if abs(value) > (_MOST_FLOAT if kind == "FLOAT" else sys.float_info.max):
            raise InvalidValue("it is too large")
        return repr(value + 0.0)  # -0.0 becomes 0.0
    return _parse_exact(kind, number)


def _plain_number(text: str) -> str:
    plain = re.sub(r"[ \u00a0\u202f'\u2019]", "", text) if _GROUPED.fullmatch(text) else text
    if not _NUMBER.fullmatch(plain):
        raise NotANumber("it is not a number")
    return plain


def _comma_hint(kind: str, text: str) -> str:
    """Return how to enter a number that has a comma: as decimals or as thousands, of which the type may allow both."""
    readings = [text.replace(" ", "").replace(",", ".")] if text.count(",") == 1 else []
    if _COMMA_GROUPS.fullmatch(text):
        readings.append(text.replace(",", ""))
    allowed = []
    for reading in readings:
        with suppress(InvalidValue):
            _parse_number(kind, reading)
            allowed.append(reading)
    return f"; {DECIMAL_POINT}" + (f": enter {' or '.join(allowed)}" if allowed else "")


def _parse_exact(kind: str, number: str) -> str:
    value = Decimal(number)
    if kind in _RANGES:
        most = 1 << _RANGES[kind]
        if value != value.to_integral_value():
            raise InvalidValue("it is not a whole number")
        if not -most <= value < most:
            raise InvalidValue(f"it is not between {-most} and {most - 1}")
        return str(int(value))
    digits, scale = (int(each) for each in re.findall(r"[0-9]+", kind if "," in kind else f"{kind},0"))
    sign, parts, exponent = value.normalize(_EXACT).as_tuple()
    after = max(0, -int(exponent))
    before = max(0, len(parts) + int(exponent))
    if after > scale or (value and before > digits - scale):
        raise InvalidValue(f"it has more digits than {kind}")
    text = format(value.copy_abs(), f".{scale}f")
    return f"-{text}" if sign and value else text


def _parse_date(text: str) -> str:
    day = _MIDNIGHT.sub("", text)
    if not _DATE.fullmatch(day):
        raise InvalidValue("it is not a date such as 2026-11-30")
    try:
        return date.fromisoformat(day).isoformat()
    except ValueError as error:
        raise InvalidValue("it is not a date such as 2026-11-30") from error


def _parse_timestamp(text: str, zone: str) -> str:
    if not _DATE.match(text):
        raise InvalidValue("it is not a time such as 2026-11-30 14:00")
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            found = found.replace(tzinfo=nominal_zone(zone))
        return found.astimezone(UTC).isoformat(sep=" ").replace("+00:00", "Z")
    except (ValueError, OverflowError) as error:
        raise InvalidValue("it is not a time such as 2026-11-30 14:00") from error
