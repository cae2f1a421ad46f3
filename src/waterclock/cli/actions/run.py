"""Runs batches from the command line: opens the run, shows its progress, handles Ctrl-C and prints the summary."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from waterclock.cli.actions.run_reports import alert_stopped_run, report_cycle, send_lineage_at_end
from waterclock.cli.actions.run_servers import RunServers, serve_next_to_run
from waterclock.cli.actions.watch import watch
from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.stop_signals import stoppable
from waterclock.cli.views.json import print_json
from waterclock.cli.views.json_log import JsonLog
from waterclock.cli.views.progress import Progress
from waterclock.cli.views.run import RunReport
from waterclock.cli.views.theme import console
from waterclock.engine.flow_reloading import Reloading
from waterclock.engine.lease_renewal import Heartbeat
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.engine.run_outcome import RunOutcome
from waterclock.engine.run_settings import RunSettings
from waterclock.engine.runner import Runner
from waterclock.errors import WaterclockError
from waterclock.operations.project_opening import now_of, zone_of
from waterclock.planner.plan import Status
from waterclock.planner.planning import Planner
from waterclock.selection import Labels

if TYPE_CHECKING:
    from rich.console import Console

    from waterclock.batches.earlier_revisions import OfferedRevisions
    from waterclock.dpl.project import Project
    from waterclock.engine.run_context import RunContext
    from waterclock.engine.spark.session import Sessions


_COMMANDS_FOR_BATCHES = frozenset({"promote", "recompute", "recollect", "replay", "retry", "revert"})


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The parameters of a run. If `only` is None, all tables run. If `watch_seconds` is None, they run once.

    `is_for_query` is true if the run makes batches for a query, so that it prints to stderr. `is_logged` prints events
    as lines of JSON. `is_branch_run`: the run makes the own tables of a branch. `offered`: slices of a branch that
    batches may adopt. `at_most`: how many labels may be made again because inputs were restated. With `newest_first`,
    the newest labels run first.
    """

    command: str
    only: tuple[str, ...] | None = None
    labels: Mapping[str, Labels] = field(default_factory=dict)
    force: Mapping[str, frozenset[datetime]] = field(default_factory=dict)
    now: str | None = None
    until: str | None = None
    watch_seconds: int | None = None
    threads: int | None = None
    at_most: int | None = None
    newest_first: bool = False
    is_json: bool = False
    is_for_query: bool = False
    servers: RunServers = field(default_factory=RunServers)
    is_logged: bool = False
    is_branch_run: bool = False
    offered: OfferedRevisions | None = None


def run_and_report(project: Project, options: RunOptions) -> int:
    """Run batches, print the result and return the exit code: FAILED if a requested batch stays failed or held."""
    to = console(stderr=options.is_json or options.is_for_query)
    with execute_run(project, options, to) as ran:
        if options.is_json:
            print_json(ran.to_json())
        elif (log := _build_json_log(options)) is not None:
            log.on_run_finish(ran.outcome, round(ran.seconds, 3))
        else:
            ran.draw(to)
    if ran.outcome.was_stopped and options.watch_seconds is None:
        return ExitCode.INTERRUPTED
    return ExitCode.of_failure(not ran.outcome.is_clean)


def _build_json_log(options: RunOptions) -> JsonLog | None:
    return JsonLog(sys.stderr if options.is_json else sys.stdout) if options.is_logged else None


@contextmanager
def execute_run(
    project: Project, options: RunOptions, to: Console, *, sessions: Sessions | None = None
) -> Iterator[RunReport]:
    """Run batches, with progress on `to`. Yield the result, so that it can be printed before everything is closed.

    If `sessions` is given, Spark stays open and Ctrl-C never ends the process: the caller is responsible for both.
    """
    zone = zone_of(project.flow)
    progress = Progress(
        project.flow,
        zone,
        to,
        is_quiet=(options.is_json or options.is_for_query) and not to.is_terminal,
        is_stepping=options.until is not None or options.watch_seconds is not None,
        log=_build_json_log(options),
    )
    settings = RunSettings() if options.threads is None else RunSettings(threads=options.threads)
    started = time.perf_counter()
    is_watch = options.watch_seconds is not None
    with open_workplace(
        project,
        settings=settings,
        listener=progress,
        sessions=sessions,
        lasts=is_watch,
        tables=options.only,
        is_branch_run=options.is_branch_run,
    ) as work:
        work.offered = options.offered
        with progress.display():
            now = now_of(options.now, project.flow, work.ledger)
            until = None if options.until is None else now_of(options.until, project.flow)
            _check_times(now, until, work.real_now())
            _finish_table_moves(work, progress)
            apply_flow(work, now)
            stop = threading.Event()
            runner = _build_runner(work, options, stop)
            with (
                Heartbeat(
                    work, f"{options.command} --watch" if is_watch and options.command == "run" else options.command
                ),
                send_lineage_at_end(work),
                _record_run(work, options, now) as outcomes,
                serve_next_to_run(work, options.servers, progress),
                _tick_next_to_run(work, options),
                _maintain_next_to_run(work, options),
                _stop_on_signals(stop, progress, is_own_process=sessions is None),
            ):
                try:
                    outcome = _drive_run(runner, work, progress, options, now, until, stop)
                except WaterclockError as error:  # for example, Spark does not start or the ledger is down
                    alert_stopped_run(work, error, now)
                    raise
                outcomes.append("failed" if outcome.has_failed else "interrupted" if outcome.was_stopped else "done")
            unrequested = _count_unrequested(work, options, outcome, now)
        yield RunReport(outcome, project.flow, now, until, time.perf_counter() - started, unrequested)


