"""`trend` compares two levels without their seasons, and returns nothing if data is insufficient."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulated_series import crept
from waterclock.flow.seasonal_baseline import trend

DAY, HOUR, WEEK = timedelta(days=1), timedelta(hours=1), timedelta(weeks=1)
MONDAY = datetime(2024, 1, 1, tzinfo=UTC)


def days(count: int, *, a_day: float = 0.0, weekend: float = 0.4) -> list[tuple[datetime, float]]:
    return [
        (at, 1000.0 * (1 + a_day) ** number * (weekend if at.weekday() > 4 else 1.0))
        for number, at in ((number, MONDAY + number * DAY) for number in range(count))
    ]


def after(history: list[tuple[datetime, float]], back: int = 30) -> float | None:
    return trend(history, history[-1][0] + DAY, days=back, step=DAY, zone="UTC")


@pytest.mark.parametrize(("a_day", "back"), [(0.005, 30), (-0.005, 30), (-0.005, 60), (0.0, 30), (0.01, 60)])
def test_a_creep_is_the_ratio_of_two_levels_whatever_the_season(a_day: float, back: int) -> None:
    # a season is a median too: for a weekday it is up to three days off
    off = 0.015 + 3 * abs(a_day)
    assert after(days(200, a_day=a_day), back) == pytest.approx((1 + a_day) ** back, rel=off)
    assert after(days(200, a_day=a_day, weekend=0.0), back) == pytest.approx((1 + a_day) ** back, rel=off)


def test_there_is_no_trend_before_both_levels_are_known() -> None:
    # four windows of the earlier level are needed
    assert after(days(33)) is None
    assert after(days(34)) == pytest.approx(1.0, rel=0.01)
    assert trend([], MONDAY, days=30, step=DAY, zone="UTC") is None


def test_a_source_that_paused_in_one_of_both_levels_has_none() -> None:
    history = days(60)
    late = history[-1][0] - 12 * DAY
    assert after([it for it in history if it[0] < late or it[0] == history[-1][0]]) is None


def test_future_and_old_values_and_nan_do_not_count() -> None:
    history = days(90)
    at = history[-1][0] + DAY
    more = [(at, 1e9), (at + DAY, 1e9), (at - 45 * DAY, 5.0), (at - 80 * DAY, -3.0), (at - HOUR, math.nan)]
    found = trend([*more, *reversed(history)], at, days=30, step=DAY, zone="UTC")
    assert found == pytest.approx(1.0, rel=0.01)


def test_values_below_zero_have_no_ratio() -> None:
    assert after([*days(90)[:-1], (MONDAY + 89 * DAY, -1.0)]) is None


@pytest.mark.parametrize("middle", [0.03, 0.956, 1e-6, 4.5])
def test_a_share_creeps_as_a_count_does(middle: float) -> None:
    history = [(at, middle * value / 1000) for at, value in days(90, a_day=-0.005, weekend=1.0)]
    assert after(history) == pytest.approx(0.995**30, rel=0.03)


def test_hours_are_compared_with_their_hour_and_weeks_without_a_season() -> None:
    hours = [(MONDAY + n * HOUR, 100.0 * (1 + n % 24) * 0.9995**n) for n in range(24 * 60)]
    found = trend(hours, MONDAY + len(hours) * HOUR, days=28, step=HOUR, zone="UTC")
    assert found == pytest.approx(0.9995 ** (28 * 24), rel=0.05)
    weeks = [(MONDAY + n * WEEK, 100.0 * 0.97**n) for n in range(30)]
    assert trend(weeks, MONDAY + 30 * WEEK, days=84, step=WEEK, zone="UTC") == pytest.approx(0.97**12, rel=0.02)


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.floats(min_value=0, max_value=1e300), min_size=45, max_size=80),
    factor=st.sampled_from([1.0, 2.0, 1024.0]),
)
def test_it_is_a_number_above_zero_and_knows_no_order(values: list[float], factor: float) -> None:
    history = [(MONDAY + number * DAY, value) for number, value in enumerate(values)]
    found = after(history)
    assert found is not None
    assert 0 < found < math.inf
    assert trend(history[::-1], MONDAY + len(values) * DAY, days=30, step=DAY, zone="UTC") == found
    constant = [(at, factor) for at, _ in history]
    assert after(constant) == pytest.approx(1.0)


@pytest.mark.slow
def test_a_creep_of_weeks_is_reported_and_healthy_days_are_not() -> None:
    found = crept(range(60), days=60, low=0.75, high=4 / 3, a_day=-0.005)
    assert found.false_share <= 0.002
    assert len(found.days_until) >= 0.95 * found.series
    assert sorted(found.days_until)[found.series // 2] <= 80
