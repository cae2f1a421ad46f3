"""Finds the positions of keys in a TOML text, which tomllib does not return."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from waterclock.dpl.syntax.source_text import SourceText, Span

Path = tuple[str, ...]
_NAME = r"""(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_KEY = re.compile(rf"(?P<key>{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*)[ \t]*=")
_HEADER = re.compile(rf"\[{{1,2}}[ \t]*(?P<key>{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*)[ \t]*\]{{1,2}}")
_PART = re.compile(_NAME)
_STRING = re.compile(r'"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'', re.DOTALL)
_BARE = re.compile(r"[^,\]}\n#]*")
_SPACE = re.compile(r"(?:[ \t\r\n,]|#[^\n]*)*")


def places_of(source: SourceText) -> Mapping[Path, Span]:
    """Map the path of each key in a valid TOML text, including inline tables, to the key's span."""
    scanner = _Scanner(source)
    scanner.scan()
    return scanner.found


@dataclass(frozen=True, slots=True)
class Declaration:
    """A header or a key with its value, from offset `start` to before `end`; `span` is that of its name."""

    path: Path
    span: Span
    end: int
    is_header: bool

    @property
    def start(self) -> int:
        """The offset of its name."""
        return self.span.start

    def describe(self) -> str:
        """Return the name for a message: `[a.b]` for a table, else the dotted path of the key."""
        dotted = ".".join(self.path)
        return f"[{dotted}]" if self.is_header else f"`{dotted}`"


def declarations_of(source: SourceText) -> list[Declaration]:
    """List the headers and keys of a TOML text in their order, also those that a valid text has only once."""
    scanner = _Scanner(source)
    scanner.scan()
    return sorted(scanner.declarations, key=lambda each: each.start)


class _Scanner:
    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.text = source.text
        self.found: dict[Path, Span] = {}
        self.declarations: list[Declaration] = []

    def scan(self) -> None:
        """Read headers and keys from top to bottom."""
        table: Path = ()
        position = self._skip_space(0)
        while position < len(self.text):
            if header := _HEADER.match(self.text, position):
                table = _parts(header["key"])
                self._record(table, header.start("key"), header.end("key"), 0)
                self._declare(table, header, header.end("key"), is_header=True)
                position = header.end()
            elif key := _KEY.match(self.text, position):
                position = self._read_entry(key, table)
            else:
                position += 1
            position = self._skip_space(position)

    def _read_entry(self, key: re.Match[str], table: Path) -> int:
        """Record a key, skip its value, and return the offset after it."""
        path = (*table, *_parts(key["key"]))
        self._record(path, key.start("key"), key.end("key"), len(table))
        end = self._skip_value(key.end(), path)
        self._declare(path, key, end, is_header=False)
        return end

    def _declare(self, path: Path, key: re.Match[str], end: int, *, is_header: bool) -> None:
        span = self.source.span(key.start("key"), key.end("key"))
        self.declarations.append(Declaration(path, span, end, is_header))

    def _skip_value(self, position: int, path: Path) -> int:
        position = self._skip_space(position)
        if string := _STRING.match(self.text, position):
            return string.end()
        sign = self.text[position : position + 1]
        if sign not in {"{", "["}:
            bare = _BARE.match(self.text, position)
            return bare.end() if bare else position + 1
        position = self._skip_space(position + 1)
        while position < len(self.text) and self.text[position] not in "}]":
            key = _KEY.match(self.text, position) if sign == "{" else None
            after = self._read_entry(key, path) if key else self._skip_value(position, path)
            position = self._skip_space(max(after, position + 1))
        return position + 1

    def _record(self, path: Path, start: int, end: int, known: int) -> None:
        """Record the span of a key, also for the tables that a dotted key creates."""
        span = self.source.span(start, end)
        for length in range(known + 1, len(path) + 1):
            self.found.setdefault(path[:length], span)

    def _skip_space(self, position: int) -> int:
        space = _SPACE.match(self.text, position)
        return space.end() if space else position


def _parts(key: str) -> Path:
    return tuple(part.strip("\"'") for part in _PART.findall(key))
