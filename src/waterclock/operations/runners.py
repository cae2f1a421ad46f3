"""Who is at work on the project."""

from __future__ import annotations

from datetime import datetime

from waterclock.batches.audit_trail import RunnerSeen
from waterclock.engine.runner_name import has_ended
from waterclock.operations.opening import Reading


def is_alive(runner: RunnerSeen, now: datetime) -> bool:
    """Tell whether a runner is at work, by the ledger's real clock; one that was killed here is known at once."""
    until = max([runner.alive_until, *(held.lease_until for held in runner.held)])
    return not has_ended(runner.runner) and until >= now


def alive(at: Reading) -> list[RunnerSeen]:
    """Return the runners that are at work, or will be when something is due."""
    if at.ledger is None:
        return []
    now = at.ledger.now()
    return [each for each in at.ledger.runners.all() if is_alive(each, now)]
