from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from waterclock.timelabel.zone_history import HISTORY_START, offset_changes, skipped_dates


@pytest.mark.parametrize(
    ("zone", "dates"),
    [
        ("UTC", []),
        ("Europe/Berlin", []),
        ("Pacific/Apia", [date(2011, 12, 30)]),
        ("Pacific/Fakaofo", [date(2011, 12, 30)]),
        ("Pacific/Kwajalein", [date(1993, 8, 21)]),
        ("Pacific/Kiritimati", [date(1994, 12, 31)]),
        ("Asia/Manila", [date(1844, 12, 31)]),
    ],
)
def test_skipped_dates_are_known(zone: str, dates: list[date]) -> None:
    assert [date.fromordinal(ordinal) for ordinal in skipped_dates(zone)] == dates


def test_utc_never_changes() -> None:
    assert offset_changes("UTC") == ((HISTORY_START, timedelta(0)),)


def test_changes_of_offset_are_found_to_the_second() -> None:
    changes = offset_changes("America/New_York")
    assert (datetime(2013, 3, 10, 7, tzinfo=UTC), timedelta(hours=-4)) in changes
    assert (datetime(2013, 11, 3, 6, tzinfo=UTC), timedelta(hours=-5)) in changes
    assert offset_changes("Africa/Monrovia") == (
        (HISTORY_START, -timedelta(minutes=44, seconds=30)),
        (datetime(1972, 1, 7, 0, 44, 30, tzinfo=UTC), timedelta(0)),
    )


def test_an_offset_kept_for_a_week_is_not_overlooked() -> None:
    noronha = [at for at, _ in offset_changes("America/Noronha") if at.year == 2000]
    assert [at.date() for at in noronha] == [date(2000, 2, 27), date(2000, 10, 8), date(2000, 10, 15)]
