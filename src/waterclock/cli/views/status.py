"""Collects and prints the output of `status`: the grid, problems, and the next due window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.text import Text

from waterclock.batches.audit_trail import Settled
from waterclock.batches.facts import BEGINNING, FOREVER
from waterclock.cli.views.behind import print_behind
from waterclock.cli.views.grid_drawing import (
    column_words,
    count_fitting_columns,
    fit_grid,
    grid_parts,
    now_line,
    print_grid,
)
from waterclock.cli.views.lag import print_lags
from waterclock.cli.views.open_books import print_open
from waterclock.cli.views.partial import print_partial
from waterclock.cli.views.plan import (
    next_due_words,
    print_looks,
    print_pauses,
    print_received,
    print_refused,
    print_waits,
    summary_words,
)
from waterclock.cli.views.theme import LOOKS, sign
from waterclock.cli.views.watching import print_deadlines, print_held, print_offline, print_silences
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.operations.blockers import blockers
from waterclock.operations.closings import OpenBooks, open_books
from waterclock.operations.deadlines import NO_DEADLINES, Deadlines, deadlines
from waterclock.operations.grid import Grid, bounds, column_cadence, make_grid, newest_span, parse_columns, wider
from waterclock.operations.held_batches import ways_on
from waterclock.operations.held_logs import HeldLog
from waterclock.operations.held_now import list_held_logs
from waterclock.operations.lag import Lag, lags
from waterclock.operations.looks import last_looks, looks_json
from waterclock.operations.offline import OfflineStand, offline_stands
from waterclock.operations.open_windows import OpenWindows, open_windows
from waterclock.operations.opening import OpenedProject, select_tables
from waterclock.operations.received import find_waiting_files
from waterclock.operations.silence import NO_SILENCE, Silent, silent
from waterclock.operations.source_waits import SourceWait, count_waiting, source_waits
from waterclock.operations.states import State
from waterclock.operations.words import count_words, likeness
from waterclock.planner.label_states import count_states
from waterclock.planner.plan import Batch, Plan, Status
from waterclock.planner.request import PlanRequest
from waterclock.selection import Labels
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.period import TimeUnit

if TYPE_CHECKING:
    from rich.console import Console

    from waterclock.answers.status import StatusAnswer
    from waterclock.connectors.interface import Waiting
    from waterclock.ledger.read.clock import ClockBack

_WIDE = 80  # the number of columns to compute if no grid is drawn
_NARROWEST = 3  # the width of a cell without a count
_MOST_PROBLEMS = 5


@dataclass(frozen=True, slots=True)
class StatusInput:
    """A grid, and the plan of the same instant. `is_asked`: a user selected its span; otherwise it is the newest."""

    grid: Grid
    plan: Plan
    now: datetime
    env: str
    is_asked: bool = False
    looks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    open: Mapping[str, OpenBooks] = field(default_factory=dict)
    open_windows: Mapping[str, OpenWindows] = field(default_factory=dict)
    deadlines: Deadlines = NO_DEADLINES
    lags: Sequence[Lag] | None = None
    silent: Silent = NO_SILENCE
    offline: tuple[OfflineStand, ...] = ()
    received: Mapping[str, Waiting] = field(default_factory=dict)
    held: Sequence[HeldLog] = ()
    waits: Sequence[SourceWait] = ()
    clock: ClockBack | None = None


def see(
    at: OpenedProject, selection: list[str] | None, labels: str | None, by: str | None, width: int, *, is_drawn: bool
) -> StatusInput:
    """Collect the selected labels, or the newest that fit the width.

    If selected labels are drawn and do not fit, the columns become wider, unless `by` sets their period.
    """
    found, by_table = select_tables(at.flow, selection, labels)
    tables = [at.flow.tables[name] for name in found.tables]
    zone = _zone(tables, at.zone)
    cadence = column_cadence(tables, zone) if by is None else parse_columns(by, zone)
    span = _resolve_span(by_table.values(), cadence, tables, at.now)
    is_asked = span is not None
    most = count_fitting_columns(width, list(found.tables), _NARROWEST)
    if span is None:
        span = newest_span(tables, cadence, at.now, most)
        span = _since_start(at, found.tables, cadence, span)
    elif is_drawn and by is None:
        return _collect_span(at, tables, cadence, span, most, width)
    return _collect_status(at, tables, _grid(at, tables, cadence, span), is_asked=is_asked)


def behind(at: OpenedProject, selection: list[str] | None, labels: str | None, by: str | None) -> StatusInput:
    """Collect how far tables are behind, in addition to their newest labels.

    Raises  E919 where some labels or columns are selected
    """
    seen = see(at, selection, None, None, _WIDE, is_drawn=False)
    found, by_table = select_tables(at.flow, selection, labels)
    if by is not None or by_table:
        raise WaterclockError(
            "E919",
            "--lag tells of all labels up to now",
            why="it looks at the newest ones, and at what is due",
            fix="leave --by, --labels and @ out",
        )
    return replace(seen, lags=lags(at, found.tables))


def _collect_span(
    at: OpenedProject, tables: Sequence[Table], cadence: Cadence, span: tuple[datetime, datetime], most: int, width: int
) -> StatusInput:
    """Collect a whole span in columns as wide as needed. Counts may make the columns wider than `most` assumes."""
    while True:
        cadence = wider(cadence, span, most)
        grid = _grid(at, tables, cadence, (cadence.floor(span[0]), cadence.ceil(span[1])))
        most = len(fit_grid(grid, width).columns)
        if most == len(grid.columns) or cadence.period.unit is TimeUnit.YEAR:
            return _collect_status(at, tables, grid, is_asked=True)


def _collect_status(at: OpenedProject, tables: Sequence[Table], grid: Grid, *, is_asked: bool) -> StatusInput:
    names = [table.name for table in tables]
    plan = at.planner.plan(at.snapshot, at.now, PlanRequest(only=names))
    told = open_books(plan, at.flow), open_windows(at, names), deadlines(at, names)
    looks, quiet = last_looks(at, names), silent(at, names)
    offline, came = offline_stands(at, names), find_waiting_files(at, names)
    clock = None if at.ledger is None else at.ledger.reads.clock_back()
    seen = StatusInput(grid, plan, at.now, at.project.env, is_asked, looks, *told, silent=quiet, clock=clock)
    return replace(seen, offline=offline, received=came, held=list_held_logs(at, names), waits=source_waits(at, plan))


def _grid(at: OpenedProject, tables: Sequence[Table], cadence: Cadence, span: tuple[datetime, datetime]) -> Grid:
    columns = [window.start for window in cadence.windows(*span)]
    of_cadence = {each: bounds(cadence, span, each) for each in {table.cadence for table in tables}}
    edges = {table.name: of_cadence[table.cadence] for table in tables if columns}
    settled, warned = Settled(), {}
    if at.ledger is not None and edges:
        wide = min(each[0] for each in edges.values()), max(each[-1] for each in edges.values())
        settled, warned = (
            at.ledger.past.settled_labels(list(edges), *wide),
            at.ledger.past.row_warnings(list(edges), *wide),
        )
    apart: dict[str, list[datetime]] = {}
    for name, label in warned:
        apart.setdefault(name, []).append(label)
    states = count_states(at.planner, at.snapshot, at.now, settled, edges, apart=apart) if edges else {}
    return make_grid(at.flow, states, cadence, columns, warned)


def print_status(to: Console, seen: StatusInput, zone: str) -> None:
    """Print the grid, the problems that need a user, and the next due window."""
    shown = fit_grid(seen.grid, to.width)
    to.print(now_line(seen.now, column_words(shown)), soft_wrap=True)
    to.print()
    print_grid(to, shown)
    if seen.is_asked and (hidden := len(seen.grid.columns) - len(shown.columns)):
        to.print(Text(f"{count_words(hidden, 'older column')} for which the line is too short", style="quiet"))
    to.print()
    _print_problems(to, seen.plan)
    print_deadlines(to, seen.deadlines)
    print_silences(to, seen.silent)
    if seen.plan.behind:
        print_behind(to, seen.plan.behind)
        to.print()
    print_partial(to, seen.plan)
    print_open(to, seen.open)
    print_refused(to, seen.plan)
    print_pauses(to, seen.plan, zone)
    print_looks(to, seen.looks)
    print_received(to, seen.received)
    print_held(to, seen.held)
    _print_open_windows(to, seen.open_windows)
    print_offline(to, seen.offline)
    _print_summary(to, seen, zone)


def print_behind_now(to: Console, seen: StatusInput, zone: str) -> None:
    """Print how far tables are behind, what blocks them, and the next due window."""
    print_lags(to, seen.lags or (), seen.now)
    _print_problems(to, seen.plan)
    print_deadlines(to, seen.deadlines)
    print_silences(to, seen.silent)
    print_refused(to, seen.plan)
    print_pauses(to, seen.plan, zone)
    _print_summary(to, seen, zone)


def _print_summary(to: Console, seen: StatusInput, zone: str) -> None:
    if seen.clock is not None:
        look = LOOKS[State.WARNED]
        to.print(Text.assemble((f"{sign(State.WARNED, to)} ", look.style), seen.clock.words()), soft_wrap=True)
    print_waits(to, seen.waits)
    summary = summary_words(seen.plan, at_source=count_waiting(seen.plan, seen.waits))
    to.print(Text(f"{summary}; {next_due_words(seen.plan, zone)}"), soft_wrap=True)


def _print_open_windows(to: Console, found: Mapping[str, OpenWindows]) -> None:
    for name, windows in found.items():
        to.print(Text(f"{name}: {windows.words()}", style="quiet"), soft_wrap=True)
    if found:
        to.print()


def status_answer(seen: StatusInput) -> StatusAnswer:
    """Return the grid with the counts of the plan."""
    from waterclock.answers.status import StatusAnswer

    counts: dict[str, int] = {}
    for batch in seen.plan.batches:
        counts[batch.status.value] = counts.get(batch.status.value, 0) + 1
    told = seen.plan.to_dict()
    return StatusAnswer.build(
        env=seen.env,
        now=seen.now,
        next_due=seen.plan.next_due,
        due=counts,
        **{key: told[key] for key in ("behind", "paused", "paused_all", "partial", "refused")},
        looked=looks_json(seen.looks),
        received=seen.received,
        kept_at_sources=seen.held,
        waits_for_source=seen.waits,
        open=seen.open,
        open_windows=seen.open_windows,
        deadlines=seen.deadlines.found,
        silent=seen.silent.found,
        offline=[stand.to_answer() for stand in seen.offline],
        clock_back=seen.clock,
        lag=seen.lags,
        **grid_parts(seen.grid),
    )


def _print_problems(to: Console, plan: Plan) -> None:
    """Print the failed, held and expired batches with the number of batches they block: root causes only."""
    blocks = {(table, label): count for table, label, _, count in blockers(plan.batches)}
    troubled: dict[tuple[str, ...], list[Batch]] = {}
    for batch in plan.batches:
        if batch.status in {Status.FAILED, Status.HELD, Status.EXPIRED}:
            troubled.setdefault((batch.table, batch.status.value, likeness(batch.reason)), []).append(batch)
    for batch, *alike in list(troubled.values())[:_MOST_PROBLEMS]:
        state = State(batch.status.value)
        count = sum(blocks.get((each.table, each.label), 0) for each in (batch, *alike))
        tail = f" (blocks {count_words(count, 'batch', 'batches')})" if count else ""
        to.print(
            Text.assemble(
                (f"{sign(state, to)} ", LOOKS[state].style),
                (f"{batch.table}@{batch.window.label}", "name"),
                f" {batch.status}: {batch.reason}{tail}",
            ),
            soft_wrap=True,
        )
        if alike:
            shown = ", ".join(each.window.label for each in alike[:_MOST_PROBLEMS])
            more = f" and {len(alike) - _MOST_PROBLEMS} more" if len(alike) > _MOST_PROBLEMS else ""
            to.print(Text(f"  and the same of {shown}{more}", style="quiet"), soft_wrap=True)
        if batch.status is Status.HELD:
            last = max(each.window.label for each in (batch, *alike))
            ways = ways_on(batch.table, batch.window.label, last, is_outdated=batch.is_outdated)
            to.print(Text(f"  {ways}", style="quiet"), soft_wrap=True)
    if rest := sum(map(len, list(troubled.values())[_MOST_PROBLEMS:])):
        to.print(Text(f"  and {rest} more: waterclock plan", style="quiet"))
    if troubled:
        to.print()


def _zone(tables: Sequence[Table], usual: str) -> str:
    zones = {table.cadence.zone for table in tables}
    return usual if usual in zones or not zones else min(zones)


def _resolve_span(
    labels: Sequence[Labels] | Any, cadence: Cadence, tables: Sequence[Table], now: datetime
) -> tuple[datetime, datetime] | None:
    """Return the span of columns that covers all selected labels. An open end is START or the newest label due."""
    bounds = [each.bounds(cadence) for each in labels]
    if not bounds:
        return None
    newest = newest_span(tables, cadence, now, 1)[1]
    begins = [cadence.floor(table.start) for table in tables if table.start is not None]
    low = min((low or min(begins, default=newest) for low, _ in bounds), default=newest)
    high = max((high or newest for _, high in bounds), default=newest)
    return cadence.floor(max(low, BEGINNING)), cadence.ceil(min(high, FOREVER))


def _since_start(
    at: OpenedProject, names: Sequence[str], cadence: Cadence, span: tuple[datetime, datetime]
) -> tuple[datetime, datetime]:
    """Leave out the columns before the first table starts."""
    starts = at.planner.starts(at.snapshot, at.now)
    first = cadence.floor(min((starts[name] for name in names), default=span[0]))
    return (max(span[0], first), span[1]) if first < span[1] else span
