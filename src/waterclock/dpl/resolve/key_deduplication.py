"""Resolves KEY with PAST or ORDER BY, which keeps one of several rows with the same key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ParsedColumnList, ParsedKeyOptions
from waterclock.dpl.syntax.unsupported import unsupported_error
from waterclock.errors import WaterclockError
from waterclock.flow.checks import key_actions, key_options_of
from waterclock.flow.declarations import Read
from waterclock.flow.enums import Kind, ReadKind, TableType
from waterclock.flow.rule_actions import find_row_action


def resolve_keys(
    drafts: Mapping[str, UnresolvedTable], spans: dict[tuple[str, Read], Span]
) -> Iterator[WaterclockError]:
    """Make each table with KEY ... PAST an input of itself, for its earlier labels; yield errors for an invalid KEY.

    This must be called after cadences are resolved, because this read must not determine a cadence. Its span is added
    to `spans`.
    """
    for draft in drafts.values():
        columns = draft.statement.value("COLUMNS", ParsedColumnList)
        key_options = [column.key_options for column in (columns.columns if columns else ()) if column.key_options]
        if not key_options:
            continue
        wrong = [
            *_check_equal_clauses(key_options),
            *_check_drops_rows(draft, key_options),
            *_check_order(draft, key_options),
            *_check_past(draft, key_options),
        ]
        yield from wrong
        past = key_options_of(draft.declared).past
        if past is None or wrong:
            continue
        read = Read(draft.name, ReadKind.PREVIOUS, past)
        spans[draft.name, read] = next(each.span for each in key_options if each.options.past)
        draft.declared = replace(draft.declared, reads=(*draft.declared.reads, read))
        draft.declared = replace(
            draft.declared,
            choices=tuple(replace(choice, reads=(*choice.reads, read)) for choice in draft.declared.choices),
        )


def _check_equal_clauses(key_options: list[ParsedKeyOptions]) -> Iterator[WaterclockError]:
    """Yield errors for columns of one key whose PAST or ORDER BY differ."""
    for found in (
        [each for each in key_options if each.options.order],
        [each for each in key_options if each.options.past],
    ):
        for each in found[1:]:
            is_alike = (each.options.order, each.options.past) == (found[0].options.order, found[0].options.past)
            if not is_alike:
                yield each.span.refuse(
                    "E274",
                    "one key has two different orders",
                    why="all KEY columns together are the key of a row",
                    fix="write it after one of them",
                )


def _check_drops_rows(draft: UnresolvedTable, key_options: list[ParsedKeyOptions]) -> Iterator[WaterclockError]:
    if find_row_action(key_actions(draft.declared)) is None:
        yield key_options[0].span.refuse(
            "E288",
            f"KEY {key_options[0].span.text} removes no row from {draft.name}",
            why="one row of a key can stay only if the others are dropped or quarantined",
            fix=f"write KEY {key_options[0].options} ELSE DROP, or ELSE QUARANTINE",
        )


def _check_order(draft: UnresolvedTable, key_options: list[ParsedKeyOptions]) -> Iterator[WaterclockError]:
    is_snapshot = (
        draft.declared.source is not None and draft.declared.source.time_column is None and draft.declared.fold is None
    )
    if draft.declared.fold is None or is_snapshot:
        return
    for each in key_options:
        if each.options.order:
            yield each.span.refuse(
                "E296",
                f"{draft.declared.mode.name} has its own ORDER BY, so KEY cannot have one",
                why="a batch may contain several changes of the same key",
                fix=f"write {draft.declared.mode.name} ORDER BY {', '.join(it.column for it in each.options.order)}",
            )


def _check_past(draft: UnresolvedTable, key_options: list[ParsedKeyOptions]) -> Iterator[WaterclockError]:
    for each in key_options:
        if each.options.past is None:
            continue
        if draft.kind is Kind.COLLECT:
            yield each.span.refuse(
                "E289",
                f"the COLLECT {draft.name} has KEY ... PAST",
                why="if an earlier label changes, the rows are chosen again, and a COLLECT does not store dropped rows",
                fix=f"write it in a TRANSFORM PARTITIONED that reads {draft.name}",
            )
        elif draft.declared.type is not TableType.PARTITIONED:
            yield each.span.refuse(
                "E289",
                f"the regular table {draft.name} has KEY ... PAST",
                why="it is one state, without slices of earlier windows",
                fix=f"write TRANSFORM {draft.name} PARTITIONED",
            )
        elif draft.statement.clause("CLOSE WHEN") is not None:
            fix = f"write it in a TRANSFORM that reads {draft.name}"
            yield unsupported_error("KEY ... PAST with CLOSE WHEN", each.span, fix=fix)
