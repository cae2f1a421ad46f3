"""Finds strings such as `'now'` and `'today'` that Spark converts to the time of the run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sqlglot import exp

from waterclock.dpl.query.type_families import INSTANTS, FamilyOf, family_of
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.errors import WaterclockError

# Spark 4.2 replaces these words, in upper or lower case and with a zone after them, by the current time wherever a
# constant is cast to a date or a time, explicitly or implicitly; 'epoch' is always the same instant
_WORDS = re.compile(r"\s*(now|today|yesterday|tomorrow)(\s+\S+)?\s*", re.IGNORECASE)
_ORDERED = exp.LT | exp.LTE | exp.GT | exp.GTE | exp.Between
_SAME = exp.EQ | exp.NEQ | exp.NullSafeEQ | exp.In | exp.Coalesce | exp.Greatest | exp.Least | exp.Nullif | exp.If
_OF_TIME = (
    exp.TsOrDsAdd, exp.TsOrDsDiff, exp.DateAdd, exp.DateSub, exp.DateDiff, exp.DateTrunc, exp.TimestampTrunc,
    exp.TimestampAdd, exp.TimestampSub, exp.TimestampDiff, exp.AddMonths, exp.LastDay, exp.NextDay, exp.MonthsBetween,
    exp.Extract, exp.Year, exp.Quarter, exp.Month, exp.Week, exp.WeekOfYear, exp.Day, exp.DayOfMonth, exp.DayOfWeek,
    exp.DayOfYear, exp.Hour, exp.Minute, exp.Second, exp.TimeToStr, exp.AtTimeZone, exp.FromTimeZone, exp.UnixDate,
    exp.TimeStrToTime,
)  # fmt: skip
_OF_ONE = (exp.TsOrDsToDate, exp.StrToTime)  # with a format, they do not accept words such as 'now'
_CALLS_OF_ONE = frozenset({"TRY_TO_TIMESTAMP", "TO_TIMESTAMP_NTZ", "TO_TIMESTAMP_LTZ", "TRY_TO_DATE"})
_CALLS = frozenset({"TO_UTC_TIMESTAMP", "FROM_UTC_TIMESTAMP", "UNIX_SECONDS", "UNIX_MILLIS", "UNIX_MICROS", "WINDOW"})


def now_texts(tree: Any, source: SourceText, column: FamilyOf) -> Iterator[WaterclockError]:
    """Yield an error for each string in an expression that Spark would read as the time of the run.

    `column` returns the type family of a column. Subqueries are not searched.
    """
    for node in tree.walk(prune=lambda node: isinstance(node, exp.Query)):
        text = _constant_text(node)
        if text is None or not _WORDS.fullmatch(text) or _constant_text(node.parent) is not None:
            continue
        written = source.span_of(node)
        if written is not None and _is_read_as_time(node, column):
            yield written.refuse(
                "E215",
                f"'{text.strip()}' is a different time in each run",
                why="the same inputs and the same code must give the same output, or a batch cannot be repeated",
                fix="use WINDOW_END() or WINDOW_START(), the batch's time; as a date, CAST(WINDOW_START() AS DATE)",
            )


def _constant_text(node: Any) -> str | None:
    """Return the value of an expression of string literals; None for any other expression."""
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else None
    if not isinstance(node, exp.Paren | exp.DPipe | exp.Concat | exp.Lower | exp.Upper | exp.Trim):
        return None
    parts = [_constant_text(part) for part in node.iter_expressions()]
    texts = [part for part in parts if part is not None]
    return "".join(texts) if texts and len(texts) == len(parts) else None


def _is_read_as_time(node: Any, column: FamilyOf) -> bool:
    parent = node.parent
    if isinstance(parent, exp.Case) or isinstance(parent.parent, exp.Case):
        return _is_time_in_case(node, parent if isinstance(parent, exp.Case) else parent.parent, column)
    if isinstance(parent, _ORDERED | _SAME):
        families = {family_of(part, column) for part in parent.iter_expressions() if part is not node}
        return bool(families & INSTANTS) or (isinstance(parent, _ORDERED) and None in families)
    if isinstance(parent, exp.Cast):
        return family_of(parent, column) in INSTANTS
    if isinstance(parent, exp.Add | exp.Sub):
        return family_of(parent.expression if parent.this is node else parent.this, column) is not None
    return _is_argument_of_time(parent)


def _is_argument_of_time(call: Any) -> bool:
    """Return whether a function reads a string argument as a time; some do not if they get a format."""
    if isinstance(call, exp.Anonymous):
        name = call.name.upper()
        return name in _CALLS or (name in _CALLS_OF_ONE and len(call.expressions) == 1)
    return isinstance(call, _OF_TIME) or (isinstance(call, _OF_ONE) and not call.args.get("format"))


def _is_time_in_case(node: Any, case: exp.Case, column: FamilyOf) -> bool:
    """Return whether a CASE compares the string with a time in WHEN, or returns both of them in THEN or ELSE."""
    if any(one.this is node for one in case.args["ifs"]):
        return bool(INSTANTS & {family_of(case.args.get("this"), column)})
    values = [*(one.args.get("true") for one in case.args["ifs"]), case.args.get("default")]
    return any(family_of(value, column) in INSTANTS for value in values if value is not node)
