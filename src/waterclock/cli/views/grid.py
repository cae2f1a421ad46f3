"""Computes the cells of the grid: a row a table, a column a span of time, in each the loudest state."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from waterclock.cli.views.theme import State, state_of, worst
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Table
from waterclock.planner.label_states import LabelState
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


def newest_span(tables: Sequence[Table], by: Cadence, now: datetime, count: int) -> tuple[datetime, datetime]:
    """Return the span `[low, high)` of the newest `count` columns up to the newest label that is due."""
    newest = max((_newest_label(table, now) for table in tables), default=now)
    high = by.next(_column(newest, by, by))
    return by.shift(high, -count), high


def make_grid(
    flow: Flow,
    states: Mapping[str, Iterable[LabelState]],
    by: Cadence,
    span: tuple[datetime, datetime],
    warned: Container[tuple[str, datetime]] = frozenset(),
) -> Grid:
    """Sort the states of labels into columns between `span`'s ends, tables in the flow's order by schema.

    `warned`: which done labels had warnings.
    """
    columns = tuple(window.start for window in by.windows(*span))
    place = {column: at for at, column in enumerate(columns)}
    rows = []
    for name in _by_schema(flow, states):
        sorted_in: list[list[State]] = [[] for _ in columns]
        for one in states[name]:
            at = place.get(_column(one.label, flow.tables[name].cadence, by))
            if at is not None:
                sorted_in[at].append(_state(one, is_warned=(name, one.label) in warned))
        rows.append(Row(name, tuple(_cell(found) for found in sorted_in)))
    return Grid(by, columns, tuple(rows))


def padded(span: tuple[datetime, datetime]) -> tuple[datetime, datetime]:
    """Widen a span so that labels of every zone that fall on its dates are in it."""
    return span[0] - timedelta(days=1), span[1] + timedelta(days=1)


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


def _column(label: datetime, cadence: Cadence, by: Cadence) -> datetime:
    """Return the start of the column that a label belongs to: by its local date, where its windows are days or more."""
    if cadence.zone == by.zone or cadence.period.unit is TimeUnit.MINUTE or by.period.unit is TimeUnit.MINUTE:
        return by.floor(label)
    local = label.astimezone(nominal_zone(cadence.zone)).replace(tzinfo=None)
    return by.floor(resolve_local(local, by.zone))


def _state(one: LabelState, *, is_warned: bool) -> State:
    state = state_of(one.status)
    return State.WARNED if is_warned and state is State.OK else state


def _cell(states: Sequence[State]) -> GridCell | None:
    if not states:
        return None
    loudest = worst(states)
    return GridCell(loudest, states.count(loudest), len(states))


def _by_schema(flow: Flow, names: Iterable[str]) -> list[str]:
    """Order tables upstream first, those of a schema together; a schema comes where its first table does."""
    order = {name: at for at, name in enumerate(flow.order or tuple(flow.tables))}
    wanted = sorted(names, key=order.__getitem__)
    first: dict[str, int] = {}
    for name in wanted:
        first.setdefault(_schema(name), order[name])
    return sorted(wanted, key=lambda name: (first[_schema(name)], order[name]))


def _schema(name: str) -> str:
    return name.partition(".")[0]
