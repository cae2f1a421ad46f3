"""Carries out the lifecycle of a batch (docs/explain/life-of-a-batch.md), from the claim to the record."""

from __future__ import annotations

from datetime import datetime

from waterclock.engine.batch.attempt import CommittedGroup, GroupAttempt
from waterclock.engine.batch.audit import audit
from waterclock.engine.batch.bound_inputs import BoundInputs
from waterclock.engine.batch.claim import bind_inputs, take_claim
from waterclock.engine.batch.claim_record import write_claim_record
from waterclock.engine.batch.commit import commit_group, refuse_foreign
from waterclock.engine.batch.destinations import require_last_delivery
from waterclock.engine.batch.expectations import batch_hold_error
from waterclock.engine.batch.failed_attempts import close_failed
from waterclock.engine.batch.group_results import build_hold_results, describe_release, group_results
from waterclock.engine.batch.held_windows import leave_out_held_windows
from waterclock.engine.batch.other_parts import request_other_part
from waterclock.engine.batch.releasing import record_release
from waterclock.engine.batch.results import MadeSlices
from waterclock.engine.batch.seal import seal
from waterclock.engine.damage import require_log
from waterclock.engine.reads.sizes import count_live_bytes, set_shuffle_partitions
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_listener import GroupReport
from waterclock.faults import fault
from waterclock.flow.enums import Kind
from waterclock.ledger.ledger_errors import ClaimRefused
from waterclock.planner.plan import Group
from waterclock.storage.commit.creation import create_table
from waterclock.storage.log.open_tables import has_columns


def run_group(work: RunContext, group: Group, now: datetime) -> GroupReport:
    """Take a group through its lifecycle once. Never raises if the batch fails: the report has the error.

    A claim that was taken is closed at the end, as done, failed or lost. A claim whose outcome cannot be determined now
    stays open: this run resolves it before it ends, as a takeover does, or reports that it cannot.
    """
    attempt = GroupAttempt(work, work.flow.tables[group.table], group, now)
    try:
        _run_steps(attempt)
    except ClaimRefused as refused:
        return attempt.report(refused)
    except Exception as raised:  # noqa: BLE001 - any failure of a batch is in its report; the runner continues
        return attempt.report(close_failed(attempt, raised))
    finally:
        attempt.close()
    return attempt.report(None)


def _run_steps(attempt: GroupAttempt) -> None:
    """Run the steps of the lifecycle in the order that the commit protocol requires."""
    work, table, group = attempt.work, attempt.table, attempt.group
    bound = bind_inputs(attempt)
    made = create_if_missing(attempt, bound)
    with attempt.step("claim"):
        claimed, claim = take_claim(attempt, bound)
    if made is not None and claimed.owned != bound.owned:
        made.notes.close()
        made = None  # its rows are from a range that now belongs to another label
    bound = claimed
    work.keep_alive(claim)
    fault("claimed")
    sealed = seal(attempt, claim, bound, made)
    fault("sealed")
    with attempt.step("audit"):
        audited = audit(attempt, claim, bound, sealed)
        while audited.past:  # audited again without held past windows, since a rule may compare windows
            sealed = leave_out_held_windows(attempt, claim, sealed, audited.past)
            audited = audit(attempt, claim, bound, sealed)
        if audited.hold is not None:
            # a release writes these results to the ledger
            write_claim_record(attempt.folder, claim, build_hold_results(attempt, bound, sealed, audited, audited.hold))
            raise batch_hold_error(table, attempt.where, audited.hold)
    fault("audited")
    write_claim_record(attempt.folder, claim, group_results(attempt, bound, sealed, audited))
    attempt.may_have_committed = True
    with attempt.step("commit"):
        if table.is_fold and table.kind is not Kind.PUBLISH:
            set_shuffle_partitions(attempt.spark, count_live_bytes(attempt.folder))
        version = commit_group(work, lambda: attempt.spark, table, claim, sealed.manifests)
    fault("committed")
    with attempt.step("record"):
        results = group_results(attempt, bound, sealed, audited, version)
        request_other_part(work, table, claim, [result.label for result in results])
        work.ledger.claims.record_done(claim, results)
        fault("done")
    attempt.done = CommittedGroup(
        sum(manifest.rows for manifest in sealed.manifests),
        len({manifest.label for manifest in sealed.manifests} - {batch.label for batch in group.batches}),
        tuple(warning for verdict in audited.verdicts.values() for warning in verdict.warnings),
    )
    if attempt.held is not None:
        record_release(work, group, claim, describe_release(attempt))
    fault("recorded")
    sealed.notes.after(work)


def create_if_missing(attempt: GroupAttempt, bound: BoundInputs) -> MadeSlices | None:
    """Create the table before any claim, so that a takeover has a table in which to kill the claim.

    Returns the rows that were built to find its columns, or None if the table already exists.
    """
    work, table = attempt.work, attempt.table
    if table.kind is Kind.PUBLISH:
        require_last_delivery(work, table, attempt.group)
        return None
    if has_columns(attempt.folder):
        refuse_foreign(work, table)
        return None
    require_log(work, table.name)
    made, is_partitioned = attempt.make(bound), table.is_partitioned
    with attempt.step("create"):
        create_table(attempt.folder, made.schema, is_partitioned=is_partitioned, project=work.flow.project)
    # late rows are separated again under the claim: from then on no window can be closed before its slice
    return made if table.late_rows is None else None
