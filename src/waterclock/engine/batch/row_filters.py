"""Builds the row filter of a table from its declaration: the checks on rows as they are written, and their results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import takewhile
from typing import TYPE_CHECKING

from waterclock.batches.records import QUARANTINED
from waterclock.dpl.query.absent_columns import without_absent_columns
from waterclock.flow.checked_references import checked_references
from waterclock.flow.checks import Check, Requirement, checks_of, key_actions, key_options_of, loose_types, marks_rows
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Action
from waterclock.flow.rule_actions import find_outcome
from waterclock.spark_sql import INTERNAL_PREFIX, quote_name
from waterclock.storage.slices.row_filter import (
    ROW_DROPPED,
    ROW_KEPT,
    ROW_QUARANTINED,
    UNREAD,
    FilterCounts,
    RowFilter,
    RowFilterSettings,
    RowRule,
    is_hidden,
)
from waterclock.storage.slices.rule_marks import ROW_TEXT, row_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waterclock.storage.slices.column_casts import ConformedRows

_NONE: Mapping[str, str] = {}
OUTCOMES = {Action.QUARANTINE: ROW_QUARANTINED, Action.DROP: ROW_DROPPED, None: ROW_KEPT}


def row_filter_of(table: Table, absent: Mapping[str, str] = _NONE) -> RowFilter | None:
    """Return the table's row filter. None if no check removes rows, or counts broken keys, types or references.

    `absent` are the columns that the rows do not have (see `absent_columns_of`).
    """
    if not marks_rows(table) and key_actions(table)[0].most is None:
        return None
    checks = checks_of(table)
    by_key = next((check for check in checks if check.demand is Requirement.KEY), None)
    key_options = key_options_of(table)
    # DESC: the last row in the declared order stays; one with NULL in it stays only if all have NULL
    order = tuple(
        f"{quote_name(it.column)} {'ASC' if it.is_descending else 'DESC'} NULLS LAST" for it in key_options.order
    )
    row_rules = tuple(_row_rule(table, check, absent) for check in checks)
    is_unique = not table.is_fold or table.is_snapshot
    if by_key is None:
        return RowFilter(row_rules)
    return RowFilter(row_rules, by_key.columns, is_unique, order)


def written_filter_of(
    table: Table, shaped: ConformedRows, absent: Mapping[str, str], past: DataFrame | None = None
) -> RowFilterSettings | None:
    """Return the filter for rows in their table's columns, or None without one. `past`: rows of earlier labels."""
    row_filter = row_filter_of(table, absent)
    return (
        None
        if row_filter is None or shaped.raw is None
        else RowFilterSettings(row_filter, shaped.raw, shaped.raw_schema, past=past)
    )


def union_shapes(
    through: RowFilterSettings | None, shapes: Sequence[ConformedRows]
) -> tuple[DataFrame, RowFilterSettings | None]:
    """Return rows of several schemas as one frame, with their row filter. A column has its type in the last schema."""
    if through is None:
        return reduce(_union_by_name, [shaped.frame for shaped in shapes]), None
    frames = []
    for shaped in shapes:
        hidden = set((shaped.raw or {}).values()) - {UNREAD}
        shown = [name for name in shaped.frame.columns if not is_hidden(name) or name not in hidden]
        row = f"{row_json(shaped.raw or {})} AS {ROW_TEXT}"
        frames.append(shaped.frame.selectExpr(*map(quote_name, shown), row))
    schema = merged_schema([shaped.raw_schema for shaped in shapes])
    return reduce(_union_by_name, frames), RowFilterSettings(through.row_filter, {}, schema, ROW_TEXT)


def merged_schema(schemas: Iterable[str]) -> str:
    """Return the union of JSON schemas. A column that is in several of them is taken from the last."""
    fields = {field["name"]: field for text in schemas for field in json.loads(text)["fields"]}
    return json.dumps({"type": "struct", "fields": list(fields.values())})


def _union_by_name(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.unionByName(right, allowMissingColumns=True)


def mismatch_columns_of(table: Table) -> dict[str, str] | None:
    """Return the hidden columns for type mismatches (see `mismatch_columns`). None if the table has no row filter."""
    return None if row_filter_of(table) is None else mismatch_columns(table)


def mismatch_columns(table: Table) -> dict[str, str]:
    """Map each typed column, in lower case, to the hidden column that marks an invalid value."""
    return {name: f"{INTERNAL_PREFIX}bad_{at}" for at, name in enumerate(loose_types(table))}


def orphan_marks(table: Table) -> dict[tuple[str, ...], str]:
    """Map the columns of each checked reference to the hidden column that marks a row whose parent is missing."""
    return {each.columns: f"{INTERNAL_PREFIX}orphan_{at}" for at, each in enumerate(checked_references(table.columns))}


def list_findings(table: Table, filter_counts: FilterCounts) -> Iterator[tuple[Action, str]]:
    """Yield an action and a description for each check of a table that rows broke, except for dropped rows."""
    return find_actions(checks_of(table), filter_counts)


def find_actions(checks: Iterable[Check], filter_counts: FilterCounts, *, of: str = "") -> Iterator[tuple[Action, str]]:
    """Yield an action and a description for each check that rows broke, except for dropped rows.

    `of` describes the rows, if they are not the batch's own.
    """
    for check in checks:
        broken = filter_counts.broken.get(check.name, 0)
        action = find_outcome(check.actions, broken, filter_counts.rows)
        if action is None or action is Action.DROP:
            continue
        yield (
            action,
            (
                f"{check.name}: {broken} of {filter_counts.rows} rows{of} {check.broken_words}"
                f"{_action_suffix(check, action)}"
            ),
        )


def measures_of(filter_counts: FilterCounts) -> dict[str, object]:
    """Return the measures to record with a batch: rows read and removed, and rows that broke each rule."""
    return {
        "in": filter_counts.rows,
        QUARANTINED: filter_counts.quarantined,
        "dropped": filter_counts.dropped,
        "broken": {name: count for name, count in filter_counts.broken.items() if count},
        "first": {name: count for name, count in filter_counts.first.items() if count},
    }


def _action_suffix(check: Check, action: Action) -> str:
    if action is Action.QUARANTINE:
        return ", quarantined"
    before = list(takewhile(lambda each: each.action is not action, check.actions))
    return f", beyond {before[-1]}" if before else ""


def _row_rule(table: Table, check: Check, absent: Mapping[str, str]) -> RowRule:
    is_alone = check.demand is Requirement.PARSED and check.row_action is not None
    return RowRule(check.name, _condition_sql(table, check, absent), OUTCOMES[check.row_action], is_alone)


def _condition_sql(table: Table, check: Check, absent: Mapping[str, str]) -> str:
    if check.demand is Requirement.PARSED:
        return f"{UNREAD} IS NULL"
    if check.demand is Requirement.REFERENCE:
        return f"NOT {orphan_marks(table)[check.columns]}"
    if check.demand is Requirement.EXPRESSION:
        return without_absent_columns(check.text, absent)
    if check.demand is Requirement.TYPE:
        if check.columns[0].lower() in absent:
            return "TRUE"
        return f"NOT {quote_name(mismatch_columns(table)[check.columns[0].lower()])}"
    return "" if check.demand in {Requirement.KEY, Requirement.PAST} else f"{quote_name(check.columns[0])} IS NOT NULL"
