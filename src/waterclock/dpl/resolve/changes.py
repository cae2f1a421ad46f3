"""Resolves and checks a collect BY CHANGES: its mode, its order, and the column that identifies deletes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.statements import ParsedMode
from waterclock.errors import WaterclockError
from waterclock.flow.changes import DELETES, OP_COLUMN, format_change_mark
from waterclock.flow.declarations import Column, Columns
from waterclock.flow.enums import FOLDS, Action, Batching
from waterclock.flow.merge_settings import Merge, Temporal
from waterclock.flow.rule_actions import RuleActions
from waterclock.spark_sql import quote_name

_REMOVE = frozenset({Action.QUARANTINE, Action.DROP})


def add_operation_column(draft: UnresolvedTable) -> Columns:
    """Return a table's columns. A collect BY CHANGES without `_change.op` gets a column for the kind of change."""
    columns = draft.declared.columns
    is_followed = draft.declared.source is not None and draft.declared.source.batching is Batching.CHANGES
    if not is_followed or any(column.metadata_field == format_change_mark("op") for column in columns.named):
        return columns
    op = Column(
        OP_COLUMN,
        draft.span.place,
        type="STRING",
        metadata_field=format_change_mark("op"),
        comment="what the last change did",
    )
    return replace(columns, named=(*columns.named, op))


def check_changes(draft: UnresolvedTable, mode: ParsedMode | None) -> list[WaterclockError]:
    """Return the errors in the mode, source and rules of a collect BY CHANGES; `mode` is its parsed mode."""
    return (
        []
        if draft.statement.has_failed("MODE") or draft.statement.has_failed("BY")
        else list(_find_change_errors(draft, mode))
    )


def _find_change_errors(draft: UnresolvedTable, mode: ParsedMode | None) -> Iterator[WaterclockError]:
    if mode is None or mode.mode not in FOLDS:
        yield draft.at("MODE" if mode else "BY").refuse(
            "E325",
            f"{draft.name} is collected BY CHANGES, and has {mode.mode.name if mode else 'no mode'}",
            why="changes are applied by key: MERGE keeps the last row, TEMPORAL all versions",
            fix="write MERGE; or TEMPORAL AT a column AS (_change.at), which keeps each change",
        )
    if draft.declared.source is not None and draft.declared.source.unit.query is not None:
        yield draft.at("FROM").refuse(
            "E325",
            f"{draft.name} collects a QUERY BY CHANGES",
            why="a change log contains changes of tables, not of queries",
            fix="name the table, and put the query into a TRANSFORM",
        )
    for name, actions in _list_actions(draft):
        if any(each.action in _REMOVE for each in actions):
            yield draft.span.refuse(
                "E329",
                f"{name} of {draft.name} removes single changes",
                why="without one change the table would differ from its source from then on",
                fix="write ELSE WARN, HOLD or FAIL here, and QUARANTINE or DROP in a TRANSFORM that reads it",
            )


def _list_actions(draft: UnresolvedTable) -> Iterator[tuple[str, RuleActions]]:
    for rule in draft.declared.rules:
        yield f"the rule {rule.name}", rule.actions
    for column in draft.declared.columns.named:
        for actions in (column.else_of_type, column.else_of_null, column.else_of_key):
            yield f"the column {column.name}", actions
        for rule in column.rules:
            yield f"the rule {rule.name}", rule.actions


def resolve_changes(draft: UnresolvedTable, mode: ParsedMode, errors: list[WaterclockError]) -> Merge | Temporal | None:
    """Return the MERGE or TEMPORAL settings of a collect BY CHANGES, extended to delete rows deleted in the source.

    An ORDER BY, and a TEMPORAL time other than that of the change, are reported in `errors`.
    """
    fold = draft.declared.fold
    if fold is None:
        return None
    if fold.order_by:
        errors.append(
            draft.at("MODE").refuse(
                "E326",
                f"{draft.name} is collected BY CHANGES, and has ORDER BY",
                why="the log contains the changes of a key in order, and only that order is right",
                fix="leave ORDER BY out",
            )
        )
    op = next(
        column.name for column in draft.declared.columns.named if column.metadata_field == format_change_mark("op")
    )
    deletes = f"{quote_name(op)} IN ({', '.join(repr(each) for each in DELETES)})"
    when = deletes if fold.delete_when is None else f"{deletes} OR ({fold.delete_when}\n)"
    if isinstance(fold, Merge):
        return replace(fold, delete_when=when)
    timed = {
        column.name.lower()
        for column in draft.declared.columns.named
        if column.metadata_field == format_change_mark("at")
    }
    if fold.at is not None and fold.at.lower() not in timed and fold.at.lower() not in fold.keys:
        errors.append(
            (mode.temporal.spans if mode.temporal else {})
            .get("AT", draft.at("MODE"))
            .refuse(
                "E327",
                f"{fold.at} is not the time at which a change was committed",
                why="the log has no other time for a deleted row",
                fix=f"declare it as that time: ({fold.at} TIMESTAMP AS (_change.at), *); or leave AT out,"
                " for one version per window",
            )
        )
    is_tracked = op.lower() in {name.lower() for name in fold.track}
    return replace(fold, delete_when=when, consumed=fold.consumed if is_tracked else (*fold.consumed, op))
