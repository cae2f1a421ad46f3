from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random

import pytest

from tests.counting import calls_of
from tests.model.flows import at, collect, snapshot, transform
from waterclock.batches.audit_records import BatchState, StoredStates
from waterclock.batches.ledger_snapshot import BatchStatus, FailedBatch, LedgerSnapshot, TableFacts
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Mode
from waterclock.planner.label_states import LabelState, count_idle_labels, count_states, label_states
from waterclock.planner.plan import Status
from waterclock.planner.planning import Planner
from waterclock.timelabel.intervals import IntervalSet

NOW = at("2013-01-05 12:00")
SPAN = (at("2013-01-01"), at("2013-01-06"))


def flow_of(*tables: Table) -> Flow:
    return Flow(project="x", tables={each.name: each for each in tables}, order=tuple(each.name for each in tables))


def cell(table: str, label: str, status: str = "done") -> BatchState:
    start = at(label)
    return BatchState(table, start, start + timedelta(days=1), status, 1, 1, 1, 1, None, None, None, False, None)


def facts(covered: Iterable[tuple[str, str]] = (), **more: object) -> TableFacts:
    spans = IntervalSet.from_intervals((at(low), at(high)) for low, high in covered)
    return TableFacts(covered=spans, **more)  # type: ignore[arg-type]


def states(flow: Flow, past: dict[str, TableFacts], stored: Iterable[BatchState], name: str) -> list[Status]:
    found = label_states(Planner(flow), LedgerSnapshot(past), NOW, stored, SPAN, only=[name])[name]
    assert [one.label for one in found] == sorted(one.label for one in found)
    return [one.status for one in found]


def test_every_due_label_has_a_state_from_start_to_the_newest() -> None:
    flow = flow_of(collect("a.a", start=at("2013-01-02")))
    past = {"a.a": facts([("2013-01-02", "2013-01-03")])}
    found = states(flow, past, [cell("a.a", "2013-01-02")], "a.a")
    assert found == [Status.DONE, Status.READY, Status.READY]


@pytest.mark.parametrize(
    ("stored", "expected"),
    [("done", Status.DONE), ("skipped", Status.SKIPPED), ("running", Status.RUNNING)],
)
def test_done_skipped_and_running_labels_have_the_status_of_the_ledger(stored: str, expected: Status) -> None:
    flow = flow_of(collect("a.a"))
    past = {"a.a": facts([("2013-01-01", "2013-01-05")])}
    assert states(flow, past, [cell("a.a", "2013-01-01", stored)], "a.a")[0] is expected


@pytest.mark.parametrize("stored", ["failed", "held"])
def test_a_failed_or_held_label_that_is_no_longer_planned_is_quiet_with_a_reason(stored: str) -> None:
    flow = flow_of(transform("b.b", [], mode=Mode.REPLACE), transform("b.c", [], mode=Mode.REPLACE))
    past = {name: facts([("2013-01-02", "2013-01-05")]) for name in flow.tables}
    made_again = cell("b.b", "2013-01-02", stored)
    never_made = replace(cell("b.c", "2013-01-01", stored), current_claim=None)
    found = label_states(Planner(flow), LedgerSnapshot(past), NOW, [made_again, never_made], SPAN)
    why = "an attempt to make it again failed, and is no longer needed: its rows are valid"
    assert LabelState(at("2013-01-02"), Status.DONE, why, made_again) in found["b.b"]
    why = f"{stored}, and no longer needed"
    assert found["b.c"][0] == LabelState(at("2013-01-01"), Status.NOT_NEEDED, why, never_made)


def test_a_failed_batch_and_its_blocked_readers_have_a_reason() -> None:
    flow = flow_of(collect("a.a"), transform("b.b", ["a.a"]))
    trouble = FailedBatch(BatchStatus.FAILED, 1, 3, "E7 it broke", is_transient=False)
    past = {"a.a": facts([("2013-01-01", "2013-01-04")], troubles={at("2013-01-04"): trouble})}
    found = label_states(Planner(flow), LedgerSnapshot(past), NOW, [], SPAN)
    assert found["a.a"][-1].status is Status.FAILED
    assert found["b.b"][-1] == LabelState(
        at("2013-01-04"), Status.BLOCKED, "blocked by a.a@20130104000000, failed: E7 it broke"
    )


