"""Resolves RETIRE: the day on which a column ends, and the expression that computes it until then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Any

from sqlglot import exp

from waterclock.dpl.resolve.literals import with_literals
from waterclock.dpl.resolve.rules import check_expression
from waterclock.dpl.syntax.aggregate_calls import has_aggregate
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import Expression, ParsedColumn, ParsedColumnList, ParsedMode, Statement
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Mode
from waterclock.flow.retired_columns import Ending


def resolve_ending(column: ParsedColumn, variables: Mapping[str, Any], errors: list[WaterclockError]) -> Ending | None:
    """Return the RETIRE of a column; None if it has none, or if it is invalid, which is reported."""
    if column.retires is None:
        return None
    problems = list(_check_ending(column))
    made_as = None
    if column.made_as is not None:
        problems += check_expression(column.made_as)
        if has_aggregate(column.made_as.tree):
            problems.append(
                _ending_error(column, column.made_as.span, "is computed by an aggregate", "it is computed for each row")
            )
        made_as = with_literals(column.made_as, variables)
    errors.extend(problems)
    return None if problems else Ending(date.fromisoformat(column.retires.text), made_as)


def check_endings(statement: Statement) -> Iterator[WaterclockError]:
    """Yield errors for columns with RETIRE that the rules, the mode or other columns of the table need."""
    columns = statement.value("COLUMNS", ParsedColumnList)
    ending = {each.name.lower(): each for each in (columns.columns if columns else ()) if each.retires is not None}
    mode = statement.value("MODE", ParsedMode)
    if ending and mode is not None and mode.mode is Mode.TEMPORAL:
        each = next(iter(ending.values()))
        yield _ending_error(
            each,
            each.span,
            "belongs to a TEMPORAL table",
            "the table's versions record when a value ended",
            "leave RETIRE out",
        )
        return
    used = [("a rule", rule) for rule in _rules(statement)]
    used += [("DELETE WHEN", mode.delete_when)] if mode is not None and mode.delete_when is not None else []
    for user, expression in used:
        for node in expression.tree.find_all(exp.Column):
            if (column := ending.get(node.parts[0].name.lower())) is not None:
                what = f"is used by {user}, and has RETIRE"
                yield _ending_error(column, expression.span, what, "it is NULL from that day on")
    needed = _find_required_columns(statement, mode)
    for name, column in ending.items():
        if name in needed:
            yield _ending_error(
                column, column.span, f"has RETIRE, and is needed by {needed[name]}", "rows are matched by it"
            )
        for node in column.made_as.tree.find_all(exp.Column) if column.made_as is not None else ():
            other = ending.get(node.parts[0].name.lower())
            if other is not None:
                yield _ending_error(
                    column,
                    column.made_as.span if column.made_as else column.span,
                    f"is computed from {'itself' if other is column else other.name}",
                    "a column that ends must be computed from columns that stay",
                    "name the column that takes its place, as in full_name STRING AS (name) RETIRE '2027-12-31'",
                )


def expressions_of(columns: Iterable[ParsedColumn]) -> Iterator[Any]:
    """Return the expressions of computed columns, `AS (expression)`."""
    return (each.made_as for each in columns if each.made_as is not None)


def _rules(statement: Statement) -> Iterator[Expression]:
    """Yield the rules on the rows that a batch makes. Those of columns with RETIRE are refused as such."""
    columns = statement.value("COLUMNS", ParsedColumnList)
    rules = (rule for clause in statement.clauses if clause.word == "EXPECT" for rule in clause.value)
    yield from (rule.expression for rule in rules if not rule.of)
    for column in columns.columns if columns else ():
        yield from (rule.expression for rule in column.rules if column.retires is None)


def _find_required_columns(statement: Statement, mode: ParsedMode | None) -> dict[str, str]:
    by = statement.clause("BY")
    time = getattr(by.value, "time_column", None) if by else None
    needed = {time.lower(): "BY DATA TIME"} if time else {}
    for name in (*mode.keys, *mode.order_by) if mode is not None else ():
        needed[name.lower()] = mode.mode.name if mode is not None else ""
    columns = statement.value("COLUMNS", ParsedColumnList)
    for column in columns.columns if columns else ():
        for order in column.key_options.options.order if column.key_options else ():
            needed[order.column.lower()] = "KEY ORDER BY"
    return needed


def _check_ending(column: ParsedColumn) -> Iterator[WaterclockError]:
    if column.retires is None:
        return
    try:
        date.fromisoformat(column.retires.text)
    except ValueError:
        yield column.retires.span.refuse(
            "E292", f"{column.retires.text!r} is not a date", why="RETIRE names the first day without the column",
            fix="write it as in RETIRE '2027-12-31'",
        )  # fmt: skip
    if column.declared.is_key or column.declared.is_not_null:
        word = "KEY" if column.declared.is_key else "NOT NULL"
        yield _ending_error(
            column, column.span, f"has {word} and RETIRE", "it is NULL from that day on", f"leave {word} out"
        )
    if column.rules:
        yield _ending_error(
            column, column.span, "has EXPECT and RETIRE", "it is NULL from that day on", "leave EXPECT out"
        )


def _ending_error(
    column: ParsedColumn, span: Span, what: str, why: str, fix: str = "leave RETIRE out"
) -> WaterclockError:
    return span.refuse("E292", f"{column.name} {what}", why=why, fix=fix)
