"""Resolves ON RESTATE, with the default of the project file, and checks its limit."""

from __future__ import annotations

from dataclasses import replace

from waterclock.dpl.config.model import Config
from waterclock.dpl.syntax.clause_parsing import parse_clause
from waterclock.dpl.syntax.cursor import parse_at
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.statements import ParsedRestate, Statement, StatementKind
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.flow.enums import Kind, OnRestate

_CLAUSE = "ON RESTATE"
_NO_LIMIT = ParsedRestate(OnRestate.RECOMPUTE)


def on_restate_of(statement: Statement, config: Config, errors: list[WaterclockError]) -> ParsedRestate:
    """Return the reaction of a table to changed inputs, as declared or by default; report a limit without effect.

    A COLLECT reads no table, unless it is FOR EACH row of one. A default's limit does not apply to such a COLLECT.
    """
    reads_tables = statement.kind is not StatementKind.COLLECT or statement.clause("FOR EACH") is not None
    clause, declared = statement.clause(_CLAUSE), statement.value(_CLAUSE, ParsedRestate)
    if clause is None or declared is None:
        default = _default(statement.name, config, errors)
        return default if reads_tables else ParsedRestate(default.reaction)
    if declared.at_most is not None and not reads_tables:
        errors.append(
            clause.span.refuse(
                "E388",
                f"{statement.name} reads no table, so there is nothing to limit",
                why="AT MOST limits how many labels are made again because tables that they read were restated",
                fix="write it at the tables that read this one, or as on_restate below [defaults]",
            )
        )
    return declared


def _default(table: str, config: Config, errors: list[WaterclockError]) -> ParsedRestate:
    """Return the project's default for a table. It is reported if it is invalid."""
    default = config.default(table, "on_restate")
    if not default:
        return _NO_LIMIT
    try:
        return parse_default(*default)
    except WaterclockError as error:
        errors.append(error)
        return _NO_LIMIT


def parse_default(text: str, span: Span) -> ParsedRestate:
    """Parse a default. It is written as the clause, without the words ON RESTATE. An error is at `span`."""

    def parse() -> ParsedRestate:
        try:
            parsed: ParsedRestate = parse_clause(_CLAUSE, text, SourceText("", text), variables={})
        except WaterclockError as error:
            error.where, error.excerpt = None, None
            raise
        return parsed

    return parse_at(span, parse)


def keep_collected_rows(flow: Flow) -> Flow:
    """Return the flow of a branch, whose collects keep the rows of its base if their inputs (FOR EACH) are made again.

    Otherwise the tables that read them would wait, since a branch collects nothing.
    """
    tables = {
        name: replace(table, on_restate=OnRestate.REPORT) if table.kind is Kind.COLLECT else table
        for name, table in flow.tables.items()
    }
    return replace(flow, tables=tables)
