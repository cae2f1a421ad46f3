"""Takes the records out of an answer as they were written: no number loses a digit, no member its place.

Pure, and in one pass over the text for the records; the rest of the answer is parsed beside them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

_BLANK = re.compile(r"[ \t\n\r]*")
_LINES = str.maketrans("\n\r", "  ")  # between tokens alone: a text of JSON holds no bare line feed


class NoRecords(ValueError):
    """An answer in which the records are not where they were said to be, in words."""


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_number)


@dataclass(frozen=True, slots=True)
class Body:
    """An answer: the texts of its records, each on one line, the columns they have, and the whole as parsed."""

    lines: tuple[str, ...]
    columns: tuple[str, ...]
    whole: Any

    def at(self, path: Sequence[str]) -> Any:
        """Return what stands at a path; None where there is nothing."""
        return value_at(self.whole, path)


def body_of(content: bytes, path: Sequence[str]) -> Body:
    """Read an answer, whose records are the array at `path`, or the one object there.

    Raises  NoRecords where there is no such place, or where what is there is neither
            ValueError for what is no JSON, as an answer that was cut off
    """
    text = content.decode("utf-8-sig")
    whole = json.loads(text, parse_constant=_no_number)
    found = whole
    for at, step in enumerate(path):
        if not isinstance(found, dict) or step not in found:
            raise NoRecords(f"it has no {'.'.join(path[: at + 1])}; {_what(found)}")
        found = found[step]
    if found is None:
        return Body((), (), whole)
    if not isinstance(found, dict | list):
        raise NoRecords(f"{'.'.join(path) or 'it'} is neither an array nor an object")
    lines: list[str] = []
    columns: dict[str, None] = {}
    for record, line in _records(text, _start_of(text, path)):
        if not isinstance(record, dict):
            raise NoRecords(f"record {len(lines) + 1} is no object")
        columns.update(dict.fromkeys(record))
        lines.append(line)
    return Body(tuple(lines), tuple(columns), whole)


def value_at(whole: Any, path: Sequence[str]) -> Any:
    """Return what stands at a path of a parsed answer; None where there is nothing."""
    for step in path:
        if not isinstance(whole, dict):
            return None
        whole = whole.get(step)
    return whole


def _what(found: Any) -> str:
    if isinstance(found, dict):
        return f"there are {', '.join(map(str, list(found)[:20]))}" if found else "it is empty"
    return "there is an array" if isinstance(found, list) else "there is a single value"


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _start_of(text: str, path: Sequence[str]) -> int:
    """Return where the value at a path begins; of a member said twice it is the last, as parsers have it."""
    at = _skip(text, 0)
    for step in path:
        at = _member(text, at, step)
    return at


def _member(text: str, at: int, name: str) -> int:
    found = -1
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)
        if key == name:
            found = at
        _, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found


def _records(text: str, at: int) -> Iterator[tuple[Any, str]]:
    if text[at] == "{":
        record, end = _DECODER.raw_decode(text, at)
        yield record, text[at:end].translate(_LINES)
        return
    at = _skip(text, at + 1)
    while text[at] != "]":
        record, end = _DECODER.raw_decode(text, at)
        yield record, text[at:end].translate(_LINES)
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
