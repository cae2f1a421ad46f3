"""Maps offsets in the user's text to positions (file, line, column), and builds errors with excerpts of the text."""

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
    """A text and the position of its first character: a whole file, or the text of a clause in a Python file.

    `original` is the text with comments, if comments in `text` are replaced by blanks; excerpts show it.
    """

    file: str
    text: str
    line: int = 1
    column: int = 1
    original: str | None = None

    def without_comments(self, text: str) -> SourceText:
        """Return this source with `text` as its text; in `text`, comments are replaced by as many blanks."""
        return self if text == self.text else replace(self, text=text, original=self.original or self.text)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def place(self, offset: int) -> Place:
        """Return the position of the character at `offset`."""
        row = bisect_right(self._starts, offset) - 1
        column = offset - self._starts[row] + 1
        return Place(self.file, self.line + row, column if row else column + self.column - 1)

    def offset(self, place: Place) -> int:
        """Return the offset of a position in this text; the nearest offset for a position outside of it."""
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
        """Return the span of a node of sqlglot's syntax tree in this text; None for a node that sqlglot generated."""
        metas = [part.meta for part in node.walk() if part.meta.get("start") is not None]
        if not metas:
            return None
        start = min(meta["start"] for meta in metas)
        return self.span(start, max(meta.get("end", start) for meta in metas) + 1)

    @cached_property
    def _shown_lines(self) -> dict[int, str]:
        return {}

    def _redact_line(self, first: int, last: int) -> str:
        """Return a line with its credentials hidden. It is cached, because many errors may show the same line."""
        line = self._shown_lines.get(first)
        if line is None:
            line = self._shown_lines[first] = hide_credentials((self.original or self.text)[first:last])
        return line

    def excerpt(self, start: int, end: int) -> str:
        """Return the numbered line that contains `start`, with carets below the part of `start:end` in that line.

        Credentials in the line are hidden, because excerpts appear in terminals, logs and pages.
        """
        row = bisect_right(self._starts, start) - 1
        first = self._starts[row]
        last = self._starts[row + 1] - 1 if row + 1 < len(self._starts) else len(self.text)
        cut = max(0, start - first - _WIDEST // 2) if last - first > _WIDEST else 0
        line = self._redact_line(first, last)[cut : cut + _WIDEST]
        line = _SPACE.sub(" ", line)  # a tab, a form feed or a line separator would move the carets
        number = str(self.line + row)
        indent = start - first - cut
        carets = "^" * max(1, min(end, last) - start)
        carets = carets[: max(1, _WIDEST - indent)]
        return f"{number} | {line}\n{' ' * len(number)} | {' ' * indent}{carets}"


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a source text, from offset `start` to before `end`."""

    source: SourceText
    start: int
    end: int

    @property
    def place(self) -> Place:
        """The position of the span's first character."""
        return self.source.place(self.start)

    @property
    def text(self) -> str:
        """The text of the span."""
        return self.source.text[self.start : self.end]

    def refuse(self, code: str, what: str, *, why: str | None = None, fix: str | None = None) -> WaterclockError:
        """Build an error with this span's position and excerpt; the caller raises or collects it."""
        return WaterclockError(
            code,
            what,
            where=str(self.place),
            why=why,
            fix=fix,
            excerpt=self.source.excerpt(self.start, self.end),
        )

    def locate_error(self, error: WaterclockError) -> WaterclockError:
        """Set the position and excerpt of an error to those of this span, and return the error."""
        error.where, error.excerpt = str(self.place), self.source.excerpt(self.start, self.end)
        return error


def span_between(one: Span, other: Span) -> Span:
    """Return the span from the beginning of `one` to the end of `other`."""
    return Span(one.source, one.start, max(one.end, other.end))


def find_name(name: str, span: Span) -> Span:
    """Return the span of the first occurrence of a name in `span`, or else after it; `span` if it is not found."""
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    at = word.search(span.source.text, span.start, span.end) or word.search(span.source.text, span.start)
    return span.source.span(at.start(), at.end()) if at else span
