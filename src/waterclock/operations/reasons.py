"""Requires a reason for decisions that other users will ask about."""

from __future__ import annotations

from waterclock.errors import WaterclockError


def need_reason(why: str) -> None:
    """Raise E903 if rows would be left out without a reason."""
    _need(why, "it is all that a reader finds of the rows", "they are left out")


def need_reason_of_release(why: str) -> None:
    """Raise E903 if a held batch would be released without a reason."""
    _need(why, "it is all that a reader finds of why rows are there that a rule held back", "they may be shown")


def need_reason_of_closing(why: str) -> None:
    """Raise E903 if a window would be closed by hand without a reason."""
    _need(why, "it is all that others see of why its books were closed before their condition held", "it is closed")


def need_reason_of_pause(why: str) -> None:
    """Raise E903 if a pause has no reason."""
    _need(why, "it is all that others see of what does not run", "it is paused")


def need_reason_of_acknowledging(why: str) -> None:
    """Raise E903 if an alert would be acknowledged without a reason."""
    _need(why, "it is all that others see of why an alert is repeated no more", "the alert may wait")


def _need(why: str, reads: str, what: str) -> None:
    if not why.strip():
        raise WaterclockError(
            "E903", "a reason is needed", why=reads, fix=f"say why {what}; on a command line: --why '…'"
        )
