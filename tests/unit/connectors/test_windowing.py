"""Detection of texts with their own time zone."""

from __future__ import annotations

import re

import pytest

from waterclock.connectors import windowing

TIMES = ("2026-11-23T12:00:00", "2026-11-23 12:00:00.123", "2026-11-23 12:00")
ZONES = ("Z", "z", "+01:00", "-0500", "+01", "-05", " +01", " +01:00", " UTC", " Europe/Berlin", "+01:00:00", "GMT+1")


@pytest.mark.parametrize("time", TIMES)
def test_a_zone_behind_a_time_of_day_is_seen_however_it_is_written(time: str) -> None:
    has_zone = re.compile(windowing._OFFSET).search
    assert not has_zone(time)
    assert not has_zone(f"{time} ")
    assert [zone for zone in ZONES if not has_zone(f"{time}{zone}")] == []


@pytest.mark.parametrize("date", ["2026-11-23", "20261123", "2026-11-23T"])
def test_a_date_has_no_time_zone_offset(date: str) -> None:
    assert not re.search(windowing._OFFSET, date)
