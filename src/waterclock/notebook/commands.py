"""`wc.query`, `wc.run`, `wc.plan`, `wc.status`, `wc.diff` and `wc.check`: commands as Python functions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from waterclock.cli.actions.access import record_query
from waterclock.cli.actions.diff import DiffOptions, compare_environments, explain_environments
from waterclock.cli.actions.plan import PlanDetails, plan_selection
from waterclock.cli.actions.run import RunOptions, execute_run
from waterclock.cli.project_folder import project_folder
from waterclock.cli.views.check import CheckOutcome, check_project, print_checked
from waterclock.cli.views.run import RunReport
from waterclock.cli.views.status import print_lag, print_status, status_answer
from waterclock.cli.views.status_input import StatusInput, collect_lag, collect_status_input
from waterclock.cli.views.theme import console
from waterclock.engine.query.notebook import sessions_to_keep
from waterclock.engine.query.table_comparison import MOST_ROWS, ComparisonOptions
from waterclock.errors import WaterclockError
from waterclock.notebook.results import WIDTH, CommandResult, DiffResult, QueryResult, WhyResult
from waterclock.operations.project_opening import open_project, open_read_only, select_batches
from waterclock.operations.query_results import answer_query
from waterclock.timelabel.instant import utc_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from waterclock.engine.run_outcome import RunOutcome
    from waterclock.flow.declarations import Flow
    from waterclock.operations.lag import Lag
    from waterclock.planner.plan import Plan

Instant = str | datetime
Folder = str | Path | None


@dataclass(frozen=True, slots=True, repr=False)
class RunResult(CommandResult):
    """The result of a run. It is true if no batch failed, and none remains failed or held."""

    ran: RunReport

    @property
    def outcome(self) -> RunOutcome:
        """The done batches and rows, the failures with their errors, and the plan of the remaining batches."""
        return self.ran.outcome

    def __bool__(self) -> bool:
        return self.ran.outcome.is_clean

    def draw(self, to: Console) -> None:
        """Print errors, the batches they block, and a summary line."""
        self.ran.draw(to)

    def to_json(self) -> dict[str, Any]:
        """Return counts, errors and the remaining batches."""
        return self.ran.to_json()


@dataclass(frozen=True, slots=True, repr=False)
class PlanResult(CommandResult):
    """The plan: the batches that are due, and those that wait, with the reason."""

    planned: PlanDetails

    @property
    def plan(self) -> Plan:
        """The batches, with status and reason."""
        return self.planned.plan

    def draw(self, to: Console) -> None:
        """Print the plan, by table and oldest first."""
        self.planned.draw(to)

    def to_json(self) -> dict[str, Any]:
        """Return the plan with counts by status."""
        return self.planned.to_answer().to_json()


@dataclass(frozen=True, slots=True, repr=False)
class StatusResult(CommandResult):
    """The grid of tables and timelabels, or the lag of each table."""

    data: StatusInput
    zone: str

    @property
    def lags(self) -> Sequence[Lag]:
        """The lag of each table, if it was requested."""
        return self.data.lags or ()

    def draw(self, to: Console) -> None:
        """Print the grid or the lag, the batches that need action, and the next ones."""
        show = print_status if self.data.lags is None else print_lag
        show(to, self.data, self.zone)

    def to_json(self) -> dict[str, Any]:
        """Return the grid with the counts of the plan."""
        return status_answer(self.data).to_json()


@dataclass(frozen=True, slots=True, repr=False)
class CheckResult(CommandResult):
    """The errors and warnings of a project. It is true if there are no errors."""

    found: CheckOutcome

    @property
    def errors(self) -> tuple[WaterclockError, ...]:
        """All errors, in the order of their places."""
        return self.found.errors

    @property
    def warnings(self) -> tuple[WaterclockError, ...]:
        """Warnings about valid code that may be a mistake."""
        return self.found.warnings

    @property
    def flow(self) -> Flow | None:
        """The checked flow, or None if there are errors."""
        return self.found.flow

    def __bool__(self) -> bool:
        return not self.found.errors

    def draw(self, to: Console) -> None:
        """Print every error and warning, and a summary line."""
        print_checked(to, self.found)

    def to_json(self) -> dict[str, Any]:
        """Return the errors, and the number of tables of each kind."""
        return self.found.to_json()


def query(
    sql: str,
    *,
    as_of: Instant | None = None,
    known_at: Instant | None = None,
    partial: bool = False,
    limit: int = 100,
    project: Folder = None,
    env: str | None = None,
) -> QueryResult:
    """Query the tables, now or as of a tick, and the status tables in Spark SQL: `waterclock query`.

    The function uses the existing Spark session, or starts one and leaves it open. `wc.resolve` returns a table as a
    DataFrame. If the project declares users, the query is recorded before it runs.

    Args:
        sql: The query.
        as_of: The tick: an instant, a timelabel, `table@label` or `latest`. A text without an offset is in the
            project's zone; a datetime must have a zone.
        known_at: An instant; revisions that were committed later do not count. It requires `as_of`.
        partial: True answers without missing labels, and lists them. It requires `as_of`.
        limit: The maximum number of rows to fetch.
        project: The project's folder; without it, the current one or the nearest above that contains a project.
        env: The environment in `waterclock.toml`; without it, the project's default.

    Returns:
        The rows, their columns and types.

    Raises:
        ProjectErrors: The project or the query has errors.
        WaterclockError: Any other error of `waterclock query`.

    Example:
        >>> wc.query("SELECT count(*) AS orders, sum(amount) AS amount FROM raw.orders").rows
        ((3, 60),)
        >>> wc.query("SELECT count(*) FROM raw.orders", as_of="2026-01-03").rows
        ((2,),)
    """
    if as_of is None and (known_at is not None or partial):
        raise TypeError(f"{'partial' if partial else 'known_at'} goes with as_of, as in as_of='latest'")
    loaded = open_project(project_folder(project), env)
    record_query(loaded, sql)
    sessions = sessions_to_keep(loaded)
    tick, known = _format_instant(as_of), _format_instant(known_at)
    return QueryResult(answer_query(loaded, sql, limit, as_of=tick, known_at=known, partial=partial, sessions=sessions))


def run(
    *selection: str,
    now: Instant | None = None,
    until: Instant | None = None,
    labels: str | None = None,
    threads: int | None = None,
    project: Folder = None,
    env: str | None = None,
) -> RunResult:
    """Run the batches that are due, once or up to an instant: `waterclock run`.

    Each batch is reported as it finishes. The function uses the existing Spark session, or starts one and leaves it
    open. After an interrupt (the notebook's stop), running batches finish.

    Args:
        *selection: The tables to run, as in `waterclock run`; without any, all of them.
        now: The instant that counts as now. A text without an offset is in the project's zone.
        until: Run at every instant up to this one at which something becomes due.
        labels: The labels to run, as in `--labels`.
        threads: The maximum number of batches that run at the same time.
        project: The project's folder; without it, the current one or the nearest above that contains a project.
        env: The environment in `waterclock.toml`; without it, the project's default.

    Returns:
        The result. It is false if a batch failed, or remains failed or held from an earlier run. A failed batch raises
        no exception: the result shows its error.

    Raises:
        ProjectErrors: The project has errors.
        WaterclockError: The selection or an instant is invalid.

    Example:
        >>> ran = wc.run(now="2026-01-04")
        ✓ raw.orders 2026-01-01 .. 2026-01-03 (3) ... 3 rows ...
        ✓ marts.sums 2026-01-01 .. 2026-01-03 (3) ... 3 rows ...
        >>> bool(ran), ran.outcome.done
        (True, 6)
    """
    loaded = open_project(project_folder(project), env)
    found, by_table = select_batches(loaded.flow, list(selection), labels)
    options = RunOptions(
        command="run",
        only=found.tables if selection else None,
        labels=by_table,
        now=_format_instant(now),
        until=_format_instant(until),
        threads=threads,
    )
    with execute_run(loaded, options, console(), sessions=sessions_to_keep(loaded)) as ran:
        return RunResult(ran)


def plan(
    *selection: str,
    now: Instant | None = None,
    labels: str | None = None,
    project: Folder = None,
    env: str | None = None,
) -> PlanResult:
    """Return the due and waiting batches with reasons, and change nothing: `waterclock plan`. Starts no Spark.

    Args:
        *selection: The tables, as in `waterclock plan`; without any, all of them.
        now: The instant that counts as now. A text without an offset is in the project's zone.
        labels: The labels, as in `--labels`.
        project: The project's folder; without it, the current one or the nearest above that contains a project.
        env: The environment in `waterclock.toml`; without it, the project's default.

    Returns:
        The plan.

    Raises:
        ProjectErrors: The project has errors.
        WaterclockError: The selection or an instant is invalid.

    Example:
        >>> planned = wc.plan("raw.orders", now="2026-01-04")
        >>> [str(batch.status) for batch in planned.plan.batches]
        ['ready', 'ready', 'ready']
    """
    with open_read_only(project_folder(project), env, _format_instant(now)) as at:
        return PlanResult(plan_selection(at, list(selection), labels))


def status(
    *selection: str,
    now: Instant | None = None,
    labels: str | None = None,
    by: str | None = None,
    lag: bool = False,
    project: Folder = None,
    env: str | None = None,
) -> StatusResult:
    """Return the grid of tables and timelabels, or the lag of each table: `waterclock status`. Starts no Spark.

    Args:
        *selection: The tables, as in `waterclock status`; without any, all of them.
        now: The instant that counts as now. A text without an offset is in the project's zone.
        labels: The labels, as in `--labels`.
        by: The width of a cell: hour, day, week, month, quarter or year.
        lag: True returns the lag of each table in place of the grid. It cannot be combined with `labels` or `by`.
        project: The project's folder; without it, the current one or the nearest above that contains a project.
        env: The environment in `waterclock.toml`; without it, the project's default.

    Returns:
        The grid, or the lags.

    Raises:
        ProjectErrors: The project has errors.
        WaterclockError: The selection or an instant is invalid; E919 for `lag` with `labels` or `by`.

    Example:
        >>> [lag.table for lag in wc.status(lag=True, now="2026-01-04").lags]
        ['raw.orders', 'marts.sums']
    """
    with open_read_only(project_folder(project), env, _format_instant(now)) as at:
        arguments = at, list(selection), labels, by
        return StatusResult(
            collect_lag(*arguments) if lag else collect_status_input(*arguments, WIDTH, is_drawn=True), at.zone
        )


@overload
def diff(
    *selection: str,
    against: str | None = None,
    as_known: Instant | None = None,
    labels: str | None = None,
    except_: str | Sequence[str] = (),
    key: str | Sequence[str] = (),
    tolerance: float = 0.0,
    limit: int = 20,
    why: Literal[False] = False,
    project: Folder = None,
    env: str | None = None,
) -> DiffResult: ...
@overload
def diff(
    *selection: str,
    against: str | None = None,
    as_known: Instant | None = None,
    labels: str | None = None,
    except_: str | Sequence[str] = (),
    key: str | Sequence[str] = (),
    tolerance: float = 0.0,
    limit: int = 20,
    why: Literal[True],
    project: Folder = None,
    env: str | None = None,
) -> WhyResult: ...
def diff(  # noqa: PLR0913 - the options of the command
    *selection: str,
    against: str | None = None,
    as_known: Instant | None = None,
    labels: str | None = None,
    except_: str | Sequence[str] = (),
    key: str | Sequence[str] = (),
    tolerance: float = 0.0,
    limit: int = 20,
    why: bool = False,
    project: Folder = None,
    env: str | None = None,
) -> DiffResult | WhyResult:
    """Compare tables by label with another environment, an earlier time or their previous revisions: `waterclock diff`.

    Labels with equal digests are equal, and are not read. Others are compared in the existing Spark session, or in one
    that is started and left open. If the project declares users, the comparison is recorded before it runs.

    Args:
        *selection: The tables, as in `waterclock diff`; without any, each table that was made.
        against: The environment with the rows before. Only its ledger and its files are read.
        as_known: The instant as known at which the rows before are taken, or `table@label`. It excludes `against`.
        labels: The labels, as in `--labels`.
        except_: Columns that do not count, such as `loaded_at`.
        key: The columns by which rows are matched, in place of the table's KEY.
        tolerance: FLOAT and DOUBLE columns of a changed row may differ by up to this number.
        limit: The maximum number of changed, added and removed rows to return, up to 10000 each.
        why: True returns what differs first upstream of one label, from the ledgers alone: `diff --why`.
        project: The project's folder; without it, the current one or the nearest above that contains a project.
        env: The environment in `waterclock.toml`; without it, the project's default.

    Returns:
        The differences. The result is true if there are none. With `why`, the causes of a label's difference.

    Raises:
        ProjectErrors: The project has errors.
        WaterclockError: Any other error of `waterclock diff`.

    Example:
        >>> compared = wc.diff("raw.orders", as_known="2030-01-01")
        >>> bool(compared), compared.tables[0].found.equal
        (True, 3)
        >>> wc.diff("raw.orders@2026-01-02", as_known="2030-01-01", why=True).causes
        ()
    """
    if against is not None and as_known is not None:
        raise TypeError("as_known excludes against")
    if why and not selection:
        raise TypeError("why needs a table, as in diff('marts.sums@2026-01-02', why=True)")
    if not math.isfinite(tolerance) or tolerance < 0 or not 0 <= limit <= MOST_ROWS:
        raise ValueError(f"tolerance is a number from 0 on, limit a number from 0 to {MOST_ROWS}")
    folder = project_folder(project)
    loaded = open_project(folder, env)
    if against == loaded.env:
        raise TypeError(f"{against} is the environment itself; env selects another")
    options = ComparisonOptions(_list_names(key), _list_names(except_), tolerance, limit)
    asked = DiffOptions(selection, labels, against, _format_instant(as_known), None, options)
    if why:
        return WhyResult(explain_environments(folder, loaded, asked), loaded.flow)
    sessions = sessions_to_keep(loaded, None if against is None else open_project(folder, against))
    return DiffResult(compare_environments(folder, loaded, asked, sessions), loaded.flow)


def _list_names(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def check(*, project: Folder = None, env: str | None = None) -> CheckResult:
    """Return all errors of a project without raising them: `waterclock check`. Starts no Spark.

    Args:
        project: The project's folder; without it, the current one or the nearest above that contains a project.
        env: The environment in `waterclock.toml`; without it, the project's default.

    Returns:
        The errors and warnings. The result is true if there are no errors.

    Example:
        >>> checked = wc.check()
        >>> bool(checked), checked.errors
        (True, ())
    """
    return CheckResult(check_project(project_folder(project), env))


def _format_instant(instant: Instant | None) -> str | None:
    """Format an instant for a command. Raises the error of `utc_of` for a datetime without a zone."""
    if isinstance(instant, datetime):
        return utc_of(instant).isoformat()
    return instant
