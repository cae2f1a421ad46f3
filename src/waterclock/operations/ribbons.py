"""Draws each table as a ribbon over one axis of time: neighbouring columns in one state are one piece.

Windows shorter than a column share it, longer ones span several. Nothing of a ribbon is asked of a database here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from waterclock.batches.audit_trail import Settled
from waterclock.flow.declarations import Flow, Table
from waterclock.operations.grid import GridCell, bounds, by_schema, cell_of
from waterclock.operations.opening import Reading
from waterclock.operations.states import State
from waterclock.planner.label_states import StatesIn, count_states
from waterclock.planner.plan import Batch, Status
from waterclock.timelabel.cadence import Cadence

At = tuple[str, datetime]
"""A batch by table and label."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The columns under which all ribbons lie: their starts, oldest first, cut in `by`; `end` is that of the last."""

    by: Cadence
    columns: tuple[datetime, ...]
    end: datetime

    @classmethod
    def over(cls, by: Cadence, span: tuple[datetime, datetime]) -> Axis:
        """Return the columns of a span `[low, high)` of the cadence's own boundaries."""
        return cls(by, tuple(window.start for window in by.windows(*span)), span[1])

    @property
    def span(self) -> tuple[datetime, datetime]:
        """From the start of the first column to the end of the last."""
        return (self.columns[0] if self.columns else self.end), self.end


@dataclass(frozen=True, slots=True)
class Piece:
    """Neighbouring columns of a table in one state.

    `count` of its `of` labels are in that state, which is the loudest; the labels begin in `[low, high)`. `part`: what
    share of a single column is there at all, below 1 where the column is not over. `cause`: the failed or held batch
    that it waits for.
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
class Ribbon:
    """One table over the axis; columns without a piece have no label."""

    table: str
    pieces: tuple[Piece, ...]


def ribbons(at: Reading, tables: Sequence[Table], axis: Axis, batches: Sequence[Batch]) -> tuple[Ribbon, ...]:
    """Return the ribbons of some tables, upstream first under their schema; `batches` are those that are planned.

    Cost: three questions to the ledger, a plan of the span, and some microseconds a column and table.
    """
    if not axis.columns or not tables:
        return ()
    edges = {table.name: _edges(axis, table) for table in tables}
    settled, warned = Settled(), {}
    if at.ledger is not None:
        wide = min(each[0] for each in edges.values()), max(each[-1] for each in edges.values())
        settled, warned = at.ledger.past.settled(list(edges), *wide), at.ledger.past.warned(list(edges), *wide)
    apart: dict[str, list[datetime]] = {}
    for name, label in warned:
        apart.setdefault(name, []).append(label)
    states = count_states(at.planner, at.snapshot, at.now, settled, edges, apart=apart)
    causes = causes_of(batches)
    return tuple(
        Ribbon(name, tuple(_joined(_pieces(at.flow, name, axis, edges[name], states[name], warned, causes))))
        for name in by_schema(at.flow, edges)
    )


def causes_of(batches: Sequence[Batch]) -> dict[At, At]:
    """Return by blocked batch which failed or held batch it waits for, be it through others."""
    return {
        (batch.table, batch.label): (batch.causes[0].table, batch.causes[0].window.start)
        for batch in batches
        if batch.status is Status.BLOCKED and batch.causes
    }


def _edges(axis: Axis, table: Table) -> tuple[datetime, ...]:
    """Return between which instants labels share a piece: columns, or a table's own windows where these are longer."""
    cadence = table.cadence
    if cadence.period.minutes <= axis.by.period.minutes:
        return bounds(axis.by, axis.span, cadence)
    low, high = cadence.floor(axis.span[0]), cadence.ceil(axis.span[1])
    return (*(window.start for window in cadence.windows(low, high)), high)


def _pieces(
    flow: Flow,
    name: str,
    axis: Axis,
    edges: Sequence[datetime],
    states: Sequence[StatesIn],
    warned: Container[At],
    causes: Mapping[At, At],
) -> Iterator[Piece]:
    cadence = flow.tables[name].cadence
    is_long = cadence.period.minutes > axis.by.period.minutes
    for index, found in enumerate(states):
        cell = cell_of(name, found, warned)
        if cell is None:
            continue
        low, high = edges[index], edges[index + 1]
        if is_long:
            first, last = bisect_left(axis.columns, low), bisect_left(axis.columns, high)
            if first == last:
                continue
        else:
            first, last = index, index + 1
        due = 1 if is_long else cadence.count(cadence.ceil(low), cadence.ceil(high))
        cause = _cause(name, found, causes) if cell.state is State.BLOCKED else None
        yield Piece(
            first, last - first, cell.state, cell.count, cell.of, low, high, _part(cell, due), cause
        )  # fmt: skip


def _part(cell: GridCell, due: int) -> float:
    return 1.0 if cell.of >= due else cell.of / due


def _cause(name: str, found: StatesIn, causes: Mapping[At, At]) -> At | None:
    return next((causes[name, one.label] for one in found.told if (name, one.label) in causes), None)


def _joined(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Join neighbours that say the same; a piece of which only some labels are in its state stands alone."""
    last: Piece | None = None
    for piece in pieces:
        if last is not None and _are_alike(last, piece):
            last = replace(
                last,
                columns=last.columns + piece.columns,
                count=last.count + piece.count,
                of=last.of + piece.of,
                high=piece.high,
            )
            continue
        if last is not None:
            yield last
        last = piece
    if last is not None:
        yield last


def _are_alike(one: Piece, other: Piece) -> bool:
    is_next = one.column + one.columns == other.column and one.state is other.state and one.cause == other.cause
    return is_next and all(each.count == each.of and each.part == 1.0 for each in (one, other))
