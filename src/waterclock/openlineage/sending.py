"""Sends what happened, in order, to where the project says; what is lost is tried again later, and never dropped.

There is no copy of it that could be lost: each event is made from what the ledger tells, and one row keeps how far that
was sent. Whoever dies while it sends leaves events that are sent again, with the same ids.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from itertools import groupby
from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError
from waterclock.openlineage.sinks import deliver
from waterclock.posting import NotDelivered
from waterclock.secrets import Secrets

if TYPE_CHECKING:
    from waterclock.batches.happenings import Happened
    from waterclock.dpl.project import Project
    from waterclock.engine.workplace import Workplace
    from waterclock.ledger.ledger import Ledger
    from waterclock.openlineage.events import Events

LIBRARY = "openlineage"
SECONDS_OF_A_RUN = 10.0
"""How long a look of a run sends at most; the rest waits for the next, or for `waterclock openlineage send`."""
_LEASE = timedelta(minutes=2)
_NOTED_EVERY = 10.0  # seconds between two notes of how far it came; with one event's five it is less than the lease
_PAGE = 200
_FIRST, _LONGEST = timedelta(seconds=30), timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Sent:
    """What came of sending: how many events arrived, and why the next did not. `is_busy`: another sends just now."""

    events: int = 0
    lost: str = ""
    is_busy: bool = False


def sink_error(project: Project) -> WaterclockError | None:
    """Return what keeps events from being made by what is installed here."""
    if not project.openlineage.is_on or find_spec(LIBRARY) is not None:
        return None
    return WaterclockError(
        "E379",
        "events of lineage are made by openlineage-python, which is not installed",
        fix="install waterclock with it: pip install 'waterclock[openlineage]'",
    )


def send(project: Project, ledger: Ledger, *, seconds: float | None = None, at_once: bool = False) -> Sent:
    """Send what waits, for so long at most; `at_once`: also where the sink is to be left alone for a while.

    Cost: a question to the ledger for each 200 events, what the sink takes for each, and at the first event of each
    table some milliseconds.
    Raises  E379 where the library is not installed
    """
    if error := sink_error(project):
        raise error
    after = ledger.lineage.take(_LEASE, at_once=at_once)
    if after is None:
        return Sent(is_busy=True)
    from waterclock.openlineage.events import Events

    sending = _Sending(
        project, ledger, Events(project, ledger), None if seconds is None else time.monotonic() + seconds
    )
    try:
        while not (page := ledger.lineage.happened_after(after, _PAGE)).is_all or page.found:
            after = page.up_to
            if not sending.send(page):
                break
    finally:
        if not sending.lost:
            ledger.lineage.give_back()
    return Sent(sending.count, sending.lost)


@dataclass(slots=True)
class _Sending:
    project: Project
    ledger: Ledger
    events: Events
    until: float | None
    count: int = 0
    lost: str = ""

    def send(self, page: Happened) -> bool:
        """Send one page; give whether to go on."""
        secrets, sink = Secrets.of(self.project.secrets), self.project.openlineage
        arrived, noted = 0, time.monotonic()
        try:
            for number, together in groupby(page.found, key=lambda it: it.number):
                for it in together:
                    deliver(sink, self.project.root, secrets, self.events.of(it))
                    self.count += 1
                arrived = number
                if self.until is not None and time.monotonic() > self.until:
                    break
                if time.monotonic() - noted > _NOTED_EVERY:
                    self.ledger.lineage.note_sent(arrived, _LEASE)
                    noted = time.monotonic()
        except NotDelivered as error:
            self.lost = str(error)
        if arrived:
            self.ledger.lineage.note_sent(arrived, _LEASE)
        if self.lost:
            attempts = 0 if arrived else self.ledger.lineage.state().attempts
            self.ledger.lineage.note_lost(self.lost, min(_FIRST * int(2 ** min(attempts, 10)), _LONGEST))
            return False
        return arrived == page.up_to


def send_after(work: Workplace) -> None:
    """Send what waits after a run's look; whatever is wrong with that is said once, and the run goes on."""
    try:
        sent = send(work.project, work.ledger, seconds=SECONDS_OF_A_RUN)
    except Exception as raised:  # noqa: BLE001 - what made its batches has not failed because nobody heard of it
        what = raised.what if isinstance(raised, WaterclockError) else type(raised).__name__
        work.note_once(f"events of lineage were not sent: {what}")
        return
    if sent.lost:
        work.note_once(lost_words(sent.lost))


def lost_words(why: str) -> str:
    """Say that events did not arrive."""
    return f"events of lineage did not arrive ({why}); they wait in the ledger, and are sent later"
