"""Finds casts of strings to timestamps, which Spark interprets in UTC instead of the table's time zone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from waterclock.flow.declarations import Flow, Query

_CALLS = frozenset({"to_timestamp", "try_to_timestamp", "to_timestamp_ltz", "timestamp"})
# expressions that return a string; in a CAST, any other expression may be a time or a number already
_TEXTS = (
    exp.Concat, exp.ConcatWs, exp.DPipe, exp.Lower, exp.RegexpExtract, exp.RegexpReplace, exp.Replace, exp.Substring,
    exp.Trim, exp.Upper,
)  # fmt: skip
_NUMBERS = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg)
_TEXT_TYPES = ("STRING", "VARCHAR", "CHAR")
# letters of a pattern for an offset or zone in the string
_OFFSET = re.compile(r"[XxOVzZ]")


def types_of(flow: Flow, query: Query) -> dict[str, str]:
    """Map a query's input columns, in lower case, to their declared types, except names with several types."""
    found: dict[str, set[str | None]] = {}
    for reference in query.tables:
        read = reference.flat.read if reference.flat is not None else reference.read
        table = flow.tables.get(read.table) if read is not None else None
        for column in table.columns.named if table is not None else ():
            found.setdefault(column.name.lower(), set()).add(column.type)
    return {name: str(next(iter(types))) for name, types in found.items() if len(types) == 1 and None not in types}


def find_text_read_in_utc(node: Any, types: Mapping[str, str]) -> tuple[Any, str] | None:
    """Return the node and the call to name in a warning, if a node converts a string without an offset to a timestamp.

    Return None for other nodes, and for uses that are intended: a literal, a pattern with an offset, and an argument of
    `to_utc_timestamp` or `convert_timezone`.
    """
    call = _conversion_name(node)
    is_cast = isinstance(node, exp.Cast) and not node.meta and node.to.this is exp.DataType.Type.TIMESTAMPTZ
    if call is None and not is_cast:
        return None
    value, pattern = _value_and_pattern(node)
    if value is None or not _is_text(value, types, is_sure=is_cast) or (pattern is not None and _has_offset(pattern)):
        return None
    if node.find_ancestor(exp.FromTimeZone, exp.ConvertTimezone) is not None:
        return None
    return (node, f"{call}(...)") if call else (value, "CAST(... AS TIMESTAMP)")


def _conversion_name(node: Any) -> str | None:
    """Return the name of the function if a node calls one that converts a string to a timestamp; else None."""
    if isinstance(node, exp.Anonymous):
        name = str(node.name).lower()
    elif isinstance(node, exp.StrToTime):
        name = "to_timestamp"
    elif isinstance(node, exp.Cast) and node.meta and node.to.this is exp.DataType.Type.TIMESTAMP:
        name = "to_timestamp"  # as the parser represents it; `timestamp(text)` is the same
    else:
        return None
    return name if name in _CALLS else None


def _value_and_pattern(node: Any) -> tuple[Any, Any]:
    if isinstance(node, exp.Anonymous):
        values = [*node.expressions, None, None]
        return values[0], values[1]
    return node.this, node.args.get("format")


def _has_offset(pattern: Any) -> bool:
    """Return whether a pattern has, or may have if it is not a literal, an offset or a time zone."""
    return not isinstance(pattern, exp.Literal) or _OFFSET.search(str(pattern.this)) is not None


def _is_text(value: Any, types: Mapping[str, str], *, is_sure: bool) -> bool:
    """Return whether a value may be a string; with `is_sure`, whether it certainly is one."""
    while isinstance(value, exp.Paren):
        value = value.this
    if isinstance(value, exp.Literal | exp.Null):
        return False
    known = None
    if isinstance(value, exp.Column):
        known = types.get(value.name.lower())
    elif isinstance(value, exp.Cast):
        known = value.to.sql(dialect="spark")
    elif isinstance(value, _TEXTS):
        known = "STRING"
    elif isinstance(value, _NUMBERS) or type(value).__name__.startswith("Unix"):
        return False
    return not is_sure if known is None else known.upper().startswith(_TEXT_TYPES)
