"""Finds the claims of runners that are gone. Their batches are not made until another runner takes them over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from waterclock.batches.ledger_snapshot import LedgerSnapshot, OpenClaim
from waterclock.engine.runner_name import has_ended
from waterclock.ledger.ledger import Ledger

Left = Mapping[int, str]


def describe_abandoned_claims(ledger: Ledger, snapshot: LedgerSnapshot) -> Left:
    """Map each open claim whose runner has ended to a description. Cost: nothing if no claim is open."""
    claims = [claim for facts in snapshot.tables.values() for claim in facts.open_claims]
    if not claims:
        return {}
    now = ledger.now()
    return {claim.claim: description for claim in claims if (description := _describe_abandoned_claim(claim, now))}


def mark_abandoned_claims(snapshot: LedgerSnapshot, left: Left) -> LedgerSnapshot:
    """Return the snapshot with the descriptions by `describe_abandoned_claims` added to its open claims."""
    changed = {
        name: replace(facts, open_claims=tuple(replace(each, left=left.get(each.claim, "")) for each in held))
        for name, facts in snapshot.tables.items()
        if (held := facts.open_claims)
    }
    return replace(snapshot, tables={**snapshot.tables, **changed}) if changed else snapshot


def _describe_abandoned_claim(claim: OpenClaim, now: datetime) -> str:
    if claim.lease_until < now:
        return "claimed by a runner that has ended; the next run takes it over"
    if has_ended(claim.runner):  # another machine cannot know that, and waits for the lease
        return (
            f"claimed by a runner that has ended; a run here takes it over, one elsewhere at {claim.lease_until:%H:%MZ}"
        )
    return ""
