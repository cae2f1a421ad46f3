"""Checks that a PAST reaches back far enough for a join on a time distance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from waterclock.dpl.query.names_in_query import QueryNames
from waterclock.dpl.query.time_bounds import TimeBound, time_bounds
from waterclock.dpl.resolve.read_checks import fitting_span
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.statements import ParsedWatermark
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Batching, TableType
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.duration import Duration, elapsed_text, parse_duration

_TICKS = tuple(datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=days) for days in range(0, 800, 7))
_NO_TIME = timedelta()


def check_reach(
    draft: UnresolvedTable, found: Iterable[QueryNames], drafts: Mapping[str, UnresolvedTable]
) -> Iterator[WaterclockError]:
    """Yield an error for each PAST that is certainly too short; `found` contains the reads of the query and its views.

    A PAST must include all rows that match a row of the window, even if that row is as late as the WATERMARK allows.
    """
    if draft.cadence is None:
        return
    for each in found:
        for inside in [branch for _, branch in each.branches] or [each]:
            if inside.tree is not None:
                for bound in time_bounds(inside.tree, {table.start: table for table in inside.tables}):
                    yield from _check_past(draft, draft.cadence, bound, drafts)


def _check_past(
    draft: UnresolvedTable, own: Cadence, bound: TimeBound, drafts: Mapping[str, UnresolvedTable]
) -> Iterator[WaterclockError]:
    table, other = drafts.get(bound.read.name), drafts.get(bound.other.name)
    if table is None or other is None or table.cadence is None or bound.read.duration is None:
        return
    if table.declared.type is not TableType.PARTITIONED or other.declared.type is not TableType.PARTITIONED:
        return
    late = _lateness(other, bound.other_column)
    if late is None or _lateness(table, bound.column) is None:
        return
    window = min(own.next(own.floor(tick)) - own.floor(tick) for tick in _TICKS)
    needed = window + late + bound.most
    if _longest_elapsed_time(bound.read.duration, own) >= needed:
        return
    span = parse_duration(elapsed_text(needed))
    text = fitting_span(span, table.cadence)
    at = bound.read.span.source.span(bound.read.start, bound.read.end)
    lateness = f" that is {elapsed_text(late)} late" if late else ""
    if bound.read.name == bound.other.name:
        match = (
            f"a row of {bound.other.name}{lateness} is compared with rows up to {_format_span(bound.most)} before it"
        )
    else:
        match = f"a row of {bound.other.name}{lateness} is up to {_format_span(bound.most)} after its {bound.read.name}"
    yield at.refuse(
        "E258",
        f"PAST reaches {bound.read.duration} back, and the join needs {elapsed_text(needed)}",
        why=f"{match}, and a window of {draft.name} is {elapsed_text(window)} long",
        fix=f"write PAST({bound.read.name}, {text})",
    )


def _format_span(span: timedelta) -> str:
    return elapsed_text(span) if span >= _NO_TIME else f"-{elapsed_text(-span)}"


def _longest_elapsed_time(back: Duration, own: Cadence) -> timedelta:
    """Return the longest elapsed time that a duration before a boundary can have; a day may have 25 hours."""
    return max(own.floor(tick) - back.subtract_from(own.floor(tick), own.zone) for tick in _TICKS)


def _lateness(draft: UnresolvedTable, column: str) -> timedelta | None:
    """Return the longest time between the value of a time column and the row's arrival; None if it is not declared."""
    source = draft.declared.source
    if source is not None and source.batching is Batching.DATA_TIME and _is_same_name(source.time_column, column):
        return _NO_TIME
    watermark = draft.statement.value("WATERMARK", ParsedWatermark)
    return watermark.lateness if watermark is not None and _is_same_name(watermark.column, column) else None


def _is_same_name(name: str | None, column: str) -> bool:
    return name is not None and name.lower() == column.lower()
