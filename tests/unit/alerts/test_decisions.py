from __future__ import annotations

from datetime import UTC, datetime, timedelta

from waterclock.alerts.decisions import AlertInput, decide
from waterclock.batches.alerts import MessageCause, RootCause, StoredAlerts, TroubleKind
from waterclock.flow.alerts import Alerting, AlertRule, QuietHours, Severity, Target, TargetKind

HOUR = timedelta(hours=1)


def test_a_rule_in_its_quiet_hours_repeats_nothing_for_another_rule_that_has_none() -> None:
    tables, to = frozenset({"raw.a"}), ("ops",)
    often = AlertRule("often", tables, Severity.ERROR, to, HOUR, QuietHours(22 * 60, 7 * 60, "UTC"))
    damage = AlertRule("damage", tables, Severity.CRITICAL, to, 24 * HOUR)
    alerting = Alerting({"ops": Target("ops", TargetKind.WEBHOOK, "http://x")}, (often, damage), is_on=True)
    found = AlertInput([RootCause("k", TroubleKind.DAMAGED, "lost", {"raw.a": frozenset()})])
    known, told = StoredAlerts(), dict[int, MessageCause]()
    for number in range(10):
        now = datetime(2026, 1, 1, 23, tzinfo=UTC) + number * HOUR
        made = decide(known, found, alerting, now)
        known = StoredAlerts(made.changed or known.alerts, next_number=2)
        for message in made.messages:
            told[now.hour] = message.alerts[0][0]

    assert told == {23: MessageCause.FIRING, 7: MessageCause.REPEATED, 8: MessageCause.REPEATED}
