"""Resolves the EXPECT clauses of a statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from waterclock.dpl.resolve.rules import is_parsed, rule_of
from waterclock.dpl.syntax.statements import (
    ParsedColumn,
    ParsedColumnList,
    ParsedRule,
    Statement,
    StatementKind,
)
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Rule


def list_declared_rules(statement: Statement, *, of_lines: bool) -> list[ParsedRule]:
    """Return the parsed rules of a statement: with `of_lines`, only EXPECT parsed() of a COLLECT; else all others."""
    rules = [one for clause in statement.clauses if clause.word == "EXPECT" for one in clause.value]
    is_collect = statement.kind is StatementKind.COLLECT
    return [one for one in rules if (is_collect and is_parsed(one.expression)) is of_lines]


def rules_of(statement: Statement, variables: Mapping[str, Any], errors: list[WaterclockError]) -> tuple[Rule, ...]:
    """Return the resolved rules of a statement except EXPECT parsed(); report invalid rules and duplicate names."""
    parsed_rules = list_declared_rules(statement, of_lines=False)
    rules = [rule for rule in (rule_of(one, variables, errors) for one in parsed_rules) if rule]
    columns = statement.value("COLUMNS", ParsedColumnList)
    seen = {rule.name for column in (columns.columns if columns else ()) for rule in _resolve_column_rules(column)}
    seen |= {one.name or one.expression.text for one in list_declared_rules(statement, of_lines=True)}
    for rule, span in zip(rules, (one.expression.span for one in parsed_rules), strict=False):
        if rule.name in seen:
            errors.append(
                span.refuse("E212", f"two rules are called {rule.name}", fix="rename one of them: EXPECT ... AS name")
            )
        seen.add(rule.name)
    return tuple(rules)


def _resolve_column_rules(column: ParsedColumn) -> Iterable[Rule]:
    return [rule for rule in (rule_of(parsed, {}, [], in_column=True) for parsed in column.rules) if rule]
