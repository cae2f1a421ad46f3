"""Adds to an error of Spark the expression that failed for a row, its place, and a query that finds such rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from waterclock.dpl.project import Project
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.engine.spark.errors import FailedExpression, failed_expression
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Column, Place, Query, Table
from waterclock.flow.enums import ReadKind

_CAST = re.compile(r"cast\s*\(", re.IGNORECASE)
_QUALIFIER = re.compile(r"(?<![\w.'])([A-Za-z_]\w*)\.(?=[A-Za-z_`])")
_SHELL_CHARACTERS = frozenset('"$`\\!')
_LONGEST = 160


@dataclass(frozen=True, slots=True)
class _FailedExpression:
    place: Place
    query: Query | None  # None for an expression of the column list


def add_failed_expression(
    error: WaterclockError, raised: BaseException, project: Project, table: Table
) -> WaterclockError:
    """Add the expression that failed for a row, and its place in the table's statement, to Spark's error.

    Spark does not name the row. So the fix is a query that finds it, or names the tables to search.
    """
    expression = failed_expression(raised) if error.code == "E730" else None
    found = _locate_expression(table, expression) if expression is not None else None
    if expression is None or found is None:
        return error
    written = " ".join(expression.text.split())
    if len(written) <= _LONGEST:
        error.why = f"{error.why} for {written}"
    error = _locate_error(project, found.place, expression.text, error)
    search = _suggest_search(table, found.query, written)
    error.fix = f"{search}; {error.fix}" if error.fix else search
    return error


def _locate_expression(table: Table, expression: FailedExpression) -> _FailedExpression | None:
    """Find an expression in the queries of a table and in its column list. The line decides between several places."""
    places: list[_FailedExpression] = []
    for query in _all_queries(table):
        source = SourceText(query.place.file, query.text, query.place.line, query.place.column)
        for match in re.finditer(re.escape(expression.text), query.text):
            found = _FailedExpression(source.place(match.start()), query)
            if found.place.line - query.place.line + 1 == expression.line:
                return found
            places.append(found)
    places += [
        _FailedExpression(column.place, None)
        for column in table.columns.named
        if expression.text in _column_expression(column)
    ]
    return places[0] if places else None


def _column_expression(column: Column) -> str:
    """Return the expression that computes a column, or an empty text."""
    if column.made_as is not None:
        return column.made_as.expression
    return (column.ending.made_as if column.ending is not None else None) or ""


def _all_queries(table: Table) -> Iterator[Query]:
    """Yield all queries of a table: its own or those of its function's arguments, with their branches and views."""
    pending = [table.query] if table.query is not None else []
    if table.function is not None:
        pending += [argument.query for argument in table.function.arguments if argument.query is not None]
    while pending:
        query = pending.pop(0)
        yield query
        pending += [*query.branches, *(reference.view for reference in query.tables if reference.view is not None)]


def _locate_error(project: Project, place: Place, text: str, error: WaterclockError) -> WaterclockError:
    error = project.locate_error(place, error)
    if place.file in project.sources:
        source = SourceText(place.file, project.sources[place.file])
        start = source.offset(place)
        if source.text.startswith(text, start):
            source.span(start, start + len(text)).locate_error(error)
    return error


def _suggest_search(table: Table, query: Query | None, written: str) -> str:
    """Return a fix that finds the rows: a query, if only one table is read and the expression is a CAST."""
    inputs = [reference.read for reference in query.tables if reference.read] if query is not None else []
    is_of_one = query is not None and len(query.tables) == len(inputs) == 1 and inputs[0].kind is ReadKind.PLAIN
    qualifiers = set(_QUALIFIER.findall(written))
    if is_of_one and _CAST.match(written) and len(qualifiers) <= 1 and not _SHELL_CHARACTERS & set(written):
        alias = f" AS {qualifiers.pop()}" if qualifiers else ""
        return f'find the rows: waterclock query "SELECT * FROM {inputs[0].table}{alias} WHERE TRY_{written} IS NULL"'
    names = sorted({read.table for read in table.reads})
    return f"query {', '.join(names)} for the rows for which it fails" if names else "query the rows for which it fails"