def test_a_done_batch_that_must_run_again_is_stale() -> None:
    flow = flow_of(collect("a.a"))
    asked = facts([("2013-01-01", "2013-01-05")], requested={at("2013-01-02"): "recompute"})
    stored = [cell("a.a", f"2013-01-0{day}") for day in range(1, 5)]
    assert states(flow, {"a.a": asked}, stored, "a.a") == [Status.DONE, Status.STALE, Status.DONE, Status.DONE]


def test_a_done_batch_whose_rows_were_dropped_has_a_reason() -> None:
    flow = flow_of(collect("a.a"))
    past = {"a.a": facts([("2013-01-01", "2013-01-05")], dropped_before=at("2013-01-02"))}
    stored = [cell("a.a", f"2013-01-0{day}") for day in (1, 2)]
    found = label_states(Planner(flow), LedgerSnapshot(past), NOW, stored, SPAN)["a.a"]
    assert [(one.status, one.reason) for one in found[:2]] == [
        (Status.DONE, "its rows were dropped since, and no query shows them"),
        (Status.DONE, ""),
    ]


def test_days_before_a_snapshot_are_covered_by_it() -> None:
    flow = flow_of(snapshot("a.a"))
    past = {"a.a": facts([("2012-12-01", "2013-01-05")])}
    expected = [Status.STOOD_FOR] * 3 + [Status.DONE]
    assert states(flow, past, [cell("a.a", "2013-01-04")], "a.a") == expected
    assert states(flow, {}, [], "a.a") == [Status.STOOD_FOR] * 3 + [Status.READY]


def test_labels_without_a_reader_are_not_needed() -> None:
    flow = flow_of(collect("a.a"), transform("b.b", ["a.a"], mode=Mode.REPLACE, is_partitioned=False))
    past = {"a.a": facts([("2013-01-01", "2013-01-05")])}
    assert states(flow, past, [], "b.b") == [Status.NOT_NEEDED] * 3 + [Status.READY]


def test_history_before_a_later_start_stays_in_sight() -> None:
    flow = flow_of(collect("a.a", start=at("2013-01-03")))
    past = {"a.a": facts([("2013-01-01", "2013-01-05")])}
    stored = [cell("a.a", f"2013-01-0{day}") for day in range(1, 5)]
    assert states(flow, past, stored, "a.a") == [Status.DONE] * 4


def test_an_empty_span_has_no_states() -> None:
    flow = flow_of(collect("a.a"))
    assert label_states(Planner(flow), LedgerSnapshot(), NOW, [], (NOW, NOW)) == {"a.a": ()}


def random_past(dice: Random, name: str, days: list[datetime]) -> tuple[TableFacts, list[BatchState]]:
    """Return random facts of a table: labels that are done, not done, or stand for others."""
    done = [day for day in days if dice.random() < 0.6]
    stood = [day for day in days if dice.random() < 0.2]
    other = dict.fromkeys((day for day in done if dice.random() < 0.2), "running")
    other |= {
        day: dice.choice(["skipped", "failed", "held"]) for day in days if day not in done and dice.random() < 0.4
    }
    stored = [cell(name, f"{day:%Y-%m-%d}", other.get(day, "done")) for day in days if day in done or day in other]
    skipped = [day for day, status in other.items() if status == "skipped"]
    covered = IntervalSet.from_intervals((day, day + timedelta(days=1)) for day in (*done, *stood, *skipped))
    asked = {day: "recompute" for day in done if dice.random() < 0.1}
    return TableFacts(covered=covered, requested=asked), stored


