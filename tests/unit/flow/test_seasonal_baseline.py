"""The usual range: its season, its level, the spread of values, and when it is still unknown."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.simulated_series import searched
from waterclock.flow.seasonal_baseline import Usual, usual

DAY, HOUR, WEEK = timedelta(days=1), timedelta(hours=1), timedelta(weeks=1)
MONDAY = datetime(2024, 1, 1, tzinfo=UTC)


def days(count: int, weekend: float = 40.0) -> list[tuple[datetime, float]]:
    return [
        (at, weekend if at.weekday() > 4 else 100.0 + at.day % 3)
        for at in (MONDAY + number * DAY for number in range(count))
    ]


def at_day(number: int, **said: float) -> Usual | None:
    return usual(days(number, **said), MONDAY + number * DAY, step=DAY, zone="UTC")


def test_two_weeks_are_needed_and_saturdays_are_known_then() -> None:
    assert at_day(13) is None
    monday, saturday = at_day(14), at_day(19)
    assert monday is not None
    assert saturday is not None
    assert monday.at() == pytest.approx(101, rel=0.02)
    assert saturday.at() == pytest.approx(40, rel=0.02)
    assert saturday.at(-1) < 40 < saturday.at(1)
    assert saturday.at(4.5) < 100


def test_the_hour_is_that_of_the_zone_on_both_sides_of_a_change_of_the_clock() -> None:
    from zoneinfo import ZoneInfo

    rules = ZoneInfo("Europe/Berlin")
    first = datetime(2024, 3, 4, tzinfo=UTC)  # the clock goes forward on 31 March
    history = [(at, 500.0 if at.astimezone(rules).hour == 9 else 10.0) for at in (first + n * HOUR for n in range(700))]
    for number in range(700, 724):
        at = first + number * HOUR
        found = usual(history, at, step=HOUR, zone="Europe/Berlin")
        assert found is not None
        assert found.at() == pytest.approx(500 if at.astimezone(rules).hour == 9 else 10)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Europe/Helsinki", "America/Denver", "Atlantic/Azores"])
@pytest.mark.parametrize("hours", [2, 3, 6, 12])
def test_windows_of_several_hours_have_the_same_seasons_on_both_sides_of_a_change_of_the_clock(
    zone: str, hours: int
) -> None:
    step = hours * HOUR

    def value(at: datetime) -> float:
        return 500.0 if at.hour == 12 else 10.0

    first = datetime(2024, 2, 12, tzinfo=UTC)  # clocks go forward on 10 March in Denver, on 31 March in Europe
    for change in (datetime(2024, 3, 10, 12, tzinfo=UTC), datetime(2024, 3, 31, 12, tzinfo=UTC)):
        for number in range(24 // hours):
            at = change + number * step
            history = [(label, value(label)) for label in (first + n * step for n in range((at - first) // step))]
            found = usual(history, at, step=step, zone=zone)
            assert found is not None
            assert found.at() == pytest.approx(value(at))


def test_a_new_level_is_usual_after_a_week_of_days() -> None:
    moved = [(at, value * (3 if index >= 40 else 1)) for index, (at, value) in enumerate(days(49))]
    found = usual(moved, MONDAY + 49 * DAY, step=DAY, zone="UTC")
    assert found is not None
    assert 90 < found.at(-4.5) < 300 < found.at(4.5)


def test_weeks_and_months_have_no_season_and_need_eight_values() -> None:
    history = [(MONDAY + number * WEEK, 100.0) for number in range(8)]
    assert usual(history[:7], MONDAY + 7 * WEEK, step=WEEK, zone="UTC") is None
    found = usual(history, MONDAY + 8 * WEEK, step=WEEK, zone="UTC")
    assert found is not None
    assert found.at() == pytest.approx(100)


def test_values_below_zero_are_compared_by_their_differences() -> None:
    history = [(MONDAY + number * DAY, (-1.0) ** number) for number in range(30)]
    found = usual(history, MONDAY + 30 * DAY, step=DAY, zone="UTC")
    assert found is not None
    assert not found.is_ratio
    assert found.at(-4.5) < 0.0 < found.at(4.5) < 1000.0


@pytest.mark.parametrize("middle", [0.03, 0.4, 0.956, 4.5, 20.5, 1e-6])
def test_a_share_or_small_mean_has_bounds_that_something_can_break(middle: float) -> None:
    history = [(MONDAY + number * DAY, middle * (1 + 0.04 * math.sin(number * 1.7))) for number in range(60)]
    found = usual(history, MONDAY + 60 * DAY, step=DAY, zone="UTC")
    assert found is not None
    assert found.at() == pytest.approx(middle, rel=0.05)
    assert 0.6 * middle < found.at(-4.5) < 0.9 * middle
    assert 1.1 * middle < found.at(4.5) < 1.6 * middle


def test_a_count_of_few_keeps_the_spread_of_chance() -> None:
    history = [(MONDAY + number * DAY, 4.0) for number in range(60)]
    found = usual(history, MONDAY + 60 * DAY, step=DAY, zone="UTC")
    assert found is not None
    assert found.at(-4.5) == 0
    assert found.at(4.5) > 30


@settings(max_examples=60, deadline=None)
@example(values=[0.0] * 7 + [5e-324] * 7, spoilt=0, scales=1.0)
@given(
    values=st.lists(st.floats(min_value=0, max_value=1e300), min_size=14, max_size=60),
    spoilt=st.integers(min_value=0, max_value=3),
    scales=st.floats(min_value=0, max_value=1e4),
)
def test_the_baseline_is_a_number_between_its_bounds(values: list[float], spoilt: int, scales: float) -> None:
    history = [(MONDAY + number * DAY, value) for number, value in enumerate(values)]
    at = MONDAY + len(values) * DAY
    bad = [(at - (number + 1) * HOUR, math.nan) for number in range(spoilt)]
    found = usual([*bad, *reversed(history), (at, 5.0), (at + DAY, 5.0)], at, step=DAY, zone="UTC")
    assert found == usual(history, at, step=DAY, zone="UTC")
    assert found is not None
    assert found.spread > 0
    assert 0 <= found.at(-scales) <= found.at() <= found.at(scales)


@pytest.mark.slow
def test_faults_are_found_and_nothing_else() -> None:
    daily, flat = searched("daily", range(20)), searched("flat", range(20))
    hourly = searched("hourly", range(2), share=0.2)
    for found in (daily, flat, hourly):
        assert found.recall >= 0.92
        assert found.precision >= 0.95
        assert found.false_share <= 0.003
