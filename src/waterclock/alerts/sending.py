"""Sends what waits in the ledger, in order for each target; what is lost is tried again later, and never dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.alerts.targets import deliver
from waterclock.errors import WaterclockError
from waterclock.posting import LEASE, NotDelivered, wait_after

if TYPE_CHECKING:
    from waterclock.flow.alerts import Alerting
    from waterclock.ledger.ledger import Ledger
    from waterclock.secrets import Secrets

_MOST = 50  # messages to one target at one look


@dataclass(frozen=True, slots=True)
class Lost:
    """A target that a message did not reach, and why."""

    target: str
    why: str


@dataclass(frozen=True, slots=True)
class Sent:
    """What came of sending: how many messages arrived, and which targets are lost."""

    messages: int = 0
    lost: tuple[Lost, ...] = ()


def send(ledger: Ledger, alerting: Alerting, secrets: Secrets) -> Sent:
    """Send what waits to every target that is to be tried now; the first that is lost ends a target's turn.

    A message may arrive twice where a runner dies between sending it and noting that. Cost: up to some seconds for
    each target that does not answer, and nothing for it until it is tried again.
    """
    sent, lost = 0, []
    waiting = {message.target for message in ledger.alerts.outgoing()}
    for name, target in alerting.targets.items():
        for _ in range(_MOST if name in waiting else 0):
            message = ledger.alerts.take_message(name, LEASE)
            if message is None:
                break
            try:
                deliver(target, secrets, message.body)
            except (NotDelivered, WaterclockError) as error:
                why = error.what if isinstance(error, WaterclockError) else str(error)
                ledger.alerts.note_lost(message.number, why, wait_after(message.attempts))
                lost.append(Lost(name, why))
                break
            ledger.alerts.note_sent(message.number)
            sent += 1
    return Sent(sent, tuple(lost))
