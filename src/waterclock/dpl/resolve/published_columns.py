"""Resolves and checks columns that a PUBLISH computes, such as `email AS (mask_text(email))`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp

from waterclock.dpl.query.spark_functions import AGGREGATES, GENERATORS, WINDOWED
from waterclock.dpl.resolve.literals import with_literals
from waterclock.dpl.resolve.rules import check_expression
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.aggregate_calls import has_aggregate
from waterclock.dpl.syntax.statements import (
    Expression,
    ParsedColumn,
    ParsedColumnList,
    ParsedMode,
    Statement,
    StatementKind,
)
from waterclock.errors import WaterclockError
from waterclock.flow.merge_settings import Merge
from waterclock.flow.published_columns import PublishedExpression, find_sent_name

_RESERVED = "_deleted"
_BY_ROW = "each row is sent on its own, computed from its own columns"


def resolve_expression(
    column: ParsedColumn, variables: Mapping[str, Any], errors: list[WaterclockError]
) -> PublishedExpression | None:
    """Return the expression of a column that a PUBLISH computes; None without AS, or if it is invalid."""
    if column.made_as is None or column.retires is not None:
        return None
    problems = [*check_expression(column.made_as), *_check_published_expression(column, column.made_as)]
    errors.extend(problems)
    if problems:
        return None
    tree = column.made_as.tree
    columns = tuple(dict.fromkeys(node.parts[0].name for node in tree.find_all(exp.Column)))
    while isinstance(tree, exp.Paren):
        tree = tree.this
    is_copy = isinstance(tree, exp.Column) and len(tree.parts) == 1
    return PublishedExpression(with_literals(column.made_as, variables), columns, tree.name if is_copy else None)


def check_published_list(statement: Statement) -> Iterator[WaterclockError]:
    """Yield an error for a PUBLISH with computed columns and a `*`, which would also send the original columns."""
    column_list = statement.value("COLUMNS", ParsedColumnList)
    if statement.kind is not StatementKind.PUBLISH or column_list is None or not column_list.is_open:
        return
    made = next(
        (column for column in column_list.columns if column.made_as is not None and column.retires is None), None
    )
    if made is not None:
        yield made.span.refuse(
            "E284",
            f"{made.name} AS (...) is used together with *",
            why="* sends all columns unchanged, also those added later; a list with AS must name all columns to send",
            fix="name the columns to send, without *",
        )


def resolve_sent_keys(draft: UnresolvedTable, mode: ParsedMode | None, errors: list[WaterclockError]) -> None:
    """Set the key of a MERGE to the names under which its columns are sent; report a key that is not sent unchanged.

    The destination finds rows by their key, and only unchanged values are certain to be unique.
    """
    if not isinstance(draft.declared.fold, Merge) or draft.declared.columns.is_open:
        return
    by_name = {column.name.lower(): column for column in draft.declared.columns.named}
    if mode is not None and mode.keys:  # names of sent columns; an unknown one is reported with the mode's names
        names: list[str | None] = [
            key if (own := by_name.get(key.lower())) is None or _is_copy(own.made_as) else None for key in mode.keys
        ]
    else:
        names = [find_sent_name(draft.declared.columns, key) for key in draft.declared.fold.keys]
    for key, name in zip(draft.declared.fold.keys, names, strict=True):
        if name is None:
            errors.append(_unsent_key_error(draft, key, is_made=key.lower() in by_name))
            return
    draft.declared = replace(
        draft.declared, fold=replace(draft.declared.fold, keys=tuple(name for name in names if name is not None))
    )


def _is_copy(made: PublishedExpression | None) -> bool:
    return made is None or made.copies is not None


def _unsent_key_error(draft: UnresolvedTable, key: str, *, is_made: bool) -> WaterclockError:
    return draft.at("MODE" if not is_made else "COLUMNS").refuse(
        "E285",
        f"the key {key} is computed by AS" if is_made else f"the key {key} is not sent",
        why="MERGE finds rows by their key, and two keys may have the same computed value"
        if is_made
        else "MERGE finds rows by their key",
        fix=f"send {key} unchanged or renamed, as in customer AS ({key}); or compute the column in a TRANSFORM "
        "where it is KEY, and publish that"
        if is_made
        else f"add {key} to the list, or write MERGE ON (another key)",
    )


def _check_published_expression(column: ParsedColumn, made: Expression) -> Iterator[WaterclockError]:
    tree = made.tree
    called = {node.name.lower() for node in tree.find_all(exp.Anonymous)}
    what = why = fix = None
    if column.name.lower() == _RESERVED:
        yield column.span.refuse(
            "E211", f"{column.name} is a reserved name", why="deliveries mark rows by it", fix="rename it"
        )
    if has_aggregate(tree) or called & AGGREGATES:
        what, why, fix = "has an aggregate", _BY_ROW, "aggregate in a TRANSFORM, and publish that"
    elif tree.find(exp.Window) is not None or called & WINDOWED:
        what, why, fix = "uses other rows", _BY_ROW, "compute it in a TRANSFORM, and publish that"
    elif tree.find(exp.UDTF, exp.Explode, exp.Posexplode, exp.Inline) is not None or called & GENERATORS:
        what, why, fix = "makes several rows from one", _BY_ROW, "compute it in a TRANSFORM, and publish that"
    elif tree.find(exp.Star) is not None:
        what, why = "has a *", "columns that are added later would be sent too"
        fix = "name the columns, as in struct(id, city)"
    elif isinstance(tree, exp.Null):
        what, why, fix = "has no type", "NULL alone has no type", f"write {column.name} AS (CAST(NULL AS STRING))"
    if what is not None:
        yield made.span.refuse("E284", f"{column.name} {what}", why=why, fix=fix)
