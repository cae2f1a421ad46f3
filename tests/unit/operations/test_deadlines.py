"""Windows that miss their deadlines, are near them, or take long, and the causes that are reported."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ledgers import flow, table
from tests.model.random_flow import EVE, random_flow
from waterclock.batches.ledger_snapshot import BatchStatus, FailedBatch, LedgerSnapshot, OpenClaim, Pause, TableFacts
from waterclock.batches.progress_records import MadeLabel, RunningClaim
from waterclock.flow.declarations import Flow, Table
from waterclock.operations.deadline_words import group_due_windows, remaining_time_words, situation_words, window_words
from waterclock.operations.deadlines import DeadlineState, DeadlineWindow, due_of, find_slow_batches, is_history
from waterclock.operations.time_estimates import add_upstream
from waterclock.planner.plan import Status
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest
from waterclock.timelabel.duration import parse_duration
from waterclock.timelabel.intervals import IntervalSet

FIRST = datetime(2026, 11, 1, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
FAILED = FailedBatch(BatchStatus.FAILED, 1, 1, "E700 no disk", is_transient=False)


def day(number: float) -> datetime:
    return FIRST + (number - 1) * DAY


def timed(name: str, deadline: str, reads: tuple[str, ...] = (), runtime: str | None = None) -> Table:
    made = table(name, partitioned=True, reads=reads)
    return replace(made, deadline=parse_duration(deadline), runtime=parse_duration(runtime) if runtime else None)


def facts(upto: float = 20, **more: object) -> TableFacts:
    covered = IntervalSet.from_intervals([(day(1), day(upto))])
    return TableFacts(start=day(1), covered=covered, **more)  # type: ignore[arg-type]


def found(of: Flow, known: dict[str, TableFacts], now: datetime, **more: object) -> list[DeadlineWindow]:
    snapshot = LedgerSnapshot(known)
    plan = Planner(of).plan(snapshot, now, PlanRequest(clock=now))
    return list(due_of(of, snapshot, plan, list(of.tables), **more))  # type: ignore[arg-type]


CHAIN = flow(
    table("raw.a", partitioned=True),
    table("mid.b", partitioned=True, reads=["raw.a"]),
    timed("mart.c", "4 HOURS", ("mid.b",)),
)


def test_a_window_that_is_done_or_in_time_is_not_reported() -> None:
    known = {name: facts(21) for name in CHAIN.tables}
    assert found(CHAIN, known, day(21) + 5 * HOUR) == []
    known = {name: facts(20, seconds_per_batch=60.0) for name in CHAIN.tables}
    assert found(CHAIN, known, day(21) + 3 * HOUR) == []


def test_the_batch_most_upstream_is_blamed_for_a_deadline_that_is_missed() -> None:
    known = {"raw.a": facts(20, troubles={day(20): FAILED}), "mid.b": facts(), "mart.c": facts()}
    [due] = found(CHAIN, known, day(21) + 4 * HOUR)
    assert (due.situation, due.status, due.by, due.fresh_to) == (
        DeadlineState.MISSED,
        Status.BLOCKED,
        day(21) + 4 * HOUR,
        day(20),
    )
    assert (due.root.table, due.root.window.start, due.root.status) == ("raw.a", day(20), Status.FAILED)
    assert window_words([due], CHAIN) == "mart.c @ 2026-11-20"
    assert situation_words([due], CHAIN) == "to be done by 2026-11-21 04:00Z; raw.a @ 2026-11-20 failed: E700 no disk"


def test_running_work_is_near_its_deadline_once_the_remaining_work_would_miss_it() -> None:
    known = {name: facts(20, seconds_per_batch=3000.0) for name in CHAIN.tables}
    now = day(21) + HOUR
    assert found(CHAIN, known, now) == []
    [due] = found(CHAIN, known, now + HOUR)
    assert (due.situation, due.left, due.root.table) == (DeadlineState.NEAR, timedelta(seconds=9000), "raw.a")
    assert (
        situation_words([due], CHAIN) == "to be done by 2026-11-21 04:00Z; raw.a @ 2026-11-20 is ready and not started"
    )
    ran = {("raw.a", day(20)): timedelta(seconds=2400)}
    known["raw.a"] = facts(20, seconds_per_batch=3000.0, open_claims=(OpenClaim(1, (day(20),), "here", day(40)),))
    assert found(CHAIN, known, now + HOUR, elapsed=ran) == []
    [due] = found(CHAIN, known, now + 2 * HOUR, elapsed=ran)
    assert (due.left, due.root.status) == (timedelta(seconds=6600), Status.RUNNING)


def test_a_stopped_or_paused_window_is_near_its_deadline_once_half_of_its_time_is_over() -> None:
    stopped = {"raw.a": facts(20, troubles={day(20): FAILED}), "mid.b": facts(), "mart.c": facts()}
    paused = {name: facts() for name in CHAIN.tables} | {"raw.a": facts(paused=Pause(day(20), "ann", "new disk"))}
    for known, status in ((stopped, Status.FAILED), (paused, Status.PAUSED)):
        assert found(CHAIN, known, day(21) + 1.9 * HOUR) == []
        [due] = found(CHAIN, known, day(21) + 2 * HOUR)
        assert (due.situation, due.root.table, due.root.status) == (DeadlineState.NEAR, "raw.a", status)


def test_a_delay_of_an_input_counts_as_remaining_time() -> None:
    late = table("raw.a", partitioned=True)
    late = replace(late, cadence=replace(late.cadence, delay=3 * HOUR))
    of = flow(late, timed("mart.c", "4 HOURS", ("raw.a",), "90 MINUTES"))
    known = {"raw.a": facts(), "mart.c": facts()}
    [due] = found(of, known, day(21) + HOUR)
    assert (due.situation, due.root.table, due.root.detail) == (DeadlineState.NEAR, "raw.a", "is not due yet")
    assert due.left == 2 * HOUR + timedelta(minutes=90)  # the RUNTIME, if none was made yet


def test_windows_of_a_table_with_the_same_cause_are_reported_together() -> None:
    labels = [day(18), day(19), day(20)]
    known = {"raw.a": facts(18, troubles=dict.fromkeys(labels, FAILED)), "mid.b": facts(18), "mart.c": facts(18)}
    [alike] = group_due_windows(found(CHAIN, known, day(21) + 5 * HOUR))
    assert window_words(alike, CHAIN) == "mart.c @ 2026-11-18 .. 2026-11-20 (3 windows)"
    assert situation_words(alike, CHAIN).startswith("the oldest to be done by 2026-11-19 04:00Z; raw.a @ 2026-11-18")


def test_a_past_that_is_collected_at_last_misses_no_deadline() -> None:
    known = {name: facts(3) for name in CHAIN.tables}
    missed = found(CHAIN, known, day(21) + 5 * HOUR)
    assert len(missed) == 18
    assert [due.window.start for due in missed if not is_history(due, day(20))] == [day(19), day(20)]
    assert [due for due in missed if not is_history(due, None)] == []


def test_slow_batches_are_found_among_the_running_ones_and_the_newest_done_ones() -> None:
    of = flow(timed("mart.c", "4 HOURS", runtime="20 MINUTES"), timed("mart.d", "4 HOURS", runtime="20 MINUTES"))
    snapshot = LedgerSnapshot({name: facts() for name in of.tables})
    clock = day(30)
    made = {
        name: (MadeLabel(day(19), day(20), 1, day(20), timedelta(minutes=minutes)),)
        for name, minutes in (("mart.c", 21), ("mart.d", 20))
    }
    work = [RunningClaim("mart.d", 7, day(20), 2, clock - timedelta(minutes=40))]
    assert [due.table for due in find_slow_batches(of, snapshot, made, work, clock)] == ["mart.c"]
    later = clock + timedelta(seconds=1)
    told = list(find_slow_batches(of, snapshot, made, work, later))
    assert [(due.table, due.status, due.window.start) for due in told] == [
        ("mart.d", Status.RUNNING, day(20)),
        ("mart.c", Status.DONE, day(19)),
    ]
    assert [situation_words([due], of) for due in told] == [
        "has run for longer than 20 minutes",
        "took longer than 20 minutes",
    ]


@given(st.integers(0, 600), st.integers(0, 600), st.integers(0, 7200), st.booleans())
def test_a_reported_window_stays_reported_until_it_is_done(
    early: int, later: int, usual: int, is_stopped: bool
) -> None:
    """While nothing changes, a window that is near or past its deadline stays so at each later instant."""
    troubles = {day(20): FAILED} if is_stopped else {}
    known = {name: facts(20, seconds_per_batch=float(usual)) for name in CHAIN.tables}
    known["raw.a"] = facts(20, seconds_per_batch=float(usual), troubles=troubles)
    before = found(CHAIN, known, day(21) + timedelta(minutes=early))
    after = found(CHAIN, known, day(21) + timedelta(minutes=early + later))
    order = [None, DeadlineState.NEAR, DeadlineState.MISSED]
    stands = [of[0].situation if of else None for of in (before, [due for due in after if due.window.start == day(20)])]
    assert order.index(stands[0]) <= order.index(stands[1])
    missed = [due for due in after if due.situation is DeadlineState.MISSED and due.window.start == day(20)]
    assert bool(missed) == (timedelta(minutes=early + later) >= 4 * HOUR)


def test_the_remaining_time_is_reported_only_while_the_work_can_proceed() -> None:
    known = {name: facts(20, seconds_per_batch=3000.0) for name in CHAIN.tables}
    [due] = found(CHAIN, known, day(21) + 2 * HOUR)
    assert situation_words([due], CHAIN, remaining_time_words(due)) == (
        "to be done by 2026-11-21 04:00Z, the remaining work usually takes 2 h 30 min; "
        "raw.a @ 2026-11-20 is ready and not started"
    )
    known["raw.a"] = facts(20, troubles={day(20): FAILED}, seconds_per_batch=3000.0)
    [due] = found(CHAIN, known, day(21) + 2 * HOUR)
    assert remaining_time_words(due) == ""


@pytest.mark.parametrize("seed", range(25))
def test_every_late_window_of_a_random_flow_has_a_cause_that_is_not_done(seed: int) -> None:
    random = Random(seed)
    tables = {
        name: replace(each, deadline=parse_duration(random.choice(("30 MINUTES", "6 HOURS", "1 DAY"))))
        for name, each in random_flow(random).flow.tables.items()
    }
    of = replace(random_flow(Random(seed)).flow, tables=tables)
    now = EVE + timedelta(hours=random.choice((1, 9, 30)))
    known = {}
    for name, each in tables.items():
        start = each.cadence.floor(EVE - DAY)
        upto = each.cadence.floor(EVE - timedelta(hours=random.choice((0, 0, 12))))
        labels = [window.start for window in islice(each.cadence.windows(upto, each.cadence.last_due(now)), 2)]
        troubles = dict.fromkeys(labels[: random.choice((0, 0, 1))], FAILED)
        done = IntervalSet.from_intervals([(start, max(upto, start))])
        seconds = random.choice((None, 5.0, 9000.0))
        known[name] = TableFacts(start=start, covered=done, troubles=troubles, seconds_per_batch=seconds)
    told = found(of, known, now)
    for due in told:
        assert (due.situation is DeadlineState.MISSED) == (due.by <= now)
        assert due.left >= timedelta(0)
        assert not known[due.root.table].covered.covers_instant(due.root.window.start)
        assert due.root.table in add_upstream(of, [due.table])
        assert situation_words([due], of, remaining_time_words(due))
    assert sum(map(len, group_due_windows(told))) == len(told)
