"""Closes a failed attempt: finds its error, and closes its claim or leaves it open for a takeover."""

from __future__ import annotations

from waterclock.batches.ledger_snapshot import HELD_BACK, RELEASE, BatchStatus
from waterclock.batches.records import Claim
from waterclock.engine.batch.attempt import GroupAttempt
from waterclock.engine.batch.batch_errors import batch_error
from waterclock.engine.batch.claim import bind_inputs, claim_request
from waterclock.engine.batch.takeover import record_if_committed
from waterclock.engine.collect.collect_result import items_of
from waterclock.engine.damage import CODES_FIXED_ELSEWHERE
from waterclock.engine.spark.errors import to_error
from waterclock.errors import WaterclockError, note_inputs
from waterclock.ledger.ledger_errors import ClaimClosed, ClaimRefused
from waterclock.planner.plan import REVERT


def close_failed(attempt: GroupAttempt, raised: Exception) -> WaterclockError | None:
    """Close the claim of a failed attempt, and return its error. None if its data turns out to be committed."""
    work, table, claim = attempt.work, attempt.table, attempt.claim
    if attempt.made is not None:
        note_inputs(raised, items_of(attempt.made.notes.source.values()))
    error = batch_error(work, table, raised, attempt.where)
    if attempt.done is not None:
        # already recorded: a later step failed, such as moving files to the archive; the next run repeats it
        work.listener.on_message(f"{table.name}: {error.what}")
        return None
    is_release = attempt.group.verb == RELEASE
    if is_release and not error.transient:
        _refuse_release(attempt, error)
    if claim is None and (is_release or attempt.group.verb == REVERT):
        return error  # it stays held, or keeps its rows
    try:
        claim = claim or work.ledger.claims.take(claim_request(attempt, attempt.bound or bind_inputs(attempt)))
        if attempt.may_have_committed and record_if_committed(work, table, claim):
            return None
        _release_claim(attempt, claim, error)
    except (ClaimClosed, ClaimRefused):
        pass  # another runner has taken it over, or has the batch: it closes its own claim
    except Exception as unsettled:  # noqa: BLE001 - the claim stays open, and a takeover resolves it
        if claim is not None:
            work.leave(claim)
            reason = to_error(unsettled, where=attempt.where).what
            work.listener.on_message(f"a claim of {table.name} stays open, its outcome is unknown: {reason}")
    return error


def _refuse_release(attempt: GroupAttempt, error: WaterclockError) -> None:
    """Record why the batch cannot be released, so that runners do not try it repeatedly."""
    work, label = attempt.work, attempt.group.batches[0].label
    work.ledger.decisions.refuse_release(attempt.table.name, label, who=work.settings.who, why=error.what)


def _release_claim(attempt: GroupAttempt, claim: Claim, error: WaterclockError) -> None:
    work, group = attempt.work, attempt.group
    if group.verb == RELEASE:
        work.ledger.claims.close_lost(claim, why=f"not released: {error.what}")
        return
    if group.verb == REVERT:
        work.ledger.claims.close_lost(claim, why=f"not reverted: {error.what}")
        return
    if len(group.batches) > 1:
        work.ledger.claims.close_lost(claim, why=f"tried again in parts: {error.what}")
        return
    # after a transient error the batch is due again at once: the next run continues with it
    may_pass = error.transient or error.code in CODES_FIXED_ELSEWHERE
    again = work.real_now() if may_pass else None
    status = BatchStatus.HELD if error.code == HELD_BACK else BatchStatus.FAILED
    own = [batch.label for batch in group.batches]
    work.ledger.claims.record_failed(
        claim, error=error.render(), is_transient=error.transient, status=status, due_again=again, own=own
    )
