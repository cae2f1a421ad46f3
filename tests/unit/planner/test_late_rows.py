"""Each row is in its window, late, early, or its window is open: compared with brute force over random closings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.counting import calls_named
from tests.ledgers import flow, table
from tests.model.flows import until
from waterclock.batches.ledger_snapshot import ClosedSince
from waterclock.flow.declarations import Table
from waterclock.flow.late_rows import LateRows
from waterclock.planner.input_binding import until_end, until_start
from waterclock.planner.late_rows import (
    find_closed_windows,
    find_remakeable_windows,
    find_reopenable_windows,
    first_window_after,
)
from waterclock.timelabel.duration import parse_duration
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.window import Window

HOUR = timedelta(hours=1)
# windows around the skipped hour in spring, the repeated hour in autumn, and a leap day
BEGINNINGS = (datetime(2024, 2, 27, tzinfo=UTC), datetime(2024, 3, 29, tzinfo=UTC), datetime(2024, 10, 25, tzinfo=UTC))


class Books:
    """Windows of a table with the ticks at which their books were closed, and those that are done."""

    def __init__(self, random: Random) -> None:
        every, reach = random.choice([("DAY", "1 day"), ("DAY", "5 hours"), ("HOUR", "3 hours"), ("8 HOURS", "1 day")])
        self.table: Table = table(
            "web.daily", partitioned=True, every=every, zone=random.choice(["UTC", "Europe/Rome"])
        )
        self.u: Table = table("web.readings", partitioned=True, every=random.choice(["HOUR", "6 HOURS"]))
        within = random.choice([None, "2 hours", "1 day", "3 days"])
        self.late_rows = LateRows("web.daily", "at", parse_duration(reach), parse_duration(within) if within else None)
        cadence = self.table.cadence
        self.start = cadence.floor(random.choice(BEGINNINGS))
        self.windows: list[Window] = []
        while len(self.windows) < random.randrange(1, 14):
            begin = self.windows[-1].end if self.windows else self.start
            self.windows.append(cadence.window_of(begin))
        self.ticks: dict[datetime, datetime] = {}
        before = self.start
        for window in self.windows[: random.randrange(len(self.windows) + 1)]:
            late = random.choice([0, 0, 1, 4]) * self.u.cadence.count(self.start, self.start + 6 * HOUR)
            before = max(before, self.u.cadence.shift(self.u.cadence.ceil(window.end), late))
            self.ticks[window.start] = before
        for label in random.sample(sorted(self.ticks), k=len(self.ticks) // 4):  # reopened by late rows
            self.ticks[label] = self.u.cadence.shift(self.ticks[label], random.randrange(1, 9))
        self.done = {label for label in self.ticks if random.random() < 0.7}

    def since(self, at: datetime, high: datetime) -> ClosedSince:
        """Return the ledger's entries of the windows before `high`."""
        covered = IntervalSet.from_intervals((label, self.table.cadence.next(label)) for label in self.done)
        return ClosedSince(
            min(self.ticks, default=None),
            covered,
            frozenset(label for label in self.ticks if label < high and label not in self.done),
            {label: tick for label, tick in self.ticks.items() if tick > at and label < high},
        )


def fate(books: Books, at: datetime, slice_: datetime) -> str:
    """Classify a row directly by the documented rule."""
    window = books.table.cadence.window_of(at)
    if window.start < books.start:
        return "before START"
    if until_start(books.table, books.late_rows.reach, window.start) > slice_:
        return "early"
    tick = books.ticks.get(window.start)
    if tick is None:
        return "open"
    return "taken" if slice_ < tick else "late"


def told(books: Books, since: ClosedSince, at: datetime, slice_: datetime) -> str:
    """Return the planner's classification of a row."""
    if find_closed_windows(books.table, books.late_rows, since, slice_, books.start).covers_instant(at):
        return "late"
    return "early" if at >= first_window_after(books.table, books.late_rows, slice_, books.start) else "neither"


@given(st.randoms(use_true_random=False))
def test_a_row_is_late_or_early_exactly_if_no_window_contains_it(random: Random) -> None:
    books = Books(random)
    slices = [books.u.cadence.shift(books.u.cadence.ceil(books.start), n) for n in random.sample(range(-8, 60), 4)]
    since = books.since(min(slices), books.table.cadence.floor(max(slices)))  # queried once for all slices
    for slice_ in slices:
        for _ in range(8):
            at = books.start + random.randrange(-30, 400) * HOUR + timedelta(minutes=random.choice([0, 59]))
            found, right = told(books, since, at, slice_), fate(books, at, slice_)
            expected = right if right in {"late", "early"} else "neither"
            assert found == expected, (books.ticks, at, slice_, right)


