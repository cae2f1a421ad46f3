from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.ledgers import flow, table
from waterclock.alerts.causes import CheckInput, RefusedBatch, build_alert_input
from waterclock.alerts.decisions import MOST, decide
from waterclock.alerts.wording import Words
from waterclock.batches.alerts import Alert, BatchWarnings, StoredAlerts, TroubleKind
from waterclock.batches.ledger_snapshot import BatchStatus, FailedBatch, InputFact, LedgerSnapshot, TableFacts
from waterclock.errors import WaterclockError
from waterclock.flow.alerts import Alerting, AlertRule, Severity, Target, TargetKind
from waterclock.flow.declarations import Flow
from waterclock.planner.planning import Planner
from waterclock.timelabel.intervals import IntervalSet

FIRST = datetime(2026, 11, 1, tzinfo=UTC)
DAY = timedelta(days=1)
NOW = datetime(2026, 11, 21, 1, tzinfo=UTC)
ALL = frozenset({"raw.a"})


def day(number: int) -> datetime:
    return FIRST + (number - 1) * DAY


def failed(error: str) -> FailedBatch:
    return FailedBatch(BatchStatus.FAILED, 1, 1, error, is_transient=False)


def looked_at(of: Flow, troubles: dict[str, dict[datetime, FailedBatch]], **more: object) -> CheckInput:
    done = IntervalSet.from_intervals([(day(1), day(20))])
    facts = {}
    for name in of.tables:
        wrong = troubles.get(name, {})
        gaps = IntervalSet.from_intervals([(label, label + DAY) for label in wrong])
        facts[name] = TableFacts(start=day(1), covered=done - gaps, troubles=wrong)
    snapshot = LedgerSnapshot(facts)
    plan = Planner(of).plan(snapshot, NOW)
    return CheckInput(of, snapshot, plan, **more)  # type: ignore[arg-type]


def messages(looked: CheckInput) -> tuple[list[str], list[Alert]]:
    """Return the titles sent to a target, and the alerts."""
    every = frozenset(looked.flow.tables)
    rule = AlertRule("all", every, Severity.WARNING, ("ops",), timedelta(days=1))
    alerting = Alerting({"ops": Target("ops", TargetKind.WEBHOOK, "http://x")}, (rule,), is_on=True)
    made = decide(StoredAlerts(), build_alert_input(looked), alerting, NOW)
    words = Words("shop", "prod", looked.flow)
    return [str(words.body(each, NOW)["title"]) for each in made.messages], list(made.changed)


def test_a_held_batch_whose_inputs_changed_is_to_be_retried_and_not_released() -> None:
    error = (
        "E755 raw.b is held: few\nwhy  declared at a.dpl:1\nfix  `waterclock release raw.b@20261120000000 --why ...`"
    )
    for current, fix in (
        ("1", "`waterclock release raw.b@20261120000000 --why ...`"),
        ("2", "`waterclock retry raw.b@20261120000000` makes it again"),
    ):
        then = InputFact("raw.a", day(20), day(21), "1", current)
        held = FailedBatch(BatchStatus.HELD, 1, 1, error, is_transient=False, read=(then,))
        of = flow(table("raw.a", partitioned=True), table("raw.b", partitioned=True, reads=["raw.a"]))
        [trouble] = build_alert_input(looked_at(of, {"raw.b": {day(20): held}})).troubles
        assert (trouble.kind, trouble.fix) == (TroubleKind.HELD, fix)


def test_a_batch_that_can_never_be_made_is_to_be_skipped() -> None:
    of = flow(table("raw.a", partitioned=True), table("raw.b", partitioned=True, reads=["raw.a"]))
    gone = TableFacts(start=day(1), covered=IntervalSet.from_intervals([(day(1), day(21))]), dropped_before=day(20))
    made = TableFacts(start=day(1), covered=IntervalSet.from_intervals([(day(1), day(19))]))
    snapshot = LedgerSnapshot({"raw.a": gone, "raw.b": made})
    [trouble] = build_alert_input(CheckInput(of, snapshot, Planner(of).plan(snapshot, NOW))).troubles
    assert (trouble.kind, trouble.what) == (TroubleKind.EXPIRED, "RETAIN of raw.a has dropped its inputs")
    assert trouble.fix == "`waterclock skip raw.b 20261119000000 --why '…'` lets its readers go on without it"


def collects(count: int) -> list[str]:
    return [f"raw.t{number:04}" for number in range(count)]


