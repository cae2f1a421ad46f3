"""Resolves and checks CREATE FUNCTION: functions made of a SQL expression or of Python code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from waterclock.dpl.query.builtins import find_calls
from waterclock.dpl.query.column_scope import UNITS, unknown_column
from waterclock.dpl.resolve.literals import with_literals
from waterclock.dpl.resolve.rules import check_expression
from waterclock.dpl.syntax.aggregate_calls import has_aggregate
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import Expression, ParsedFunction, Statement
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Function, Value
from waterclock.flow.graph import components_of, cycle_of


def function_of(statement: Statement, variables: Mapping[str, Value], errors: list[WaterclockError]) -> Function:
    """Return the function that a CREATE FUNCTION declares; report duplicate parameters and an invalid expression."""
    declared = statement.value("RETURN", ParsedFunction)
    names = [name.lower() for name, _ in declared.parameters] if declared is not None else []
    if len(set(names)) < len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        errors.append(
            statement.span.refuse(
                "E212",
                f"function {statement.name} has two parameters named {twice}",
                why="its expression finds a value by the parameter's name, regardless of case",
                fix="give each parameter a different name",
            )
        )
    body = None
    if declared is not None and declared.body is not None:
        errors.extend(check_expression(declared.body))
        errors.extend(_check_body(statement.name, declared, declared.body))
        body = with_literals(declared.body, variables)
    return Function(
        statement.name,
        declared.parameters if declared else (),
        declared.returns if declared else "STRING",
        body,
        statement.function,
        statement.span.place,
    )


def check_circles(statements: Mapping[str, Statement]) -> Iterator[WaterclockError]:
    """Yield an error for each function that calls itself, and each group of functions that call each other."""
    calls = {name: _list_calls(statement, statements) for name, statement in statements.items()}
    for group in components_of(calls):
        path = cycle_of({name: [called for called in calls[name] if called in group] for name in sorted(group)})
        if path is not None:
            yield calls[path[0]][path[1]].refuse(
                "E229", f"function {path[0]} calls itself", why=f"the path: {' → '.join(path)}", fix="break the circle"
            )


def _list_calls(statement: Statement, functions: Mapping[str, Statement]) -> dict[str, Span]:
    """Map each function that the body of a function calls to the span of its first call."""
    declared = statement.value("RETURN", ParsedFunction)
    calls: dict[str, Span] = {}
    if declared is not None and declared.body is not None:
        source = declared.body.span.source
        for name, token in find_calls(declared.body.tokens, functions):
            calls.setdefault(name, source.span(token.start, token.end + 1))
    return calls


def _check_body(name: str, declared: ParsedFunction, body: Expression) -> Iterator[WaterclockError]:
    """Yield errors for names in a function's body that are not parameters, and for aggregates and window functions."""
    parameters = {parameter.lower(): parameter for parameter, _ in declared.parameters}
    for node in body.tree.find_all(exp.Column):
        first = node.parts[0]
        start = first.meta.get("start")
        is_known = first.name.lower() in {*parameters, name.lower()} or first.name.upper() in UNITS
        if start is not None and not is_known and not isinstance(first, exp.Star):
            span = body.span.source.span(start, first.meta.get("end", start) + 1)
            yield unknown_column(span, first.name, {it: it for it in parameters.values()}, [(name, parameters)])
    if has_aggregate(body.tree) or body.tree.find(exp.Window) is not None:
        yield body.span.refuse(
            "E220",
            f"function {name} uses several rows",
            why="a query calls it for each row, with the values of that row",
            fix=f"pass the aggregate to it, as in {name}(max(a))",
        )
