"""Requires reasons for decisions that other users will ask about. Each function raises E903 for an empty reason."""

from __future__ import annotations

from functools import partial

from waterclock.errors import WaterclockError


def _require_reason(what: str, reads: str, why: str) -> None:
    if not why.strip():
        raise WaterclockError(
            "E903", "a reason is needed", why=reads, fix=f"state why {what}; on a command line: --why '…'"
        )


need_reason = partial(_require_reason, "the rows are left out", "readers have no other explanation of the missing rows")
need_reason_of_release = partial(
    _require_reason, "the rows may be shown", "readers have no other explanation of rows that a rule held"
)
need_reason_of_revert = partial(
    _require_reason, "the earlier rows are right", "readers have no other explanation of rows that were replaced before"
)
need_reason_of_closing = partial(
    _require_reason,
    "the window is closed",
    "there is no other record of why the window closed before its condition held",
)
need_reason_of_pause = partial(_require_reason, "it is paused", "there is no other record of why batches do not run")
need_reason_of_erasing = partial(
    _require_reason, "the persons are erased", "the certificate and the audit trail name the reason"
)
need_reason_of_acknowledging = partial(
    _require_reason, "the alert may wait", "there is no other record of why an alert is no longer repeated"
)
need_reason_of_edit = partial(
    _require_reason, "the row changes", "the history of the row is the only record of why a person changed it"
)
