"""Resolves and checks the settings of MERGE and TEMPORAL: key, order of rows, deletes, time, tracked attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp

from waterclock.dpl.resolve.literals import with_literals
from waterclock.dpl.resolve.rules import check_condition, check_expression
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.aggregate_calls import has_aggregate
from waterclock.dpl.syntax.source_text import Span, find_name
from waterclock.dpl.syntax.statements import Expression, ParsedColumnList, ParsedMode, ParsedTemporal
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Batching, Mode
from waterclock.flow.merge_settings import RECORD, Merge, Temporal
from waterclock.timelabel.label import TIMELABEL

_INSTANTS = frozenset({"TIMESTAMP", "TIMESTAMP_LTZ"})


def resolve_merge(
    draft: UnresolvedTable,
    mode: ParsedMode | None,
    keys: tuple[str, ...],
    variables: Mapping[str, Any],
    errors: list[WaterclockError],
) -> None:
    """Set the MERGE settings of a table. Its key is that of ON (...), or else `keys`. A missing key is reported."""
    chosen = _resolve_keys(draft, mode, keys, Mode.MERGE, errors)
    delete_when = _delete_when(mode, variables, errors)
    draft.declared = replace(draft.declared, fold=Merge(chosen, mode.order_by if mode else (), delete_when))


def resolve_temporal(
    draft: UnresolvedTable, mode: ParsedMode, variables: Mapping[str, Any], errors: list[WaterclockError]
) -> None:
    """Set the TEMPORAL settings of a table, and report contradictions. Its key is that of ON (...), or else of KEY.

    Columns that ORDER BY or DELETE WHEN use are stored as attributes only if TRACK names them.
    """
    declared = {column.name.lower(): column.name for column in draft.declared.columns.named}

    def spelt(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(declared.get(name.lower(), name) for name in names))

    keys = spelt(_resolve_keys(draft, mode, draft.declared.columns.keys, Mode.TEMPORAL, errors))
    more = mode.temporal or ParsedTemporal()
    delete_when = _delete_when(mode, variables, errors)
    consumed = [*mode.order_by, *_columns_in(mode.delete_when)]
    kept = {TIMELABEL, *(name.lower() for name in (*keys, *more.track, more.at or ""))}
    temporal = Temporal(
        keys,
        declared.get((more.at or "").lower(), more.at),
        spelt(mode.order_by),
        delete_when,
        spelt(name for name in consumed if name.lower() not in kept),
        spelt(more.track),
        spelt(more.values),
        are_all_values=more.are_all_values or (_has_complete_rows(draft) and not (more.values or more.are_all_missing)),
        fills_back=more.fills_back,
        is_of_snapshots=_is_snapshot(draft),
    )
    draft.declared = replace(draft.declared, fold=temporal)
    errors.extend(_check_contradictions(draft, temporal, more))


def _is_snapshot(draft: UnresolvedTable) -> bool:
    """Return whether a table is collected as a snapshot, so that each batch reads the whole source."""
    return draft.declared.source is not None and draft.declared.source.batching is Batching.SNAPSHOT


def _has_complete_rows(draft: UnresolvedTable) -> bool:
    """Return whether a table's source has complete rows, as a snapshot or change log: a NULL is then a value."""
    return _is_snapshot(draft) or (
        draft.declared.source is not None and draft.declared.source.batching is Batching.CHANGES
    )


def _resolve_keys(
    draft: UnresolvedTable,
    declared: ParsedMode | None,
    keys: tuple[str, ...],
    mode: Mode,
    errors: list[WaterclockError],
) -> tuple[str, ...]:
    chosen = (declared.keys if declared else ()) or keys
    if not chosen and not draft.statement.has_failed("COLUMNS"):
        errors.append(
            draft.at("MODE").refuse(
                "E227",
                f"{draft.name} is a {mode.name} without a key",
                why="rows to replace are found by their key"
                if mode is Mode.MERGE
                else "each version is a version of a key",
                fix=f"mark the key, as in (id KEY, *), or write {mode.name} ON (id)",
            )
        )
    return chosen


