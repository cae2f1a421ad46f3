"""Finds the claims that somebody took and will not close."""

from __future__ import annotations

from waterclock.batches.records import Claim
from waterclock.engine.runner_name import has_ended
from waterclock.engine.workplace import Workplace


def left_claims(work: Workplace) -> list[Claim]:
    """Return the open claims whose lease has run out by the ledger's real clock, and those that wait for no lease.

    These are the claims of a runner that has ended here, and those that this runner left open itself. Each is to be
    killed first, then settled: a runner that is gone may have left a JVM at work.
    """
    now, left = work.real_now(), work.left()
    return [
        claim
        for claim in work.ledger.claims.open()
        if claim.lease_until < now or claim.number in left or has_ended(claim.request.runner)
    ]