@pytest.mark.parametrize("seed", range(60))
def test_counted_states_are_those_of_each_label(seed: int) -> None:
    dice = Random(seed)
    flow = flow_of(
        collect("a.a", start=at("2013-01-03")),
        transform("b.b", ["a.a"]),
        transform("c.c", ["b.b"], mode=Mode.REPLACE, is_partitioned=False),
        snapshot("d.d"),
    )
    days = [at("2012-12-20") + timedelta(days=n) for n in range(30)]
    made = {name: random_past(dice, name, days) for name in flow.tables}
    past, now = LedgerSnapshot({name: facts for name, (facts, _) in made.items()}), days[dice.randrange(10, 30)]
    stored = [one for _, cells in made.values() for one in cells]
    done = {name: [one.label for one in cells if one.status == "done"] for name, (_, cells) in made.items()}
    settled = StoredStates(done, tuple(one for one in stored if one.status != "done"))
    edges = sorted(dice.sample([day + timedelta(hours=hour) for day in days for hour in (0, 0, 7)], 12))
    apart = {name: dice.sample(days, 5) for name in flow.tables}
    found = count_states(Planner(flow), past, now, settled, dict.fromkeys(flow.tables, edges), apart=apart)
    each = label_states(Planner(flow), past, now, stored, (days[0], edges[-1] + timedelta(days=1)))
    for name in flow.tables:
        for (low, high), counted in zip(pairwise(edges), found[name], strict=True):
            wanted = [one for one in each[name] if low <= one.label < high]
            counts = Counter(counted.counts) + Counter(one.status for one in counted.listed)
            assert counts == Counter(one.status for one in wanted), (name, low, high)
            status_of = {one.label: one.status for one in wanted}
            assert all(status_of[one.label] is one.status for one in counted.listed)
            listed = {one.label for one in counted.listed}
            assert {day for day in apart[name] if day in status_of and day in done[name]} <= listed


def quiet_of(flow: Flow, past: dict[str, TableFacts], now: datetime = NOW) -> dict[str, tuple[int, int]]:
    planner = Planner(flow)
    planned: dict[str, int] = {}
    for batch in planner.plan(LedgerSnapshot(past), now).batches:
        planned[batch.table] = planned.get(batch.table, 0) + 1
    found = count_idle_labels(planner, LedgerSnapshot(past), now, planned)
    return {name: (it.not_needed, it.stood_for) for name, it in found.items()}


def test_quiet_labels_are_counted_by_their_reason() -> None:
    flow = flow_of(collect("a.a"), snapshot("a.s"), transform("b.b", ["a.a"], mode=Mode.REPLACE, is_partitioned=False))
    assert quiet_of(flow, {}) == {"a.s": (0, 3), "b.b": (3, 0)}
    done = {
        "a.a": facts([("2013-01-01", "2013-01-05")], codes={"a.a": 4}),
        "a.s": facts([("2012-01-01", "2013-01-05")], codes={"a.s": 2}),
        "b.b": facts([("2013-01-04", "2013-01-05")], codes={"b.b": 1}),
    }
    assert quiet_of(flow, done) == {"a.s": (0, 2), "b.b": (3, 0)}


def test_a_table_whose_labels_are_all_done_is_counted_at_once() -> None:
    def cost(hours: int) -> int:
        flow = flow_of(*(collect(f"a.t{n}", "HOUR") for n in range(50)))
        edges = [at("2013-01-02") + timedelta(hours=n) for n in range(hours + 1)]
        past = LedgerSnapshot({name: facts([("2013-01-01", "2013-01-05")]) for name in flow.tables})
        settled = StoredStates(dict.fromkeys(flow.tables, edges[:-1]))
        planner = Planner(flow)
        bounds = dict.fromkeys(flow.tables, edges)
        found, calls = calls_of(lambda: count_states(planner, past, edges[-1], settled, bounds, apart={}))
        assert all(sum(each.counts[Status.DONE] for each in of) == hours for of in found.values())
        return calls

    assert cost(72) < cost(24) + 50 * 100  # calls; each hour of a table cost 24 before


def test_a_failed_snapshot_is_covered_by_a_later_one() -> None:
    flow = flow_of(snapshot("a.a"))
    failed = replace(cell("a.a", "2013-01-03", "failed"), current_claim=None)
    past = {"a.a": facts([("2013-01-01", "2013-01-05")])}
    assert states(flow, past, [failed, cell("a.a", "2013-01-04")], "a.a")[2:] == [Status.STOOD_FOR, Status.DONE]


def test_a_label_may_wait_for_a_table_that_is_not_shown() -> None:
    flow = flow_of(collect("a.a"), transform("b.b", ["a.a"]))
    found = label_states(Planner(flow), LedgerSnapshot(), NOW, [], SPAN, only=["b.b"])["b.b"]
    assert (found[0].status, found[0].reason) == (Status.WAITING, "waits for a.a@20130101000000, ready")
