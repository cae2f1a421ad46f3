"""Evaluates the WHEN conditions that select one of a transform's queries. They depend only on the batch's window.

Logic has three values, as in SQL: None is unknown, which does not count as true.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import first_instant, nominal_zone

Fixed = str | int | float | bool | Decimal | date | None
"""A value in a condition. A timestamp is an aware datetime in UTC; a date is a `date`."""


@dataclass(frozen=True, slots=True)
class Term:
    """A node of a condition's syntax tree: an operation `op` on `parts`, or a literal `value`."""

    op: str
    parts: tuple[Term, ...] = ()
    value: Fixed = None


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition: its text as written, its parsed term, and the time zone of its table."""

    text: str
    term: Term
    zone: str

    def is_true_for(self, window: Window) -> bool:
        """Return whether the condition is TRUE for a window; unknown counts as not true."""
        return _value(self.term, window, self.zone) is True

    def turns(self) -> frozenset[datetime] | None:
        """Return the instants at which the result of the condition may change; None if it may change at any instant.

        All windows between two consecutive instants of the result have the same value.
        """
        return _turns(self.term, self.zone)


def _turns(term: Term, zone: str) -> frozenset[datetime] | None:
    if term.op in _COMPARE and any(map(_is_edge, term.parts)):
        written = [part.value for part in term.parts if part.op == "value"]
        return frozenset(turn for value in written for turn in _edges_of(value, zone)) or None
    if term.op in _OF_WINDOW:
        return None
    found: frozenset[datetime] = frozenset()
    for part in term.parts:
        inner = _turns(part, zone)
        if inner is None:
            return None
        found |= inner
    return found


def _is_edge(term: Term) -> bool:
    """Return whether a term is the start or end of the window, or the date of the start or end."""
    return term.op in _EDGES or (term.op == "date" and term.parts[0].op in _EDGES)


def _edges_of(value: Fixed, zone: str) -> tuple[datetime, ...]:
    """Return the instant of a timestamp, or the start and end of a date; empty for other literals."""
    if isinstance(value, datetime):
        return (value,)
    if isinstance(value, date):
        return first_instant(zone, value.toordinal()), first_instant(zone, value.toordinal() + 1)
    return ()


def _value(term: Term, window: Window, zone: str) -> Any:  # noqa: PLR0911 - one return per kind of term
    if term.op == "value":
        return term.value
    if term.op in _OF_WINDOW:
        return _OF_WINDOW[term.op](window)
    if term.op in _LOGIC:
        return _LOGIC[term.op](_value(part, window, zone) for part in term.parts)
    parts = [_value(part, window, zone) for part in term.parts]
    if term.op in _OF_NULL:
        return _OF_NULL[term.op](*parts)
    if None in parts:
        return None
    if term.op in _LOCAL:
        return _LOCAL[term.op](_local(parts[0], zone))
    return first_instant(zone, parts[0].toordinal()) if term.op == "instant" else _PLAIN[term.op](*parts)


def _local(value: date, zone: str) -> date:
    """Return a timestamp in the zone's local time, and a date unchanged."""
    return value.astimezone(nominal_zone(zone)) if isinstance(value, datetime) else value


def _combine(values: Iterable[bool | None], *, decisive: bool) -> bool | None:
    """Return `decisive` if one of the values is it, else None if one of them is None."""
    found: bool | None = not decisive
    for value in values:
        if value is decisive:
            return decisive
        found = None if value is None else found
    return found


def _date(value: date) -> date:
    return value.date() if isinstance(value, datetime) else value


def _rest(left: int, right: int) -> int:
    """Return the remainder of a division, with the sign of the dividend, as in SQL."""
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


_EDGES = frozenset({"window_start", "window_end"})
_OF_WINDOW: Mapping[str, Callable[[Window], Any]] = {
    "window_start": lambda window: window.start.astimezone(UTC),
    "window_end": lambda window: window.end.astimezone(UTC),
    "timelabel": lambda window: window.label,
}
_LOGIC: Mapping[str, Callable[[Any], bool | None]] = {
    "and": partial(_combine, decisive=False),
    "or": partial(_combine, decisive=True),
}
_OF_NULL: Mapping[str, Callable[..., bool]] = {
    "is null": lambda value: value is None,
    "is": lambda value, other: value is other,
    "<=>": lambda left, right: left == right,
}
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_PLAIN: Mapping[str, Callable[..., Any]] = {
    **_COMPARE,
    "not": operator.not_,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": _rest,
    "negative": operator.neg,
}
_LOCAL: Mapping[str, Callable[[Any], Any]] = {
    "date": _date,
    "year": lambda local: local.year,
    "quarter": lambda local: (local.month + 2) // 3,
    "month": lambda local: local.month,
    "day": lambda local: local.day,
    "dayofyear": lambda local: local.timetuple().tm_yday,
    "dayofweek": lambda local: local.isoweekday() % 7 + 1,  # Sunday is 1, as in Spark
    "weekday": lambda local: local.weekday(),  # Monday is 0, as in Spark
    "weekofyear": lambda local: local.isocalendar().week,
    "hour": lambda local: local.hour,
    "minute": lambda local: local.minute,
}