@given(st.randoms(use_true_random=False))
def test_windows_open_again_where_a_row_would_be_late_within_the_time(random: Random) -> None:
    books = Books(random)
    slice_ = books.u.cadence.shift(books.u.cadence.ceil(books.start), random.randrange(40))
    since = books.since(slice_, books.table.cadence.floor(slice_))
    within = books.late_rows.within
    right = [
        window
        for window in books.windows
        if within is not None
        and window.end <= slice_
        and fate(books, window.start, slice_) == "late"
        and within.add_to(window.end, books.table.cadence.zone) > slice_
    ]
    assert list(find_reopenable_windows(books.table, books.late_rows, since, slice_)) == right


@pytest.mark.parametrize("ticks", [{}, {datetime(2024, 1, 2, tzinfo=UTC): datetime(2024, 1, 3, tzinfo=UTC)}])
def test_nothing_is_late_before_a_window_is_closed(ticks: Mapping[datetime, datetime]) -> None:
    of, late_rows = table("web.daily", partitioned=True), LateRows("web.daily", "at", parse_duration("1 day"))
    since = ClosedSince(min(ticks, default=None), IntervalSet(), frozenset(), ticks)
    assert not find_closed_windows(
        of, late_rows, since, datetime(2024, 1, 2, 18, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)
    )


def test_rows_of_a_skipped_window_are_not_late() -> None:
    of, late_rows = table("web.daily", partitioned=True), LateRows("web.daily", "at", parse_duration("1 day"))
    first, second, third = (datetime(2024, 1, number, tzinfo=UTC) for number in (1, 2, 3))
    covered = IntervalSet.from_intervals([(first, third)])
    since = ClosedSince(first, covered, frozenset(), {}, frozenset([first]))
    assert find_closed_windows(of, late_rows, since, third, first) == IntervalSet.from_intervals([(second, third)])


def test_a_window_done_before_its_books_were_closed_has_read_up_to_the_end_of_until() -> None:
    of, late_rows = table("web.daily", partitioned=True), LateRows("web.daily", "at", parse_duration("1 day"))
    first, second, third = (datetime(2024, 1, number, tzinfo=UTC) for number in (1, 2, 3))
    since = ClosedSince(None, IntervalSet.from_intervals([(first, third)]), frozenset(), {})
    assert find_closed_windows(of, late_rows, since, third, first) == IntervalSet.from_intervals([(first, second)])


def test_an_until_of_one_month_is_exact_for_windows_at_the_end_of_a_longer_month() -> None:
    daily, late_rows = table("web.daily", partitioned=True), LateRows("web.daily", "at", parse_duration("1 month"))
    begin, high = datetime(2021, 1, 1, tzinfo=UTC), datetime(2021, 3, 1, tzinfo=UTC)
    since = ClosedSince(None, IntervalSet.from_intervals([(begin, high)]), frozenset(), {})

    for day in range(25, 29):
        at = datetime(2021, 2, day, tzinfo=UTC)
        over = [it for it in daily.cadence.windows(begin, high) if until_end(daily, late_rows.reach, it.end) <= at]
        assert find_closed_windows(daily, late_rows, since, at, begin) == IntervalSet.from_windows(over)


@pytest.mark.parametrize(
    ("dropped", "left"),
    [
        ({}, [2, 3, 4]),
        ({"web.u": (2, 3)}, [4]),  # the third label reads from one day before its window
        ({"web.u": (2, 2)}, [2, 3, 4]),  # labels that never existed were not dropped
        ({"web.daily": (1, 3)}, [3, 4]),
    ],
)
def test_late_rows_open_no_window_that_cannot_be_made_again(
    dropped: dict[str, tuple[int, int]], left: list[int]
) -> None:
    of = replace(table("web.daily", partitioned=True), reads=(until("web.u", "1 day"),))
    days = {number: datetime(2024, 1, number, tzinfo=UTC) for number in range(1, 6)}
    gone = {name: (days[first], days[before]) for name, (first, before) in dropped.items()}
    windows = [Window(days[number], days[number + 1]) for number in (2, 3, 4)]
    found = find_remakeable_windows(of, flow(of, table("web.u", partitioned=True)), gone, windows)
    assert [window.start.day for window in found] == left


def test_each_window_can_be_made_again_where_nothing_was_dropped_without_binding_its_inputs() -> None:
    of = replace(table("web.daily", partitioned=True), reads=(until("web.u", "1 day"),))
    windows = [Window(datetime(2024, 1, day, tzinfo=UTC), datetime(2024, 1, day + 1, tzinfo=UTC)) for day in (2, 3)]
    found, bound = calls_named(
        lambda: find_remakeable_windows(of, flow(of, table("web.u", partitioned=True)), {}, windows), "bind"
    )
    assert (list(found), bound) == (windows, 0)