def _count_unrequested(work: RunContext, options: RunOptions, outcome: RunOutcome, now: datetime) -> int:
    """Count the ready batches that were not requested, to mention them in the output. Cost: a plan of all tables."""
    if (
        options.command not in _COMMANDS_FOR_BATCHES
        or options.only is None
        or options.is_json
        or options.is_for_query
        or outcome.away
    ):
        return 0
    known = {(each.table, each.label) for each in outcome.plan.batches} if outcome.plan else set()
    try:
        plan = Planner(work.flow).plan(work.ledger.reads.snapshot(work.flow), now)
    except WaterclockError:  # the ledger is down; the requested batches are done anyway
        return 0
    return sum(each.status is Status.READY and (each.table, each.label) not in known for each in plan.batches)


def _finish_table_moves(work: RunContext, progress: Progress) -> None:
    """Finish the table moves of a `rebuild --all` that was killed during them. Otherwise it costs one ledger query."""
    known = work.ledger.maintenance.current_rebuilding()
    if known is None or known.is_done:
        return
    from waterclock.engine.maintenance.rebuild_all import finish_killed_rebuild

    if tables := finish_killed_rebuild(work):
        progress.on_message(f"{len(tables)} tables were moved in that a killed `rebuild --all` had made")


def _finish_killed_rebuild(work: RunContext, progress: Progress) -> None:
    """Finish a rebuild that was killed while this run watches. The run would otherwise wait for it forever."""
    try:
        _finish_table_moves(work, progress)
    except (WaterclockError, OSError) as raised:
        message = raised.what if isinstance(raised, WaterclockError) else str(raised)
        work.report_once(f"a killed `rebuild --all` cannot be finished: {message}")


def _check_times(now: datetime, until: datetime | None, clock: datetime) -> None:
    """Raise E904 if an instant is in the future, where rows are incomplete, or if `until` is before `now`."""
    last = now if until is None else until
    if last > clock:
        raise WaterclockError(
            "E904",
            f"{last:%Y-%m-%d %H:%MZ} is in the future",
            why=f"it is {clock:%Y-%m-%d %H:%MZ}, and a window is complete only after its end",
            fix="use `plan --now` to preview it, or `run --watch` to wait for it",
        )
    if until is not None and until < now:
        raise WaterclockError(
            "E904",
            f"--until {until:%Y-%m-%d %H:%MZ} is before --now",
            why=f"now is {now:%Y-%m-%d %H:%MZ}",
            fix="add --now to start earlier",
        )


def _drive_run(
    runner: Runner,
    work: RunContext,
    progress: Progress,
    options: RunOptions,
    now: datetime,
    until: datetime | None,
    stop: threading.Event,
) -> RunOutcome:
    if options.watch_seconds is not None:
        reloading = Reloading(work, progress.on_message)

        def reload_runner() -> Runner | None:
            _finish_killed_rebuild(work, progress)
            if not reloading.is_new():
                return None
            progress.flow = work.flow
            return _build_runner(work, options, stop)

        return watch(
            runner,
            work,
            progress,
            options.watch_seconds,
            stop,
            reload_runner,
            on_cycle=partial(_report_cycle, work, options),
        )
    outcome = runner.run_once(now) if until is None else runner.run_until(now, until)
    _report_cycle(work, options, outcome)
    return outcome


def _report_cycle(work: RunContext, options: RunOptions, outcome: RunOutcome) -> None:
    is_of_some = bool(options.labels or options.force)
    report_cycle(work, outcome, options.only, is_of_some=is_of_some, is_watch=options.watch_seconds is not None)


def _tick_next_to_run(work: RunContext, options: RunOptions) -> AbstractContextManager[object]:
    """Compute open windows (CONTINUOUS) while a run watches. Other runs make only batches."""
    if options.watch_seconds is None:
        return nullcontext()
    from waterclock.engine.continuous.loop import OpenWindowTicks

    return OpenWindowTicks(work, options.only)


def _maintain_next_to_run(work: RunContext, options: RunOptions) -> AbstractContextManager[object]:
    """Maintain tables in the hours of [maintenance] while a run watches, if its project declared them at its start."""
    if options.watch_seconds is None or work.project.maintenance is None:
        return nullcontext()
    from waterclock.engine.maintenance.maintenance_in_hours import MaintenanceInHours

    return MaintenanceInHours(work, options.only)


def _build_runner(work: RunContext, options: RunOptions, stop: threading.Event) -> Runner:
    is_watch = options.watch_seconds is not None
    return Runner(
        work,
        only=options.only,
        labels=options.labels,
        force=options.force,
        at_most=options.at_most,
        newest_first=options.newest_first,
        waits=not is_watch,
        follows_clock=is_watch,
        stop=stop,
    )


@contextmanager
def _stop_on_signals(stop: threading.Event, progress: Progress, *, is_own_process: bool) -> Iterator[None]:
    """Stop the run at the first Ctrl-C once running batches have finished, and exit at the second."""
    again = "; Ctrl-C again exits at once" if is_own_process else ""

    def finish() -> None:
        stop.set()
        progress.note(f"stopping: running batches are finished{again}")

    with stoppable(finish, output=progress.to.file, is_own_process=is_own_process):
        yield


@contextmanager
def _record_run(work: RunContext, options: RunOptions, now: datetime) -> Iterator[list[str]]:
    """Record the start and the end of the run in the ledger. The block appends the outcome to the yielded list."""
    work.run = work.ledger.past.begin_run(who=work.settings.who, command=options.command, now=now)
    outcomes = ["interrupted"]
    try:
        yield outcomes
    except Exception:
        outcomes.append("failed")
        raise
    finally:
        work.ledger.past.end_run(work.run, outcomes[-1], who=work.settings.who)
