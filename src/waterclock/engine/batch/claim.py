"""Takes the claim of a group of batches: fixes their inputs, then requests the right to make the labels from these."""

from __future__ import annotations

from datetime import datetime

from waterclock.batches.ledger_snapshot import RELEASE
from waterclock.batches.records import Claim, ClaimRequest, Input
from waterclock.engine.batch.attempt import GroupAttempt
from waterclock.engine.batch.bound_inputs import BoundInputs, bind_source, pin_inputs
from waterclock.engine.batch.releasing import find_held_batch
from waterclock.engine.collect.positions import owned_by_labels
from waterclock.engine.linked_projects import linked_inputs, recorded_inputs
from waterclock.ledger.ledger_errors import ClaimRefused
from waterclock.ledger.read.signatures import signature_of

_MOST_ATTEMPTS = 5  # afterwards the batch is left to the runner that collected the same changes


def bind_inputs(attempt: GroupAttempt) -> BoundInputs:
    """Fix the inputs of every label and store them in the attempt. For a release, also find the held batch."""
    work, table, group = attempt.work, attempt.table, attempt.group
    with attempt.step("pin"):
        attempt.bound = bound = pin_inputs(work, table, group)
        if group.verb == RELEASE:
            attempt.held = find_held_batch(work, table, group, bound.pins)
    # if a scan for changed windows fails, the attempt fails, and its report needs the inputs bound above
    with attempt.step("look" if table.source and table.source.changed else "pin"):
        attempt.bound = bind_source(work, table, group, bound, lambda: attempt.spark)
    return attempt.bound


def take_claim(attempt: GroupAttempt, bound: BoundInputs) -> tuple[BoundInputs, Claim]:
    """Take the claim of the group, and return it with the fixed inputs.

    If another runner has collected the same changes meanwhile, the inputs are fixed again, and the claim is retried.
    """
    claims = attempt.work.ledger.claims
    for _ in range(_MOST_ATTEMPTS):
        try:
            attempt.claim = claims.take(claim_request(attempt, bound))
        except ClaimRefused as refused:
            if refused.code not in {"E828", "E850"}:
                raise
            bound = bind_inputs(attempt)
        else:
            return bound, attempt.claim
    attempt.claim = claims.take(claim_request(attempt, bound))
    return bound, attempt.claim


def claim_request(attempt: GroupAttempt, bound: BoundInputs) -> ClaimRequest:
    """Build the request to claim a group's labels, and the done windows that are collected again with it."""
    work, table, group, held = attempt.work, attempt.table, attempt.group, attempt.held
    labels = [*(piece.label for piece in bound.again), *(batch.label for batch in group.batches)]
    return ClaimRequest(
        table=table.name,
        labels=tuple(sorted(labels)),
        code=table.fingerprint if held is None else held.request.code,
        flow=work.flow.fingerprint,
        runner=work.settings.runner,
        who=work.settings.who,
        now=attempt.now,
        lease_seconds=work.settings.lease,
        target_version=work.ledger.reads.table(table.name).head_version,
        inputs={label: tuple(read.input for read in reads) for label, reads in bound.pins.items()}
        | _list_linked_inputs(attempt, bound),
        run=work.run,
        restates=_restatement_reason(attempt, bound),
        seen=bound.scan.scanned_claims,
        held={} if held is None else {held.manifest.label: held.manifest.claim},
        owned=owned_by_labels(bound.owned),
        closed={each.label: each.closing.tick for each in group.batches if each.closing and each.closing.tick},
        declared=signature_of(table),
        pool=(table.pool, work.flow.pools[table.pool]) if table.pool in work.flow.pools else None,
    )


def _restatement_reason(attempt: GroupAttempt, bound: BoundInputs) -> str | None:
    """Return why done labels are made again, if that is neither requested nor due to changed inputs. Otherwise None."""
    if attempt.held is not None:
        return (
            None if attempt.held.release_request else "a held batch is released"
        )  # the request may have been withdrawn
    return "late rows within LOOKBACK" if bound.again else None


def _list_linked_inputs(attempt: GroupAttempt, bound: BoundInputs) -> dict[datetime, tuple[Input, ...]]:
    """Map labels to their inputs from another project: those read now, or the recorded ones of stored rows."""
    table, group, held = attempt.table, attempt.group, attempt.held
    if held is not None:
        return {} if bound.pins[held.manifest.label] else dict(held.request.inputs)
    if group.is_made_of_kept:
        return recorded_inputs(attempt.work.ledger, table, (batch.label for batch in group.batches))
    return linked_inputs(table, bound.linked)