def test_a_thousand_tables_that_one_failure_holds_up_are_one_message_that_names_it() -> None:
    readers = [table(f"marts.t{number:04}", partitioned=True, reads=["raw.a"]) for number in range(999)]
    looked = looked_at(
        flow(table("raw.a", partitioned=True, start=day(1)), *readers),
        {"raw.a": {day(19): failed("E731 amount is no number")}, **{each.name: {} for each in readers}},
    )
    facts = {
        name: TableFacts(day(1), IntervalSet.from_intervals([(day(1), day(19)), (day(20), day(20))]), one.troubles)
        for name, one in looked.snapshot.tables.items()
    }
    snapshot = LedgerSnapshot(facts)
    looked = CheckInput(looked.flow, snapshot, Planner(looked.flow).plan(snapshot, NOW))
    (title,), (alert,) = messages(looked)
    assert title == "[shop] raw.a @ 2026-11-19 failed: amount is no number (E731)"
    assert len(alert.trouble.blocks) == 999


def test_a_thousand_tables_whose_source_is_away_are_one_message() -> None:
    names = collects(1000)
    error = "E801 connection erp does not answer\n  {}@20261119000000\nwhy  timeout after 10 s\nfix  start it"
    looked = looked_at(
        flow(*(table(name, partitioned=True, start=day(1)) for name in names)),
        {name: {day(19): failed(error.format(name))} for name in names},
    )
    (title,), (alert,) = messages(looked)
    assert title == "[shop] raw.t0000 @ 2026-11-19 and 999 more tables failed: connection erp does not answer (E801)"
    assert alert.trouble.fix == "start it"


def test_a_thousand_equal_failures_of_a_table_are_one_message() -> None:
    labels = [FIRST + number * timedelta(minutes=15) for number in range(1000)]
    of = flow(table("raw.a", partitioned=True, every="15 MINUTES", start=day(1)))
    facts = TableFacts(
        start=day(1),
        troubles={label: failed(f"E740 not as expected: qty: {at} of 90 rows") for at, label in enumerate(labels)},
    )
    snapshot = LedgerSnapshot({"raw.a": facts})
    (title,), (alert,) = messages(CheckInput(of, snapshot, Planner(of).plan(snapshot, NOW)))
    assert "raw.a @ 2026-11-01 00:00 .. 2026-11-11 09:45 (1\u2009000 batches) failed" in title
    assert len(alert.trouble.batches["raw.a"]) == 1000


def test_a_thousand_failures_with_different_causes_are_sent_in_one_message() -> None:
    names = collects(1000)
    looked = looked_at(
        flow(*(table(name, partitioned=True, start=day(1)) for name in names)),
        {name: {day(19): failed(f"E740 not as expected: {name}_rule: 3 of 10 rows")} for name in names},
    )
    titles, alerts = messages(looked)
    assert titles == ["[shop] 1\u2009000 alerts"]
    assert len(alerts) == 1000
    assert len(titles) <= MOST


@pytest.mark.parametrize(
    ("one", "other", "is_one"),
    [
        ("E801 connection erp does not answer", "E801 connection erp does not answer", True),
        ("E801 connection erp does not answer", "E801 connection crm does not answer", False),
        ("E740 qty: 3 of 10 rows", "E740 qty: 5 of 12 rows", False),
        ("E730 no column price", "E730 no column price", True),
        ("E730 no column price", "E730 no column qty", False),
        ("E711 the disk of raw.a is full", "E711 the disk of raw.b is full", True),
        ("E801 timed out after 10 s", "E802 timed out after 10 s", False),
    ],
)
def test_equal_failures_are_one_cause_and_broken_row_rules_are_one_per_table(
    one: str, other: str, *, is_one: bool
) -> None:
    of = flow(table("raw.a", partitioned=True, start=day(1)), table("raw.b", partitioned=True, start=day(1)))
    found = build_alert_input(looked_at(of, {"raw.a": {day(3): failed(one)}, "raw.b": {day(3): failed(other)}}))
    assert len(found.troubles) == (1 if is_one else 2)


def of_one() -> Flow:
    return flow(table("raw.a", partitioned=True, start=day(1)))


def keys(looked: CheckInput) -> list[str]:
    return [trouble.key for trouble in build_alert_input(looked).troubles]


