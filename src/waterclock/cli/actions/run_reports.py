"""Reports a run after each cycle and at its end: records waiting sources, and sends alerts and lineage events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.batches.log_retention import is_followed
from waterclock.engine.run_outcome import RunOutcome
from waterclock.engine.source_waits import record_source_waits
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from waterclock.engine.run_context import RunContext


def report_cycle(
    work: RunContext, outcome: RunOutcome, only: Sequence[str] | None, *, is_of_some: bool, is_watch: bool
) -> None:
    """Record which windows wait for sources and how much change log sources retain, and send alerts.

    `only`: the tables of the run, None for all. `is_of_some`: not all windows were checked.

    A project without alerts or change logs does not import the code for them. A runner of an older flow reports
    nothing, because a batch missing from its plan is not late.
    """
    if outcome.is_outdated:
        return
    if not is_of_some:
        record_source_waits(work, outcome, only)
    if any(is_followed(table) for table in work.flow.tables.values()):
        from waterclock.engine.maintenance.log_measurements import watch_logs

        watch_logs(work)
    if work.project.alerts.is_on:
        from waterclock.alerts.checking import check_alerts_after_run

        check_alerts_after_run(work, outcome, only, is_of_some=is_of_some)
    if is_watch:
        _send_lineage(work)


@contextmanager
def send_lineage_at_end(work: RunContext) -> Iterator[None]:
    """Send lineage events after the run has ended, so that its end is among them. A forced exit sends nothing."""
    try:
        yield
    except Exception:
        _send_lineage(work)
        raise
    _send_lineage(work)


def _send_lineage(work: RunContext) -> None:
    """Send lineage events if `[openlineage]` enables them. Otherwise their code is not imported."""
    if work.project.openlineage.is_on:
        from waterclock.openlineage.sending import send_after_run

        send_after_run(work)


def alert_stopped_run(work: RunContext, error: WaterclockError, now: datetime) -> None:
    """Send an alert for a run that an error ended, if alerts are on."""
    if work.project.alerts.is_on:
        from waterclock.alerts.checking import alert_stopped_run

        alert_stopped_run(work, error, now)
