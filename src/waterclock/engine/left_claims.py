"""Finds claims that were taken and will not be closed by their runner."""

from __future__ import annotations

from waterclock.batches.records import Claim
from waterclock.engine.run_context import RunContext
from waterclock.engine.runner_name import has_ended


def expired_claims(work: RunContext) -> list[Claim]:
    """Return the open claims whose lease has expired by the ledger's real clock, or that need no such wait.

    The latter are claims of a runner that has ended on this machine, and those that this runner left open itself. The
    caller must kill each claim before it resolves it: a runner that is gone may have left a JVM at work.
    """
    now, left = work.real_now(), work.abandoned_claims()
    return [
        claim
        for claim in work.ledger.claims.open()
        if claim.has_expired(now) or claim.number in left or has_ended(claim.request.runner)
    ]
