"""A check sends for a limited time to each target, however slowly it accepts messages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from waterclock.alerts import sending
from waterclock.alerts.sending import SendResult, send


class Alerts:
    """An endless supply of pending messages for two targets."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def outgoing_messages(self) -> list[Any]:
        return [SimpleNamespace(target="slow"), SimpleNamespace(target="fast")]

    def take_message(self, target: str, _: object) -> Any:
        self.taken.append(target)
        return SimpleNamespace(number=len(self.taken), body={}, attempts=0)

    def record_sent(self, number: int) -> None:
        """Do nothing."""


def test_a_target_that_accepts_slowly_is_left_for_the_next_check(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def deliver(target: str, *_: object) -> None:
        now[0] += 4 if target == "slow" else 0

    alerts = Alerts()
    monkeypatch.setattr(sending, "deliver", deliver)
    monkeypatch.setattr(sending, "time", SimpleNamespace(monotonic=lambda: now[0]))
    ledger, alerting = SimpleNamespace(alerts=alerts), SimpleNamespace(targets={"slow": "slow", "fast": "fast"})
    sent = send(ledger, alerting, SimpleNamespace())  # type: ignore[arg-type]
    assert sent == SendResult(messages=53)
    assert (alerts.taken.count("slow"), alerts.taken.count("fast")) == (3, 50)
