"""Reads calls of `wc.function`, which declare a SQL function by an expression or by a Python function."""

from __future__ import annotations

import inspect

from waterclock.dpl.python.decorators import Call
from waterclock.dpl.python.fingerprints import End
from waterclock.dpl.python.functions import FunctionDefinition, describe_function, find_function, sql_type
from waterclock.dpl.python.sources import PythonSources
from waterclock.dpl.syntax.expressions import expression_of
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import Clause, Expression, ParsedFunction
from waterclock.dpl.syntax.type_names import parse_type
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import PythonFunction

_EXAMPLE = "DECIMAL(16,2)"


def read_function_call(
    call: Call, texts: PythonSources, span: Span, declarations: frozenset[End]
) -> tuple[PythonFunction | None, list[Clause]]:
    """Return the Python function that `wc.function` decorates, and a clause with its types.

    For a call with a SQL expression, the function is None, and the clause contains the expression. Raises the first
    error in the call's arguments.
    """
    found = None if call.function is None else find_function(call, texts, span)
    parameters = _parameters(call, texts, found)
    returns = _returns(call, texts, span, found)
    body = None if found else _body(call, texts, span)
    python = describe_function(found, texts, (), declarations) if found else None
    return python, [Clause("RETURN", ParsedFunction(parameters, returns, body), body.span if body else span)]


def _parameters(call: Call, texts: PythonSources, found: FunctionDefinition | None) -> tuple[tuple[str, str], ...]:
    declared = call.arguments.get("parameters")
    if declared is None or declared == "":
        return _read_annotations(found) if found else ()
    cursor = texts.cursor(texts.argument(call.site, "parameters", declared))
    parameters: list[tuple[str, str]] = []
    while True:
        parameters.append((cursor.plain_name("a parameter").text, parse_type(cursor)))
        if not cursor.accept(","):
            break
    if not cursor.is_done:
        cursor.raise_unexpected(
            "a comma after the parameter", fix="write a name and a type for each, as in cents INT, rate DOUBLE"
        )
    if found and len(parameters) != len(given := [*found.parameters()]):
        raise texts.argument_span(call.site, "parameters").refuse(
            "E254",
            f"parameters lists {len(parameters)}, and {found.function.__name__} takes {len(given)}",
            fix=f"write {', '.join(parameter.name + ' TYPE' for parameter, _ in given)}",
        )
    for parameter, at in found.parameters() if found else ():
        if parameter.kind is parameter.KEYWORD_ONLY:
            raise _parameter_order_error(parameter, at)
    return tuple(parameters)


def _read_annotations(found: FunctionDefinition) -> tuple[tuple[str, str], ...]:
    parameters: list[tuple[str, str]] = []
    for parameter, at in found.parameters():
        is_plain = parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}
        if not is_plain or parameter.default is not parameter.empty:
            raise _parameter_order_error(parameter, at)
        type_name = sql_type(parameter.annotation, found)
        if type_name is None:
            raise at.refuse(
                "E254",
                f"the SQL type of parameter {parameter.name} is not known",
                why="only bool, int, float, str, bytes, date and datetime have one SQL type",
                fix=f'write parameters="{parameter.name} {_EXAMPLE}, ..." with a type for each',
            )
        parameters.append((parameter.name, type_name))
    return tuple(parameters)


def _parameter_order_error(parameter: inspect.Parameter, at: Span) -> WaterclockError:
    return at.refuse(
        "E254",
        f"parameter {parameter.name} cannot be passed in a query",
        why="a query passes a value for each parameter, in order",
        fix="name each parameter, without a default or a star",
    )


def _returns(call: Call, texts: PythonSources, span: Span, found: FunctionDefinition | None) -> str:
    declared = call.arguments.get("returns")
    if declared is not None:
        cursor = texts.cursor(texts.argument(call.site, "returns", declared))
        type_name = parse_type(cursor)
        if not cursor.is_done:
            cursor.raise_unexpected("nothing after the type", fix=f"write the type alone: {type_name}")
        return type_name
    annotation = found.function.__annotations__.get("return") if found else None
    annotated = sql_type(annotation, found) if found and annotation is not None else None
    if annotated is None:
        raise span.refuse("E254", f"{call.name} has no return type", fix=f'add returns="{_EXAMPLE}"')
    return annotated


def _body(call: Call, texts: PythonSources, span: Span) -> Expression:
    declared = call.arguments.get("return_")
    if declared is None:
        raise span.refuse(
            "E233",
            f"function {call.name} has no body",
            fix='add return_="cents / 100", or write @wc.function above a function',
        )
    source = texts.argument(call.site, "return_", declared)
    tokens = texts.cursor(source).tokens
    return expression_of(source, tokens, Span(source, tokens[0].start, tokens[-1].end + 1))
