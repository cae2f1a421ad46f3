"""Checks that each variable (`:name`) in statements has a value in the project file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from waterclock.dpl.resolve.retire_clause import expressions_of
from waterclock.dpl.resolve.views import QueryResolver
from waterclock.dpl.syntax.cursor import unknown_variable
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ParsedMode, Statement
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Value


def check_variables(
    statements: Iterable[Statement], queries: QueryResolver, known: Mapping[str, Value]
) -> Iterator[WaterclockError]:
    """Yield an error for each `:name` that is not in `known`."""
    for found in queries.found.values():
        for name, span in found.variables.items():
            if name not in known:
                yield unknown_variable(name, span, known)
    for statement in statements:
        for expression in list_expressions(statement):
            for name in expression.variables:
                if name not in known:
                    at = expression.span.text.find(f":{name}")
                    start = expression.span.start + max(at, 0)
                    span = Span(expression.span.source, start, start + len(name) + 1)
                    yield unknown_variable(name, span, known)


def list_expressions(statement: Statement) -> Iterable[Any]:
    """Yield the expressions in the clauses of a statement, except those of its queries."""
    for clause in statement.clauses:
        if clause.word == "EXPECT":
            yield from (rule.expression for rule in clause.value)
        elif clause.word == "MEASURE":
            yield from (measure.expression for measure in clause.value if measure.expression is not None)
        elif clause.word == "COLUMNS":
            yield from (rule.expression for column in clause.value.columns for rule in column.rules)
            yield from expressions_of(clause.value.columns)
        elif clause.word == "MODE" and isinstance(clause.value, ParsedMode) and clause.value.delete_when:
            yield clause.value.delete_when
        elif clause.word == "CLOSE WHEN":
            yield clause.value
        elif clause.word == "RETURN" and clause.value.body:
            yield clause.value.body
