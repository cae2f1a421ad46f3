"""Finds abandoned claims: open ones whose runner is gone, or has given them up."""

from __future__ import annotations

from waterclock.batches.records import Claim
from waterclock.engine.run_context import RunContext
from waterclock.engine.runner_name import has_ended


def find_abandoned_claims(work: RunContext) -> list[Claim]:
    """Return the open claims of runners that are gone: the lease has expired, or the process is known to have ended.

    Claims that this runner left open itself are included. The caller must kill each claim before it resolves its
    outcome: a runner that is gone may have left a JVM at work.
    """
    now, left = work.real_now(), work.abandoned_claims()
    return [
        claim
        for claim in work.ledger.claims.open()
        if claim.has_expired(now) or claim.number in left or has_ended(claim.request.runner)
    ]
