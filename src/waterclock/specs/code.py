"""Finds the source text of a table's declaration, and of the views that it reads."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from waterclock.dpl.project import Project
from waterclock.flow.declarations import Flow, Place, Query, Table, View
from waterclock.specs.outcome import DeclaredRule

# strings, names and comments, in which a semicolon does not end a statement
_PART = re.compile(r"'(?:[^'\\]|\\.|'')*'|`[^`]*`|--[^\n]*|/\*.*?\*/|(?P<end>;)", re.DOTALL)


def code_of(project: Project, names: Collection[str]) -> tuple[DeclaredRule, ...]:
    """Return the declarations of tables and of their views, in the order of the flow."""
    found: dict[str, DeclaredRule] = {}
    for name in project.flow.order:
        if name in names:
            table = project.flow.tables[name]
            for view in _find_views(project.flow, table):
                found.setdefault(view.name, _read_declared_rule(project, view.name, view.place))
            if table.function is not None:
                text = table.function.source
                found[name] = DeclaredRule(name, str(table.function.place), text.rstrip())
            else:
                found[name] = _read_declared_rule(project, name, table.place)
    return tuple(found.values())


def _read_declared_rule(project: Project, name: str, place: Place) -> DeclaredRule:
    lines = project.sources.get(place.file, "").splitlines(keepends=True)
    text = "".join(lines[place.line - 1 :])[_statement_indent(lines, place) :]
    end = next((part.end() for part in _PART.finditer(text) if part["end"]), len(text))
    return DeclaredRule(name, str(place), text[:end])


def _statement_indent(lines: list[str], place: Place) -> int:
    """Return the indent of the statement in its line, which is 0 if other text precedes it."""
    line = lines[place.line - 1] if 0 < place.line <= len(lines) else ""
    before = line[: place.column - 1]
    statement = before.rfind(";") + 1
    return len(before[:statement]) + len(before[statement:]) - len(before[statement:].lstrip())


def _find_views(flow: Flow, table: Table) -> Iterator[View]:
    queries = [table.query] if table.query else []
    queries += [argument.query for argument in (table.function.arguments if table.function else ()) if argument.query]
    for query in queries:
        yield from _find_inner_views(flow, query)


def _find_inner_views(flow: Flow, query: Query) -> Iterator[View]:
    for part in query.branches or (query,):
        inner = [reference.view for reference in part.tables if reference.view is not None]
        for each in inner:
            yield from _find_inner_views(flow, each)
        places = {(each.place, each.text) for each in [part, *inner]}
        yield from (view for view in flow.views.values() if (view.query.place, view.query.text) in places)
