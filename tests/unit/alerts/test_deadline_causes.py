"""Alerts about deadlines: one message per cause, and none that appears and disappears while work progresses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from tests.ledgers import flow, table
from tests.unit.operations.test_deadlines import FAILED, HOUR, day, facts, timed
from tests.unit.operations.test_watermark_deadlines import at, done, marked, steady
from waterclock.alerts.causes import CheckInput, build_alert_input
from waterclock.alerts.decisions import decide
from waterclock.alerts.wording import Words
from waterclock.batches.alerts import Alert, RootCause, StoredAlerts, TroubleKind
from waterclock.batches.ledger_snapshot import LedgerSnapshot, TableFacts
from waterclock.flow.alerts import Alerting, AlertRule, Severity, Target, TargetKind
from waterclock.flow.declarations import Flow
from waterclock.operations.deadlines import due_of
from waterclock.operations.silent_sources import Silence
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest

VERBS = ("near", "missed")
MARTS = [f"mart.t{number:03}" for number in range(100)]


def looked(of: Flow, known: dict[str, TableFacts], hours: float) -> CheckInput:
    now = day(21) + hours * HOUR
    snapshot = LedgerSnapshot(known)
    plan = Planner(of).plan(snapshot, now, PlanRequest(clock=now))
    return CheckInput(of, snapshot, plan, deadlines=tuple(due_of(of, snapshot, plan, list(of.tables))))


def late(of: Flow, known: dict[str, TableFacts], hours: float) -> list[RootCause]:
    kinds = {TroubleKind.MISSED, TroubleKind.NEAR, TroubleKind.LONG}
    return [trouble for trouble in build_alert_input(looked(of, known, hours)).troubles if trouble.kind in kinds]


def followed(of: Flow, steps: Iterable[tuple[dict[str, TableFacts], float]]) -> list[tuple[str, ...]]:
    """Return the titles of the alerts after each of the steps."""
    rule = AlertRule("all", frozenset(of.tables), Severity.WARNING, ("ops",), timedelta(days=9))
    alerting = Alerting({"ops": Target("ops", TargetKind.WEBHOOK, "http://x")}, (rule,), is_on=True)
    alerts: dict[int, Alert] = {}
    said = []
    for known, hours in steps:
        now = day(21) + hours * HOUR
        before = StoredAlerts(tuple(alerts.values()), next_number=len(alerts) + 1)
        made = decide(before, build_alert_input(looked(of, known, hours)), alerting, now)
        alerts |= {alert.number: alert for alert in made.changed}
        words = Words("shop", "prod", of)
        said.append(tuple(str(words.body(each, now)["title"]).removeprefix("[shop] ") for each in made.messages))
    return said


def test_a_failure_that_makes_a_hundred_tables_late_is_one_cause_that_names_it() -> None:
    of = flow(table("raw.a", partitioned=True), *(timed(name, "4 HOURS", ("raw.a",)) for name in MARTS))
    known = {name: facts(20) for name in of.tables} | {"raw.a": facts(20, troubles={day(20): FAILED})}
    [trouble] = late(of, known, 5)
    assert (trouble.kind, len(trouble.batches)) == (TroubleKind.MISSED, 100)
    assert trouble.what == "to be done by 2026-11-21 04:00Z; raw.a @ 2026-11-20 failed: E700 no disk"
    assert trouble.severity is Severity.ERROR
    [trouble] = late(of, known, 3)
    assert (trouble.kind, trouble.severity) == (TroubleKind.NEAR, Severity.WARNING)


def test_slow_work_is_reported_for_the_most_upstream_late_table() -> None:
    of = flow(
        table("raw.a", partitioned=True),
        timed("mid.b", "3 HOURS", ("raw.a",)),
        *(timed(name, "4 HOURS", ("mid.b",)) for name in MARTS),
    )
    known = {name: facts(20) for name in of.tables}
    [trouble] = late(of, known, 5)
    assert trouble.batches == {"mid.b": frozenset({day(20)})}
    assert trouble.blocks == dict.fromkeys(MARTS, 1)
    known["raw.a"] = known["mid.b"] = facts(21)
    assert len(late(of, known, 5)) == 100


def test_a_deadline_is_reported_once_near_once_missed_and_once_resolved() -> None:
    of = flow(table("raw.a", partitioned=True), timed("mart.c", "4 HOURS", ("raw.a",)))
    slow = {name: facts(20, seconds_per_batch=3600.0) for name in of.tables}
    half = slow | {"raw.a": facts(21, seconds_per_batch=3600.0)}
    done = {name: facts(21) for name in of.tables}
    near, missed = (f"mart.c @ 2026-11-20 {verb} the deadline: to be done by 2026-11-21 04:00Z" for verb in VERBS)
    steps = [(slow, 1), (slow, 2.1), (slow, 2.5), (half, 3.2), (half, 4), (half, 5), (done, 6)]
    ready = "it is ready and not started"
    assert followed(of, steps) == [
        (),
        (f"{near}; raw.a @ 2026-11-20 is ready and not started",),
        (),
        (),
        (f"{missed}; {ready}", f"resolved: {near}; {ready}"),
        (),
        (f"resolved: {missed}; {ready}",),
    ]


def test_a_retried_failure_stays_reported_along_with_its_missed_deadline() -> None:
    of = flow(replace(timed("raw.a", "4 HOURS"), start=day(1)))
    failed = {"raw.a": facts(20, troubles={day(20): FAILED})}
    again = {"raw.a": facts(20)}
    said = followed(of, [(failed, 5), (again, 6), ({"raw.a": facts(21)}, 7)])
    assert [len(each) for each in said] == [2, 2, 2]
    assert sum(title.startswith("raw.a @ 2026-11-20 failed") for each in said for title in each) == 1
    assert sum(title.startswith("resolved: raw.a @ 2026-11-20 failed") for title in said[2]) == 1


def test_collects_of_one_source_that_brings_nothing_are_one_warning() -> None:
    of = flow(table("raw.a", partitioned=True), table("raw.b", partitioned=True))
    known = {name: facts(21) for name in of.tables}
    seen = looked(of, known, 1)
    empty = Silence("raw.a", day(18), day(20), labels=3, expected=3, rows_to=day(17))
    [trouble] = build_alert_input(replace(seen, empty=(empty,))).troubles
    assert (trouble.kind, trouble.severity, trouble.batches) == (
        TroubleKind.EMPTY,
        Severity.WARNING,
        {"raw.a": frozenset({day(18)})},
    )
    assert Words("shop", "prod", of).line(trouble) == (
        "raw.a @ 2026-11-18 is empty: no rows arrived for 2026-11-18 .. 2026-11-20 (3 labels), "
        "although rows usually arrive then"
    )
    assert build_alert_input(replace(seen, empty=())).troubles == []


def test_a_lagging_watermark_is_reported_once_per_state_for_the_upstream_table() -> None:
    """Two tables wait for the same device: one message, about the upstream table."""
    tables = [*marked("web.clicks", "3 HOURS", per=("device",)), *marked("made.kept", "3 HOURS", "web.clicks")]
    of = flow(*tables, *(table(name, partitioned=True, reads=["made.kept"], every="HOUR") for name in MARTS[:3]))
    rule = AlertRule("all", frozenset(of.tables), Severity.WARNING, ("ops",), timedelta(days=9))
    alerting = Alerting({"ops": Target("ops", TargetKind.WEBHOOK, "http://x")}, (rule,), is_on=True)
    alerts: dict[int, Alert] = {}
    said = []
    for hours, stops in ((4, 9), (6, 4), (6.5, 4), (7, 4), (8, 4), (9, 9), (9.5, 9)):
        snapshot = LedgerSnapshot({name: done(int(hours)) for name in of.tables})
        plan = Planner(of).plan(snapshot, at(hours), PlanRequest(clock=at(hours)))
        come = dict.fromkeys(("web.clicks", "made.kept"), steady(int(hours), stops, '{"device":7}'))
        late_now = tuple(due_of(of, snapshot, plan, list(of.tables), reached=come))
        before = StoredAlerts(tuple(alerts.values()), next_number=len(alerts) + 1)
        found = build_alert_input(CheckInput(of, snapshot, plan, deadlines=late_now))
        made = decide(before, found, alerting, at(hours))
        alerts |= {alert.number: alert for alert in made.changed}
        words = Words("shop", "prod", of)
        said += [str(words.body(each, at(hours))["title"]).removeprefix("[shop] ") for each in made.messages]
    told = [title.partition(" the deadline")[0] for title in said]
    assert told == [
        "web.clicks @ 2026-11-20 04:00 .. 2026-11-20 05:00 (2 batches) near",
        "web.clicks @ 2026-11-20 03:00 missed",
        "resolved: web.clicks @ 2026-11-20 03:00 .. 2026-11-20 04:00 (2 batches) missed",
        "resolved: web.clicks @ 2026-11-20 05:00 .. 2026-11-20 07:00 (3 batches) near",
    ]
    assert said[1].endswith("it has reached 2026-11-20 03:40Z: device 7 is 3 h 10 min behind")
