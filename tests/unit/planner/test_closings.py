"""The boundaries at which the books of windows are checked, and the reasons that prevent a check."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.model.flows import PLACE, at, collect, day, flow, transform, until
from waterclock.batches.ledger_snapshot import (
    BatchStatus,
    Closing,
    FailedBatch,
    InputFact,
    LedgerSnapshot,
    Pause,
    TableFacts,
)
from waterclock.flow.closings import Closes
from waterclock.flow.declarations import Column, Columns, Flow
from waterclock.planner.plan import Plan, Status
from waterclock.planner.planning import Planner
from waterclock.timelabel.duration import parse_duration
from waterclock.timelabel.intervals import IntervalSet

CLOSES = Closes("count(*) > 3", "count(*) > 3", asks_rows=True)
BEGIN = at("2013-01-01")
NOW = at("2013-01-05 07:00")


def books(**more: object) -> Flow:
    """Return a flow of days over six-hourly slices, and a table that reads the days."""
    u = collect("u", "6 HOURS", start=BEGIN)
    columns = Columns((Column("k", PLACE, "STRING"),), is_open=False)
    t = replace(transform("t", [until("u", "1 DAY")], closes=CLOSES, columns=columns), **more)  # type: ignore[arg-type]
    impatient = transform("impatient", ["t", "u"], partial_after=parse_duration("1 HOUR"))
    return flow(u, t, impatient)


def past(high: str = "2013-01-05 06:00", **of_t: object) -> LedgerSnapshot:
    """Return a ledger snapshot in which all of u is done up to an instant."""
    done = IntervalSet.from_intervals([(BEGIN, at(high))])
    tables = {"u": TableFacts(covered=done), "t": TableFacts(**of_t)}  # type: ignore[arg-type]
    return LedgerSnapshot(tables=tables)


def by_label(plan: Plan, name: str) -> dict[str, tuple[Status, str]]:
    return {it.window.label[:8]: (it.status, it.reason) for it in plan.batches if it.table == name}


def test_few_boundaries_are_checked_for_new_windows_and_more_for_one_that_stayed_open() -> None:
    planner = Planner(books())
    [found] = planner.books(past(), NOW)
    pairs = found.pairs()
    assert [sum(pair.window == day(f"2013-01-0{n}") for pair in pairs) for n in (1, 2, 3, 4)] == [4, 4, 4, 2]
    assert pairs[0].boundary == at("2013-01-02")
    looked = {day("2013-01-01").start: Closing(looked=pairs[3].boundary, asked=found.condition_hash)}
    [again] = planner.books(past(closings=looked), NOW)
    of_first = [pair.boundary for pair in again.pairs() if pair.window == day("2013-01-01")]
    assert (len(of_first), of_first[0], of_first[-1]) == (10, at("2013-01-03"), at("2013-01-05 06:00"))
    # while one window stays open for long, later ones are not checked repeatedly at each boundary
    assert len(again.pairs()) == len(of_first)


def test_a_backlog_needs_one_check_for_about_twelve_windows() -> None:
    planner, closings, looks = Planner(books()), dict[object, Closing](), 0
    now = at("2013-04-11 00:00")
    while True:
        [found] = planner.books(past("2013-04-11 00:00", closings=closings), now)
        pairs = found.pairs()
        if not pairs:
            break
        looks += 1
        assert len(pairs) <= 48
        holds = {pair: pair.boundary >= pair.window.end + timedelta(hours=6) for pair in pairs}
        closings |= {window.start: closing for window, closing in found.collect_closings(pairs, holds)}
    assert sum(closing.tick is not None for closing in closings.values()) == 99
    assert looks == 9


def test_no_boundary_is_checked_twice_or_while_the_table_is_paused() -> None:
    planner = Planner(books())
    [found] = planner.books(past(), NOW)
    looked = {day("2013-01-01").start: Closing(looked=at("2013-01-05 06:00"), asked=found.condition_hash)}
    [again] = planner.books(past(closings=looked), NOW)
    assert not again.pairs()
    assert again.pairs() == planner.books(past(closings=looked), NOW)[0].pairs()
    paused = Pause(NOW, "ann", "why")
    assert planner.books(past(paused=paused), NOW) == ()


def test_an_open_window_is_blocked_if_a_batch_before_its_next_boundary_failed() -> None:
    trouble = FailedBatch(BatchStatus.FAILED, 7, 1, "boom", is_transient=False, due_again=None)
    done = IntervalSet.from_intervals([(BEGIN, at("2013-01-01 18:00"))])
    tables = {"u": TableFacts(covered=done, troubles={at("2013-01-01 18:00"): trouble}), "t": TableFacts()}
    plan = Planner(books()).plan(LedgerSnapshot(tables=tables), NOW)
    status, reason = by_label(plan, "t")["20130101"]
    assert status is Status.BLOCKED
    assert "blocked by u@20130101180000, failed: boom" in reason


def test_a_window_whose_input_slices_were_dropped_is_expired() -> None:
    snapshot = past()
    gone = replace(snapshot.tables["u"], dropped_before=at("2013-01-02"))
    plan = Planner(books()).plan(replace(snapshot, tables={**snapshot.tables, "u": gone}), NOW)
    assert by_label(plan, "t")["20130101"] == (Status.EXPIRED, "RETAIN of u has dropped its inputs")


def test_a_reader_past_its_partial_after_is_ready_without_the_open_window() -> None:
    plan = Planner(books()).plan(past(), NOW)
    status, reason = by_label(plan, "impatient")["20130101"]
    assert (status, "without t 20130101" in reason) == (Status.READY, True), reason


def test_partial_after_closes_at_its_first_boundary_and_not_before_the_window_before_it() -> None:
    planner = Planner(books(partial_after=parse_duration("7 HOURS")))
    [found] = planner.books(past(), NOW)
    told = dict(found.collect_closings(found.pairs(), {}))
    assert told[day("2013-01-01")].tick == at("2013-01-02 12:00")
    assert told[day("2013-01-01")].reason == "partial"


def test_a_held_window_that_late_rows_reopened_cannot_be_released() -> None:
    """A release would be refused: the sealed rows do not contain the late rows."""
    label, planner = day("2013-01-01").start, Planner(books())
    then = InputFact("u", at("2013-01-01"), at("2013-01-02 12:00"), "1", "1")
    held = FailedBatch(BatchStatus.HELD, 7, 1, "E755 it is held", is_transient=False, read=(then,))
    for tick, is_outdated in (("2013-01-02 12:00", False), ("2013-01-03", True)):
        closed = Closing(tick=at(tick), reason="condition")
        plan = planner.plan(past(troubles={label: held}, closings={label: closed}), NOW)
        [found] = [it for it in plan.batches if it.table == "t" and it.label == label]
        assert (found.status, found.is_outdated) == (Status.HELD, is_outdated)
