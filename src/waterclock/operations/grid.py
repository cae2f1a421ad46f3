"""Computes the cells of the grid: a row a table, a column a span of time, in each the loudest state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Table
from waterclock.operations.states import State, state_of, worst
from waterclock.planner.label_states import StatesIn
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.period import Period, TimeUnit
from waterclock.timelabel.zone import nominal_zone, resolve_local

_DAY = Period(TimeUnit.DAY)


@dataclass(frozen=True, slots=True)
class GridCell:
    """What a column shows of a table: its loudest state, and how many of how many labels are in it."""

    state: State
    count: int
    of: int

    @property
    def is_all(self) -> bool:
        """True where every label of the cell is in that state."""
        return self.count == self.of


@dataclass(frozen=True, slots=True)
class Row:
    """One table's cells, one for each column; None where it has no label."""

    table: str
    cells: tuple[GridCell | None, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows upstream first under their schema; `columns` are the starts of spans, oldest first, cut in `cadence`."""

    cadence: Cadence
    columns: tuple[datetime, ...]
    rows: tuple[Row, ...]

    @property
    def states(self) -> tuple[State, ...]:
        """The states that occur, loudest first."""
        found = {cell.state for row in self.rows for cell in row.cells if cell is not None}
        return tuple(state for state in State if state in found)

    def latest(self, count: int) -> Grid:
        """Keep the newest columns."""
        if count >= len(self.columns):
            return self
        rows = tuple(Row(row.table, row.cells[-count:]) for row in self.rows)
        return Grid(self.cadence, self.columns[-count:], rows)


def column_cadence(tables: Sequence[Table], zone: str) -> Cadence:
    """Choose what a column is: the longest window up to a day, or the shortest where all are longer."""
    periods = [table.cadence.period for table in tables]
    short = [period for period in periods if period.minutes <= _DAY.minutes]
    if short:
        return Cadence(max(short, key=lambda period: period.minutes), zone=zone)
    return Cadence(min(periods, key=lambda period: period.minutes, default=_DAY), zone=zone)


def shortest_cadence(tables: Sequence[Table], by: Cadence) -> Cadence:
    """Return columns as short as the shortest window of the tables, where that is shorter than they are."""
    shortest = min((table.cadence.period for table in tables), key=lambda period: period.minutes, default=by.period)
    return Cadence(shortest, zone=by.zone) if shortest.minutes < by.period.minutes else by


def wider(by: Cadence, span: tuple[datetime, datetime], most: int) -> Cadence:
    """Return the narrowest columns, from these on, of which a span takes no more than `most`; years where none is."""
    units = (TimeUnit.DAY, TimeUnit.WEEK, TimeUnit.MONTH, TimeUnit.QUARTER, TimeUnit.YEAR)
    longer = [each for each in map(Period, units) if each.minutes > by.period.minutes]
    choices = [by, *(Cadence(period, zone=by.zone) for period in longer)]
    fitting = (each for each in choices if each.count(each.floor(span[0]), each.ceil(span[1])) <= most)
    return next(fitting, choices[-1])


def newest_span(tables: Sequence[Table], by: Cadence, now: datetime, count: int) -> tuple[datetime, datetime]:
    """Return the span `[low, high)` of the newest `count` columns up to the newest label that is due."""
    newest = max((_newest_label(table, now) for table in tables), default=now)
    high = by.next(by.floor(newest))
    return by.shift(high, -count), high


def make_grid(
    flow: Flow,
    states: Mapping[str, Sequence[StatesIn]],
    by: Cadence,
    columns: Sequence[datetime],
    warned: Container[tuple[str, datetime]] = frozenset(),
) -> Grid:
    """Show the states of labels column by column, tables in the flow's order by schema.

    `columns` are their starts, `states` those of the labels between the `bounds` of each. `warned`: which done labels,
    told one by one, had warnings.
    """
    shown: dict[int, tuple[GridCell | None, ...]] = {}  # tables of which all is done share their states
    rows = []
    for name in by_schema(flow, states):
        of_table = states[name]
        if any(of_column.told for of_column in of_table):
            rows.append(Row(name, _cells(name, of_table, warned)))
            continue
        if id(of_table) not in shown:
            shown[id(of_table)] = _cells(name, of_table, warned)
        rows.append(Row(name, shown[id(of_table)]))
    return Grid(by, tuple(columns), tuple(rows))


def bounds(by: Cadence, span: tuple[datetime, datetime], cadence: Cadence) -> tuple[datetime, ...]:
    """Return between which instants the labels of each column lie, for a table of this cadence: one more than columns.

    A label belongs to a column by its local date, where its windows are days or more.
    """
    edges = (*(window.start for window in by.windows(*span)), span[1])
    if cadence.zone == by.zone or TimeUnit.MINUTE in (cadence.period.unit, by.period.unit):
        return edges
    local = (edge.astimezone(nominal_zone(by.zone)).replace(tzinfo=None) for edge in edges)
    return tuple(resolve_local(edge, cadence.zone) for edge in local)


def parse_columns(text: str, zone: str) -> Cadence:
    """Read what a column is to be: `day`, `hour`, `15 minutes`, `week`, `month`.

    Raises  E102 for what is no period
    """
    from waterclock.timelabel.period import parse_period

    try:
        return Cadence(parse_period(text), zone=zone)
    except WaterclockError as error:
        raise error.at("--by") from None


def _newest_label(table: Table, now: datetime) -> datetime:
    return table.cadence.previous(table.cadence.last_due(now))


def _counted(name: str, found: StatesIn, warned: Container[tuple[str, datetime]]) -> Counter[State]:
    """Count what is shown of the labels of one column."""
    counts: Counter[State] = Counter()
    for status, count in found.counts.items():
        counts[state_of(status)] += count
    for one in found.told:
        state = state_of(one.status)
        counts[State.WARNED if state is State.OK and (name, one.label) in warned else state] += 1
    return counts


def _cells(
    name: str, states: Sequence[StatesIn], warned: Container[tuple[str, datetime]]
) -> tuple[GridCell | None, ...]:
    return tuple(cell_of(name, of_column, warned) for of_column in states)


def cell_of(name: str, found: StatesIn, warned: Container[tuple[str, datetime]]) -> GridCell | None:
    """Return what is shown of some labels of a table, the loudest of their states; None where there is none."""
    if not found.told and len(found.counts) == 1:  # so are nearly all cells of a large grid
        [(status, count)] = found.counts.items()
        return GridCell(state_of(status), count, count)
    counts = _counted(name, found, warned)
    if not counts:
        return None
    loudest = worst(list(counts))
    return GridCell(loudest, counts[loudest], counts.total())


def by_schema(flow: Flow, names: Iterable[str]) -> list[str]:
    """Order tables upstream first, those of a schema together; a schema comes where its first table does."""
    order = {name: at for at, name in enumerate(flow.order or tuple(flow.tables))}
    wanted = sorted(names, key=order.__getitem__)
    first: dict[str, int] = {}
    for name in wanted:
        first.setdefault(_schema(name), order[name])
    return sorted(wanted, key=lambda name: (first[_schema(name)], order[name]))


def _schema(name: str) -> str:
    return name.partition(".")[0]
