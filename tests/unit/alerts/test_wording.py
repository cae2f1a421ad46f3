from __future__ import annotations

from datetime import UTC, datetime, timedelta

from waterclock.alerts.wording import Words
from waterclock.batches.alerts import Alert, MessageCause, RootCause, TroubleKind
from waterclock.flow.declarations import Flow


def test_a_resolution_sent_after_quiet_hours_states_how_long_the_cause_lasted() -> None:
    evening = datetime(2026, 1, 1, 21, tzinfo=UTC)
    cause = RootCause("k", TroubleKind.FAILED, "it failed", {"": frozenset()})
    alert = Alert(1, cause, evening, resolved=evening + timedelta(hours=1))

    text = Words("shop", "prod", Flow(project="shop", tables={})).full_text(
        MessageCause.RESOLVED, alert, evening + timedelta(hours=10)
    )
    assert text.splitlines()[-1] == "It lasted 1 h 00 min."
