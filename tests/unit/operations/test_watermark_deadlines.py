"""Deadlines BY WATERMARK: old rows miss them, whether their batches are done or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.ledgers import flow, table
from tests.unit.operations.test_deadlines import FAILED
from waterclock.batches.audit_records import MeasuredBatch
from waterclock.batches.ledger_snapshot import LedgerSnapshot, TableFacts
from waterclock.flow.declarations import Flow, Read, Table
from waterclock.flow.enums import Mode, ReadKind
from waterclock.flow.watermarks import Watermark, mark_of
from waterclock.json_models.timeliness import WindowDeadline
from waterclock.operations.deadline_words import group_due_windows, remaining_time_words, situation_words, window_words
from waterclock.operations.deadlines import DeadlineState, DeadlineWindow, due_of
from waterclock.operations.watermarks import WatermarkPosition, needed_end, parse_watermarks, reached_words
from waterclock.planner.plan import Batch, Status
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest
from waterclock.timelabel.duration import parse_duration
from waterclock.timelabel.intervals import IntervalSet

DAY = datetime(2026, 11, 20, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
TEN = 10 * MINUTE


def at(hours: float) -> datetime:
    return DAY + hours * HOUR


def marked(name: str, deadline: str | None, *reads: str, per: tuple[str, ...] = (), **more: Any) -> list[Table]:
    """Return a table with WATERMARK at 10 MINUTES, and its companion table with the marks."""
    made = table(name, partitioned=True, reads=reads, **{"every": "HOUR", **more})
    if deadline is not None:
        made = replace(made, deadline=parse_duration(deadline), is_by_watermark=True)
    mark = table(mark_of(name), mode=Mode.REPLACE, reads=[name], **{"every": "HOUR", **more})
    reads_itself = (*mark.reads, Read(mark.name, ReadKind.PREVIOUS))
    return [made, replace(mark, marks=Watermark("at", TEN, per), reads=reads_itself)]


CLICKS = flow(*marked("web.clicks", "3 HOURS"))
PARTS = flow(*marked("web.clicks", "3 HOURS", per=("device", "land")))


def done(upto: float, **more: Any) -> TableFacts:
    return TableFacts(start=DAY, covered=IntervalSet.from_intervals([(DAY, at(upto))] if upto else []), **more)


def steady(upto: float, stops: float | None = None, slowest: str = "") -> list[WatermarkPosition]:
    """Return watermark positions of rows that arrive ten minutes before each window's end, until they stop."""
    ends = [float(end) for end in range(1, int(upto) + 1)]
    newest = [at(end if stops is None else min(end, stops)) - TEN for end in ends]
    return [WatermarkPosition(at(end), new - TEN, slowest, new) for end, new in zip(ends, newest, strict=True)]


def told(
    of: Flow,
    reached: Mapping[str, Sequence[WatermarkPosition]] | Sequence[WatermarkPosition],
    now: float,
    upto: float | None = None,
    known: Mapping[str, TableFacts] | None = None,
) -> list[DeadlineWindow]:
    facts = {name: done(int(now) if upto is None else upto) for name in of.tables} | dict(known or {})
    snapshot = LedgerSnapshot(facts)
    plan = Planner(of).plan(snapshot, at(now), PlanRequest(clock=at(now)))
    ways = reached if isinstance(reached, Mapping) else {"web.clicks": reached}
    return list(due_of(of, snapshot, plan, list(of.tables), reached=ways))


def test_rows_that_come_as_they_are_made_miss_nothing() -> None:
    for now in (1, 2.5, 5, 9.9):
        assert told(CLICKS, steady(now), now) == []


def test_batches_in_time_with_old_rows_miss_it() -> None:
    found = told(CLICKS, steady(9, stops=4), 9)
    missed = [due for due in found if due.situation is DeadlineState.MISSED]
    assert [due.window.end for due in missed] == [at(4), at(5), at(6)]
    first = missed[0]
    assert (first.status, first.by, first.root.status, first.late_rows) == (
        Status.DONE,
        at(7),
        Status.DONE,
        steady(9, stops=4)[-1],
    )
    assert window_words(missed, CLICKS) == "web.clicks @ 2026-11-20 03:00 .. 2026-11-20 05:00 (3 windows)"
    assert situation_words(missed, CLICKS, remaining_time_words(first)) == (
        "the watermark must pass the oldest by 2026-11-20 07:00Z; it has reached 2026-11-20 03:40Z, 5 h 10 min behind"
    )


def test_it_is_over_once_the_watermark_has_come_to_the_windows_end() -> None:
    on_time = [*steady(8, stops=4), WatermarkPosition(at(9), at(6), "", at(6) + TEN)]
    assert [due.window.end for due in told(CLICKS, on_time, 9) if due.situation is DeadlineState.MISSED] == []
    just_before = [*steady(8, stops=4), WatermarkPosition(at(9), at(6) - timedelta(microseconds=1), "", at(6))]
    assert [due.window.end for due in told(CLICKS, just_before, 9) if due.situation is DeadlineState.MISSED] == [at(6)]


