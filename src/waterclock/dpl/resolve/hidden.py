"""Resolves HIDDEN columns: reports invalid ones, and excludes them from rules, publishes and function inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.dpl.query.hidden_columns import exclude_columns_from_stars
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ParsedColumn, ParsedColumnList, Statement, StatementKind
from waterclock.errors import WaterclockError
from waterclock.flow.merge_settings import Temporal
from waterclock.flow.stateful_steps import STATE

if TYPE_CHECKING:
    from waterclock.flow.declarations import Argument, Flat, Query


def check_hidden_column(column: ParsedColumn, kind: StatementKind) -> WaterclockError | None:
    """Return the error for HIDDEN in the column list of a PUBLISH or view, or on a KEY column; None if it is valid."""
    span = column.hidden_span
    if span is None:
        return None
    if kind in {StatementKind.PUBLISH, StatementKind.VIEW}:
        return span.refuse(
            "E319",
            f"{column.name} is HIDDEN in the list of a {kind.value}",
            why="such a list selects columns, and a column that is not listed is left out",
            fix=f"leave {column.name} out of the list, or HIDDEN out of {column.name}",
        )
    if column.declared.is_key:
        return _hidden_key(span, column.name)
    return None


def check_visible_columns(column_list: ParsedColumnList) -> Iterator[WaterclockError]:
    """Yield an error for a closed column list in which all columns are HIDDEN."""
    columns = column_list.columns
    if columns and not column_list.is_open and all(column.hidden_span is not None for column in columns):
        yield columns[0].span.refuse(
            "E319",
            "all columns are HIDDEN",
            why="SELECT * would return no column",
            fix="remove HIDDEN from one of them, or add a * after them",
        )


def check_hidden_keys(draft: UnresolvedTable) -> Iterator[WaterclockError]:
    """Yield errors for HIDDEN columns in MERGE ON or TEMPORAL ON. `check_hidden_column` reports those with KEY."""
    hidden = {column.name.lower() for column in draft.declared.columns.named if column.is_hidden and not column.is_key}
    for key in draft.declared.fold.keys if draft.declared.fold else ():
        if key.lower() in hidden:
            yield _hidden_key(draft.at("MODE"), key)


def _hidden_key(span: Span, name: str) -> WaterclockError:
    return span.refuse(
        "E319",
        f"{name} is KEY and HIDDEN",
        why="rows differ by their key, and SELECT * would return rows that look the same",
        fix="remove KEY or HIDDEN",
    )


def list_hidden_columns(statement: Statement | None) -> tuple[str, ...]:
    """Return the HIDDEN columns that a COLLECT or TRANSFORM declares; empty for other statements."""
    declared = statement.value("COLUMNS", ParsedColumnList) if statement is not None else None
    if declared is None or statement is None or statement.kind not in {StatementKind.COLLECT, StatementKind.TRANSFORM}:
        return ()
    return tuple(column.name for column in declared.columns if column.hidden_span is not None)


def exclude_hidden_from_rules(draft: UnresolvedTable) -> None:
    """Exclude the HIDDEN columns of a table from each `*` in its rules, as in queries."""
    hidden = draft.declared.columns.hidden_columns
    if hidden:
        draft.declared = replace(
            draft.declared,
            rules=tuple(
                replace(rule, expression=exclude_columns_from_stars(rule.expression, hidden))
                for rule in draft.declared.rules
            ),
        )


def exclude_hidden_from_input_rules(drafts: Mapping[str, UnresolvedTable]) -> None:
    """Exclude the HIDDEN columns of inputs from each `*` in rules on these inputs, as in queries."""
    for draft in drafts.values():
        hidden = {
            rule.of: drafts[rule.of].declared.columns.hidden_columns
            for rule in draft.declared.input_rules
            if rule.of in drafts
        }
        if any(hidden.values()):
            draft.declared = replace(
                draft.declared,
                input_rules=tuple(
                    replace(rule, expression=exclude_columns_from_stars(rule.expression, columns))
                    if (columns := hidden.get(rule.of, ()))
                    else rule
                    for rule in draft.declared.input_rules
                ),
            )


def set_hidden_untracked(draft: UnresolvedTable) -> None:
    """Set the HIDDEN columns of a TEMPORAL table without TRACK as untracked: their changes make no new version."""
    fold = draft.declared.fold
    if isinstance(fold, Temporal) and not fold.track and draft.declared.columns.hidden_columns:
        draft.declared = replace(draft.declared, fold=replace(fold, untracked=draft.declared.hidden_columns))


def set_left_out_columns(draft: UnresolvedTable, table: UnresolvedTable) -> None:
    """Set the HIDDEN columns that a PUBLISH whose list ends with `*` does not send, because it does not name them."""
    if draft.declared.columns.is_open:
        named = {column.name.lower() for column in draft.declared.columns.named}
        left_out = tuple(name for name in table.declared.columns.hidden_columns if name.lower() not in named)
        draft.declared = replace(draft.declared, columns=replace(draft.declared.columns, left_out=left_out))


def exclude_hidden_from_argument(argument: Argument, table: str, hidden: Callable[[str], tuple[str, ...]]) -> Argument:
    """Exclude the HIDDEN columns of a table from the argument of a Python function, unless the argument requests them.

    A state is passed with all its columns.
    """
    if argument.with_hidden or argument.name == STATE:
        return argument
    return replace(argument, left_out=hidden(table))


def hidden_view_columns_error(span: Span, name: str) -> WaterclockError:
    """Build the error for an argument that requests the HIDDEN columns of a view."""
    return span.refuse(
        "E319",
        f"{name} is a view, and has no HIDDEN columns",
        why="it has the columns that its query returns",
        fix="name them in its query, or read the table itself with hidden=True",
    )


def describe_hidden(draft: UnresolvedTable) -> list[str]:
    """Describe the HIDDEN columns that a table's code does not read, for its fingerprint; empty if there are none.

    Code that names all its columns does not depend on which others are HIDDEN.
    """
    found = list(_describe_query(draft.declared.query)) if draft.declared.query is not None else []
    for argument in draft.declared.function.arguments if draft.declared.function else ():
        found += [f"{argument.name} {' '.join(argument.left_out)}"] if argument.left_out else []
        found += _describe_query(argument.query) if argument.query is not None else []
        found += _describe_flat(argument.flat) if argument.flat is not None else []
    found += [" ".join(draft.declared.columns.left_out)] if draft.declared.columns.left_out else []
    if draft.declared.temporal is not None and draft.declared.temporal.untracked:
        found.append(f"untracked {' '.join(draft.declared.temporal.untracked)}")
    return [f"HIDDEN {text}" for text in found]


def _describe_query(query: Query) -> Iterator[str]:
    for part in query.branches or (query,):
        yield from (text for _, text in part.stars)  # their offsets only depend on spacing
        for reference in part.tables:
            if reference.left_out:
                yield f"{reference.read or reference.flat} {' '.join(reference.left_out)}"
            if reference.flat is not None:
                yield from _describe_flat(reference.flat)
            if reference.view is not None:
                yield from _describe_query(reference.view)


def _describe_flat(flat: Flat) -> Iterator[str]:
    for join in flat.joins:
        if join.left_out:
            yield f"{flat.read} {join.parent.read} {' '.join(join.left_out)}"
        yield from _describe_flat(join.parent)
