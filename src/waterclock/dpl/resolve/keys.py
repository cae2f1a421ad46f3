"""Resolves which row of a key stays, and the read of a table's own earlier labels for older keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from waterclock.dpl.resolve.unresolved import UnresolvedTable
from waterclock.dpl.syntax.not_yet import not_yet
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ColumnsSaid, StaysSaid
from waterclock.errors import WaterclockError
from waterclock.flow.checks import key_ladder, key_stays
from waterclock.flow.choices import Kind, ReadKind, TableType
from waterclock.flow.declarations import Read
from waterclock.flow.ladders import sets_aside


def settle_keys(
    drafts: Mapping[str, UnresolvedTable], spans: dict[tuple[str, Read], Span]
) -> Iterator[WaterclockError]:
    """Add to each table whose KEY has a PAST the read of its own earlier labels; report an invalid KEY.

    Cadences are resolved before, because this read determines none. `spans` records where the read is declared.
    """
    for draft in drafts.values():
        columns = draft.statement.value("COLUMNS", ColumnsSaid)
        said = [column.stays for column in (columns.columns if columns else ()) if column.stays]
        if not said:
            continue
        wrong = [*_apart(said), *_kept_whole(draft, said), *_without_order(draft, said), *_without_past(draft, said)]
        yield from wrong
        past = key_stays(draft.declared).past
        if past is None or wrong:
            continue
        read = Read(draft.name, ReadKind.PREVIOUS, past)
        spans[draft.name, read] = next(each.span for each in said if each.stays.past)
        draft.declared = replace(draft.declared, reads=(*draft.declared.reads, read))
        draft.declared = replace(
            draft.declared,
            choices=tuple(replace(choice, reads=(*choice.reads, read)) for choice in draft.declared.choices),
        )


def _apart(said: list[StaysSaid]) -> Iterator[WaterclockError]:
    """Report two columns of one key with different declarations."""
    for found in ([each for each in said if each.stays.order], [each for each in said if each.stays.past]):
        for each in found[1:]:
            is_alike = (each.stays.order, each.stays.past) == (found[0].stays.order, found[0].stays.past)
            if not is_alike:
                yield each.span.refuse(
                    "E274",
                    "one key says twice which row of it stays",
                    why="all KEY columns together are the key of a row",
                    fix="say it behind one of them",
                )


def _kept_whole(draft: UnresolvedTable, said: list[StaysSaid]) -> Iterator[WaterclockError]:
    if sets_aside(key_ladder(draft.declared)) is None:
        yield said[0].span.refuse(
            "E288",
            f"KEY {said[0].span.text} takes no row out of {draft.name}",
            why="one row of a key can stay only where the others are dropped or quarantined",
            fix=f"say KEY {said[0].stays} ELSE DROP, or ELSE QUARANTINE",
        )


def _without_order(draft: UnresolvedTable, said: list[StaysSaid]) -> Iterator[WaterclockError]:
    is_snapshot = (
        draft.declared.source is not None and draft.declared.source.time_column is None and draft.declared.fold is None
    )
    if draft.declared.fold is None or is_snapshot:
        return
    for each in said:
        if each.stays.order:
            yield each.span.refuse(
                "E296",
                f"{draft.declared.mode.name} keeps what its own ORDER BY says of a key",
                why="its batches bring changes of a key, and there may be several of one",
                fix=f"say {draft.declared.mode.name} ORDER BY {', '.join(it.column for it in each.stays.order)}",
            )


def _without_past(draft: UnresolvedTable, said: list[StaysSaid]) -> Iterator[WaterclockError]:
    for each in said:
        if each.stays.past is None:
            continue
        if draft.kind is Kind.COLLECT:
            yield each.span.refuse(
                "E289",
                f"a COLLECT looks back for its keys in {draft.name}",
                why="which rows stay must follow an earlier label that changes, and what is dropped is not kept",
                fix=f"say it of a TRANSFORM PARTITIONED that reads {draft.name}",
            )
        elif draft.declared.type is not TableType.PARTITIONED:
            yield each.span.refuse(
                "E289",
                f"a regular table looks back for its keys in {draft.name}",
                why="it is a state, and has no slices of the windows before",
                fix=f"say TRANSFORM {draft.name} PARTITIONED",
            )
        elif draft.statement.clause("CLOSE WHEN") is not None:
            fix = f"say it of a TRANSFORM that reads {draft.name}"
            yield not_yet("KEY ... PAST of a table that closes its books", each.span, fix=fix)
