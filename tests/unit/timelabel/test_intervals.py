from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from waterclock.errors import WaterclockError
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.window import Window

ZERO = datetime(2018, 1, 1, tzinfo=UTC)


def at(hour: int) -> datetime:
    return ZERO + timedelta(hours=hour)


def hours(*spans: tuple[int, int]) -> IntervalSet:
    return IntervalSet.from_intervals((at(start), at(end)) for start, end in spans)


def test_intervals_that_touch_or_overlap_are_one() -> None:
    assert list(hours((3, 4), (0, 1), (1, 2), (5, 9), (6, 7))) == [(at(0), at(2)), (at(3), at(4)), (at(5), at(9))]


def test_an_empty_interval_adds_nothing() -> None:
    assert hours((1, 1)) == IntervalSet()
    assert not hours((1, 1))
    assert hours((0, 1))


def test_an_interval_that_ends_before_it_starts_is_refused() -> None:
    for ask in (lambda: hours((2, 1)), lambda: hours((0, 9)).covers(at(2), at(1)), lambda: hours().gaps(at(2), at(1))):
        with pytest.raises(WaterclockError, match="ends before it starts") as refusal:
            ask()
        assert refusal.value.code == "E108"


def test_windows_make_a_set() -> None:
    windows = [Window(at(1), at(2)), Window(at(0), at(1))]
    assert IntervalSet.from_windows(windows) == hours((0, 2))


def test_instants_of_other_zones_are_kept_in_utc() -> None:
    tokyo = timezone(timedelta(hours=9))
    kept = IntervalSet.from_intervals([(at(0).astimezone(tokyo), at(1).astimezone(tokyo))])
    assert kept == hours((0, 1))
    assert all(t.tzinfo is UTC for interval in kept for t in interval)


def test_union_difference_and_intersection() -> None:
    early, late = hours((0, 4), (6, 8)), hours((3, 7), (9, 10))
    assert early | late == early.union(late) == hours((0, 8), (9, 10))
    assert early - late == early.difference(late) == hours((0, 3), (7, 8))
    assert early & late == early.intersection(late) == hours((3, 4), (6, 7))


def test_adding_at_the_end_joins_adjacent_intervals() -> None:
    assert hours((0, 1)).add(at(1), at(2)) == hours((0, 2))
    assert hours((0, 1)).add(at(2), at(3)) == hours((0, 1), (2, 3))
    assert hours((0, 1)).add(at(1), at(1)) == hours((0, 1))
    assert hours((0, 1)) | hours((1, 2), (3, 4)) == hours((0, 2), (3, 4))


def test_a_set_does_not_change_when_added_to() -> None:
    first = hours((0, 1))
    first.add(at(1), at(2))
    assert first == hours((0, 1))


def test_a_span_is_covered_only_if_all_of_it_is() -> None:
    covered = hours((0, 4), (6, 8))
    assert covered.covers(at(0), at(4))
    assert covered.covers(at(7), at(8))
    assert covered.covers(at(5), at(5))
    assert not covered.covers(at(3), at(5))
    assert not covered.covers(at(3), at(7))
    assert not covered.covers(at(5), at(7))
    assert not IntervalSet().covers(at(0), at(1))


def test_an_end_is_not_in_the_set() -> None:
    covered = hours((0, 4))
    assert covered.covers_instant(at(0))
    assert not covered.covers_instant(at(4))
    assert not covered.covers_instant(at(-1))


def test_gaps_are_the_uncovered_intervals() -> None:
    covered = hours((0, 4), (6, 8))
    assert covered.first_gap(at(1), at(7)) == (at(4), at(6))
    assert covered.first_gap(at(-1), at(9)) == (at(-1), at(0))
    assert covered.first_gap(at(6), at(8)) is None
    assert covered.gaps(at(-1), at(9)) == hours((-1, 0), (4, 6), (8, 9))
    assert covered.gaps(at(5), at(7)) == hours((5, 6))
    assert IntervalSet().first_gap(at(0), at(1)) == (at(0), at(1))


def test_many_sets_merge_in_one_sort() -> None:
    assert IntervalSet.merge([hours((5, 6)), hours((0, 1), (4, 5)), [(at(1), at(2))], []]) == hours((0, 2), (4, 6))
    assert IntervalSet.merge([]) == IntervalSet()


def test_equal_sets_are_one_key() -> None:
    assert len({hours((0, 1), (1, 2)), hours((0, 2))}) == 1
    assert len(hours((0, 1), (3, 4))) == 2


def test_a_set_shows_its_spans() -> None:
    assert repr(hours((0, 2))) == "IntervalSet(2018-01-01T00:00:00..2018-01-01T02:00:00)"
