"""Removes the records of erased persons from JSON texts. All other characters stay as they are. Pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from waterclock.connectors.original_erasure import Subjects
from waterclock.json_depth import require_depth

_BLANK = re.compile(r"[\x00-\x20]*")
_BROKEN_MEMBER = re.compile(
    r"""(?P<quote>["'])(?P<key>(?:\\.|(?!(?P=quote))[^\\]){1,200})(?P=quote)\s*:\s*"""
    r"""(?:(?P<sign>["'])(?P<text>(?:\\.|(?!(?P=sign))[^\\]){0,4000})(?P=sign)|(?P<number>[-+.\w]{1,100}))"""
)
VALUE = "value"
"""The column of a record that is not an object."""


class Members(list[tuple[str, Any]]):
    """The members of a JSON object, also repeated ones."""


_DECODER = json.JSONDecoder(object_pairs_hook=Members, parse_int=str, parse_float=str, parse_constant=str, strict=False)


@dataclass(frozen=True, slots=True)
class OuterSubject:
    """An identifying value outside of the records: `depth` steps down the path of the records, then along `rest`.

    `column` is its folded name.
    """

    depth: int
    rest: Sequence[str]
    column: str


@dataclass(slots=True)
class JsonEdit:
    """The result for a JSON text: its records, the removed ones, and the text without them, None if nothing remains.

    `is_read` is false for a text that cannot be parsed.
    """

    text: str | None
    rows: int = 0
    removed: int = 0
    is_read: bool = True


def has_erased_member(record: Any, subjects: Subjects) -> bool:
    """Return whether a record has the value of an erased person. A record that is no object has the column `value`."""
    for name, value in record if isinstance(record, Members) else [(VALUE, record)]:
        column = subjects.column_of(name)
        if column is not None and not isinstance(value, list) and subjects.is_erased(column, value):
            return True
    return False


def edit_json(text: str, subjects: Subjects, path: Sequence[str] = (), outer: Sequence[OuterSubject] = ()) -> JsonEdit:
    """Remove the records of erased persons from a JSON text, which is a record, a list, or has its records at `path`.

    A single record at a path becomes null. In a text that cannot be parsed, members of objects are searched for the
    identifying columns, and the whole text counts as one record.
    """
    try:
        require_depth(text)
        walk = _Walk(text, subjects, path, outer)
        end, is_removed = walk.value(_skip_blanks(text, 0), 0)
        if _skip_blanks(text, end) < len(text):
            raise ValueError("there is text after the value")  # noqa: TRY301 - handled as any other invalid text
    except (ValueError, IndexError, StopIteration, RecursionError):
        is_removed = _has_broken_member(text, subjects)
        return JsonEdit(None if is_removed else text, 1, int(is_removed), is_read=is_removed)
    if is_removed:
        return JsonEdit(None, walk.rows, walk.removed)
    return JsonEdit(_apply(text, walk.edits), walk.rows, walk.removed)


@dataclass(slots=True)
class _Walk:
    text: str
    subjects: Subjects
    path: Sequence[str]
    outer: Sequence[OuterSubject]
    rows: int = 0
    removed: int = 0
    edits: list[tuple[int, int, str]] = field(default_factory=list)

    def value(self, at: int, depth: int) -> tuple[int, bool]:
        """Search the value at an index. Return the index after it, and whether it must be removed as a whole."""
        if self.text[at] != "[":
            return self._element(at, depth)
        spans: list[tuple[int, int, bool]] = []
        at = _skip_blanks(self.text, at + 1)
        while self.text[at] != "]":
            end, is_removed = self._element(at, depth)
            spans.append((at, end, is_removed))
            at = self._next(end, "]")
        self.edits.extend(_list_edits(spans))
        # a list of which nothing remains is removed with its line
        return at + 1, depth == 0 and bool(spans) and all(is_removed for *_, is_removed in spans)

    def _next(self, end: int, closing: str) -> int:
        """Return the position after the comma that follows a value, or that of the closing bracket."""
        at = _skip_blanks(self.text, end)
        if self.text[at] == ",":
            return _skip_blanks(self.text, at + 1)
        if self.text[at] != closing:
            raise ValueError("there is no comma")
        return at

    def _element(self, at: int, depth: int) -> tuple[int, bool]:
        own = [one for one in self.outer if one.depth == depth]
        if depth == len(self.path):
            record, end = _DECODER.raw_decode(self.text, at)
            if record is None:
                return end, False
            self.rows += 1
            is_removed = has_erased_member(record, self.subjects)
            self.removed += is_removed
            return end, is_removed
        if self.text[at] != "{" or own:
            whole, end = _DECODER.raw_decode(self.text, at)
            if any(self.subjects.is_erased(one.column, value) for one in own for value in _values_at(whole, one.rest)):
                rows = max(1, self._count_records(at, depth))
                self.rows, self.removed = self.rows + rows, self.removed + rows
                return end, True
            if self.text[at] != "{":
                return end, False
        return self._members(at, depth), False

    def _count_records(self, at: int, depth: int) -> int:
        inner = _Walk(self.text, Subjects({}, lambda _: False), self.path, ())
        if self.text[at] == "{":
            inner._members(at, depth)
        return inner.rows

    def _members(self, at: int, depth: int) -> int:
        """Search the members of an object that are on the path. Return the index after the object."""
        at = _skip_blanks(self.text, at + 1)
        while self.text[at] != "}":
            key, at = _DECODER.raw_decode(self.text, at)
            at = _skip_blanks(self.text, at)
            if not isinstance(key, str) or self.text[at] != ":":
                raise ValueError("there is no member")
            at = _skip_blanks(self.text, at + 1)
            if key == self.path[depth]:
                end, is_removed = self.value(at, depth + 1)
                if is_removed:
                    self.edits.append((at, end, "null"))
            else:
                _, end = _DECODER.raw_decode(self.text, at)
            at = self._next(end, "}")
        return at + 1


def _list_edits(spans: Sequence[tuple[int, int, bool]]) -> Iterator[tuple[int, int, str]]:
    """Yield the parts of a text to cut, so that the remaining elements of a list are separated by single commas."""
    last_kept = max((at for at, (*_, is_removed) in enumerate(spans) if not is_removed), default=-1)
    for at in range(last_kept):
        if spans[at][2]:
            yield spans[at][0], spans[at + 1][0], ""
    if last_kept + 1 < len(spans):
        start = spans[last_kept][1] if last_kept >= 0 else spans[0][0]
        yield start, spans[-1][1], ""


def _apply(text: str, edits: Sequence[tuple[int, int, str]]) -> str:
    parts: list[str] = []
    at = 0
    for start, end, instead in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
        if start < at:  # within a part that is cut already
            continue
        parts += (text[at:start], instead)
        at = end
    return "".join((*parts, text[at:]))


def _values_at(value: Any, steps: Sequence[str]) -> Iterator[Any]:
    if not steps:
        yield value
    elif isinstance(value, Members):
        for name, inner in value:
            if name == steps[0]:
                yield from _values_at(inner, steps[1:])


def _skip_blanks(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _has_broken_member(text: str, subjects: Subjects) -> bool:
    """Return whether a text that is no valid JSON, such as a cut line, shows an identifying value of a person."""
    for found in _BROKEN_MEMBER.finditer(text):
        column = subjects.column_of(_unescape(found["key"]))
        value = found["number"] if found["text"] is None else _unescape(found["text"])
        if column is not None and value is not None and subjects.is_erased(column, value):
            return True
    return False


def _unescape(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"', strict=False)) if "\\" in text else text
    except ValueError:
        return text


def edit_lines(
    lines: Iterator[str], edit: Callable[[str], JsonEdit], write: Callable[[str], None] | None
) -> tuple[int, int, int]:
    """Edit each line of a text, and pass the remaining lines to `write`. Return the rows, removed and unread rows."""
    rows = removed = unread = 0
    for line in lines:
        result = JsonEdit(line) if not line.strip() else edit(line)
        rows, removed, unread = rows + result.rows, removed + result.removed, unread + (not result.is_read)
        if write is not None and result.text is not None:
            write(result.text)
    return rows, removed, unread
