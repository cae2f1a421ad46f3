"""Collects the data of `status`: the grid, a plan of the same instant, and problems that need a user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.cli.views.grid_drawing import (
    count_fitting_columns,
    fit_grid,
)
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.operations.closings import OpenBooks, open_books
from waterclock.operations.deadlines import NO_DEADLINES, Deadlines, deadlines
from waterclock.operations.grid import Grid, column_cadence, fitting_cadence, newest_span, parse_columns
from waterclock.operations.held_restatements import RestatementCost, cost_of_held
from waterclock.operations.lag import Lag, lags
from waterclock.operations.lookback_report import read_last_lookbacks
from waterclock.operations.offline_status import OfflineTableStatus, list_offline_states
from waterclock.operations.open_windows import OpenWindows, open_windows
from waterclock.operations.project_grid import project_grid, span_of_labels, span_since_start, zone_of_columns
from waterclock.operations.project_opening import OpenedProject, select_tables
from waterclock.operations.retained_logs import TableLog, list_held_logs
from waterclock.operations.silent_sources import NO_SILENCE, SilentCollects, find_silent_collects
from waterclock.operations.source_waits import SourceWait, source_waits
from waterclock.operations.waiting_files import find_waiting_files
from waterclock.planner.plan import Plan
from waterclock.planner.request import PlanRequest
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.period import TimeUnit

if TYPE_CHECKING:
    from waterclock.connectors.interface import PendingData
    from waterclock.ledger.read.clock import ClockBack


_DEFAULT_COLUMNS = 80  # the number of columns to compute if no grid is drawn


_NARROWEST_CELL = 3  # the width of a cell without a count


@dataclass(frozen=True, slots=True)
class StatusInput:
    """The data of `status`: a grid, a plan of the same instant, and problems.

    `is_asked` is true if the user selected the range of labels. Otherwise it is the newest one that fits.
    """

    grid: Grid
    plan: Plan
    now: datetime
    env: str
    is_asked: bool = False
    lookbacks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    open: Mapping[str, OpenBooks] = field(default_factory=dict)
    open_windows: Mapping[str, OpenWindows] = field(default_factory=dict)
    deadlines: Deadlines = NO_DEADLINES
    lags: Sequence[Lag] | None = None
    silent: SilentCollects = NO_SILENCE
    offline: tuple[OfflineTableStatus, ...] = ()
    received: Mapping[str, PendingData] = field(default_factory=dict)
    held: Sequence[TableLog] = ()
    waits: Sequence[SourceWait] = ()
    clock: ClockBack | None = None
    held_restatements: Mapping[str, RestatementCost] = field(default_factory=dict)


def collect_status_input(
    at: OpenedProject, selection: list[str] | None, labels: str | None, by: str | None, width: int, *, is_drawn: bool
) -> StatusInput:
    """Collect the data of `status` for the selected labels, or without labels for the newest that fit in `width`.

    `by` is the period that a column covers. Without it, the period is long enough for all selected labels to fit.
    """
    found, by_table = select_tables(at.flow, selection, labels)
    tables = [at.flow.tables[name] for name in found.tables]
    zone = zone_of_columns(tables, at.zone)
    cadence = column_cadence(tables, zone) if by is None else parse_columns(by, zone)
    span = span_of_labels(by_table.values(), cadence, tables, at.now)
    is_asked = span is not None
    most = count_fitting_columns(width, list(found.tables), _NARROWEST_CELL)
    if span is None:
        span = newest_span(tables, cadence, at.now, most)
        span = span_since_start(at, found.tables, cadence, span)
    elif is_drawn and by is None:
        return _collect_span(at, tables, cadence, span, most, width)
    return _collect_status(at, tables, project_grid(at, tables, cadence, span), is_asked=is_asked)


def collect_lag(at: OpenedProject, selection: list[str] | None, labels: str | None, by: str | None) -> StatusInput:
    """Collect the data of `status --lag`. Raises E919 for selected labels or columns, which it does not support."""
    data = collect_status_input(at, selection, None, None, _DEFAULT_COLUMNS, is_drawn=False)
    found, by_table = select_tables(at.flow, selection, labels)
    if by is not None or by_table:
        raise WaterclockError(
            "E919",
            "--lag measures all labels up to now",
            why="it uses the newest labels and the due ones",
            fix="remove --by, --labels and @",
        )
    return replace(data, lags=lags(at, found.tables))


def _collect_span(
    at: OpenedProject, tables: Sequence[Table], cadence: Cadence, span: tuple[datetime, datetime], most: int, width: int
) -> StatusInput:
    """Collect a whole span of labels. The period of a column is long enough for the grid to fit in `width`.

    `most` is the first estimate of the number of columns; counts in cells may reduce it.
    """
    while True:
        cadence = fitting_cadence(cadence, span, most)
        grid = project_grid(at, tables, cadence, (cadence.floor(span[0]), cadence.ceil(span[1])))
        most = len(fit_grid(grid, width).columns)
        if most == len(grid.columns) or cadence.period.unit is TimeUnit.YEAR:
            return _collect_status(at, tables, grid, is_asked=True)


def _collect_status(at: OpenedProject, tables: Sequence[Table], grid: Grid, *, is_asked: bool) -> StatusInput:
    names = [table.name for table in tables]
    plan = at.planner.plan(at.snapshot, at.now, PlanRequest(only=names))
    waits = open_books(plan, at.flow), open_windows(at, names), deadlines(at, names)
    lookbacks, quiet = read_last_lookbacks(at, names), find_silent_collects(at, names)
    offline, received = list_offline_states(at, names), find_waiting_files(at, names)
    clock = None if at.ledger is None else at.ledger.reads.measure_clock_lag()
    data = StatusInput(grid, plan, at.now, at.project.env, is_asked, lookbacks, *waits, silent=quiet, clock=clock)
    return replace(
        data,
        offline=offline,
        received=received,
        held=list_held_logs(at, names),
        waits=source_waits(at, plan),
        held_restatements=cost_of_held(at, plan),
    )
