"""Maps offsets of the user's text to places, with excerpts and carets, and errors that show both."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Place
from waterclock.secrets.credentials import hide_credentials

_WORD = re.compile(r"[\w.`]+|.", re.DOTALL)
_SPACE = re.compile(r"[^\S ]")
_WIDEST = 120


@dataclass(frozen=True)
class SourceText:
    """A text and the place of its first character: a whole file, or a clause's text inside a Python file.

    `original` is the text with its comments, where `text` has blanks in their place; excerpts show it.
    """

    file: str
    text: str
    line: int = 1
    column: int = 1
    original: str | None = None

    def without_comments(self, text: str) -> SourceText:
        """Return this source with a text of the same length and lines, in which comments are replaced by blanks."""
        return self if text == self.text else replace(self, text=text, original=self.original or self.text)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def place(self, offset: int) -> Place:
        """Return the place of the character at `offset`."""
        row = bisect_right(self._starts, offset) - 1
        column = offset - self._starts[row] + 1
        return Place(self.file, self.line + row, column if row else column + self.column - 1)

    def offset(self, place: Place) -> int:
        """Return the offset of a place of this text; the nearest one if the place is outside of it."""
        row = min(max(place.line - self.line, 0), len(self._starts) - 1)
        column = place.column - 1 if row else place.column - self.column
        return min(self._starts[row] + max(column, 0), len(self.text))

    def span(self, start: int, end: int | None = None) -> Span:
        """Return the span from `start` to `end` (exclusive); without an end, to the end of the word at `start`."""
        if end is None:
            word = _WORD.match(self.text, start)
            end = word.end() if word else start + 1
        return Span(self, start, max(end, start + 1))

    def span_of(self, node: Any) -> Span | None:
        """Return the span of a node of sqlglot's tree in this text; None for a node that the parser generated."""
        metas = [part.meta for part in node.walk() if part.meta.get("start") is not None]
        if not metas:
            return None
        start = min(meta["start"] for meta in metas)
        return self.span(start, max(meta.get("end", start) for meta in metas) + 1)

    @cached_property
    def _shown_lines(self) -> dict[int, str]:
        return {}

    def _redact_line(self, first: int, last: int) -> str:
        """Return a line with its credentials hidden, cached because many errors may show the same line."""
        line = self._shown_lines.get(first)
        if line is None:
            line = self._shown_lines[first] = hide_credentials((self.original or self.text)[first:last])
        return line

    def excerpt(self, start: int, end: int) -> str:
        """Return the line of `start` with its number, and carets below `start:end` as far as that line goes.

        Credentials in the line are hidden, because excerpts appear in terminals, logs and pages.
        """
        row = bisect_right(self._starts, start) - 1
        first = self._starts[row]
        last = self._starts[row + 1] - 1 if row + 1 < len(self._starts) else len(self.text)
        cut = max(0, start - first - _WIDEST // 2) if last - first > _WIDEST else 0
        line = self._redact_line(first, last)[cut : cut + _WIDEST]
        line = _SPACE.sub(" ", line)  # a tab, a form feed or a line separator would move what follows
        number = str(self.line + row)
        indent = start - first - cut
        carets = "^" * max(1, min(end, last) - start)
        carets = carets[: max(1, _WIDEST - indent)]
        return f"{number} | {line}\n{' ' * len(number)} | {' ' * indent}{carets}"


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a source."""

    source: SourceText
    start: int
    end: int

    @property
    def place(self) -> Place:
        """The place of its first character."""
        return self.source.place(self.start)

    @property
    def text(self) -> str:
        """The source's text within the span."""
        return self.source.text[self.start : self.end]

    def refuse(self, code: str, what: str, *, why: str | None = None, fix: str | None = None) -> WaterclockError:
        """Build an error with this span's place and excerpt; the caller raises or collects it."""
        return WaterclockError(
            code,
            what,
            where=str(self.place),
            why=why,
            fix=fix,
            excerpt=self.source.excerpt(self.start, self.end),
        )

    def locate_error(self, error: WaterclockError) -> WaterclockError:
        """Set the place and the excerpt of an error that was found elsewhere to those of this span."""
        error.where, error.excerpt = str(self.place), self.source.excerpt(self.start, self.end)
        return error


def to(one: Span, other: Span) -> Span:
    """Return the span from the beginning of `one` to the end of `other`."""
    return Span(one.source, one.start, max(one.end, other.end))


def find_name(name: str, span: Span) -> Span:
    """Find a name within a span, or to the right of its beginning; return the span itself if it is not found."""
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    at = word.search(span.source.text, span.start, span.end) or word.search(span.source.text, span.start)
    return span.source.span(at.start(), at.end()) if at else span
