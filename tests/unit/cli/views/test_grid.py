from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.model.flows import collect, snapshot
from waterclock.cli.views.grid import column_cadence, make_grid, newest_span
from waterclock.cli.views.theme import State
from waterclock.flow.declarations import Flow, Table
from waterclock.planner.label_states import LabelState
from waterclock.planner.plan import Status
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.period import parse_period

NEW_YORK, TOKYO = "America/New_York", "Asia/Tokyo"
NOW = datetime(2013, 1, 10, 12, tzinfo=UTC)


def flow_of(*tables: Table) -> Flow:
    return Flow(
        project="x", tables={table.name: table for table in tables}, order=tuple(table.name for table in tables)
    )


def all_in(status: Status, table: Table, now: datetime = NOW) -> list[LabelState]:
    windows = table.cadence.windows(now - timedelta(days=20), table.cadence.last_due(now))
    return [LabelState(window.start, status) for window in windows]


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


def test_the_span_ends_with_the_newest_due_label_and_has_the_columns_asked_for() -> None:
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
    grid = make_grid(flow_of(hourly), {"raw.weather": states}, by, newest_span([hourly], by, NOW, 3))
    found = [(cell.state, cell.count, cell.of) for cell in grid.rows[0].cells if cell]
    assert found == [(State.FAILED, 1, 24), (State.OK, 24, 24), (State.OK, 7, 7)]


def test_a_day_of_another_zone_stands_under_its_own_date() -> None:
    tokyo = collect("jp.sales", zone=TOKYO)
    by = Cadence(parse_period("DAY"))
    label = datetime(2013, 1, 8, 15, tzinfo=UTC)  # 9 January in Tokyo
    span = (datetime(2013, 1, 8, tzinfo=UTC), datetime(2013, 1, 10, tzinfo=UTC))
    grid = make_grid(flow_of(tokyo), {"jp.sales": [LabelState(label, Status.DONE)]}, by, span)
    assert [cell is not None for cell in grid.rows[0].cells] == [False, True]


def test_a_change_of_clock_leaves_each_day_one_column() -> None:
    daily = snapshot("a.b", zone=NEW_YORK)
    now = datetime(2013, 3, 12, 12, tzinfo=UTC)  # the clock went forward on the 10th
    by = Cadence(parse_period("DAY"), zone=NEW_YORK)
    grid = make_grid(flow_of(daily), {"a.b": all_in(Status.DONE, daily, now)}, by, newest_span([daily], by, now, 4))
    assert len(grid.columns) == 4
    assert all(cell is not None and cell.of == 1 for cell in grid.rows[0].cells)


def test_only_done_labels_are_warned() -> None:
    daily = collect("a.b")
    by = Cadence(parse_period("DAY"))
    labels = [datetime(2013, 1, day, tzinfo=UTC) for day in (8, 9)]
    states = [LabelState(labels[0], Status.DONE), LabelState(labels[1], Status.FAILED)]
    warned = {("a.b", label) for label in labels}
    grid = make_grid(flow_of(daily), {"a.b": states}, by, (labels[0], labels[1] + timedelta(days=1)), warned)
    assert [cell.state for cell in grid.rows[0].cells if cell] == [State.WARNED, State.FAILED]


def test_the_newest_columns_are_kept_where_not_all_fit() -> None:
    daily = collect("a.b")
    by = Cadence(parse_period("DAY"))
    grid = make_grid(flow_of(daily), {"a.b": all_in(Status.DONE, daily)}, by, newest_span([daily], by, NOW, 8))
    assert grid.latest(2).columns == grid.columns[-2:]
    assert len(grid.latest(2).rows[0].cells) == 2
    assert grid.latest(99) is grid
