"""Sends the pending messages in the ledger, in order for each target. Failed ones are retried later, never dropped."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.alerts.targets import deliver
from waterclock.errors import WaterclockError
from waterclock.http.posting import LEASE, NotDelivered, retry_delay

if TYPE_CHECKING:
    from waterclock.flow.alerts import Alerting
    from waterclock.ledger.ledger import Ledger
    from waterclock.secrets.reader import Secrets

_MOST = 50  # messages to one target in one check
_SECONDS = 10.0  # after which a check starts no further message to a target


@dataclass(frozen=True, slots=True)
class UndeliveredMessage:
    """A target that did not receive a message, and the reason."""

    target: str
    why: str


@dataclass(frozen=True, slots=True)
class SendResult:
    """The result of sending: the number of delivered messages, and the targets that failed."""

    messages: int = 0
    lost: tuple[UndeliveredMessage, ...] = ()


def send(ledger: Ledger, alerting: Alerting, secrets: Secrets) -> SendResult:
    """Send the pending messages to every target that may be tried now. A target's first failure ends its turn.

    A message may arrive twice if a runner dies after sending and before recording it. Cost: up to ten seconds for each
    webhook that does not answer, and nothing for it until the next attempt; up to twenty for one that answers slowly.
    """
    sent, lost = 0, []
    waiting = {message.target for message in ledger.alerts.outgoing_messages()}
    for name, target in alerting.targets.items():
        until = time.monotonic() + _SECONDS
        for _ in range(_MOST if name in waiting else 0):
            if time.monotonic() > until:
                break
            message = ledger.alerts.take_message(name, LEASE)
            if message is None:
                break
            try:
                deliver(target, secrets, message.body)
            except (NotDelivered, WaterclockError) as error:
                why = error.what if isinstance(error, WaterclockError) else str(error)
                ledger.alerts.record_lost(message.number, why, retry_delay(message.attempts))
                lost.append(UndeliveredMessage(name, why))
                break
            ledger.alerts.record_sent(message.number)
            sent += 1
    return SendResult(sent, tuple(lost))
