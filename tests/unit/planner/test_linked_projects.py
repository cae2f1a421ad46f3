"""Linked tables: batches of the other project that theirs wait for, the newest ones, and stale ones."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.model.flows import cadence, collect, flow, replace_transform, transform
from waterclock.batches.ledger_snapshot import (
    BatchStatus,
    FailedBatch,
    InputFact,
    LedgerSnapshot,
    OpenClaim,
    Pause,
    TableFacts,
)
from waterclock.batches.linked_projects import LinkFacts
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Batching, Mode
from waterclock.planner.linked_projects import add_links, explain_window_mismatch, newest_served
from waterclock.planner.plan import Batch, Status
from waterclock.planner.planning import Planner
from waterclock.timelabel.intervals import IntervalSet

UP = "upstream.shop.orders"
_NO_PAST = TableFacts()


def day(number: int, hour: int = 0) -> datetime:
    return datetime(2013, 1, number, hour, tzinfo=UTC)


def slices(period: str = "DAY") -> Table:
    return collect("here.a", period, batching=Batching.LABELS, start=day(1))


def state(period: str = "DAY") -> Table:
    return collect("here.a", period, batching=Batching.STATE, mode=Mode.REPLACE, is_partitioned=False, start=day(1))


def link(until: datetime, *, mode: Mode = Mode.APPEND, period: str = "HOUR", **more: Any) -> LinkFacts:
    settled = IntervalSet.from_intervals([(day(1), until)])
    facts: dict[str, Any] = {"past": TableFacts(covered=settled), "settled": settled} | more
    return LinkFacts(UP, cadence(period), mode, **facts)


def planned(table: Table, known: LinkFacts, now: datetime, *others: Table, past: TableFacts = _NO_PAST) -> list[Batch]:
    snapshot = LedgerSnapshot({table.name: past})
    plan = Planner(flow(table, *others)).plan(add_links(snapshot, {table.name: known}), now)
    return list(plan.batches)


def told(table: Table, known: LinkFacts, now: datetime) -> tuple[Status, str]:
    newest = planned(table, known, now)[-1]
    return newest.status, newest.reason


def test_a_day_waits_for_all_of_its_hours_there() -> None:
    first, second = planned(slices(), link(day(2, 23)), day(3))
    assert first.status is Status.READY
    assert (second.status, second.reason) == (
        Status.WAITING,
        f"waits for {UP}@20130102230000, which is not made there yet",
    )


@pytest.mark.parametrize(
    ("past", "status", "reason"),
    [
        (
            {"troubles": {day(2): FailedBatch(BatchStatus.FAILED, 1, 3, "E740 no\nmore", is_transient=False)}},
            Status.BLOCKED,
            f"blocked by {UP}@20130102000000, failed: in its project: E740 no",
        ),
        (
            {"open_claims": (OpenClaim(1, (day(2),), "x", day(9)),)},
            Status.WAITING,
            f"waits for {UP}@20130102000000, which is being made there",
        ),
        (
            {"paused": Pause(day(2), "ann", "moving")},
            Status.WAITING,
            f"waits for {UP}@20130102000000, in its project paused by ann since 2013-01-02 00:00 +00:00: moving",
        ),
        (
            {"covered": IntervalSet.from_intervals([(day(1), day(3))])},
            Status.WAITING,
            f"waits for {UP}@20130102000000, which is to be made again there",
        ),
    ],
)
def test_the_reason_why_a_window_of_a_linked_table_cannot_be_read_is_reported(
    past: dict[str, Any], status: Status, reason: str
) -> None:
    facts = TableFacts(**({"covered": IntervalSet.from_intervals([(day(1), day(2))])} | past))
    assert told(slices(), link(day(2), past=facts), day(3)) == (status, reason)


def test_a_project_that_never_ran_is_waited_for() -> None:
    assert told(slices(), LinkFacts(UP), day(2)) == (
        Status.WAITING,
        f"waits for {UP}@20130101000000, which has not run yet",
    )


def test_two_projects_that_wait_for_each_other_are_reported() -> None:
    found = told(slices(), link(day(2), circle="here.b"), day(3))[1]
    assert found.endswith(
        "; it waits for here.b in turn: the two projects wait for each other until one of them stops reading the other"
    )


def test_an_error_of_the_linked_project_is_reported() -> None:
    problem = WaterclockError("E838", "the other project cannot be read")
    assert told(slices(), LinkFacts(UP, problem=problem), day(2))[1] == (
        f"waits for {UP}@20130101000000, E838 the other project cannot be read"
    )


def test_a_linked_table_that_is_no_longer_declared_is_reported() -> None:
    assert told(slices(), link(day(2), is_dropped=True), day(3))[1].endswith("which its project no longer declares")


def test_a_window_dropped_by_retain_in_the_linked_project_is_expired() -> None:
    known = link(day(3))
    known = replace(known, past=replace(known.past, dropped_before=day(2)))
    assert [batch.status for batch in planned(slices(), known, day(3))] == [Status.EXPIRED, Status.READY]


def test_of_a_state_the_newest_that_there_is_is_made_while_the_newest_due_waits() -> None:
    known = link(day(3), mode=Mode.REPLACE, period="DAY")
    found = {batch.window.label: batch.status for batch in planned(state(), known, day(5))}
    assert found == {"20130102000000": Status.READY, "20130104000000": Status.WAITING}


def test_readers_of_a_linked_state_are_made_for_the_newest_that_there_is() -> None:
    known, reader = link(day(3), mode=Mode.REPLACE, period="DAY"), replace_transform("marts.b", ["here.a"])
    found = {(b.table, b.window.label) for b in planned(state(), known, day(5), reader)}
    assert ("marts.b", "20130102000000") in found


def test_only_a_restatement_with_other_content_in_the_linked_project_makes_a_label_stale() -> None:
    table, reader = slices(), transform("marts.b", ["here.a"])
    done = TableFacts(covered=IntervalSet.from_intervals([(day(1), day(3))]))
    changed = {day(1): InputFact(UP, day(1), day(2), "1.1", "2.2")}
    [batch, *_] = planned(table, link(day(3), changed=changed), day(3), reader, past=done)
    assert (batch.window.start, batch.status, batch.reason) == (day(1), Status.READY, f"stale: {UP} changed since")
    assert not [b for b in planned(table, link(day(3)), day(3), past=done) if b.table == table.name]


def test_a_suspect_label_is_not_stale_once_the_linked_content_is_equal_again() -> None:
    marked = TableFacts(
        covered=IntervalSet.from_intervals([(day(1), day(3))]),
        suspects={day(1): (InputFact(UP, day(1), day(2), "1.1", "1.1"),)},
    )
    assert planned(slices(), link(day(3)), day(3), past=marked) == []


@pytest.mark.parametrize(
    ("ours", "theirs", "fix"),
    [("DAY", "HOUR", None), ("30 MINUTES", "HOUR", "write EVERY HOUR"), ("HOUR", "DAY", "write EVERY DAY")],
)
def test_windows_that_do_not_fit_name_the_nearest_that_do(ours: str, theirs: str, fix: str | None) -> None:
    found = explain_window_mismatch(slices(ours), link(day(2), period=theirs))
    assert (found and found[1].removesuffix(" ZONE 'UTC'").replace("EVERY EVERY", "EVERY")) == fix
    assert explain_window_mismatch(state(ours), link(day(2), period=theirs, mode=Mode.MERGE)) is None


@pytest.mark.parametrize("ours", ["HOUR", "4 HOURS", "DAY"])
@pytest.mark.parametrize("theirs", ["15 MINUTES", "HOUR", "DAY"])
@pytest.mark.parametrize("hours", [1, 5, 24, 30, 47, 48])
def test_the_newest_that_is_served_is_found_by_looking_at_all(ours: str, theirs: str, hours: int) -> None:
    table, until = state(ours), cadence(theirs).floor(day(1) + timedelta(hours=hours))
    if until == day(1):
        return
    known = link(until, mode=Mode.REPLACE, period=theirs)
    ends = [day(1) + timedelta(minutes=15 * step) for step in range(1, 4 * 24 * 4)]
    served = [e for e in ends if table.cadence.is_boundary(e) and cadence(theirs).floor(e) <= until and e > day(1)]
    found = newest_served(table, known)
    assert found is not None
    assert found == max(served, default=found)
    assert served or found <= day(1)
