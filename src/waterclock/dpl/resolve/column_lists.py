"""Resolves column lists, and reports invalid columns and contradictions with ON SCHEMA CHANGE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from waterclock.dpl.query.storable_columns import column_name_error, list_illegal_characters
from waterclock.dpl.resolve.hidden import check_hidden_column, check_visible_columns
from waterclock.dpl.resolve.published_columns import check_published_list, resolve_expression
from waterclock.dpl.resolve.retire_clause import check_endings, resolve_ending
from waterclock.dpl.resolve.rules import rule_of
from waterclock.dpl.syntax.statements import ParsedColumn, ParsedColumnList, Statement, StatementKind
from waterclock.dpl.syntax.unsupported import unsupported_error
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Column, Columns
from waterclock.flow.schema_changes import OnSchemaChange
from waterclock.spark_sql import column_name, is_internal
from waterclock.timelabel.label import TIMELABEL

_LISTS = (StatementKind.PUBLISH, StatementKind.VIEW)


def columns_of(statement: Statement, variables: Mapping[str, Any], errors: list[WaterclockError]) -> Columns:
    """Resolve the column list of a statement. Invalid columns are left out, and reported in `errors`."""
    column_list = statement.value("COLUMNS", ParsedColumnList)
    on_change = statement.value("ON SCHEMA CHANGE", OnSchemaChange)
    if column_list is None:
        return Columns(on_change=on_change)
    is_list = statement.kind in _LISTS
    seen: dict[str, str] = {}
    columns: list[Column] = []
    for column in column_list.columns:
        problem = _column_name_error(column, seen, statement.kind) or check_hidden_column(column, statement.kind)
        if is_list and problem is None:
            problem = _column_clause_error(column, statement)
        if column.made_as is not None and column.retires is None and statement.kind is not StatementKind.PUBLISH:
            problem = problem or unsupported_error("AS (expression) without RETIRE", column.made_as_span or column.span)
        if problem:
            errors.append(problem)
            continue
        seen[column.name.lower()] = column.name
        columns.append(_column(column, variables, errors))
    found = Columns(tuple(columns), column_list.is_open, on_change)
    errors.extend(check_endings(statement))
    errors.extend(check_published_list(statement))
    errors.extend(check_visible_columns(column_list))
    refused = schema_change_error(statement, found)
    errors.extend([refused] if refused else [])
    return found


def _column(column: ParsedColumn, variables: Mapping[str, Any], errors: list[WaterclockError]) -> Column:
    rules = tuple(rule for rule in (rule_of(rule, variables, errors, in_column=True) for rule in column.rules) if rule)
    return replace(
        column.declared,
        rules=rules,
        ending=resolve_ending(column, variables, errors),
        key_options=column.key_options.options if column.key_options else None,
        metadata_field=column.metadata_field.what if column.metadata_field else None,
        made_as=resolve_expression(column, variables, errors),
    )


def _column_name_error(column: ParsedColumn, seen: Mapping[str, str], kind: StatementKind) -> WaterclockError | None:
    lower = column.name.lower()
    if lower in seen:
        is_same = seen[lower] == column.name
        return column.span.refuse(
            "E212",
            f"column {column.name} is listed twice"
            if is_same
            else f"{seen[lower]} and {column.name} differ by case only",
            why=None if is_same else "some systems distinguish them, and some do not",
            fix="name each column once",
        )
    if lower == TIMELABEL and (kind not in _LISTS or column.made_as is not None):
        return column.span.refuse(
            "E211",
            "timelabel is a reserved column",
            why="it contains the label of each row's batch",
            fix="leave it out",
        )
    fix = "rename it where it is made, as in `" + column.name.replace("`", "``") + "` AS another_name"
    if kind is StatementKind.COLLECT and is_internal(column.name):
        fix = "rename it at the source, or leave it out of a list without *"
    elif kind is StatementKind.COLLECT and not list_illegal_characters(column_name(column.name)):
        fix = f"write {column_name(column.name)}: the source's column is found by that name"
    return column_name_error(column.name, column.span, fix)


def _column_clause_error(column: ParsedColumn, statement: Statement) -> WaterclockError | None:
    declared = column.declared
    properties = {
        "a type": declared.type,
        "KEY": declared.is_key,
        "NOT NULL": declared.is_not_null,
        "EXPECT": column.rules,
        "REFERENCES": declared.references,
        "SUBJECT": declared.subject,
        "RETIRE": column.retires,
        "AS (_source...)": column.metadata_field,
    }
    found = next((name for name, value in properties.items() if value), None)
    if found is None:
        return None
    legal = "names" if column.made_as is None else "names and AS (expression)"
    return column.span.refuse(
        "E206",
        f"the column list of a {statement.kind.value} takes only {legal}, and {column.name} has {found}",
        fix="declare types, keys, rules and subjects where the table is made"
        if column.made_as is None
        else f"write only {column.name} AS ({column.made_as.text}), with a CAST in it for another type",
    )


def schema_change_error(statement: Statement, columns: Columns) -> WaterclockError | None:
    """Return the error for an ON SCHEMA CHANGE that contradicts the column list, or None."""
    clause = statement.clause("ON SCHEMA CHANGE")
    if clause is None or columns.is_open or statement.has_failed("COLUMNS"):
        return None
    if columns.on_change is OnSchemaChange.ADD:
        return clause.span.refuse(
            "E291",
            f"{statement.name} has ADD, and a closed column list",
            why="a closed list leaves out columns that it does not name, so that a new column never leaks",
            fix="end the list with *, or write IGNORE",
        )
    if columns.on_change is OnSchemaChange.TEXT and all(column.type for column in columns.named):
        return clause.span.refuse(
            "E291",
            f"{statement.name} has TEXT, and declares the types of all columns",
            why="TEXT reads columns without a declared type as STRING; this list is closed, and each column has a type",
            fix="leave types out, end the list with *, or write IGNORE",
        )
    return None
