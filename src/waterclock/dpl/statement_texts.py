"""Finds the source text of each table's statement in the files of a project."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from waterclock.flow.declarations import Flow


def statement_texts(flow: Flow, sources: Mapping[str, str]) -> dict[str, str]:
    """Map each table to the text of its statement.

    `sources` maps the names of the project's files to their texts. A statement ends before the comments and decorators
    of the next one. If several statements share a line, each gets the whole line.
    """
    places = [each.place for each in flow.tables.values()]
    places += [each.place for each in flow.views.values()]
    places += [each.place for each in flow.functions.values()]
    places += [each.place for each in flow.connections.values()]
    starts: dict[str, set[int]] = {}
    for place in places:
        starts.setdefault(place.file, set()).add(place.line)
    texts: dict[tuple[str, int], str] = {}
    for file, firsts in starts.items():
        lines = sources.get(file, "").split("\n")  # split as places are counted: a form feed does not end a line
        for first, following in pairwise([*sorted(firsts), len(lines) + 1]):
            texts[file, first] = _trim_trailing_comments(lines[first - 1 : max(first, following) - 1])
    return {name: texts[table.place.file, table.place.line] for name, table in flow.tables.items()}


def _trim_trailing_comments(lines: list[str]) -> str:
    end = len(lines)
    while end and (begin := _begin_of_remark(lines, end)) < end:
        end = begin
    return "\n".join(lines[:end])


def _begin_of_remark(lines: list[str], end: int) -> int:
    """Return the index of the first line of the blank, comment or decorator that ends before line `end`; else `end`."""
    line = lines[end - 1].strip()
    if not line or line.startswith(("--", "#", "@")):
        return end - 1
    if line.endswith("*/"):
        first = next((index for index in reversed(range(end)) if "/*" in lines[index]), end)
        return first if first < end and lines[first].lstrip().startswith("/*") else end
    return end
