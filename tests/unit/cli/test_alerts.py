from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.listening import Heard, listening
from tests.unit.cli.conftest import NOW, Shop, day
from waterclock.alerts.checking import (
    AlertCheckOutcome,
    RunFindings,
    alert_stopped_run,
    check_alerts,
    check_alerts_after_run,
)
from waterclock.batches.alerts import TroubleKind
from waterclock.engine.ledger_opening import ledger_url
from waterclock.engine.run_listener import GroupReport
from waterclock.engine.run_opening import open_workplace
from waterclock.engine.run_outcome import RunOutcome
from waterclock.engine.runner import Runner
from waterclock.errors import WaterclockError
from waterclock.ledger.ledger import Ledger
from waterclock.operations.project_opening import open_project
from waterclock.planner.plan import Batch, Group, Status
from waterclock.planner.planning import Planner

needs_apprise = pytest.mark.skipif(importlib.util.find_spec("apprise") is None, reason="the extra alerts is missing")


@pytest.fixture
def hook() -> Iterator[Heard]:
    with listening() as heard:
        yield heard


@pytest.fixture
def other() -> Iterator[Heard]:
    with listening() as heard:
        yield heard


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> object:
        self.now += timedelta(milliseconds=1)
        return self.now


class Telling:
    """Adds [alerts] to a shop's project file, and checks alerts."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.clock = Clock()
        self.ledger = Ledger.open(ledger_url(shop.project), clock=self.clock)  # type: ignore[arg-type]

    def say(self, text: str) -> None:
        file = self.shop.folder / "waterclock.toml"
        said = file.read_text(encoding="utf-8")
        base = said.split("\n[alerts")[0].replace("[env.dev]\n", "[env.dev]\nalerts = true\n", 1)
        file.write_text(f"{base.rstrip()}\n\n{text}", encoding="utf-8")

    def look(self, minutes: float = 1, said: RunFindings | None = None) -> AlertCheckOutcome:
        self.clock.now += timedelta(minutes=minutes)
        project = open_project(self.shop.folder, None)
        at = project.flow
        return check_alerts(project, self.ledger, lambda: self.ledger.reads.snapshot(at), NOW, said or RunFindings())


@pytest.fixture
def telling(busy_shop: Shop) -> Iterator[Telling]:
    found = Telling(busy_shop)
    yield found
    found.ledger.close()


ERRORS = '[alerts.rules.all]\nto = ["hook"]\nseverity = "error"\n'


def webhook(heard: Heard, more: str = "") -> str:
    return f'[alerts.targets.hook]\nwebhook = "{heard.address}"\n{more}'


def test_a_failure_sends_one_alert_with_its_blocked_batches_and_one_when_resolved(
    telling: Telling, hook: Heard
) -> None:
    telling.say(webhook(hook) + ERRORS)
    telling.look()
    telling.look()
    (body,) = hook.bodies
    assert body["version"] == "4"
    assert body["status"] == "firing"
    (alert,) = body["alerts"]
    assert alert["labels"]["table"] == "shop.orders"
    assert alert["labels"]["code"] == "E731"
    assert alert["annotations"]["blocks"] == "sales.by_country (1), sales.best_customers (1), web.per_order (1)"
    assert "amount is no number" in alert["annotations"]["summary"]
    assert alert["endsAt"] == "0001-01-01T00:00:00Z"
    told = telling.shop.ask("alerts", width=40).stdout  # output in a file has no line breaks
    assert "   blocks 3 batches of sales.best_customers, sales.by_country, web.per_order\n" in told

    telling.shop.ledger.decisions.retry("shop.orders", [day(19)], who="ann")
    telling.look()
    assert hook.statuses == ["firing"], "it is being retried, and not fixed yet"
    telling.shop.done("shop.orders", 19)
    telling.look()
    assert hook.statuses == ["firing", "resolved"]
    assert hook.bodies[1]["alerts"][0]["endsAt"] > hook.bodies[1]["alerts"][0]["startsAt"]
    telling.look()
    assert len(hook.bodies) == 2


def test_a_lost_target_loses_nothing_and_is_left_alone_for_a_while(telling: Telling, hook: Heard, other: Heard) -> None:
    both = ERRORS.replace('"hook"', '"hook", "other"')
    telling.say(f'{webhook(hook)}[alerts.targets.other]\nwebhook = "{other.address}"\n{both}')
    hook.answer = 503
    found = telling.look()
    assert [lost.target for lost in found.sent.lost] == ["hook"]
    assert found.sent.lost[0].why == "it answered 503"
    assert other.statuses == ["firing"]
    telling.look(minutes=0.1)
    assert hook.tries == 1, "it is not retried at every check"
    telling.shop.done("shop.orders", 19)
    for _ in range(3):
        telling.look(minutes=20)
    assert hook.tries == 4
    assert not hook.bodies
    hook.answer = 200
    telling.look(minutes=20)
    assert hook.statuses == ["firing", "resolved"], "all of it arrives, in order"
    assert other.statuses == ["firing", "resolved"]
    assert telling.ledger.alerts.outgoing_messages() == ()


def test_a_redirection_is_not_followed_for_it_would_take_the_token_along(telling: Telling, hook: Heard) -> None:
    secrets = telling.shop.folder / "secrets"
    secrets.mkdir(exist_ok=True)
    (secrets / "token").write_text("s3cret-token\n")
    telling.say(webhook(hook, 'token = { secret = "token" }\n'))
    hook.answer = 307
    assert telling.look().sent.lost[0].why == "it answered 307"
    hook.answer = 200
    telling.look(minutes=20)
    assert hook.tokens == ["Bearer s3cret-token"]
    assert b"s3cret-token" not in telling.shop.ledger_file.read_bytes()


@needs_apprise
def test_a_target_of_apprise_hears_the_same_and_its_address_is_never_shown(telling: Telling, hook: Heard) -> None:
    secrets = telling.shop.folder / "secrets"
    secrets.mkdir(exist_ok=True)
    (secrets / "chat").write_text(f"json://ann:s3cret@127.0.0.1:{hook.port}/\n")
    telling.say('[alerts.targets.chat]\napprise = { secret = "chat" }\n' + ERRORS.replace("hook", "chat"))
    hook.answer = 500
    assert telling.look().sent.lost[0].why == "apprise could not deliver it"
    hook.answer = 200
    telling.look(minutes=20)
    telling.shop.done("shop.orders", 19)
    telling.look()
    assert [body["type"] for body in hook.bodies] == ["failure", "success"]
    first, last = hook.titles
    assert first.startswith("[shop] shop.orders @ 2024-11-19 failed: amount is no number (E731)")
    assert last.startswith("[shop] resolved: shop.orders")
    assert "blocks  3 batches of sales.best_customers, sales.by_country" in hook.bodies[0]["message"]
    told = "".join(telling.shop.ask(*words).output for words in (("alerts",), ("alerts", "--json"), ("alerts", "test")))
    assert "s3cret" not in told
    assert b"s3cret" not in telling.shop.ledger_file.read_bytes()


def test_an_open_alert_is_repeated_until_it_is_acknowledged(telling: Telling, hook: Heard) -> None:
    telling.say('[alerts]\nrepeat = "1 HOUR"\n' + webhook(hook) + ERRORS)
    for _ in range(3):
        telling.look(minutes=61)
    assert len(hook.bodies) == 3
    said = telling.shop.ask("alerts", "acknowledge", "1", "--why", "the supplier sends it anew")
    assert said.exit_code == 0, said.output
    assert "1  acknowledged: shop.orders" in said.output
    for _ in range(3):
        telling.look(minutes=61)
    assert len(hook.bodies) == 3
    assert "acknowledged by" in telling.shop.ask("alerts").output
    assert telling.shop.json("alerts")["open"][0]["acknowledged"]["why"] == "the supplier sends it anew"
    telling.shop.done("shop.orders", 19)
    telling.look()
    assert hook.statuses[-1] == "resolved"
    over = telling.shop.ask("alerts", "acknowledge", "1", "--why", "late")
    assert over.exit_code == 1
    assert "E458" in over.output


def test_alert_rules_select_by_affected_table_and_severity(telling: Telling, hook: Heard, other: Heard) -> None:
    telling.say(
        f'{webhook(hook)}[alerts.targets.other]\nwebhook = "{other.address}"\n'
        '[alerts.rules.sales]\nto = "hook"\nselect = "sales.by_country"\nseverity = "error"\n'
        '[alerts.rules.loud]\nto = "other"\nseverity = "critical"\n'
    )
    telling.look()
    assert [body["commonLabels"]["table"] for body in hook.bodies] == ["shop.orders"], "its input has failed"
    assert not other.bodies


def test_alerts_in_quiet_hours_are_deferred_and_not_lost(telling: Telling, hook: Heard) -> None:
    telling.say('[alerts]\nquiet = "08:00-12:00"\n' + webhook(hook) + ERRORS)
    telling.look()  # 08:01
    telling.shop.done("shop.orders", 19)
    telling.look()
    assert not hook.bodies
    telling.look(minutes=240)
    (body,) = hook.bodies
    assert body["status"] == "resolved"
    assert "passed" in body["alerts"][0]["annotations"]["description"]


def test_a_warning_alert_is_open_only_while_the_newest_batch_warns(telling: Telling, hook: Heard) -> None:
    shop = telling.shop
    telling.say(webhook(hook))
    telling.look()
    before = len(hook.bodies)
    shop.done("shop.customers", 18)  # 18 triggers an alert; 19 exists already and does not
    telling.look(minutes=20)
    (passed,) = hook.bodies[before:]
    assert passed["status"] == "resolved"
    assert "few_orders" in passed["alerts"][0]["annotations"]["summary"]
    telling.look(minutes=20)
    assert len(hook.bodies) == before + 1


def test_a_silent_source_alert_stays_open_until_another_run_polls_the_source(telling: Telling, hook: Heard) -> None:
    from waterclock.alerts.causes import SilentSource

    telling.say(webhook(hook))
    tables = frozenset(telling.shop.project.flow.tables)
    silent = SilentSource("web.visits", day(19), "visits", "has nothing newer than 2024-11-18 00:00Z")
    telling.look(said=RunFindings(tables, silent=(silent,)))
    telling.look(minutes=20)  # another process, which queried no source
    kinds = [alert.trouble.kind for alert in telling.ledger.alerts.known() if alert.is_open]
    assert TroubleKind.SILENT in kinds
    telling.look(minutes=20, said=RunFindings(tables))
    kinds = [alert.trouble.kind for alert in telling.ledger.alerts.known() if alert.is_open]
    assert TroubleKind.SILENT not in kinds


def test_targets_are_tested_and_those_that_are_lost_are_named(telling: Telling, hook: Heard, other: Heard) -> None:
    telling.say(f'{webhook(hook)}[alerts.targets.other]\nwebhook = "{other.address}"\n')
    assert telling.shop.ask("alerts", "test").exit_code == 0
    for body in (*hook.bodies, *other.bodies):
        assert [alert["labels"]["alertname"] for alert in body["alerts"]] == ["waterclock_test"]
        assert body["status"] == "resolved", "a test notifies no user"
    other.answer = 404
    said = telling.shop.ask("alerts", "test")
    assert said.exit_code == 1
    assert "other  webhook  not reached: it answered 404" in said.output
    unknown = telling.shop.ask("alerts", "test", "hok")
    assert "E918 unknown target hok" in unknown.output
    assert "did you mean hook?" in unknown.output


@needs_apprise
def test_an_address_that_apprise_rejects_is_reported_with_its_position(telling: Telling) -> None:
    telling.say(
        '[alerts.targets.ops]\napprise = "slakc://T0/B0/secret"\n[alerts.targets.chat]\napprise = "slack://x"\n'
    )
    said = telling.shop.ask("alerts", "test")
    assert said.exit_code == 1
    assert "E914 apprise does not accept the address of target ops" in said.output
    assert "its address does not begin with a known scheme" in said.output
    assert "a part of the slack:// address is missing or misspelt" in said.output
    assert "waterclock.toml:" in said.output
    assert "B0" not in said.output
    assert "2 errors in 1 file" in telling.shop.ask("check").output


def test_a_target_with_a_missing_secret_is_reported_by_check_and_stops_no_run(telling: Telling, hook: Heard) -> None:
    telling.say(
        webhook(hook) + ERRORS + '[alerts.targets.far]\napprise = { secret = "ops/slack" }\n'
        '[alerts.targets.near]\nwebhook = "https://alerts.example/hook"\ntoken = { secret = "ops/hook" }\n'
        '[alerts.rules.far]\nto = ["far"]\nseverity = "error"\n'
    )
    for command in (("check",), ("alerts", "test")):
        said = telling.shop.ask(*command)
        assert said.exit_code == 1
        assert "E225 secret ops/slack does not resolve" in said.output
        assert "E225 secret ops/hook does not resolve" in said.output
        assert "waterclock.toml:" in said.output
    assert telling.shop.ask("plan").exit_code == 0
    told = telling.look()
    assert told.sent.messages == 1, "the other targets are notified"
    assert [(each.target, each.why) for each in told.sent.lost] == [("far", "secret ops/slack does not resolve")]


def test_check_loads_no_library_of_targets_where_none_is_needed(telling: Telling, hook: Heard) -> None:
    telling.say(webhook(hook))
    assert "no errors" in telling.shop.ask("check").output


def test_a_run_alerts_about_unclaimed_batches_and_continues_if_alerting_fails(
    telling: Telling, hook: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    telling.say(webhook(hook) + ERRORS)
    project = open_project(telling.shop.folder, None)
    batch = Batch("web.visits", project.flow.tables["web.visits"].cadence.window_of(day(19)), Status.READY, "due")
    error = WaterclockError("E754", "the log of web.visits is gone", fix="put it back")
    report = GroupReport(Group("web.visits", (batch,)), None, error=error)
    with open_workplace(project) as work:
        outcome = RunOutcome(plan=Planner(work.flow).plan(work.ledger.reads.snapshot(work.flow), NOW))
        outcome.unclaimed["web.visits"] = report
        check_alerts_after_run(work, outcome, None, is_of_some=False)
        assert [alert.trouble.kind for alert in work.ledger.alerts.known() if alert.trouble.of_run] == [
            TroubleKind.DAMAGED
        ]
        check_alerts_after_run(work, RunOutcome(plan=outcome.plan), ["shop.orders"], is_of_some=False)
        assert [alert.is_open for alert in work.ledger.alerts.known() if alert.trouble.of_run] == [True]
        check_alerts_after_run(work, RunOutcome(plan=outcome.plan), None, is_of_some=False)
        assert not [alert for alert in work.ledger.alerts.known() if alert.trouble.of_run and alert.is_open]
        hook.bodies.clear()
        work.ledger._database.clock = lambda: datetime.now(UTC) + timedelta(minutes=1)
        alert_stopped_run(work, WaterclockError("E701", "Java is missing"), NOW)
        told = [alert["annotations"]["summary"] for body in hook.bodies for alert in body["alerts"]]
        assert any(each.startswith("the project stopped: Java is missing (E701)") for each in told)
        monkeypatch.setattr("waterclock.alerts.checking.build_alert_input", lambda _: 1 / 0)
        check_alerts_after_run(work, outcome, None, is_of_some=False)  # the run continues


def test_a_runner_reports_an_unclaimed_batch_once_and_remembers_it_at_later_checks(telling: Telling) -> None:
    table = telling.shop.project.flow.tables["web.visits"]
    batch = Batch("web.visits", table.cadence.window_of(day(19)), Status.READY, "due")
    report = GroupReport(Group("web.visits", (batch,)), None, error=WaterclockError("E754", "the log is gone"))
    with open_workplace(telling.shop.project) as work:
        runner, first, second = Runner(work), RunOutcome(), RunOutcome()
        runner._report_unclaimed(report, set(), first)
        runner._report_unclaimed(report, set(), second)
    assert (len(first.failed), len(second.failed)) == (1, 0), "it is sent once"
    assert first.unclaimed == second.unclaimed == {"web.visits": report}


def test_an_environment_that_sends_no_alerts_reports_it(busy_shop: Shop, hook: Heard) -> None:
    file = busy_shop.folder / "waterclock.toml"
    assert "no alert is sent" in busy_shop.ask("alerts").output
    file.write_text(f"{file.read_text(encoding='utf-8')}\n{webhook(hook)}", encoding="utf-8")
    assert "environment dev sends no alerts" in busy_shop.ask("alerts").output
    refused = busy_shop.ask("alerts", "send")
    assert refused.exit_code == 1
    assert "alerts = true below [env.dev]" in refused.output
    assert busy_shop.ask("alerts", "test").exit_code == 0, "a test is requested by name"


def test_alerts_send_checks_again_and_reports_pending_messages(telling: Telling, hook: Heard) -> None:
    telling.say(webhook(hook))
    hook.answer = 503
    said = telling.shop.ask("alerts", "send")
    assert said.exit_code == 1
    assert "target hook was not reached (it answered 503)" in said.output
    assert "1 message waits for hook: it answered 503" in telling.shop.ask("alerts").output
    assert telling.shop.json("alerts")["waiting"][0]["attempts"] == 1


def test_acknowledging_an_unknown_or_invalid_alert_is_refused(busy_shop: Shop) -> None:
    assert "E457 there is no alert 7" in busy_shop.ask("alerts", "acknowledge", "7", "--why", "known").output
    assert "E903" in busy_shop.ask("alerts", "acknowledge", "7", "--why", " ").output
    for odd in ("²", "9" * 20, "9" * 5000):
        assert "E918" in busy_shop.ask("alerts", "acknowledge", odd, "--why", "known").output
    assert (
        "E918 'x' is not the number of an alert" in busy_shop.ask("alerts", "acknowledge", "x", "--why", "known").output
    )
    assert busy_shop.ask("alerts", "acknowledge", "7").exit_code == 2
