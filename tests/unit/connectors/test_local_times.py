from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.connectors.local_times import local_micros_to_instants
from waterclock.connectors.type_mismatch import TypeMismatch
from waterclock.timelabel.instant import EPOCH
from waterclock.timelabel.zone import resolve_local

MICROSECOND = timedelta(microseconds=1)
ZONES = (
    "UTC", "America/New_York", "America/Vancouver", "America/Tijuana", "Europe/Berlin", "Asia/Kolkata", "Asia/Tokyo",
    "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo", "Africa/Casablanca", "Asia/Gaza", "Europe/Dublin",
)  # fmt: skip


def read(times: list[datetime], zone: str) -> list[int]:
    micros = [(time - EPOCH.replace(tzinfo=None)) // MICROSECOND for time in times]
    return [int(found) for found in local_micros_to_instants(np.array(micros, dtype="int64"), zone)]


def one_by_one(times: list[datetime], zone: str) -> list[int]:
    return [(resolve_local(time, zone) - EPOCH) // MICROSECOND for time in times]


@given(
    st.lists(st.datetimes(datetime(1900, 1, 2), datetime(2100, 1, 1)), min_size=1, max_size=30),  # noqa: DTZ001
    st.sampled_from(ZONES),
)
def test_many_are_read_as_each_alone(times: list[datetime], zone: str) -> None:
    assert read(times, zone) == one_by_one(times, zone)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("year", [1965, 2011, 2013, 2026, 2039])
def test_every_quarter_of_an_hour_of_a_year_is_read_as_alone(zone: str, year: int) -> None:
    quarters = [datetime(year, 1, 1) + at * timedelta(minutes=15) for at in range(0, 365 * 96, 7)]  # noqa: DTZ001
    assert read(quarters, zone) == one_by_one(quarters, zone)


@pytest.mark.parametrize(
    ("time", "zone"),
    [(datetime(9999, 12, 31, 23, 59, 59), "America/New_York"), (datetime(1, 1, 1), "Asia/Tokyo")],  # noqa: DTZ001
)
def test_a_local_time_outside_of_the_range_of_instants_is_a_type_mismatch(time: datetime, zone: str) -> None:
    with pytest.raises(TypeMismatch):
        read([datetime(2013, 1, 1), time], zone)  # noqa: DTZ001
