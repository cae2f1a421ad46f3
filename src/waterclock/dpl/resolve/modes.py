"""Resolves the mode of a COLLECT or a TRANSFORM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from waterclock.dpl.resolve.changes import check_changes, resolve_changes
from waterclock.dpl.resolve.hidden import check_hidden_keys, set_hidden_untracked
from waterclock.dpl.resolve.merge_keys import resolve_merge, resolve_temporal
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.statements import (
    ParsedMode,
)
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Batching, Mode, TableType


def _check_modes_of_publish(draft: UnresolvedTable, mode: ParsedMode) -> Iterator[WaterclockError]:
    """Yield errors for APPEND ORDER BY and REPLACE WHERE, which only a PUBLISH can have."""
    if mode.mode is Mode.APPEND and mode.order_by:
        yield draft.at("MODE").refuse(
            "E316",
            "a table of the lake cannot have APPEND ORDER BY",
            why="stored rows have no order; only a PUBLISH sends them in order",
            fix=f"write it in the PUBLISH of {draft.name}",
        )
    if mode.where is not None:
        yield draft.at("MODE").refuse(
            "E226",
            "a table of the lake cannot have REPLACE WHERE",
            why="a batch replaces its own label, or the whole state",
            fix=f"write it in the PUBLISH of {draft.name}; or choose rows by WHERE in the query",
        )


def resolve_mode(draft: UnresolvedTable, variables: Mapping[str, Any], errors: list[WaterclockError]) -> None:
    """Set the mode of a table and its settings, or its default mode; report a mode that its source does not allow."""
    statement = draft.statement
    mode = statement.value("MODE", ParsedMode)
    is_partitioned = draft.declared.type is TableType.PARTITIONED
    batching = draft.declared.source.batching if draft.declared.source else None
    if batching is Batching.CHANGES:
        refused = check_changes(draft, mode)
        errors.extend(refused)
        if refused:
            return
    if mode is None:
        draft.declared = replace(draft.declared, mode=Mode.APPEND if is_partitioned else Mode.REPLACE)
        by_row = {Batching.DATA_TIME, Batching.ARRIVAL_TIME, Batching.LABELS}
        must_say = batching in by_row and not is_partitioned
        if must_say and not statement.has_failed("MODE"):
            errors.append(
                draft.at("BY").refuse(
                    "E226",
                    f"{draft.name} has no mode",
                    why="a wrong default would duplicate rows",
                    fix="add PARTITIONED after the name, or APPEND, MERGE, TEMPORAL or REPLACE",
                )
            )
        if is_partitioned and batching in _WHOLE and not statement.has_failed("BY"):
            errors.append(_missing_by_error(draft, "is PARTITIONED, but has"))
        return
    draft.declared = replace(draft.declared, mode=mode.mode)
    errors.extend(_check_modes_of_publish(draft, mode))
    if is_partitioned and mode.mode is not Mode.APPEND:
        errors.append(
            draft.at("MODE").refuse(
                "E226",
                f"{mode.mode.name} cannot change a PARTITIONED table",
                why="each of its labels is a slice of its own, which later batches do not change",
                fix="leave PARTITIONED out, or the mode",
            )
        )
    elif batching in _WHOLE and mode.mode not in _WHOLE[batching] and not statement.has_failed("BY"):
        errors.append(_missing_by_error(draft, f"has {mode.mode.name}, but"))
    if mode.mode is Mode.MERGE:
        resolve_merge(draft, mode, draft.declared.columns.keys, variables, errors)
    if mode.mode is Mode.TEMPORAL:
        resolve_temporal(draft, mode, variables, errors)
    if batching is Batching.CHANGES:
        draft.declared = replace(draft.declared, fold=resolve_changes(draft, mode, errors))
    set_hidden_untracked(draft)
    errors.extend(check_hidden_keys(draft))


_WHOLE = {
    Batching.SNAPSHOT: {Mode.REPLACE, Mode.TEMPORAL},
    Batching.STATE: {Mode.REPLACE},
    Batching.AS_OF: {Mode.REPLACE},
}
_FIXES_WITHOUT_BY = {
    Batching.STATE: "add BY DATA TIME timelabel if the source table is PARTITIONED, or set the mode in a TRANSFORM of "
    "this",
    Batching.AS_OF: "set the mode in a TRANSFORM of this",
}


def _missing_by_error(draft: UnresolvedTable, what: str) -> WaterclockError:
    batching = draft.declared.source.batching if draft.declared.source else Batching.SNAPSHOT
    return draft.at("MODE").refuse(
        "E226",
        f"{draft.name} {what} no BY",
        why="without a BY each batch reads the whole source, and replaces the table",
        fix=_FIXES_WITHOUT_BY.get(batching, "add BY DATA TIME column or BY ARRIVAL TIME"),
    )