def test_the_slowest_part_is_named() -> None:
    slow = steady(9, stops=4, slowest='{"device":7}')
    [due, *_] = told(PARTS, slow, 9)
    assert due.root.detail == "has reached 2026-11-20 03:40Z: device 7, land NULL is 5 h 10 min behind"
    assert WindowDeadline.model_validate(due).to_json()["by_watermark"] == {
        "watermark": "2026-11-20T03:40:00Z",
        "slowest": {"device": 7},
        "behind": 5 * 3600 + 600.0,
    }


def test_before_the_first_row_it_is_near_at_half_its_time_and_then_missed() -> None:
    nothing = [WatermarkPosition(at(end)) for end in (1, 2, 3, 4)]
    assert told(CLICKS, nothing[:2], 2.9) == []
    [near] = told(CLICKS, nothing[:3], 3)  # the first rows that could advance it are due at 2, three hours until 4
    assert (near.situation, near.window.end, near.root.detail) == (
        DeadlineState.NEAR,
        at(1),
        "has no row with a time yet",
    )
    assert [due.situation for due in told(CLICKS, nothing, 4)] == [DeadlineState.MISSED, DeadlineState.NEAR]


def test_a_row_of_the_year_1_keeps_the_watermark_there() -> None:
    stuck = [
        WatermarkPosition(at(end), datetime.min.replace(tzinfo=UTC), "", DAY - 3000 * HOUR) for end in (1, 2, 3, 4)
    ]
    assert [(due.window.end, due.situation) for due in told(CLICKS, stuck, 4)] == [
        (at(1), DeadlineState.MISSED),
        (at(2), DeadlineState.NEAR),
    ]


def test_watermarks_without_measurements_report_nothing() -> None:
    assert told(CLICKS, {}, 9) == []


def test_a_watermark_that_does_not_advance_is_reported_before_its_deadline() -> None:
    stuck = [WatermarkPosition(at(end), at(3.5), "", at(3.5) + TEN) for end in range(4, 14)]
    found = told(CLICKS, stuck[:2], 5.4, upto=5)
    assert found == []  # nothing is reported for two labels
    found = told(CLICKS, stuck[:3], 6, upto=6)
    assert [(due.window.end, due.situation) for due in found] == [(at(4), DeadlineState.NEAR)]


def test_a_watermark_that_falls_behind_is_reported_as_soon_as_it_will_miss_its_deadline() -> None:
    """Two hours of windows deliver one hour of rows: every window is known to become late."""
    slow = [WatermarkPosition(at(end), at(end / 2), "", at(end / 2) + TEN) for end in range(1, 6)]
    assert needed_end(slow, at(3), at(4)) == at(6)
    assert [(due.window.end, due.situation) for due in told(CLICKS, slow, 5)] == [
        (at(4), DeadlineState.NEAR),
        (at(5), DeadlineState.NEAR),
    ]


def test_a_batch_that_is_not_done_is_blamed_before_the_rows() -> None:
    of = flow(table("ops.log", partitioned=True, every="HOUR"), *marked("web.clicks", "3 HOURS", "ops.log"))
    known = {"ops.log": done(4, troubles={at(4): FAILED}), "web.clicks": done(4), "web.clicks_mark": done(4)}
    found = told(of, steady(4), 7.1, known=known)
    assert [(due.situation, due.window.end, due.root.table, due.root.status) for due in found] == [
        (DeadlineState.MISSED, at(4), "ops.log", Status.FAILED),
        (DeadlineState.NEAR, at(5), "ops.log", Status.FAILED),
    ]
    assert (found[0].late_rows, found[0].status) == (None, Status.DONE)
    assert situation_words(found[:1], of) == (
        "the watermark must pass it by 2026-11-20 07:00Z; ops.log @ 2026-11-20 04:00 failed: E700 no disk"
    )


def test_the_table_most_upstream_whose_rows_are_old_is_blamed() -> None:
    of = flow(*marked("web.clicks", None, per=("device",)), *marked("made.kept", "3 HOURS", "web.clicks"))
    slow = steady(9, stops=4, slowest='{"device":7}')
    found = told(of, {"web.clicks": slow, "made.kept": slow}, 9)
    assert {due.table for due in found} == {"made.kept"}
    assert situation_words(found[:1], of).endswith(
        "web.clicks has reached 2026-11-20 03:40Z: device 7 is 5 h 10 min behind"
    )
    fine = told(of, {"web.clicks": steady(9), "made.kept": slow}, 9)
    assert {due.root.table for due in fine} == {"made.kept"}
    assert len(group_due_windows(found)) == 2


