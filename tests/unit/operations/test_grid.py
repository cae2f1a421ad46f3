from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tests.model.flows import collect, snapshot
from waterclock.flow.declarations import Flow, Table
from waterclock.operations.display_states import State
from waterclock.operations.grid import Grid, bounds, column_cadence, fitting_cadence, make_grid, newest_span
from waterclock.planner.label_states import LabelState, SpanStates
from waterclock.planner.plan import Status
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.period import parse_period
from waterclock.timelabel.zone import nominal_zone, resolve_local

NEW_YORK, TOKYO = "America/New_York", "Asia/Tokyo"
NOW = datetime(2013, 1, 10, 12, tzinfo=UTC)


def flow_of(*tables: Table) -> Flow:
    return Flow(
        project="x", tables={table.name: table for table in tables}, order=tuple(table.name for table in tables)
    )


def all_in(status: Status, table: Table, now: datetime = NOW) -> list[LabelState]:
    windows = table.cadence.windows(now - timedelta(days=20), table.cadence.last_due(now))
    return [LabelState(window.start, status) for window in windows]


def grid_of(
    table: Table,
    states: Iterable[LabelState],
    by: Cadence,
    span: tuple[datetime, datetime],
    warned: Container[tuple[str, datetime]] = (),
) -> Grid:
    """Return a grid with each state listed separately."""
    told = [
        SpanStates(tuple(one for one in states if low <= one.label < high))
        for low, high in pairwise(bounds(by, span, table.cadence))
    ]
    columns = [window.start for window in by.windows(*span)]
    return make_grid(flow_of(table), {table.name: told}, by, columns, warned)


@pytest.mark.parametrize(
    ("periods", "expected"),
    [
        (["DAY", "HOUR"], "DAY"),
        (["HOUR", "15 MINUTES"], "HOUR"),
        (["WEEK"], "WEEK"),
        (["MONTH", "WEEK"], "WEEK"),
        (["MONTH", "HOUR"], "HOUR"),
        ([], "DAY"),
    ],
)
def test_a_column_is_the_longest_window_up_to_a_day(periods: list[str], expected: str) -> None:
    tables = [collect(f"a.t{at}", period) for at, period in enumerate(periods)]
    assert column_cadence(tables, "UTC").period == parse_period(expected)


def test_the_span_ends_with_the_newest_due_label_and_has_the_requested_columns() -> None:
    by = Cadence(parse_period("DAY"))
    assert newest_span([collect("a.a")], by, NOW, 3) == (
        datetime(2013, 1, 7, tzinfo=UTC),
        datetime(2013, 1, 10, tzinfo=UTC),
    )


def test_hours_of_a_day_share_a_cell_with_the_loudest_of_them() -> None:
    hourly = collect("raw.weather", "HOUR", zone=NEW_YORK)
    states = all_in(Status.DONE, hourly)
    bad = next(at for at, one in enumerate(states) if one.label == datetime(2013, 1, 8, 5, tzinfo=UTC))
    states[bad] = LabelState(states[bad].label, Status.FAILED)
    by = Cadence(parse_period("DAY"), zone=NEW_YORK)
    grid = grid_of(hourly, states, by, newest_span([hourly], by, NOW, 3))
    found = [(cell.state, cell.count, cell.of) for cell in grid.rows[0].cells if cell]
    assert found == [(State.FAILED, 1, 24), (State.OK, 24, 24), (State.OK, 7, 7)]


def test_a_day_of_another_zone_is_in_the_column_of_its_own_date() -> None:
    tokyo = collect("jp.sales", zone=TOKYO)
    by = Cadence(parse_period("DAY"))
    label = datetime(2013, 1, 8, 15, tzinfo=UTC)  # 9 January in Tokyo
    span = (datetime(2013, 1, 8, tzinfo=UTC), datetime(2013, 1, 10, tzinfo=UTC))
    grid = grid_of(tokyo, [LabelState(label, Status.DONE)], by, span)
    assert [cell is not None for cell in grid.rows[0].cells] == [False, True]


