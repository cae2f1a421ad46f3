"""Resolves the clause FOR EACH: the columns that requests use, and conflicts with the source and other clauses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ParsedForEach, ParsedMode, ParsedOptions, Statement
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Capabilities
from waterclock.flow.declarations import Unit
from waterclock.flow.enums import Mode
from waterclock.flow.for_each import Each

_ALONE = {
    "BY": "its rows belong to the batch of the rows for which they were requested",
    "AWAIT": "its batch waits for the batch of the table, not for the source",
}


def each_of(
    statement: Statement,
    unit: Unit,
    capabilities: Capabilities | None,
    all_types: Mapping[str, Capabilities],
    errors: list[WaterclockError],
) -> Each | None:
    """Return the FOR EACH of a collect; None if it has none, or if it is invalid, which is reported."""
    for_each = statement.value("FOR EACH", ParsedForEach)
    if capabilities is None or "FOR EACH" in statement.failed:
        return None
    errors.extend(_check_option_combinations(statement, unit, capabilities, is_each=for_each is not None))
    if for_each is None:
        return None
    errors.extend(_check_other_clauses(statement, for_each))
    if unit.query is not None or capabilities.each_parameters is None:
        errors.append(_unsupported_source_error(for_each, unit, capabilities, all_types))
        return None
    parameters = capabilities.each_parameters(unit.path, unit.options)
    if not parameters:
        errors.append(
            for_each.span.refuse(
                "E392",
                f"the requests use no column of {for_each.table}",
                why=f"no option of {unit} has a column of it in braces, so the answer would be the same for each row",
                fix=f"name one in braces, as in OPTIONS (path '{unit.path}/{{id}}') or OPTIONS (params.id '{{id}}')",
            )
        )
        return None
    return Each(for_each.table, parameters)


def _check_option_combinations(
    statement: Statement, unit: Unit, capabilities: Capabilities, *, is_each: bool
) -> Iterator[WaterclockError]:
    """Yield the errors that the connector finds in combinations of options that are valid one by one."""
    if capabilities.wrong_options is None or capabilities.each_parameters is None:
        return
    options = statement.value("OPTIONS", ParsedOptions)
    for wrong in capabilities.wrong_options("each" if is_each else "whole", unit.options, unit.path):
        otherwise = _span(statement, "FROM", statement.span)
        span = options.spans.get(wrong.option, otherwise) if options is not None else otherwise
        yield span.refuse(wrong.code, wrong.what, why=wrong.why or None, fix=wrong.fix)


def _check_other_clauses(statement: Statement, for_each: ParsedForEach) -> Iterator[WaterclockError]:
    for word, why in _ALONE.items():
        clause = statement.clause(word)
        if clause is not None:
            yield clause.span.refuse("E393", f"FOR EACH cannot be used with {word}", why=why, fix=f"leave {word} out")
    mode = statement.value("MODE", ParsedMode)
    if mode is not None and mode.mode is Mode.TEMPORAL:
        yield _span(statement, "MODE", for_each.span).refuse(
            "E393",
            "FOR EACH cannot be used with TEMPORAL",
            why="an answer is the current state, without the time since which it is valid",
            fix=f"use TEMPORAL in a TRANSFORM that reads {statement.name}",
        )


def _unsupported_source_error(
    for_each: ParsedForEach, unit: Unit, capabilities: Capabilities, all_types: Mapping[str, Capabilities]
) -> WaterclockError:
    can = sorted(name for name, each in all_types.items() if each.each_parameters is not None)
    needed = f"a connection of type {' or '.join(can)}"
    is_query = unit.query is not None and capabilities.takes_query
    found = f"{unit.connection} has {'a QUERY' if is_query else f'the type {capabilities.type}'}"
    return for_each.span.refuse(
        "E391",
        f"FOR EACH needs {needed}, and {found}" if can else "FOR EACH is not supported here",
        why="each row of the table is sent as a request",
        fix=f"collect {unit.path or 'the table'} without FOR EACH, and join it with {for_each.table} in a TRANSFORM",
    )


def _span(statement: Statement, word: str, otherwise: Span) -> Span:
    clause = statement.clause(word)
    return clause.span if clause else otherwise
