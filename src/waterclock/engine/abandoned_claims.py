"""Finds abandoned claims: open claims whose runner has ended or has given them up."""

from __future__ import annotations

from waterclock.batches.records import Claim
from waterclock.engine.run_context import RunContext
from waterclock.engine.runner_name import has_ended


def find_abandoned_claims(work: RunContext) -> list[Claim]:
    """Return the open claims of runners that have ended: whose lease has expired, or whose process has ended.

    Claims that this runner left open itself are included. The caller must kill each claim before it resolves its
    outcome, because a JVM of the ended runner may still be writing.
    """
    now, left = work.real_now(), work.abandoned_claims()
    return [
        claim
        for claim in work.ledger.claims.open()
        if claim.has_expired(now) or claim.number in left or has_ended(claim.request.runner)
    ]
