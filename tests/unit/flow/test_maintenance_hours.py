"""The hours of maintenance are wall-clock hours of a zone, also over midnight and when clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.flow.maintenance_hours import MaintenanceHours


def hours(text: str, zone: str = "UTC") -> MaintenanceHours:
    first, second = (time.fromisoformat(each) for each in text.split("-"))
    return MaintenanceHours(first, second, zone, 10**9)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "zone", "now", "expected"),
    [
        ("01:00-05:00", "UTC", "2026-05-01T01:00", ("2026-05-01T01:00", "2026-05-01T05:00")),
        ("01:00-05:00", "UTC", "2026-05-01T05:00", None),
        ("01:00-05:00", "UTC", "2026-05-01T00:59:59", None),
        ("22:00-04:00", "UTC", "2026-05-01T23:00", ("2026-05-01T22:00", "2026-05-02T04:00")),
        ("22:00-04:00", "UTC", "2026-05-02T03:59", ("2026-05-01T22:00", "2026-05-02T04:00")),
        ("22:00-04:00", "UTC", "2026-05-02T04:00", None),
        ("00:00-00:00", "UTC", "2026-05-02T12:00", ("2026-05-02T00:00", "2026-05-03T00:00")),
        ("01:00-05:00", "Europe/Berlin", "2026-07-01T23:30", ("2026-07-01T23:00", "2026-07-02T03:00")),
        # 02:30 does not exist on 29 March: it is an hour later by the clock
        ("02:30-05:00", "Europe/Berlin", "2026-03-29T01:29", None),
        ("02:30-05:00", "Europe/Berlin", "2026-03-29T01:30", ("2026-03-29T01:30", "2026-03-29T03:00")),
        # 02:30 comes twice on 25 October: the first one counts
        ("02:30-04:00", "Europe/Berlin", "2026-10-25T00:30", ("2026-10-25T00:30", "2026-10-25T03:00")),
        # the whole range is in the skipped hour: that day has no maintenance hours
        ("02:00-03:00", "Europe/Berlin", "2026-03-29T01:00", None),
    ],
)
def test_hours_around_an_instant(said: str, zone: str, now: str, expected: tuple[str, str] | None) -> None:
    found = hours(said, zone).window_at(at(now))
    assert (None if found is None else (found.start, found.end)) == (
        None if expected is None else (at(expected[0]), at(expected[1]))
    )


@given(
    st.integers(0, 1439),
    st.integers(0, 1439),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia", "Australia/Lord_Howe"]),
    st.integers(0, 60 * 24 * 400),
)
def test_an_instant_is_in_the_hours_if_the_clock_on_the_wall_is(
    first: int, second: int, zone: str, minutes: int
) -> None:
    now = at("2026-01-01T00:00") + timedelta(minutes=minutes)
    said = MaintenanceHours(time(first // 60, first % 60), time(second // 60, second % 60), zone, 1)
    found = said.window_at(now)
    if found is not None:
        assert found.contains(now)
        assert found.end - found.start <= timedelta(hours=25)
        assert said.window_at(found.start) == found
