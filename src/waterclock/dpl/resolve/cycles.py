"""Refuses circular reads: a table may read itself, or tables that read it, only through PREVIOUS."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from waterclock.dpl.resolve.checked_references import reference_span
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable, list_forward_reads
from waterclock.dpl.syntax.source_text import Span
from waterclock.errors import WaterclockError
from waterclock.flow.checked_references import checked_references
from waterclock.flow.declarations import Read
from waterclock.flow.enums import Kind, ReadKind
from waterclock.flow.graph import components_of, cycle_of


def check_cycles(
    drafts: Mapping[str, UnresolvedTable], spans: Mapping[tuple[str, Read], Span]
) -> Iterator[WaterclockError]:
    """Yield errors for cycles of reads without PREVIOUS, or with LATEST or UNTIL.

    Tables in cycles without PREVIOUS are marked as incomplete. Tables that are read by PREVIOUS in a cycle must declare
    their columns, because they are read before they have rows.
    """
    edges = {
        name: [read.table for read in draft.declared.reads if read.table in drafts] for name, draft in drafts.items()
    }
    forward = list_forward_reads(drafts)
    for group in components_of(forward):
        inside = {name: [other for other in forward[name] if other in group] for name in forward if name in group}
        path = cycle_of(inside)
        if path is not None:
            for name in group:
                drafts[name].is_incomplete = True
            yield _cycle_error(path, drafts, spans)
    for group in components_of(edges):
        for name in sorted(group):
            yield from _check_reads_of_cycle(drafts[name], group, drafts, spans)


def _cycle_error(
    path: Iterable[str], drafts: Mapping[str, UnresolvedTable], spans: Mapping[tuple[str, Read], Span]
) -> WaterclockError:
    names = _from_reference(list(path), drafts, spans)
    reader = names[0]
    read = next((one for one in drafts[reader].declared.reads if one.table == names[1]), None)
    span = spans.get((reader, read), drafts[reader].span) if read else drafts[reader].span
    own = len(names) == 2
    return span.refuse(
        "E229",
        f"{reader} reads itself" if own else f"{reader} reads itself through {', '.join(names[1:-1])}",
        why=f"each waits for the next: {' → '.join(names)}",
        fix="use another table in FOR EACH"
        if drafts[reader].kind is Kind.COLLECT
        else "remove ELSE: REFERENCES without ELSE only documents the model, and reads nothing"
        if read and _is_reference(drafts[reader], read, spans)
        else f"write PREVIOUS({names[1]}) to read its state before this window",
    )


def _from_reference(
    names: list[str], drafts: Mapping[str, UnresolvedTable], spans: Mapping[tuple[str, Read], Span]
) -> list[str]:
    """Return the path of a cycle, rotated to start at its first checked reference if it has one."""
    for at, (reader, other) in enumerate(pairwise(names)):
        if _is_reference(drafts[reader], Read(other), spans):
            return [*names[at:-1], *names[: at + 1]]
    return names


def _is_reference(draft: UnresolvedTable, read: Read, spans: Mapping[tuple[str, Read], Span]) -> bool:
    """Return whether a read comes from a checked reference, REFERENCES ... ELSE, and not from a query."""
    checked = [each for each in checked_references(draft.declared.columns) if each.read == read]
    return any(spans.get((draft.name, read)) == reference_span(draft, each.columns[0]) for each in checked)


def _check_reads_of_cycle(
    draft: UnresolvedTable,
    group: frozenset[str],
    drafts: Mapping[str, UnresolvedTable],
    spans: Mapping[tuple[str, Read], Span],
) -> Iterator[WaterclockError]:
    for read in draft.declared.reads:
        if read.table not in group:
            continue
        span = spans.get((draft.name, read), draft.span)
        if read.kind in {ReadKind.LATEST, ReadKind.UNTIL}:
            end = (
                "would trigger new runs forever"
                if read.kind is ReadKind.LATEST
                else "waits for windows that wait for it"
            )
            yield span.refuse(
                "E229",
                f"{read} is part of a circle of references",
                why=f"{', '.join(sorted(group))} read each other, and {read.kind.upper()} {end}",
                fix=f"write {read.table} or PREVIOUS({read.table})",
            )
        if read.kind is ReadKind.PREVIOUS:
            yield from _check_declared_columns(draft, read, drafts[read.table], span)


def _check_declared_columns(
    draft: UnresolvedTable, read: Read, other: UnresolvedTable, span: Span
) -> Iterator[WaterclockError]:
    if other.declared.columns.are_declared:
        return
    untyped = [column.name for column in other.declared.columns.named if column.type is None]
    what = f"has no type for {', '.join(untyped)}" if untyped else "has no closed list of columns"
    yield span.refuse(
        "E230",
        f"PREVIOUS({read.table}) is empty before START, and {read.table} {what}",
        why="an empty table needs its columns and types too",
        fix=f"declare them where {'it' if other is draft else read.table} is made, as in "
        f"{read.table} (id STRING KEY, amount BIGINT)",
    )
