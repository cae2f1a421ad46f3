"""Sends lineage events to the configured sink, in order. Failed events are retried later and never dropped.

There is no separate queue: events are built from the ledger, where one row records up to which event they were sent. If
a process dies while it sends, some events are sent again, with the same ids. An event that a server rejects while it
accepts later ones is skipped, and recorded in the ledger. If the server accepts none, all of them wait.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import groupby
from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError
from waterclock.extras import extra_install_command
from waterclock.http.posting import LEASE, NotDelivered, retry_delay
from waterclock.openlineage.sinks import deliver
from waterclock.operations.formatting import count_words
from waterclock.secrets.reader import Secrets

if TYPE_CHECKING:
    from waterclock.batches.run_events import LineageEvent, LineageEventPage
    from waterclock.dpl.project import Project
    from waterclock.engine.run_context import RunContext
    from waterclock.ledger.ledger import Ledger
    from waterclock.openlineage.events import Events

LIBRARY = "openlineage"
SECONDS_OF_A_RUN = 10.0
"""A cycle of a run sends no event after this time. The next cycle, or `waterclock openlineage send`, continues."""
_RECORD_INTERVAL = 10.0  # seconds between records of the progress; with ten seconds for an event, less than the lease
_PAGE = 200
_MOST_REFUSED = 20  # events that may be skipped before a server counts as rejecting everything


@dataclass(frozen=True, slots=True)
class LineageSendResult:
    """The result of sending: the number of delivered events, and why the next one failed (`lost`).

    `is_busy`: another process is sending. `left_out` is the number of events that were rejected although later ones
    were accepted. The ledger records them, and they block nothing.
    """

    events: int = 0
    lost: str = ""
    is_busy: bool = False
    left_out: int = 0


def sink_error(project: Project) -> WaterclockError | None:
    """Return error E379 if events are configured and the library that creates them is not installed. Else None."""
    if not project.openlineage.is_on or find_spec(LIBRARY) is not None:
        return None
    return WaterclockError(
        "E379",
        "events of lineage are made by openlineage-python, which is not installed",
        fix=extra_install_command("openlineage"),
    )


def send(project: Project, ledger: Ledger, *, seconds: float | None = None, at_once: bool = False) -> LineageSendResult:
    """Send pending events, but start none after `seconds`. `at_once` ignores the pause after a failure.

    Cost: a query to the ledger for each 200 events, the sink's time for each event, and some milliseconds at the first
    event of each table. Raises E379 if the library is not installed.
    """
    if error := sink_error(project):
        raise error
    after = ledger.openlineage.take(LEASE, at_once=at_once)
    if after is None:
        return LineageSendResult(is_busy=True)
    from waterclock.openlineage.events import Events

    sending = _EventSender(
        project, ledger, Events(project, ledger), None if seconds is None else time.monotonic() + seconds
    )
    try:
        while not (page := ledger.openlineage.happenings_after(after, _PAGE)).is_all or page.found:
            after = page.up_to
            if not sending.send(page):
                break
    finally:
        if not sending.lost:
            ledger.openlineage.end_turn()
    return LineageSendResult(sending.count, sending.lost, left_out=sending.left_out)


@dataclass(slots=True)
class _EventSender:
    project: Project
    ledger: Ledger
    events: Events
    until: float | None
    count: int = 0
    left_out: int = 0
    lost: str = ""
    refused: list[tuple[LineageEvent, str]] = field(default_factory=list)

    def send(self, page: LineageEventPage) -> bool:
        """Send one page of events. Return whether to continue."""
        arrived, noted = 0, time.monotonic()
        try:
            for number, together in groupby(page.found, key=lambda it: it.number):
                for it in together:
                    self._deliver(it)
                if self.refused:
                    continue  # not known yet whether only this event is rejected, or all of them
                arrived = number
                if self.until is not None and time.monotonic() > self.until:
                    break
                if time.monotonic() - noted > _RECORD_INTERVAL:
                    self.ledger.openlineage.record_sent(arrived, LEASE)
                    noted = time.monotonic()
            self.lost = self.refused[0][1] if self.refused else ""
        except NotDelivered as error:
            self.lost = str(error)
        self.refused.clear()
        if arrived:
            self.ledger.openlineage.record_sent(arrived, LEASE)
        if self.lost:
            attempts = 0 if arrived else self.ledger.openlineage.state().attempts
            self.ledger.openlineage.record_lost(self.lost, retry_delay(attempts))
            return False
        return arrived == page.up_to

    def _deliver(self, it: LineageEvent) -> None:
        """Send one event. A rejected event is remembered, and skipped once a later one is accepted."""
        secrets, sink = Secrets.from_places(self.project.secrets), self.project.openlineage
        try:
            deliver(sink, self.project.root, secrets, self.events.convert(it))
        except NotDelivered as error:
            if not error.is_refused or len(self.refused) == _MOST_REFUSED:
                raise
            self.refused.append((it, str(error)))
            return
        self.count += 1
        if self.refused:
            self.ledger.openlineage.record_rejected(self.refused)
            self.left_out += len(self.refused)
            self.refused.clear()


def send_after_run(work: RunContext) -> None:
    """Send pending events after a cycle of a run. A failure is reported once and does not end the run."""
    try:
        sent = send(work.project, work.ledger, seconds=SECONDS_OF_A_RUN)
    except Exception as raised:  # noqa: BLE001 - failed events do not fail the run's batches
        what = raised.what if isinstance(raised, WaterclockError) else type(raised).__name__
        work.report_once(f"events of lineage were not sent: {what}")
        return
    if sent.lost:
        work.report_once(lost_words(sent.lost))
    if sent.left_out:
        work.report_once(describe_rejected(sent.left_out, work.ledger.openlineage.state().refusal))


def lost_words(why: str) -> str:
    """Return the message for events that were not delivered."""
    return f"events of lineage did not arrive ({why}); they wait in the ledger, and are sent later"


def describe_rejected(count: int, last: str) -> str:
    """Return the message for events that a server rejected; `last` is the last of them with the reason."""
    return f"{count_words(count, 'event')} of lineage left out, as the server refuses them (the last: {last})"
