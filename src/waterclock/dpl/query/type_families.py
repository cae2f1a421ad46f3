"""Determines the family of an expression's type (date, timestamp, interval, ...) from its syntax tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

from sqlglot import exp


class Family(StrEnum):
    """The families of types that checks distinguish. FLOATING is DOUBLE and FLOAT, NESTED an ARRAY, MAP or STRUCT.

    OTHER is any other type that a table can store.
    """

    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    FLOATING = "DOUBLE"
    NESTED = "nested"
    INTERVAL = "INTERVAL"
    VARIANT = "VARIANT"
    COLLATED = "collated text"
    TIME = "TIME"
    OTHER = "other"


UNSTORED = frozenset({Family.INTERVAL, Family.VARIANT, Family.COLLATED, Family.TIME})
INSTANTS = frozenset({Family.DATE, Family.TIMESTAMP})
FamilyOf = Callable[[Any], Family | None]

_D = exp.DType
_OF_TYPE = {
    _D.DATE: Family.DATE, _D.DATE32: Family.DATE,
    _D.TIMESTAMP: Family.TIMESTAMP, _D.TIMESTAMPTZ: Family.TIMESTAMP, _D.TIMESTAMPNTZ: Family.TIMESTAMP,
    _D.TIMESTAMPLTZ: Family.TIMESTAMP, _D.DATETIME: Family.TIMESTAMP,
    _D.INTERVAL: Family.INTERVAL, _D.VARIANT: Family.VARIANT, _D.TIME: Family.TIME,
    _D.DOUBLE: Family.FLOATING, _D.FLOAT: Family.FLOATING,
    _D.ARRAY: Family.NESTED, _D.MAP: Family.NESTED, _D.STRUCT: Family.NESTED,
}  # fmt: skip
_OF_CALL = {
    "MAKE_INTERVAL": Family.INTERVAL, "MAKE_DT_INTERVAL": Family.INTERVAL, "MAKE_YM_INTERVAL": Family.INTERVAL,
    "TRY_MAKE_INTERVAL": Family.INTERVAL,
    "PARSE_JSON": Family.VARIANT, "TRY_PARSE_JSON": Family.VARIANT, "TO_VARIANT_OBJECT": Family.VARIANT,
    "WINDOW_START": Family.TIMESTAMP, "WINDOW_END": Family.TIMESTAMP, "TIMESTAMP_SECONDS": Family.TIMESTAMP,
    "TIMESTAMP_MILLIS": Family.TIMESTAMP, "TIMESTAMP_MICROS": Family.TIMESTAMP, "TRY_TO_TIMESTAMP": Family.TIMESTAMP,
    "MAKE_TIMESTAMP": Family.TIMESTAMP, "TO_TIMESTAMP_NTZ": Family.TIMESTAMP, "TO_TIMESTAMP_LTZ": Family.TIMESTAMP,
    "MAKE_DATE": Family.DATE, "DATE_FROM_UNIX_DATE": Family.DATE, "TRY_TO_DATE": Family.DATE,
}  # fmt: skip
_DATES = (exp.TsOrDsToDate, exp.CurrentDate, exp.LastDay, exp.DateFromParts, exp.TsOrDsAdd, exp.DateAdd, exp.DateSub)
_TIMESTAMPS = (
    exp.StrToTime, exp.TimestampTrunc, exp.CurrentTimestamp, exp.UnixToTime, exp.TimestampFromParts, exp.FromTimeZone,
)  # fmt: skip
_HANDS_ON = (exp.Paren, exp.Alias, exp.Filter, exp.Window, exp.IgnoreNulls, exp.RespectNulls, exp.Neg, exp.Distinct)
# their value is one of their arguments, or is computed from them within the same family
_CHOOSES = (
    exp.Max, exp.Min, exp.Sum, exp.Avg, exp.First, exp.Last, exp.AnyValue, exp.FirstValue, exp.LastValue, exp.Lag,
    exp.Lead, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least,
)  # fmt: skip
_NESTED_WORDS = ("ARRAY", "MAP", "STRUCT")
_FLOATING_WORDS = frozenset({"DOUBLE", "FLOAT", "REAL"})
_OF_TEXT = (exp.Upper, exp.Lower, exp.Trim, exp.Substring, exp.Concat, exp.DPipe, exp.Pad, exp.Repeat, exp.Reverse)


def family_of_type(written: str) -> Family:
    """Return the family of a type in Spark SQL that a table can store."""
    word = written.strip().upper()
    if word.startswith("TIMESTAMP"):
        return Family.TIMESTAMP
    if word.startswith(_NESTED_WORDS):
        return Family.NESTED
    return Family.FLOATING if word in _FLOATING_WORDS else Family.DATE if word == "DATE" else Family.OTHER


_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div)


def family_of(node: Any, column: FamilyOf) -> Family | None:
    """Return the type family of an expression, None if it is not known; `column` returns the family of a column."""
    rule = next((rule for kinds, rule in _RULES if isinstance(node, kinds)), None)
    return rule(node, column) if rule else None


def _of_collate(node: Any, _: FamilyOf) -> Family | None:
    return Family.OTHER if "UTF8_BINARY" in node.expression.name.upper() else Family.COLLATED


def _of_array(node: Any, column: FamilyOf) -> Family:
    of_elements = _first(node.iter_expressions(), column)
    return of_elements if of_elements in UNSTORED | INSTANTS else Family.NESTED


def _of_if(node: Any, column: FamilyOf) -> Family | None:
    return _first((node.args.get("true"), node.args.get("false")), column)


def _of_case(node: Any, column: FamilyOf) -> Family | None:
    return _first([*(one.args.get("true") for one in node.args["ifs"]), node.args.get("default")], column)


def _of_text(node: Any, column: FamilyOf) -> Family | None:
    of_parts = {family_of(part, column) for part in node.iter_expressions()}
    return Family.COLLATED if Family.COLLATED in of_parts else Family.OTHER


def _of_path(node: Any, column: FamilyOf) -> Family | None:
    return family_of(node.this, column) if node.args.get("variant_extract") else None


def _of_anonymous(node: Any, _: FamilyOf) -> Family | None:
    name = node.name.upper()
    if name in {"VARIANT_GET", "TRY_VARIANT_GET"}:
        return Family.VARIANT if len(node.expressions) == 2 else None
    return _OF_CALL.get(name)


def _of_arithmetic(node: Any, column: FamilyOf) -> Family | None:
    behind = []
    while isinstance(node, _ARITHMETIC):  # a sum of a thousand terms is a thousand levels deep
        behind.append(node)
        node = node.this
    family = family_of(node, column)
    for each in reversed(behind):
        family = _of_two(each, family, family_of(each.expression, column))
    return family


def _of_two(node: Any, left: Family | None, right: Family | None) -> Family | None:
    if isinstance(node, exp.Sub) and left in INSTANTS and right in INSTANTS:
        return Family.INTERVAL
    if isinstance(node, exp.Mul | exp.Div):
        return Family.INTERVAL if Family.INTERVAL in {left, right} else None
    found = [one for one in (left, right) if one in INSTANTS]
    if found:
        return found[0]
    return Family.INTERVAL if left is Family.INTERVAL and right is Family.INTERVAL else None


def _first(nodes: Iterable[Any], column: FamilyOf) -> Family | None:
    """Return the first family other than OTHER among some expressions; else OTHER, or None if none is known."""
    found = [family for node in nodes if node is not None and (family := family_of(node, column))]
    return next((one for one in found if one is not Family.OTHER), found[0] if found else None)


def _of_data_type(type_: Any) -> Family:
    for inner in type_.find_all(exp.DataType):
        family = _OF_TYPE.get(inner.this)
        if family in UNSTORED:
            return family
        if inner.args.get("collate") is not None:
            return Family.COLLATED
    return _OF_TYPE.get(type_.this, Family.OTHER)


_RULES: tuple[tuple[Any, Callable[[Any, FamilyOf], Family | None]], ...] = (
    (exp.Column, lambda node, column: column(node)),
    (exp.Cast, lambda node, _: _of_data_type(node.to)),
    (exp.Literal, lambda *_: Family.OTHER),
    (exp.Interval, lambda *_: Family.INTERVAL),
    (exp.Collate, _of_collate),
    (_HANDS_ON, lambda node, column: family_of(node.this, column)),
    (_ARITHMETIC, _of_arithmetic),
    (exp.If, _of_if),
    (exp.Case, _of_case),
    ((exp.Array, exp.ArrayAgg), _of_array),
    ((exp.Struct, exp.Map, exp.VarMap), lambda *_: Family.NESTED),
    (_CHOOSES, lambda node, column: _first(node.iter_expressions(), column)),
    (exp.JSONExtract, _of_path),
    (_OF_TEXT, _of_text),
    (exp.ParseJSON, lambda *_: Family.VARIANT),
    (_DATES, lambda *_: Family.DATE),
    (_TIMESTAMPS, lambda *_: Family.TIMESTAMP),
    (exp.Anonymous, _of_anonymous),
)
