"""Checks, waits for and extends the lock of a rebuild of all tables."""

from __future__ import annotations

import threading

from waterclock.batches.ledger_snapshot import OpenClaim
from waterclock.batches.rebuilding import Rebuilding
from waterclock.engine.abandoned_claims import find_abandoned_claims
from waterclock.engine.background_thread import BackgroundThread
from waterclock.engine.run_context import RunContext
from waterclock.engine.runner_name import has_ended
from waterclock.errors import WaterclockError
from waterclock.ledger.ledger_errors import already_claimed_error
from waterclock.ledger.write.rebuild_all_lock import rebuild_in_progress_error

_POLL_SECONDS = 0.5


def require_no_running_rebuild(work: RunContext, *, is_read_only: bool = False) -> None:
    """Raise E644 while all tables are rebuilt. Release a rebuild lock that has expired, as for an expired claim.

    The lock's owner may only be paused. It made tables from an older cut, and must not replace the live ones any more.
    With `is_read_only`, nothing is changed.
    """
    known = work.ledger.maintenance.current_rebuilding()
    if known is None or known.is_done:
        return
    if known.is_blocking(work.real_now()):
        raise rebuild_in_progress_error(known)
    if is_read_only:
        return
    why = "its lease had expired, and a table was changed by hand since"
    work.ledger.maintenance.end_rebuilding(known.token, who=work.settings.who, why=why)


def require_no_other_rebuild(work: RunContext) -> None:
    """Raise E644 if another rebuild of all tables is running."""
    known = work.ledger.maintenance.current_rebuilding()
    if known is not None and not is_abandoned(known) and known.is_blocking(work.real_now()):
        raise rebuild_in_progress_error(known)


def is_abandoned(known: Rebuilding) -> bool:
    """Return whether the process that took the rebuild lock has certainly ended."""
    return has_ended(known.runner)


def wait_for_running_batches(work: RunContext) -> None:
    """Wait until no batch of the flow is running, and resolve abandoned claims.

    Claims of tables that are no longer declared are ignored: no rebuild moves these tables. Raises E407 for an
    abandoned claim of a table whose declaration has changed: only the old declaration can resolve it.
    """
    from waterclock.engine.batch.takeover import take_over

    differing = work.ledger.maintenance.differences(work.flow)
    while True:
        left = [claim for claim in find_abandoned_claims(work) if claim.request.table in work.flow.tables]
        for claim in left:
            if claim.request.table in differing:
                raise already_claimed_error(
                    claim.request.table,
                    claim.request.labels[0],
                    OpenClaim(claim.number, claim.request.labels, claim.request.runner, claim.lease_until),
                )
        if left:
            found = take_over(work, left)
            if found.unsettled:
                raise found.unsettled[0]
        running = [claim for claim in work.ledger.claims.open() if claim.request.table in work.flow.tables]
        if not running:
            return
        claim = running[0]
        work.report_once(f"waiting for {claim.request.runner}, which makes {claim.request.table}")
        threading.Event().wait(_POLL_SECONDS)


class RebuildLock(BackgroundThread):
    """Extends the rebuild lock three times per lease, from a thread of its own."""

    def __init__(self, work: RunContext, token: str) -> None:
        super().__init__("rebuild-hold")
        self._work, self._token = work, token

    def _run(self) -> None:
        lease = self._work.settings.lease
        while not self._done.wait(lease / 3):
            try:
                self._work.ledger.maintenance.renew_rebuilding(self._token, lease_seconds=lease)
            except WaterclockError as error:
                if not self._done.is_set() and error.code != "E644":
                    self._work.listener.on_message(f"the lock of the rebuild is not extended: {error.what}")
