"""Finds the active runners of a project."""

from __future__ import annotations

from datetime import datetime

from waterclock.batches.audit_records import RunnerSeen
from waterclock.engine.runner_name import has_ended
from waterclock.operations.project_opening import OpenedProject


def is_alive(runner: RunnerSeen, now: datetime) -> bool:
    """Return whether a runner is active at `now`, by the ledger's clock. A process killed here is detected at once."""
    until = max([runner.alive_until, *(held.lease_until for held in runner.held)])
    return not has_ended(runner.runner) and until >= now


def list_active_runners(at: OpenedProject) -> list[RunnerSeen]:
    """Return the active runners: they run batches now, or will when some are due."""
    if at.ledger is None:
        return []
    now = at.ledger.now()
    return [each for each in at.ledger.runners.all() if is_alive(each, now)]
