"""Finds the positions of calls in Python files, of their arguments, and of strings in the arguments."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType, FrameType

from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.flow.declarations import Place

_LITERAL = re.compile(r"""[rRuU]?(?P<quote>'''|\"""|'|")""")

Position = tuple[int | None, int | None, int | None, int | None]
Positions = tuple[CodeType, list[Position]]


@dataclass(frozen=True, slots=True)
class CallSite:
    """The position of a call in a Python file: lines from 1, columns in UTF-8 bytes from 0, as in `ast`."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


def site_of(frame: FrameType, known: dict[int, Positions]) -> CallSite:
    """Return the position of the call that a frame runs. `known` caches positions by the id of a code object."""
    code = frame.f_code
    if id(code) not in known:
        known[id(code)] = code, list(code.co_positions())
    line, end_line, column, end_column = known[id(code)][1][frame.f_lasti // 2]
    first = line or frame.f_lineno
    return CallSite(frame.f_code.co_filename, first, column or 0, end_line or first, end_column or 0)


@dataclass(frozen=True)
class FileText(SourceText):
    """A source text that is a part of a file, from the file's offset `base` on; excerpts show lines of the file."""

    whole: SourceText = field(default=SourceText("", ""), repr=False)
    base: int = 0

    def place(self, offset: int) -> Place:
        """Return the position in the file of the character at `offset` of this text."""
        return self.whole.place(self.base + offset)

    def offset(self, place: Place) -> int:
        """Return the offset in this text of a position in the file."""
        return min(max(self.whole.offset(place) - self.base, 0), len(self.text))

    def excerpt(self, start: int, end: int) -> str:
        """Return the file's line that contains `start`, with carets below the part from `start` to `end`."""
        return self.whole.excerpt(self.base + start, self.base + end)


@dataclass(frozen=True)
class ComputedText(SourceText):
    """A source text that Python code computed. Its position is that of the call; excerpts show `name` and the text."""

    name: str = ""

    def place(self, offset: int) -> Place:  # noqa: ARG002  the same for all
        """Return the position of the call, for any offset."""
        return Place(self.file, self.line, self.column)

    def offset(self, place: Place) -> int:  # noqa: ARG002  the same for all
        """Return 0, because a position in the file does not determine an offset in the text."""
        return 0

    def excerpt(self, start: int, end: int) -> str:
        """Return the line of this text that contains `start`, after `name`, with carets below the part up to `end`."""
        line, carets = SourceText(self.file, self.text).excerpt(start, end).split("\n")
        line, carets = line.partition(" | ")[2], carets.partition(" | ")[2]
        return f"{self.name} | {line}\n{' ' * len(self.name)} | {carets}"


class PythonText:
    """The text of a Python file and its syntax tree. `name` is the file's path within the project."""

    def __init__(self, name: str, text: str) -> None:
        self.source = SourceText(name, text)

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.source.text)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.source.text))]

    @cached_property
    def _calls(self) -> dict[tuple[int | None, int | None], ast.Call]:
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        return {(node.end_lineno, node.end_col_offset): node for node in found}

    @cached_property
    def _definitions(self) -> dict[tuple[str, int], ast.FunctionDef]:
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)]
        return {(node.name, min([node.lineno, *(one.lineno for one in node.decorator_list)])): node for node in found}

    def definition(self, code: CodeType) -> ast.FunctionDef | None:
        """Return the definition of the function with this code object; None if the file does not contain it."""
        return self._definitions.get((code.co_name, code.co_firstlineno))

    def call_at(self, site: CallSite) -> ast.Call | None:
        """Return the call that ends where `site` ends; None if there is none."""
        return self._calls.get((site.end_line, site.end_column))

    def offset(self, line: int, column: int) -> int:
        """Convert a line, from 1, and a column in UTF-8 bytes, from 0, to a character offset."""
        start = self._starts[min(line, len(self._starts)) - 1]
        end = self._starts[line] if line < len(self._starts) else len(self.source.text)
        return start + len(self.source.text[start:end].encode()[:column].decode(errors="replace"))

    def span(self, node: ast.expr | ast.keyword | ast.arg | ast.stmt) -> Span:
        """Return the span of a node of the syntax tree."""
        start = self.offset(node.lineno, node.col_offset)
        return self.piece(start, self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0))

    def site(self, site: CallSite) -> Span:
        """Return the span of a call's first line."""
        start = self.offset(site.line, site.column)
        row = bisect_right(self._starts, start)
        line_end = self._starts[row] - 1 if row < len(self._starts) else len(self.source.text)
        return self.piece(start, min(self.offset(site.end_line, site.end_column), line_end))

    def piece(self, start: int, end: int) -> Span:
        """Return a span that covers a part of the file, with the part as its source text."""
        text = self.source.text[start:end]
        return FileText(self.source.file, text, whole=self.source, base=start).span(0, max(len(text), 1))

    def text(self, node: ast.expr | None, value: str, name: str, at: Span) -> SourceText:
        """Return the source text for the value of `node`, a string: a part of the file if `node` is a plain literal.

        Otherwise, return a `ComputedText` with the position of `node`, or of the call `at` if `node` is None.
        """
        if isinstance(node, ast.Constant) and node.value == value:
            span = self.span(node)
            match = _LITERAL.match(span.text)
            if match and span.text[match.end() : -len(match["quote"])] == value:
                base = self.offset(node.lineno, node.col_offset) + match.end()
                return FileText(self.source.file, value, whole=self.source, base=base)
        place = (self.span(node) if node is not None else at).place
        return ComputedText(self.source.file, value, place.line, place.column, name=name)
