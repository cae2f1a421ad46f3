"""Renews a runner's leases and its entry in the list of live runners, from a thread of its own.

A lost lease does not stop the batch: its commit is refused if another runner has taken the batch over.
"""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Self

from waterclock.engine.background_thread import BackgroundThread
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.ledger.ledger_errors import ClaimClosed
from waterclock.timelabel.label import label_of


class Heartbeat(BackgroundThread):
    """Renews the leases of open claims three times per lease, as a context manager.

    With a `command`, it also keeps the runner in the ledger's list of live runners, under that command.
    """

    def __init__(self, work: RunContext, command: str | None = None) -> None:
        super().__init__("heartbeat")
        self._work = work
        self._command = command

    def __enter__(self) -> Self:
        if self._command is not None:
            settings = self._work.settings
            self._work.ledger.runners.register(
                settings.runner,
                who=settings.who,
                command=self._command,
                flow=self._work.flow.fingerprint,
                lease_seconds=settings.lease,
            )
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._command is not None:
            with suppress(WaterclockError):  # without the ledger, the entry expires by itself
                self._work.ledger.runners.leave(self._work.settings.runner)

    def _run(self) -> None:
        while not self._done.wait(self._work.settings.lease / 3):
            if self._command is not None:
                with suppress(WaterclockError):
                    self._work.ledger.runners.see(self._work.settings.runner, flow=self._work.flow.fingerprint)
            for claim in self._work.active_claims():
                try:
                    self._work.ledger.claims.renew(claim)
                except WaterclockError as error:
                    is_done = isinstance(error, ClaimClosed) and error.is_done  # recorded, and about to be released
                    if is_done or claim not in self._work.active_claims():  # the claim ended in the meantime
                        continue
                    label = label_of(claim.request.labels[0])
                    self._work.listener.on_message(f"lease of {claim.request.table}@{label} not renewed: {error.what}")