def test_a_failure_is_unresolved_during_a_retry_and_resolved_once_done_or_removed() -> None:
    of = of_one()
    (trouble,) = build_alert_input(looked_at(of, {"raw.a": {day(3): failed("E731 no")}})).troubles
    missing = IntervalSet.from_intervals([(day(1), day(3)), (day(4), day(20))])
    again = LedgerSnapshot({"raw.a": TableFacts(start=day(1), covered=missing)})
    being_tried = CheckInput(of, again, Planner(of).plan(again, NOW))
    assert build_alert_input(being_tried).unsettled(trouble) == {"raw.a": frozenset({day(3)})}
    assert build_alert_input(looked_at(of, {})).unsettled(trouble) == {}
    assert build_alert_input(looked_at(flow(table("raw.b")), {})).unsettled(trouble) == {}


def test_a_check_at_an_earlier_instant_resolves_no_later_failure() -> None:
    of = of_one()
    (trouble,) = build_alert_input(looked_at(of, {"raw.a": {day(19): failed("E731 no")}})).troubles
    facts = looked_at(of, {"raw.a": {day(19): failed("E731 no")}}).snapshot
    earlier = CheckInput(of, facts, Planner(of).plan(facts, day(10)))
    assert build_alert_input(earlier).unsettled(trouble) == {"raw.a": frozenset({day(19)})}


def test_a_batch_that_fails_for_another_reason_has_another_cause() -> None:
    of = of_one()
    (trouble,) = build_alert_input(looked_at(of, {"raw.a": {day(3): failed("E731 no")}})).troubles
    now = build_alert_input(looked_at(of, {"raw.a": {day(3): failed("E711 the disk is full")}}))
    assert now.troubles[0].key != trouble.key
    assert now.unsettled(trouble) == {}


@pytest.mark.parametrize(("code", "kind"), [("E754", TroubleKind.DAMAGED), ("E609", TroubleKind.STOPPED)])
def test_a_batch_refused_by_a_run_is_unresolved_until_a_run_covers_it(code: str, kind: TroubleKind) -> None:
    of = of_one()
    refused = RefusedBatch("raw.a", frozenset({day(20)}), WaterclockError(code, "raw.a is not to be had"))
    (trouble,) = build_alert_input(looked_at(of, {}, refused=(refused,), of_run=ALL)).troubles
    assert trouble.kind is kind
    assert build_alert_input(looked_at(of, {})).unsettled(trouble), "no run has checked it"
    assert build_alert_input(looked_at(of, {}, of_run=frozenset({"raw.b"}))).unsettled(trouble)
    assert not build_alert_input(looked_at(of, {}, of_run=ALL)).unsettled(trouble)


def test_a_warning_is_active_only_while_the_newest_batch_has_it() -> None:
    of = of_one()
    old = BatchWarnings("raw.a", day(3), ("few: 3 of 10 rows", "null_price: 1 of 10 rows"))
    newest = BatchWarnings("raw.a", day(4), ("few: 2 of 12 rows",))
    found = build_alert_input(looked_at(of, {}, warned=(old, newest), newest={"raw.a": newest}))
    assert [trouble.what for trouble in found.troubles] == ["few: 2 of 12 rows"]
    assert [trouble.what for trouble in found.passed] == ["null_price: 1 of 10 rows"]
    assert not found.unsettled(found.troubles[0])


def test_a_flow_without_problems_has_no_causes() -> None:
    assert keys(looked_at(of_one(), {})) == []


def test_a_broken_rule_is_one_cause_whatever_values_explain_it() -> None:
    of = flow(table("raw.a", partitioned=True, start=day(1)))
    errors = (
        "E740 raw.a is not as expected: KEY (id) is not unique: ('x',) occur more than once",
        "E740 raw.a is not as expected: KEY (id) is not unique: ('y',), ('z',) occur more than once",
    )
    looked = looked_at(of, {"raw.a": {day(18 + at): failed(error) for at, error in enumerate(errors)}})
    [trouble] = build_alert_input(looked).troubles
    assert trouble.batches == {"raw.a": {day(18), day(19)}}
    [before], [after] = (
        build_alert_input(
            looked_at(
                of, {}, newest={"raw.a": BatchWarnings("raw.a", day(at), (f"few: the batch is not (a), {text}",))}
            )
        ).troubles
        for at, text in ((18, "where min(land) is DE"), (19, "where min(land) is NULL"))
    )
    assert before.key == after.key


def test_a_warning_ends_with_its_table() -> None:
    warned = {"raw.gone": BatchWarnings("raw.gone", day(19), ("few: 1 of 2 rows violate (a)",))}
    assert build_alert_input(looked_at(flow(table("raw.a", partitioned=True)), {}, newest=warned)).troubles == []
