"""Finds out whether another flow was applied since a runner read its own: under that one it can claim nothing."""

from __future__ import annotations

from waterclock.engine.progress import GroupReport
from waterclock.engine.workplace import Workplace
from waterclock.ledger import refusals

UNDER_NEWER_FLOW = "E406"
"""The code with which a claim is refused whose runner has another flow than the applied one."""


def has_newer_flow(work: Workplace, *, is_told: bool = True) -> bool:
    """Return whether the applied flow is another one than the runner's, and report it once where `is_told`."""
    applied = work.ledger.declared.applied()
    if applied is None or applied.fingerprint == work.flow.fingerprint:
        return False
    if is_told:
        work.note_once(
            f"another flow was applied at {applied.at:%Y-%m-%d %H:%MZ}: this runner has an older one and claims "
            "nothing; update its files, and start it again"
        )
    return True


def refused_for_newer_flow(work: Workplace, report: GroupReport) -> GroupReport:
    """Return the report of an attempt that failed before its claim because another flow was applied meanwhile.

    A table may have another name then, so that it is not found: nothing has failed. Any other report is returned as
    it is.
    """
    if report.error is None or report.is_anothers or report.claim is not None:
        return report
    if not has_newer_flow(work, is_told=False):
        return report
    applied = work.ledger.declared.applied()
    refused = refusals.not_applied(work.flow.fingerprint, None if applied is None else applied.fingerprint)
    return GroupReport(report.group, None, seconds=report.seconds, error=refused)
