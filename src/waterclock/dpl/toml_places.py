"""Where each key of a TOML text stands: tomllib gives values, and says nothing of lines."""

from __future__ import annotations

import re
from collections.abc import Mapping

from waterclock.dpl.source import Source, Span

Path = tuple[str, ...]
_NAME = r"""(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_KEY = re.compile(rf"[ \t]*(?P<key>{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*)[ \t]*=")
_PART = re.compile(r"""[\w-]+|"(?:[^"\\]|\\.)*"|'[^']*'""")
_HEADER = re.compile(r"[ \t]*\[{1,2}(?P<key>[^\]\n]*(?:\"[^\"\n]*\"[^\]\n]*)*)\]{1,2}")
_STRING = re.compile(r'\"\"\"(?:.|\n)*?\"\"\"|\'\'\'(?:.|\n)*?\'\'\'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*')


def places_of(source: Source) -> Mapping[Path, Span]:
    """Give the span of each key, by its path from the top; keys of inline tables too."""
    found: dict[Path, Span] = {}
    text = source.text
    table: Path = ()
    position = 0
    while position < len(text):
        line_end = text.find("\n", position)
        line_end = len(text) if line_end < 0 else line_end
        if header := _HEADER.match(text, position, line_end):
            table = _parts(header["key"])
            found.setdefault(table, source.span(header.start("key"), header.end("key")))
            position = line_end + 1
        elif key := _KEY.match(text, position, line_end):
            path = (*table, *_parts(key["key"]))
            found.setdefault(path, source.span(key.start("key"), key.end("key")))
            for length in range(len(table) + 1, len(path)):
                found.setdefault(path[:length], found[path])
            position = _value(source, key.end(), path, found)
        else:
            position = line_end + 1
    return found


def _value(source: Source, position: int, path: Path, found: dict[Path, Span]) -> int:
    """Pass by a value, noting the keys of inline tables; give the offset behind its last line."""
    text = source.text
    paths = [path]
    expects_key = False
    while position < len(text):
        if (skipped := _STRING.match(text, position)) and not (expects_key and text[position] in "\"'"):
            position = skipped.end()
            continue
        sign = text[position]
        if sign == "\n" and len(paths) == 1:
            return position + 1
        if sign in "{[":
            paths.append(paths[-1])
            expects_key = sign == "{"
        elif sign in "}]":
            paths = paths[:-1] or [path]
        elif sign == ",":
            expects_key = True
        elif expects_key and (key := _KEY.match(text, position)):
            inner = (*paths[-1], *_parts(key["key"]))
            found.setdefault(inner, source.span(key.start("key"), key.end("key")))
            expects_key = False
            position = _inner(source, key.end(), inner, found)
            continue
        position += 1
    return position


def _inner(source: Source, position: int, path: Path, found: dict[Path, Span]) -> int:
    """Pass by the value of a key of an inline table, up to its comma or closing bracket."""
    text = source.text
    depth = 0
    while position < len(text):
        if skipped := _STRING.match(text, position):
            position = skipped.end()
            continue
        sign = text[position]
        if sign == "{" and (key := _KEY.match(text, position + 1)):
            inner = (*path, *_parts(key["key"]))
            found.setdefault(inner, source.span(key.start("key"), key.end("key")))
        if depth == 0 and sign in ",}]\n":
            return position
        depth += (sign in "{[") - (sign in "}]")
        position += 1
    return position


def _parts(key: str) -> Path:
    return tuple(part.strip("\"'") for part in _PART.findall(key))
