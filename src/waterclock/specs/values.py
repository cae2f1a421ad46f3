"""Parses and formats the values of cells. Types are Spark's; times without an offset are UTC.

An empty cell and `NULL` mean NULL. `"..."` is the text between the quotes, so that `""` is an empty text. Nested values
are JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import singledispatch
from typing import Any

from waterclock.connectors.arrow_values import Times, column, is_plain
from waterclock.connectors.type_mismatch import TypeMismatch
from waterclock.errors import WaterclockError
from waterclock.specs.document import TableCell

NULL = "NULL"
_EXAMPLES: Mapping[str, str] = {
    "timestamp": "2013-01-05 06:30 or 2013-01-05T06:30:00-05:00",
    "timestamp_ntz": "2013-01-05 06:30",
    "date": "2013-01-05",
    "boolean": "true or false",
    "int": "12",
    "bigint": "12",
    "smallint": "12",
    "tinyint": "12",
    "double": "1.5",
    "float": "1.5",
}
_TOLERANCE = 1e-9


def plain_text(cell: TableCell) -> str | None:
    """Return a cell's text without quotes, or None for NULL."""
    text = cell.text
    if text in {"", NULL}:
        return None
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def value_of(cell: TableCell, column_name: str, type_name: str) -> Any:
    """Convert a cell to a Spark type; nested values become Python's for JSON. Raises E355 for an invalid value."""
    text = plain_text(cell)
    if text is None:
        return None
    try:
        return column([text], type_name, Times()).to_pylist()[0] if is_plain(type_name) else _parse_json(text)
    except (TypeMismatch, ValueError):
        example = _EXAMPLES.get(type_name, "" if is_plain(type_name) else 'JSON, such as [1, 2] or {"a": 1}')
        raise WaterclockError(
            "E355",
            f"{cell.text!r} is not a valid {type_name.upper()}",
            where=str(cell.place),
            why=f"the column {column_name} is {type_name.upper()}",
            fix=(f"write it like {example}; " if example else "") + "a missing value is empty or NULL",
        ) from None


def _parse_json(text: str) -> Any:
    """Parse a nested value. Fractions become Decimals, because a float has only 15 exact digits."""
    return json.loads(text, parse_float=Decimal)


def json_text(value: Any) -> str:
    """Return a nested value as JSON, each Decimal with all its digits."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json_text(str(name))}: {json_text(inner)}' for name, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(json_text, value))}]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def text_of(value: Any) -> str:
    """Return a value as text for a cell; instants are in UTC."""
    return NULL if value is None else _format_value(value)


@singledispatch
def _format_value(value: Any) -> str:
    if isinstance(value, list | Mapping):
        return json_text(to_json_value(value))
    return str(value)


@_format_value.register
def _(value: str) -> str:
    return f'"{value}"' if value in {"", NULL} or value != value.strip() else value


@_format_value.register
def _(value: bool) -> str:  # noqa: FBT001 - the value itself
    return str(value).lower()


@_format_value.register
def _(value: int) -> str:
    return str(value)


@_format_value.register
def _(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


@_format_value.register
def _(value: Decimal) -> str:
    return f"{value:f}"


@_format_value.register
def _(value: date) -> str:
    return value.isoformat()


@_format_value.register
def _(value: datetime) -> str:
    return (value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value).isoformat(" ")


@_format_value.register
def _(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def to_json_value(value: Any) -> Any:
    """Return a nested value in JSON's types, with Decimals as they are. Arrow represents a map as a list of pairs."""
    if isinstance(value, Mapping):
        return {str(name): to_json_value(inner) for name, inner in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
            return {str(key): to_json_value(inner) for key, inner in value}
        return [to_json_value(inner) for inner in value]
    return value if value is None or isinstance(value, bool | int | float | str | Decimal) else text_of(value)


def are_equal(expected: Any, actual: Any) -> bool:
    """Return whether two values are equal; floats may differ by a billionth of their size."""
    if expected is None or actual is None:
        return expected is actual
    if isinstance(expected, float) and isinstance(actual, float | int):
        return math.isclose(expected, actual, rel_tol=_TOLERANCE) or (math.isnan(expected) and math.isnan(actual))
    if isinstance(actual, list | Mapping):
        return _are_json_equal(expected, to_json_value(actual))
    return bool(expected == actual)


def _are_json_equal(expected: Any, actual: Any) -> bool:
    if expected == {} and actual == []:  # Arrow represents a map without entries as an empty list
        return True
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return expected.keys() == actual.keys() and all(
            _are_json_equal(expected[name], actual[name]) for name in expected
        )
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(_are_json_equal, expected, actual))
    if isinstance(actual, float) and isinstance(expected, float | int | Decimal) and not isinstance(expected, bool):
        return are_equal(float(expected), actual)
    return isinstance(expected, bool) is isinstance(actual, bool) and bool(expected == actual)
