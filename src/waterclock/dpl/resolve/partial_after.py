"""Checks IS_PARTIAL() and PARTIAL AFTER, the time after which a table runs even if some inputs are missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from waterclock.dpl.query.names_in_query import QueryNames
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.statements import ParsedQuery
from waterclock.errors import WaterclockError
from waterclock.flow.enums import ReadKind
from waterclock.flow.graph import circles_of

_VALUE = "IS_PARTIAL"


def check_partial(drafts: Mapping[str, UnresolvedTable], found: Mapping[str, QueryNames]) -> Iterator[WaterclockError]:
    """Yield errors for PARTIAL AFTER in a cycle or without effect, and for IS_PARTIAL() without PARTIAL AFTER.

    `found` maps tables and views to the tables and values that their queries name.
    """
    circles = circles_of(
        {
            name: [read.table for read in draft.declared.reads if read.table in drafts and read.table != name]
            for name, draft in drafts.items()
        }
    )
    for draft in drafts.values():
        if draft.statement.clause("PARTIAL AFTER") is None:
            yield from _check_is_partial_calls(draft, found.get(draft.name))
        elif draft.name in circles:
            yield draft.at("PARTIAL AFTER").refuse(
                "E260",
                f"{draft.name} cannot run without its inputs",
                why=f"{', '.join(sorted(circles[draft.name]))} read each other, and would run again forever",
                fix="leave PARTIAL AFTER out, and add it to a table that reads them",
            )
        elif not draft.is_incomplete and not any(
            _can_be_missing(draft, read.table, read.kind) for read in draft.declared.reads
        ):
            yield draft.at("PARTIAL AFTER").refuse(
                "E260",
                f"{draft.name} has no input that could be missing",
                why="LATEST reads the state that exists, and a table always waits for its own past",
                fix="leave PARTIAL AFTER out",
            )


def _can_be_missing(draft: UnresolvedTable, table: str, kind: ReadKind) -> bool:
    return table != draft.name and kind is not ReadKind.LATEST


def _check_is_partial_calls(draft: UnresolvedTable, found: QueryNames | None) -> Iterator[WaterclockError]:
    """Yield errors for IS_PARTIAL() in the queries of a transform; `found` contains the calls in them."""
    whole = draft.statement.value("AS", ParsedQuery)
    if found is None or whole is None:
        return
    for declared, inside in found.branches or [(whole, found)]:
        for value in inside.values:
            if value.name == _VALUE:
                yield declared.span.source.span(value.start, value.end).refuse(
                    "E260",
                    f"IS_PARTIAL() is always FALSE in {draft.name}",
                    why="it waits until all of its inputs are settled",
                    fix="add PARTIAL AFTER, as in PARTIAL AFTER 2 HOURS, or leave IS_PARTIAL() out",
                )
