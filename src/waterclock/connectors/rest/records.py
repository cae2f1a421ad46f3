"""Extracts the records of a JSON response as text, unchanged: with all digits and the order of members.

Pure functions. The text of the records is parsed once; the remaining response is parsed separately.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from waterclock.json_depth import require_depth

_BLANK = re.compile(r"[ \t\n\r]*")
_MOST_RECORDS, _MOST_VALUES = 1_000_000, 10_000_000  # of a page: a value of two bytes may take 60 in memory
_HERE = "\u0000the records"
_LINES = str.maketrans("\n\r", "  ")  # between tokens only: a JSON string contains no bare line feed


class NoRecords(ValueError):
    """Raised if the records are not at their declared path in a response, or cannot be read.

    The message is the reason.
    """


def _raise_for_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_raise_for_constant)


@dataclass(frozen=True, slots=True)
class Body:
    """A parsed response: the text of each record, on one line, and the columns of the records.

    `whole` is the JSON document without its records.
    """

    lines: tuple[str, ...]
    columns: tuple[str, ...]
    whole: Any

    def at(self, path: Sequence[str]) -> Any:
        """Return the value at a path outside of the records; None if there is none."""
        return value_at(self.whole, path)


def body_of(content: bytes, path: Sequence[str]) -> Body:
    """Parse a response. Its records are the array at `path`, or the single object there.

    Raises NoRecords if there is neither, or if it is too large or too deep, and ValueError for invalid JSON.
    """
    if content.count(b",") > _MOST_VALUES:
        raise NoRecords(f"it has more than {_MOST_VALUES} values: request smaller pages")
    text = content.decode("utf-8-sig")
    try:
        start = _find_start(text, path)
        if start is not None and text[start] in "[{":
            return _split_records(text, start, path)
        return _without_records(text, path)
    except (StopIteration, IndexError):
        raise ValueError("it ends too early") from None
    except RecursionError:
        raise NoRecords("its values are nested too deep") from None


def _split_records(text: str, start: int, path: Sequence[str]) -> Body:
    lines: list[str] = []
    columns: dict[str, None] = {}
    end = start + 1
    for record, line, end in _records(text, start):  # noqa: B007 - the last end is used
        if not isinstance(record, dict):
            raise NoRecords(f"record {len(lines) + 1} is not an object")
        if len(lines) == _MOST_RECORDS:
            raise NoRecords(f"it has more than {_MOST_RECORDS} records: request smaller pages")
        columns.update(dict.fromkeys(record))
        lines.append(line)
    if text[start] == "[":
        end = _skip_blanks(text, end) + 1
    # the document around the records, which are parsed only once
    whole = json.loads(f"{text[:start]}{json.dumps(_HERE)}{text[end:]}", parse_constant=_raise_for_constant)
    if value_at(whole, path) != _HERE:
        raise NoRecords(f"{'.'.join(path)} is in it twice")
    return Body(tuple(lines), tuple(columns), whole)


def _without_records(text: str, path: Sequence[str]) -> Body:
    """Return an empty body if the value at the path is null. Raises NoRecords for another value or a missing path."""
    whole = found = json.loads(text, parse_constant=_raise_for_constant)
    for at, step in enumerate(path):
        if not isinstance(found, dict) or step not in found:
            raise NoRecords(f"it has no {'.'.join(path[: at + 1])}; {_describe_value(found)}")
        found = found[step]
    if found is None:
        return Body((), (), whole)
    raise NoRecords(f"{'.'.join(path) or 'it'} is neither an array nor an object")


def value_at(whole: Any, path: Sequence[str]) -> Any:
    """Return the value at a path of a parsed response; None if there is none."""
    for step in path:
        if not isinstance(whole, dict):
            return None
        whole = whole.get(step)
    return whole


def _describe_value(found: Any) -> str:
    if isinstance(found, dict):
        return f"there are {', '.join(map(str, list(found)[:20]))}" if found else "it is empty"
    return "there is an array" if isinstance(found, list) else "there is a single value"


def _skip_blanks(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _find_start(text: str, path: Sequence[str]) -> int | None:
    """Return the index where the value at a path begins; None if the path does not exist."""
    at: int | None = _skip_blanks(text, 0)
    for step in path:
        if at is None or text[at] != "{":
            return None
        at = _find_member(text, at, step)
    return at


def _find_member(text: str, at: int, name: str) -> int | None:
    at = _skip_blanks(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _skip_blanks(text, _skip_blanks(text, at) + 1)
        if key == name:
            return at
        _, at = _DECODER.raw_decode(text, at)
        at = _find_next(text, at, "}")
    return None


def _records(text: str, at: int) -> Iterator[tuple[Any, str, int]]:
    """Yield each record, its text on one line, and the index where it ends."""
    if text[at] == "{":
        record, end = _DECODER.raw_decode(text, at)
        require_depth(text[at:end])
        yield record, text[at:end].translate(_LINES), end
        return
    at = _skip_blanks(text, at + 1)
    while text[at] != "]":
        record, end = _DECODER.raw_decode(text, at)
        line = text[at:end]
        require_depth(line)
        yield record, line if "\n" not in line and "\r" not in line else line.translate(_LINES), end
        at = _find_next(text, end, "]")


def _find_next(text: str, at: int, closing: str) -> int:
    """Return the index of the member or element after a comma, or of the closing bracket."""
    at = _skip_blanks(text, at)
    if text[at] == closing:
        return at
    if text[at] != ",":
        raise ValueError(f"there is {text[at]!r} where a comma is expected")
    at = _skip_blanks(text, at + 1)
    if text[at] == closing:
        raise ValueError("there is nothing after a comma")
    return at