def test_a_change_of_clock_leaves_each_day_one_column() -> None:
    daily = snapshot("a.b", zone=NEW_YORK)
    now = datetime(2013, 3, 12, 12, tzinfo=UTC)  # the clock went forward on the 10th
    by = Cadence(parse_period("DAY"), zone=NEW_YORK)
    grid = grid_of(daily, all_in(Status.DONE, daily, now), by, newest_span([daily], by, now, 4))
    assert len(grid.columns) == 4
    assert all(cell is not None and cell.of == 1 for cell in grid.rows[0].cells)


def test_only_done_labels_are_warned() -> None:
    daily = collect("a.b")
    by = Cadence(parse_period("DAY"))
    labels = [datetime(2013, 1, day, tzinfo=UTC) for day in (8, 9)]
    states = [LabelState(labels[0], Status.DONE), LabelState(labels[1], Status.FAILED)]
    warned = {("a.b", label) for label in labels}
    grid = grid_of(daily, states, by, (labels[0], labels[1] + timedelta(days=1)), warned)
    assert [cell.state for cell in grid.rows[0].cells if cell] == [State.WARNED, State.FAILED]


def test_the_newest_columns_are_kept_where_not_all_fit() -> None:
    daily = collect("a.b")
    by = Cadence(parse_period("DAY"))
    grid = grid_of(daily, all_in(Status.DONE, daily), by, newest_span([daily], by, NOW, 8))
    assert grid.latest(2).columns == grid.columns[-2:]
    assert len(grid.latest(2).rows[0].cells) == 2
    assert grid.latest(99) is grid


def test_counted_states_and_individual_states_are_added_up() -> None:
    daily = collect("a.b")
    by, labels = Cadence(parse_period("DAY")), [datetime(2013, 1, day, tzinfo=UTC) for day in (8, 9)]
    told = (LabelState(labels[0], Status.DONE), LabelState(labels[1], Status.DONE))
    found = SpanStates(told, {Status.DONE: 3, Status.NOT_NEEDED: 2})
    grid = make_grid(flow_of(daily), {"a.b": [found, SpanStates()]}, by, labels, {("a.b", labels[1])})
    first, second = grid.rows[0].cells
    assert first is not None
    assert (first.state, first.count, first.of) == (State.WARNED, 1, 7)
    assert second is None


@pytest.mark.parametrize(
    ("days", "expected"), [(10, "DAY"), (40, "DAY"), (41, "WEEK"), (280, "MONTH"), (1300, "QUARTER"), (9999, "YEAR")]
)
def test_the_column_width_grows_with_the_span(days: int, expected: str) -> None:
    by = Cadence(parse_period("DAY"), zone=NEW_YORK)
    end = by.floor(NOW)
    found = fitting_cadence(by, (by.shift(end, -days), end), 40)
    assert (found.period, found.zone) == (parse_period(expected), NEW_YORK)


def test_columns_that_are_longer_already_stay() -> None:
    by = Cadence(parse_period("MONTH"))
    assert fitting_cadence(by, (datetime(2012, 1, 1, tzinfo=UTC), datetime(2013, 1, 1, tzinfo=UTC)), 12) == by


@pytest.mark.parametrize("zone", ["UTC", NEW_YORK, TOKYO, "Pacific/Apia", "America/Sao_Paulo"])
@pytest.mark.parametrize("period", ["HOUR", "DAY", "WEEK", "MONTH"])
@pytest.mark.parametrize("column", ["HOUR", "DAY", "WEEK", "MONTH"])
def test_a_label_is_in_the_column_of_its_local_date(zone: str, period: str, column: str) -> None:
    by, table = Cadence(parse_period(column), zone=NEW_YORK), collect("a.b", period, zone=zone).cadence
    span = by.floor(datetime(2011, 12, 1, tzinfo=UTC)), by.ceil(datetime(2012, 1, 10, tzinfo=UTC))
    edges = bounds(by, span, table)
    columns = [window.start for window in by.windows(*span)]
    assert len(edges) == len(columns) + 1
    for window in table.windows(span[0] + timedelta(days=2), span[1] - timedelta(days=2)):
        local = window.start.astimezone(nominal_zone(zone)).replace(tzinfo=None)
        is_dated = zone != NEW_YORK and "HOUR" not in (period, column)
        wanted = by.floor(resolve_local(local, NEW_YORK) if is_dated else window.start)
        assert columns[bisect_right(edges, window.start) - 1] == wanted
