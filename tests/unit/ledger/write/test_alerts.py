from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.ledgers import Clock, Desk, day, result, table
from waterclock.batches.alerts import Alert, AlertsNow, Notification, RootCause, StoredAlerts, TroubleKind
from waterclock.errors import WaterclockError
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.store.export import export_lines, load

TROUBLE = RootCause("k", TroubleKind.FAILED, "no number", {"raw.a": frozenset({day(3)})}, "E731", blocks={"marts.a": 2})
LEASE = timedelta(minutes=2)


def look(desk: Desk, *targets: str, since: int = 0, up_to: int = 0) -> AlertsNow | None:
    """Open an alert, and record its notification of these targets."""

    def decide(known: StoredAlerts, at: datetime) -> AlertsNow:
        alert = Alert(known.next_number, TROUBLE, at, notifications={name: Notification(at, at) for name in targets})
        return AlertsNow((alert,), tuple((name, {"title": f"{alert.number} to {name}"}) for name in targets))

    return desk.ledger.alerts.record_alert_check(decide, since=since, up_to=up_to)


def test_the_alerts_of_a_check_are_stored_without_waking_a_runner(at_desk: Desk) -> None:
    before = at_desk.ledger.sequence()
    look(at_desk, "ops")
    (alert,) = at_desk.ledger.alerts.known()
    assert alert == Alert(
        1, TROUBLE, at_desk.clock.at, notifications={"ops": Notification(at_desk.clock.at, at_desk.clock.at)}
    )
    assert [message.body["title"] for message in at_desk.ledger.alerts.outgoing_messages()] == ["1 to ops"]
    assert at_desk.ledger.sequence() == before


def test_only_one_of_two_concurrent_alert_checks_decides(at_desk: Desk) -> None:
    assert look(at_desk, "ops", up_to=7) is not None
    assert look(at_desk, "ops", up_to=7) is None
    assert look(at_desk, "ops", since=7, up_to=7) is not None
    assert [alert.number for alert in at_desk.ledger.alerts.known()] == [1, 2]


def test_messages_go_out_in_order_one_at_a_time_and_again_where_a_runner_died(at_desk: Desk) -> None:
    look(at_desk, "ops", "mail")
    look(at_desk, "ops")
    alerts = at_desk.ledger.alerts
    first = alerts.take_message("ops", LEASE)
    assert first is not None
    assert first.body["title"] == "1 to ops"
    assert alerts.take_message("ops", LEASE) is None, "another runner sends it"
    assert alerts.take_message("mail", LEASE) is not None
    at_desk.clock.pass_by(minutes=3)
    assert alerts.take_message("ops", LEASE) == first
    alerts.record_lost(first.number, "it answered 503", timedelta(minutes=1))
    assert alerts.take_message("ops", LEASE) is None, "no request is sent to it, and later messages wait"
    at_desk.clock.pass_by(minutes=2)
    again = alerts.take_message("ops", LEASE)
    assert again is not None
    assert (again.number, again.attempts, again.error) == (first.number, 1, "it answered 503")
    alerts.record_sent(again.number)
    following = alerts.take_message("ops", LEASE)
    assert following is not None
    assert following.body["title"] == "2 to ops"


def test_turns_and_delays_from_before_the_clock_was_set_back_are_over(at_desk: Desk) -> None:
    """Otherwise a dead runner's message would wait until the clock has passed the earlier time again."""
    look(at_desk, "ops")
    alerts, lineage = at_desk.ledger.alerts, at_desk.ledger.openlineage
    assert alerts.take_message("ops", LEASE) is not None
    assert lineage.take(LEASE) == 0
    at_desk.clock.pass_by(hours=-3)
    first = alerts.take_message("ops", LEASE)
    assert first is not None
    assert lineage.take(LEASE) == 0
    assert alerts.take_message("ops", LEASE) is None
    assert lineage.take(LEASE) is None
    alerts.record_lost(first.number, "it answered 503", timedelta(minutes=10))
    lineage.record_lost("it answered 503", timedelta(minutes=10))
    at_desk.clock.pass_by(hours=-3)
    assert alerts.take_message("ops", LEASE) is not None
    assert lineage.take(LEASE) == 0


def test_warnings_are_those_since_the_last_alert_check(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True))
    alerts, ledger = at_desk.ledger.alerts, at_desk.ledger

    def done(label: float, *texts: str) -> None:
        claim = at_desk.claim("raw.a", label)
        ledger.claims.record_done(claim, [result(label, measures={"warnings": list(texts)})])

    done(1, "few: 3 rows")
    done(2)
    seen = alerts.find_warned_batches(ledger.sequence())
    assert [(warned.label, warned.texts) for warned in seen.batches] == [(day(1), ("few: 3 rows",))]
    assert seen.newest["raw.a"].texts == ()
    look(at_desk, since=seen.since, up_to=seen.up_to)
    assert alerts.find_warned_batches(ledger.sequence()).batches == ()
    done(3, "few: 1 rows")
    at_desk.clock.pass_by(days=3)
    assert [warned.label for warned in alerts.find_warned_batches(ledger.sequence()).batches] == [day(3)]
    assert alerts.find_warned_batches(seen.up_to).batches == (), "later entries belong to the next check"
    assert alerts.find_warned_batches(seen.up_to, ["raw.a"]).newest["raw.a"].label == day(3)


def test_who_acknowledges_is_kept_with_the_reason(at_desk: Desk) -> None:
    look(at_desk)
    at_desk.ledger.alerts.acknowledge(1, who="ann", why="known")
    (alert,) = at_desk.ledger.alerts.known()
    assert alert.acknowledged is not None
    assert (alert.acknowledged.who, alert.acknowledged.why) == ("ann", "known")
    with pytest.raises(WaterclockError, match="no alert 2"):
        at_desk.ledger.alerts.acknowledge(2, who="ann", why="known")


def test_a_ledger_that_was_lost_forgets_no_alert_that_was_exported(at_desk: Desk) -> None:
    look(at_desk, "ops", up_to=3)
    lines = list(export_lines(at_desk.ledger._database))
    with Ledger.open("sqlite://", clock=Clock()) as found:
        load(found._database, [lines])
        assert found.alerts.known() == at_desk.ledger.alerts.known()
        assert found.alerts.outgoing_messages() == at_desk.ledger.alerts.outgoing_messages()
        assert found.alerts.record_alert_check(lambda *_: AlertsNow(), since=3, up_to=3) is not None
