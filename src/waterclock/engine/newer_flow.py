"""Checks whether another flow was applied since a runner loaded its own. Such a runner can claim nothing."""

from __future__ import annotations

from waterclock.engine.run_context import RunContext
from waterclock.engine.run_listener import GroupReport
from waterclock.ledger import ledger_errors

UNDER_NEWER_FLOW = "E406"
"""The error code of a claim that is refused because its runner loaded another flow than the applied one."""


def has_newer_flow(work: RunContext, *, is_reported: bool = True) -> bool:
    """Return whether the applied flow differs from the runner's. With `is_reported`, this is reported once."""
    applied = work.ledger.declared.applied_flow()
    if applied is None or applied.fingerprint == work.flow.fingerprint:
        return False
    if is_reported:
        work.report_once(
            f"another flow was applied at {applied.at:%Y-%m-%d %H:%MZ}: this runner has an older flow and "
            "claims nothing; update its files and restart it"
        )
    return True


def refused_for_newer_flow(work: RunContext, report: GroupReport) -> GroupReport:
    """Replace the error of a report by E406 if the attempt failed before its claim and another flow is now applied.

    A table may have another name in that flow, so that it is not found: then nothing has failed. Any other report is
    returned unchanged.
    """
    if report.error is None or report.is_of_other_runner or report.claim is not None:
        return report
    if not has_newer_flow(work, is_reported=False):
        return report
    applied = work.ledger.declared.applied_flow()
    refused = ledger_errors.unapplied_flow_error(
        work.flow.fingerprint, None if applied is None else applied.fingerprint
    )
    return GroupReport(report.group, None, seconds=report.seconds, error=refused)
