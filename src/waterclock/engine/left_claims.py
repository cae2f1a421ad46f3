"""Finds the claims that somebody took and will not close."""

from __future__ import annotations

from waterclock.batches.records import Claim
from waterclock.engine.runner_name import has_ended
from waterclock.engine.workplace import Workplace


def left_claims(work: Workplace) -> list[Claim]:
    """Return the open claims whose lease has run out by the ledger's real clock, or whose runner has ended here.

    Each is to be killed first, then settled: a runner that is gone may have left a JVM at work.
    """
    now = work.real_now()
    return [claim for claim in work.ledger.claims.open() if claim.lease_until < now or has_ended(claim.request.runner)]
