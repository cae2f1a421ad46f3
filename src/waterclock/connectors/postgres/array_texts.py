"""Converts an array in PostgreSQL's text format, `{1,NULL,"a b"}`, to the JSON of `array_to_json`. Pure functions."""

from __future__ import annotations

import json
from typing import Any

_NUMBERS = frozenset({"int2", "int4", "int8"})
_FLOATS = frozenset({"float4", "float8"})


def json_of_array(text: str, kind: str) -> str:
    """Convert an array's text to JSON. `kind` is the database type of its elements. Raises ValueError if invalid."""
    begin = text.find("{")  # the text of an array that does not start at index 1 begins with its bounds: [0:2]={…}
    items, end = _parse_array(text, begin, kind) if begin >= 0 else ([], -1)
    if end != len(text):
        raise ValueError(f"{text!r} is not an array")
    return json.dumps(items)


def _parse_array(text: str, at: int, kind: str) -> tuple[list[Any], int]:
    """Parse an array from its opening bracket. Return the elements and the index after the closing bracket."""
    found: list[Any] = []
    at += 1
    if text[at : at + 1] == "}":
        return found, at + 1
    while True:
        item, at = _parse_element(text, at, kind)
        found.append(item)
        sign = text[at : at + 1]
        if sign not in {",", "}"}:
            raise ValueError(f"{text!r} is not an array")
        at += 1
        if sign == "}":
            return found, at


def _parse_element(text: str, at: int, kind: str) -> tuple[Any, int]:
    if text[at : at + 1] == "{":
        return _parse_array(text, at, kind)
    if text[at : at + 1] == '"':
        signs = []
        at += 1
        while text[at : at + 1] not in {'"', ""}:
            at += text[at] == "\\"
            signs.append(text[at : at + 1])
            at += 1
        return _convert_element("".join(signs), kind), at + 1
    end = at
    while text[end : end + 1] not in {",", "}", ""}:
        end += 1
    word = text[at:end]
    return (None if word.upper() == "NULL" else _convert_element(word, kind)), end


def _convert_element(text: str, kind: str) -> Any:
    if kind in _NUMBERS:
        return int(text)
    if kind in _FLOATS:
        return float(text)
    return text == "t" if kind == "bool" else text
