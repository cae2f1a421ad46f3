"""Finds problems and sends alerts, after each cycle of a run or on request. A failed check never fails a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from waterclock.alerts.causes import CheckInput, RefusedBatch, SilentSource, build_alert_input
from waterclock.alerts.decisions import decide
from waterclock.alerts.sending import SendResult, UndeliveredMessage, send
from waterclock.alerts.wording import Words
from waterclock.batches.alerts import AlertsNow, StoredAlerts, TroubleKind
from waterclock.errors import WaterclockError
from waterclock.operations.deadlines import deadlines_of, tables_with_deadlines
from waterclock.operations.retained_logs import retained_logs
from waterclock.operations.silent_sources import silences
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest
from waterclock.secrets.reader import Secrets

if TYPE_CHECKING:
    from waterclock.batches.ledger_snapshot import LedgerSnapshot
    from waterclock.dpl.project import Project
    from waterclock.engine.run_context import RunContext
    from waterclock.engine.run_outcome import RunOutcome
    from waterclock.flow.declarations import Flow
    from waterclock.ledger.ledger import Ledger

_TRIES = 5  # attempts if other processes check at the same time


@dataclass(frozen=True, slots=True)
class RunFindings:
    """Problems that a run found and the ledger does not record. `of_run`: the tables that it checked completely."""

    of_run: frozenset[str] | None = None
    refused: Sequence[RefusedBatch] = ()
    silent: Sequence[SilentSource] = ()


@dataclass(frozen=True, slots=True)
class AlertCheckOutcome:
    """The result of an alert check: the changed alerts with their messages, and all messages that were sent."""

    now: AlertsNow = field(default_factory=AlertsNow)
    sent: SendResult = field(default_factory=SendResult)


def check_alerts(
    project: Project, ledger: Ledger, read_snapshot: Callable[[], LedgerSnapshot], now: datetime, findings: RunFindings
) -> AlertCheckOutcome:
    """Find the root causes at `now`, record the messages for each target, and send all pending messages.

    `read_snapshot` reads a snapshot of the ledger. `findings`: the problems that only a run knows.

    Cost: a plan of all tables, some eight queries and one update of the ledger, and the time that the targets take.
    """
    recorded = AlertsNow()
    for _ in range(_TRIES):
        kept = _record_check(project, ledger, read_snapshot(), now, findings)
        if kept is not None:
            recorded = kept
            break
    return AlertCheckOutcome(recorded, send(ledger, project.alerts, Secrets.from_places(project.secrets)))


def _record_check(
    project: Project, ledger: Ledger, snapshot: LedgerSnapshot, now: datetime, findings: RunFindings
) -> AlertsNow | None:
    """Record the result of a check in the ledger, or return None if another process has checked a newer state."""
    words = Words(project.name, project.env, project.flow)
    warned = ledger.alerts.find_warned_batches(snapshot.sequence, list(_list_warned_tables(ledger)))
    if warned.since > snapshot.sequence:
        return None
    plan = Planner(project.flow).plan(snapshot, now, PlanRequest(clock=ledger.now()))
    deadlines = deadlines_of(
        project.flow,
        snapshot,
        plan,
        ledger.past,
        ledger.now(),
        tables_with_deadlines(project.flow, project.flow.tables),
    )
    empty = silences(project.flow, ledger.past, project.flow.tables)
    gone = [record.name for record in ledger.reads.tables() if record.name not in project.flow.tables]
    logs = retained_logs(project.flow, ledger.past, project.flow.tables, gone)
    found = build_alert_input(
        CheckInput(
            project.flow,
            snapshot,
            plan,
            refused=findings.refused,
            silent=findings.silent,
            of_run=findings.of_run,
            warned=warned.batches,
            newest=warned.newest,
            deadlines=deadlines,
            empty=empty,
            logs=logs,
        )
    )

    def decide_alerts(known: StoredAlerts, at: datetime) -> AlertsNow:
        made = decide(known, found, project.alerts, at)
        return AlertsNow(made.changed, tuple((each.target, words.body(each, at)) for each in made.messages))

    return ledger.alerts.record_alert_check(decide_alerts, since=warned.since, up_to=snapshot.sequence)


def _list_warned_tables(ledger: Ledger) -> Iterator[str]:
    for alert in ledger.alerts.known():
        if alert.is_open and alert.trouble.kind is TroubleKind.WARNED:
            yield from alert.trouble.batches


def check_alerts_after_run(
    work: RunContext, outcome: RunOutcome, only: Sequence[str] | None, *, is_of_some: bool
) -> None:
    """Send alerts after a cycle of a run. A failed check is reported once, and the run continues.

    `only` contains the tables of the run; None means all. `is_of_some`: whether the run is limited to some labels.
    """
    project = work.project
    if not project.alerts.is_on or outcome.plan is None:
        return
    of_run: frozenset[str] | None = frozenset(project.flow.tables if only is None else only)
    if is_of_some or outcome.was_stopped:  # causes that the run did not reach remain open
        of_run = None if outcome.was_stopped else frozenset()
    findings = RunFindings(
        of_run, tuple(_list_refused_batches(outcome)), tuple(_list_silent_sources(project.flow, outcome))
    )
    _check_alerts_safely(work, outcome.plan.now, findings)


def alert_stopped_run(work: RunContext, error: WaterclockError, now: datetime) -> None:
    """Send an alert that a run could not continue at all."""
    if work.project.alerts.is_on:
        _check_alerts_safely(work, now, RunFindings(frozenset(), (RefusedBatch("", frozenset(), error),)))


def _check_alerts_safely(work: RunContext, now: datetime, findings: RunFindings) -> None:
    try:
        read_snapshot = partial(work.links.marked_snapshot, work.ledger, work.settings.who)
        lost = check_alerts(work.project, work.ledger, read_snapshot, now, findings).sent.lost
    except Exception as raised:  # noqa: BLE001 - a failed alert does not fail the run's batches
        what = raised.what if isinstance(raised, WaterclockError) else type(raised).__name__
        work.report_once(f"no alert could be sent: {what}")
        return
    for each in lost:
        work.report_once(lost_words(each))


def lost_words(lost: UndeliveredMessage) -> str:
    """Return the message to the user that a target could not be reached."""
    return f"target {lost.target} was not reached ({lost.why}); its messages are kept and sent later"


def _list_refused_batches(outcome: RunOutcome) -> Iterator[RefusedBatch]:
    for table, report in outcome.unclaimed.items():
        if report.error is not None:
            yield RefusedBatch(table, frozenset(batch.label for batch in report.group.batches), report.error)
    for error in (*outcome.unsettled, *(() if outcome.away is None else (outcome.away,))):
        yield RefusedBatch("", frozenset(), error)


def _list_silent_sources(flow: Flow, outcome: RunOutcome) -> Iterator[SilentSource]:
    """Yield the sources whose data for a window is overdue by more than one window length."""
    now = None if outcome.plan is None else outcome.plan.now
    for held in outcome.held_back:
        table, window = flow.tables.get(held.table), held.window
        source = None if table is None else table.source
        if table is None or source is None or now is None:
            continue
        if table.cadence.due_at(window) + (window.end - window.start) > now:
            continue
        if held.clock is None:
            behind = "shows no awaited sign"
        else:
            behind = f"has nothing newer than {held.clock:%Y-%m-%d %H:%MZ}"
        yield SilentSource(held.table, window.start, source.unit.connection, behind)
