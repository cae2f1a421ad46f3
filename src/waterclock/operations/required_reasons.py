"""Requires a reason for decisions that other users will ask about."""

from __future__ import annotations

from waterclock.errors import WaterclockError


def need_reason(why: str) -> None:
    """Raise E903 if rows would be left out without a reason."""
    _need(why, "readers have no other explanation of the missing rows", "the rows are left out")


def need_reason_of_release(why: str) -> None:
    """Raise E903 if a held batch would be released without a reason."""
    _need(why, "readers have no other explanation of rows that a rule held", "the rows may be shown")


def need_reason_of_closing(why: str) -> None:
    """Raise E903 if a window would be closed by hand without a reason."""
    _need(
        why,
        "there is no other record of why the window closed before its condition held",
        "the window is closed",
    )


def need_reason_of_pause(why: str) -> None:
    """Raise E903 if a pause has no reason."""
    _need(why, "there is no other record of why batches do not run", "it is paused")


def need_reason_of_acknowledging(why: str) -> None:
    """Raise E903 if an alert would be acknowledged without a reason."""
    _need(why, "there is no other record of why an alert is no longer repeated", "the alert may wait")


def _need(why: str, reads: str, what: str) -> None:
    if not why.strip():
        raise WaterclockError(
            "E903", "a reason is needed", why=reads, fix=f"state why {what}; on a command line: --why '…'"
        )