def _delete_when(mode: ParsedMode | None, variables: Mapping[str, Any], errors: list[WaterclockError]) -> str | None:
    if mode is None or mode.delete_when is None:
        return None
    errors.extend(check_expression(mode.delete_when))
    errors.extend(check_condition(mode.delete_when))
    if has_aggregate(mode.delete_when.tree):
        errors.append(
            mode.delete_when.span.refuse(
                "E220",
                "DELETE WHEN has an aggregate",
                why="it is evaluated for each row",
                fix="use columns of the row",
            )
        )
    return with_literals(mode.delete_when, variables)


def _columns_in(expression: Expression | None) -> Iterable[str]:
    columns = expression.tree.find_all(exp.Column) if expression is not None else ()
    found = [(column.parts[0].meta.get("start") or 0, column.parts[0].name) for column in columns]
    return [name for _, name in sorted(found)]


def _check_contradictions(
    draft: UnresolvedTable, temporal: Temporal, more: ParsedTemporal
) -> Iterator[WaterclockError]:
    at = more.spans.get("AT", draft.at("MODE"))
    keys = {key.lower() for key in temporal.keys}
    if temporal.at is not None and temporal.at.lower() in keys:
        yield at.refuse(
            "E235",
            f"{temporal.at} is both the key and the time of {draft.name}",
            why="each key has its own timeline, which would consist of one instant",
            fix="name the column with the time since which a row is valid",
        )
    if (temporal.at or "").lower() == TIMELABEL:
        yield at.refuse(
            "E235",
            "AT timelabel is redundant",
            why="without AT a row is valid since its window's end",
            fix="leave AT out",
        )
    if temporal.at is not None and _is_snapshot(draft):
        yield at.refuse(
            "E235",
            f"{draft.name} is collected as a snapshot, and has AT",
            why="a snapshot is the state at its window's end; earlier states come from earlier snapshots",
            fix="leave AT out, or add BY DATA TIME or BY ARRIVAL TIME",
        )
    for words, names in (("TRACK", more.track), ("NULLS VALUE", more.values)):
        for name in names:
            yield from _check_attribute(name, find_name(name, more.spans[words]), words, temporal, keys)
    yield from _check_column_list(draft, temporal)


def _check_attribute(
    name: str, span: Span, words: str, temporal: Temporal, keys: set[str]
) -> Iterator[WaterclockError]:
    what = None
    if name.lower() in keys:
        what = "a key"
    elif name.lower() == (temporal.at or "").lower():
        what = "the time"
    elif name.lower() in {each.lower() for each in temporal.consumed}:
        what = "used by ORDER BY or DELETE WHEN"
    if what is not None:
        fix = f"list it in TRACK too, or leave {name} out" if what.startswith("used") else f"leave {name} out"
        yield span.refuse(
            "E235",
            f"{words} names {name}, which is {what}",
            why="attributes are the values of a key that make a new version when they change",
            fix=fix,
        )


def _check_column_list(draft: UnresolvedTable, temporal: Temporal) -> Iterator[WaterclockError]:
    """Yield errors for columns named like a record column (`rec_...`), and for a time column that is not TIMESTAMP."""
    column_list = draft.statement.value("COLUMNS", ParsedColumnList)
    for column in column_list.columns if column_list else ():
        lower = column.name.lower()
        is_time = lower == (temporal.at or "").lower()
        if lower in RECORD and not (is_time and lower == RECORD[0]):
            yield record_name_error(column.span, column.name, draft.name)
        if is_time and column.declared.type is not None and column.declared.type.upper() not in _INSTANTS:
            yield column.span.refuse(
                "E235",
                f"the time {column.name} is of type {column.declared.type}",
                why="versions begin at instants; a date or a string is one only in a zone, and no zone is declared",
                fix=f"write {column.name} TIMESTAMP",
            )


def record_name_error(span: Span, name: str, table: str) -> WaterclockError:
    """Build the error for a column with the name of a record column (`rec_eff_time` and others)."""
    return span.refuse(
        "E211",
        f"{name} is reserved in a TEMPORAL table",
        why=f"each version of {table} has the columns {', '.join(RECORD)}",
        fix="rename it; the time of a row may be called rec_eff_time, as in TEMPORAL AT rec_eff_time",
    )
