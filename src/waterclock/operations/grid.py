"""Computes the grid: one row per table, one column per span of time, and in each cell the most severe state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Table
from waterclock.operations.display_states import State, state_of, worst
from waterclock.planner.label_states import SpanStates
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.period import Period, TimeUnit
from waterclock.timelabel.zone import nominal_zone, resolve_local

_DAY = Period(TimeUnit.DAY)


@dataclass(frozen=True, slots=True)
class GridCell:
    """A cell of the grid, with the most severe state of its labels.

    `count` is the number of labels in this state, `of` the number of all labels.
    """

    state: State
    count: int
    of: int

    @property
    def is_all(self) -> bool:
        """Whether every label of the cell is in its most severe state."""
        return self.count == self.of


@dataclass(frozen=True, slots=True)
class GridRow:
    """The cells of one table, one for each column of the grid. A cell is None if the table has no label there."""

    table: str
    cells: tuple[GridCell | None, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """The grid of `waterclock status`. Rows are sorted upstream first by schema. `columns` are the columns' starts."""

    cadence: Cadence
    columns: tuple[datetime, ...]
    rows: tuple[GridRow, ...]

    @property
    def states(self) -> tuple[State, ...]:
        """The states that occur in the grid, most severe first."""
        found = {cell.state for row in self.rows for cell in row.cells if cell is not None}
        return tuple(state for state in State if state in found)

    def latest(self, count: int) -> Grid:
        """Return the grid with only its newest `count` columns."""
        if count >= len(self.columns):
            return self
        rows = tuple(GridRow(row.table, row.cells[-count:]) for row in self.rows)
        return Grid(self.cadence, self.columns[-count:], rows)


def column_cadence(tables: Sequence[Table], zone: str) -> Cadence:
    """Return the length of columns: the longest window up to a day, or the shortest window if all are longer."""
    periods = [table.cadence.period for table in tables]
    short = [period for period in periods if period.minutes <= _DAY.minutes]
    if short:
        return Cadence(max(short, key=lambda period: period.minutes), zone=zone)
    return Cadence(min(periods, key=lambda period: period.minutes, default=_DAY), zone=zone)


def shortest_cadence(tables: Sequence[Table], by: Cadence) -> Cadence:
    """Return columns as short as the tables' shortest window; `by` if its columns are not longer than that."""
    shortest = min((table.cadence.period for table in tables), key=lambda period: period.minutes, default=by.period)
    return Cadence(shortest, zone=by.zone) if shortest.minutes < by.period.minutes else by


def fitting_cadence(by: Cadence, span: tuple[datetime, datetime], most: int) -> Cadence:
    """Return the shortest columns, from `by` upward, of which a span has at most `most`. The longest are years."""
    units = (TimeUnit.DAY, TimeUnit.WEEK, TimeUnit.MONTH, TimeUnit.QUARTER, TimeUnit.YEAR)
    longer = [each for each in map(Period, units) if each.minutes > by.period.minutes]
    choices = [by, *(Cadence(period, zone=by.zone) for period in longer)]
    fitting = (each for each in choices if each.count(each.floor(span[0]), each.ceil(span[1])) <= most)
    return next(fitting, choices[-1])


def newest_span(tables: Sequence[Table], by: Cadence, now: datetime, count: int) -> tuple[datetime, datetime]:
    """Return the span `[low, high)` of the newest `count` columns up to the newest due label."""
    newest = max((table.cadence.previous(table.cadence.last_due(now)) for table in tables), default=now)
    high = by.next(by.floor(newest))
    return by.shift(high, -count), high


def make_grid(
    flow: Flow,
    states: Mapping[str, Sequence[SpanStates]],
    by: Cadence,
    columns: Sequence[datetime],
    warned: Container[tuple[str, datetime]] = frozenset(),
) -> Grid:
    """Build the grid from the states of labels, with tables in the flow's order by schema.

    `columns` are the starts of the columns, `states` the states between the `bounds` of each. `warned`: the done labels
    with warnings, which must be listed singly in `states`.
    """
    shown: dict[int, tuple[GridCell | None, ...]] = {}  # tables with all labels done share their states
    rows = []
    for name in sort_by_schema(flow, states):
        of_table = states[name]
        if any(of_column.listed for of_column in of_table):
            rows.append(GridRow(name, _build_cells(name, of_table, warned)))
            continue
        if id(of_table) not in shown:
            shown[id(of_table)] = _build_cells(name, of_table, warned)
        rows.append(GridRow(name, shown[id(of_table)]))
    return Grid(by, tuple(columns), tuple(rows))


def bounds(by: Cadence, span: tuple[datetime, datetime], cadence: Cadence) -> tuple[datetime, ...]:
    """Return the instants between which the labels of each column start, for tables of a cadence.

    There is one instant more than columns. For windows of a day or longer, the local date of a label decides.
    """
    edges = (*(window.start for window in by.windows(*span)), span[1])
    if cadence.zone == by.zone or TimeUnit.MINUTE in (cadence.period.unit, by.period.unit):
        return edges
    local = (edge.astimezone(nominal_zone(by.zone)).replace(tzinfo=None) for edge in edges)
    return tuple(resolve_local(edge, cadence.zone) for edge in local)


def parse_columns(text: str, zone: str) -> Cadence:
    """Parse the span of a column: `day`, `hour`, `15 minutes`, `week`, `month`. Raises E102 for an invalid period."""
    from waterclock.timelabel.period import parse_period

    try:
        return Cadence(parse_period(text), zone=zone)
    except WaterclockError as error:
        raise error.at("--by") from None


def _count_states(name: str, found: SpanStates, warned: Container[tuple[str, datetime]]) -> Counter[State]:
    """Count the labels of one column by displayed state."""
    counts: Counter[State] = Counter()
    for status, count in found.counts.items():
        counts[state_of(status)] += count
    for one in found.listed:
        state = state_of(one.status)
        counts[State.WARNED if state is State.OK and (name, one.label) in warned else state] += 1
    return counts


def _build_cells(
    name: str, states: Sequence[SpanStates], warned: Container[tuple[str, datetime]]
) -> tuple[GridCell | None, ...]:
    return tuple(cell_of(name, of_column, warned) for of_column in states)


def cell_of(name: str, found: SpanStates, warned: Container[tuple[str, datetime]]) -> GridCell | None:
    """Return the cell for some labels of a table, with their most severe state, or None if there are no labels."""
    if not found.listed and len(found.counts) == 1:  # nearly all cells of a large grid are like this
        [(status, count)] = found.counts.items()
        return GridCell(state_of(status), count, count)
    counts = _count_states(name, found, warned)
    if not counts:
        return None
    loudest = worst(list(counts))
    return GridCell(loudest, counts[loudest], counts.total())


def sort_by_schema(flow: Flow, names: Iterable[str]) -> list[str]:
    """Sort tables upstream first, grouped by schema. Schemas are ordered by their first table."""
    order = {name: at for at, name in enumerate(flow.order or tuple(flow.tables))}
    wanted = sorted(names, key=order.__getitem__)
    first: dict[str, int] = {}
    for name in wanted:
        first.setdefault(_schema(name), order[name])
    return sorted(wanted, key=lambda name: (first[_schema(name)], order[name]))


def _schema(name: str) -> str:
    return name.partition(".")[0]
