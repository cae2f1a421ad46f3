"""Resolves CREATE FUNCTION: a SQL expression, or a Python function."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.dpl.resolve.literals import with_literals
from waterclock.dpl.resolve.rules import check_expression
from waterclock.dpl.syntax.statements import FunctionSaid, Statement
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Function, Value


def function_of(statement: Statement, variables: Mapping[str, Value], errors: list[WaterclockError]) -> Function:
    """Resolve a CREATE FUNCTION; report an illegal expression."""
    said = statement.value("RETURN", FunctionSaid)
    body = None
    if said is not None and said.body is not None:
        errors.extend(check_expression(said.body))
        body = with_literals(said.body, variables)
    return Function(
        statement.name,
        said.parameters if said else (),
        said.returns if said else "STRING",
        body,
        statement.function,
        statement.span.place,
    )