def test_days_are_counted_by_the_zone_over_a_change_of_clocks() -> None:
    """The day of 29 March 2026 has 23 hours in Berlin; a deadline of two days follows the wall clock."""
    of = flow(*marked("web.clicks", "2 DAYS", every="DAY", zone="Europe/Berlin"))
    start = datetime(2026, 3, 26, 23, tzinfo=UTC)
    facts = TableFacts(
        start=start, covered=IntervalSet.from_intervals([(start, datetime(2026, 3, 31, 22, tzinfo=UTC))])
    )
    snapshot = LedgerSnapshot(dict.fromkeys(of.tables, facts))
    ends = [start + timedelta(days=1), start + timedelta(days=2), datetime(2026, 3, 29, 22, tzinfo=UTC)]
    came = [
        WatermarkPosition(end, start + timedelta(hours=2)) for end in (*ends, datetime(2026, 3, 30, 22, tzinfo=UTC))
    ]
    for now, stand in (
        (datetime(2026, 3, 29, 21, 59, tzinfo=UTC), DeadlineState.NEAR),
        (ends[2], DeadlineState.MISSED),
    ):
        plan = Planner(of).plan(snapshot, now, PlanRequest(clock=now))
        [first, *_] = due_of(of, snapshot, plan, list(of.tables), reached={"web.clicks": came})
        assert (first.window.end, first.by, first.situation) == (ends[0], ends[2], stand)


def test_watermarks_are_parsed_from_the_stored_measures() -> None:
    def counted(label: float, **values: str | None) -> MeasuredBatch:
        kept = {name: {"value": value, "type": "timestamp"} for name, value in values.items()}
        return MeasuredBatch(at(label), 3, {"measured": kept} if values else {})

    kept = [
        counted(0),
        counted(1, watermark=None, slowest=None, slowest_at=None),
        counted(2, watermark="2026-11-20 01:20:00.5", slowest='{"device":7}', slowest_at="2026-11-20 01:30:00.5"),
        counted(3, watermark="-0001-12-31 00:00:00", slowest="", slowest_at="0001-01-01 00:00:00"),
    ]
    cadence = CLICKS.tables["web.clicks"].cadence
    empty, some, old = parse_watermarks(cadence, kept)
    assert (empty, empty.behind, empty.is_past(DAY)) == (WatermarkPosition(at(2)), None, False)
    assert some == WatermarkPosition(
        at(3), at(4 / 3) + timedelta(seconds=0.5), '{"device":7}', at(1.5) + timedelta(seconds=0.5)
    )
    assert old.watermark == datetime.min.replace(tzinfo=UTC)
    assert reached_words(CLICKS.tables["web.clicks"], empty, ()) == "has no row with a time yet"


@given(
    st.lists(st.integers(-30, 80), min_size=1, max_size=14),
    st.integers(0, 59),
    st.booleans(),
    st.sampled_from([2, 3, 5]),
)
def test_missed_are_the_windows_that_the_watermark_had_not_come_to_by_then(
    moves: list[int], minutes: int, is_empty_first: bool, hours: int
) -> None:
    """Brute force: a window is missed if it is over by the deadline, and no mark has reached its end."""
    of = flow(*marked("web.clicks", f"{hours} HOURS"))
    newest: datetime | None = None if is_empty_first else DAY
    best: datetime | None = None
    reached = []
    for index, move in enumerate(moves):
        end = at(index + 1)
        if newest is not None or move > 0:
            newest = max(newest or DAY, (newest or DAY) + move * MINUTE)
            own = min(end, newest - TEN)
            best = own if best is None else max(best, own)
        reached.append(WatermarkPosition(end, best, "", newest))
    now = len(moves) + minutes / 60
    found = told(of, reached, now)
    missed = {due.window.end for due in found if due.situation is DeadlineState.MISSED}
    ends = [at(hour) for hour in range(1, len(moves) + 1)]
    assert missed == {end for end in ends if end + hours * HOUR <= at(now) and (best is None or best < end)}
    for due in found:
        assert (due.situation is DeadlineState.MISSED) == (due.by <= at(now))
        assert situation_words([due], of, remaining_time_words(due))
    later = told(of, reached, now + 0.9, upto=len(moves))
    assert {due.window.end for due in found} <= {due.window.end for due in later}


def test_a_plan_is_iterated_as_often_for_many_tables_as_for_one() -> None:
    class Counting(tuple[Batch, ...]):
        __slots__ = ()
        passes = 0

        def __iter__(self) -> Iterator[Batch]:
            Counting.passes += 1
            return super().__iter__()

    found = []
    for many in (1, 12):
        of = flow(*(each for number in range(many) for each in marked(f"web.c{number:02}", "3 HOURS")))
        snapshot = LedgerSnapshot({name: done(0) for name in of.tables})
        plan = Planner(of).plan(snapshot, at(5), PlanRequest(clock=at(5)))
        Counting.passes = 0
        told_of = list(due_of(of, snapshot, replace(plan, batches=Counting(plan.batches)), list(of.tables)))
        assert {due.table for due in told_of if due.situation is DeadlineState.MISSED} == set(of.tables) - set(
            map(mark_of, of.tables)
        )
        found.append(Counting.passes)
    assert found[0] == found[1]
