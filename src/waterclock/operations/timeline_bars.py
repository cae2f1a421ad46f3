"""Computes a timeline bar for each table over a common time axis. Adjacent columns in one state form one piece.

Windows that are shorter than a column share it, longer windows span several columns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from waterclock.flow.declarations import Table
from waterclock.operations.display_states import State
from waterclock.operations.grid import GridCell, bounds, cell_of, sort_by_schema
from waterclock.operations.project_grid import states_in_spans
from waterclock.operations.project_opening import OpenedProject
from waterclock.planner.label_states import SpanStates
from waterclock.planner.plan import Batch, Status
from waterclock.timelabel.cadence import Cadence

At = tuple[str, datetime]
"""A batch by table and label."""


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The columns of all bars: their starts, oldest first, as spans of `by`. `end` is the end of the last column."""

    by: Cadence
    columns: tuple[datetime, ...]
    end: datetime

    @classmethod
    def over(cls, by: Cadence, span: tuple[datetime, datetime]) -> TimeAxis:
        """Return the columns of a span `[low, high)` of the cadence's own boundaries."""
        return cls(by, tuple(window.start for window in by.windows(*span)), span[1])

    @property
    def span(self) -> tuple[datetime, datetime]:
        """The span from the start of the first column to the end of the last."""
        return (self.columns[0] if self.columns else self.end), self.end


@dataclass(frozen=True, slots=True)
class BarPiece:
    """Adjacent columns of a table in one state.

    `state` is the most severe state of its labels; `count` of the `of` labels are in it. The labels start in `[low,
    high)`. `part`: the share of a single column that has labels, below 1 if the column is not over. `cause`: the batch
    that blocks it and needs a user.
    """

    column: int
    columns: int
    state: State
    count: int
    of: int
    low: datetime
    high: datetime
    part: float = 1.0
    cause: At | None = None


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """The timeline of one table, as pieces. It has no labels in columns without a piece."""

    table: str
    pieces: tuple[BarPiece, ...]


def build_timeline_bars(
    at: OpenedProject, tables: Sequence[Table], axis: TimeAxis, batches: Sequence[Batch]
) -> tuple[TimelineBar, ...]:
    """Return the bars of some tables, upstream first and grouped by schema. `batches` are the planned batches.

    Cost: three queries of the ledger, a plan of the span, and some microseconds per column and table.
    """
    if not axis.columns or not tables:
        return ()
    spans = {cadence: _Spans.of(axis, cadence) for cadence in {table.cadence for table in tables}}
    edges = {table.name: spans[table.cadence].edges for table in tables}
    states, warned = states_in_spans(at, edges)
    causes = causes_of(batches)
    return tuple(
        TimelineBar(
            name,
            tuple(_join_pieces(_build_pieces(name, spans[at.flow.tables[name].cadence], states[name], warned, causes))),
        )
        for name in sort_by_schema(at.flow, edges)
    )


def causes_of(batches: Sequence[Batch]) -> dict[At, At]:
    """Map each blocked batch to the root cause that it waits for, directly or indirectly."""
    return {
        (batch.table, batch.label): (batch.causes[0].table, batch.causes[0].window.start)
        for batch in batches
        if batch.status is Status.BLOCKED and batch.causes
    }


@dataclass(frozen=True, slots=True)
class _Spans:
    """The spans whose labels share a piece: columns, or a cadence's own windows if these are longer.

    `edges`: the boundaries, one more than there are spans. `columns`: for each span its first column and the one after
    its last. `due`: how many labels each span has once it is over.
    """

    edges: tuple[datetime, ...]
    columns: tuple[tuple[int, int], ...]
    due: tuple[int, ...]

    @classmethod
    def of(cls, axis: TimeAxis, cadence: Cadence) -> _Spans:
        if cadence.period.minutes <= axis.by.period.minutes:
            edges = bounds(axis.by, axis.span, cadence)
            starts = [cadence.ceil(edge) for edge in edges]
            due = tuple(cadence.count(low, high) for low, high in pairwise(starts))
            return cls(edges, tuple((index, index + 1) for index in range(len(due))), due)
        low, high = cadence.floor(axis.span[0]), cadence.ceil(axis.span[1])
        edges = (*(window.start for window in cadence.windows(low, high)), high)
        places = [bisect_left(axis.columns, edge) for edge in edges]
        return cls(edges, tuple(pairwise(places)), (1,) * (len(edges) - 1))


def _build_pieces(
    name: str, spans: _Spans, states: Sequence[SpanStates], warned: Container[At], causes: Mapping[At, At]
) -> Iterator[BarPiece]:
    for index, found in enumerate(states):
        cell = cell_of(name, found, warned)
        first, last = spans.columns[index]
        if cell is None or first == last:
            continue
        cause = _find_cause(name, found, causes) if cell.state is State.BLOCKED else None
        low, high = spans.edges[index : index + 2]
        part = _covered_share(cell, spans.due[index])
        yield BarPiece(first, last - first, cell.state, cell.count, cell.of, low, high, part, cause)


def _covered_share(cell: GridCell, due: int) -> float:
    return 1.0 if cell.of >= due else cell.of / due


def _find_cause(name: str, found: SpanStates, causes: Mapping[At, At]) -> At | None:
    return next((causes[name, one.label] for one in found.listed if (name, one.label) in causes), None)


def _join_pieces(pieces: Iterator[BarPiece]) -> Iterator[BarPiece]:
    """Join adjacent pieces with the same content. A piece with only some labels in its state stays separate."""
    alike: list[BarPiece] = []
    for piece in pieces:
        if alike and not _are_alike(alike[-1], piece):
            yield _join_alike(alike)
            alike = []
        alike.append(piece)
    if alike:
        yield _join_alike(alike)


def _join_alike(alike: Sequence[BarPiece]) -> BarPiece:
    if len(alike) == 1:
        return alike[0]
    return replace(
        alike[0],
        columns=sum(piece.columns for piece in alike),
        count=sum(piece.count for piece in alike),
        of=sum(piece.of for piece in alike),
        high=alike[-1].high,
    )


def _are_alike(one: BarPiece, other: BarPiece) -> bool:
    is_next = one.column + one.columns == other.column and one.state is other.state and one.cause == other.cause
    return is_next and one.count == one.of and other.count == other.of and one.part == other.part == 1.0
