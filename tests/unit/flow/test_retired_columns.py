"""A column ends with the first window that starts on its day, even if the zone skips midnight."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.flow.retired_columns import Ending

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Tokyo", "Australia/Lord_Howe")


@given(
    st.sampled_from(ZONES),
    st.dates(date(2015, 1, 1), date(2026, 12, 31)),
    st.integers(-3 * 96, 3 * 96),
)
def test_a_label_has_ended_where_its_local_date_is_the_day_or_later(zone: str, day: date, quarters: int) -> None:
    label = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(minutes=15 * quarters)
    assert (label >= Ending(day).at(zone)) is (label.astimezone(ZoneInfo(zone)).date() >= day)


@pytest.mark.parametrize(
    ("zone", "at"),
    [
        ("America/Sao_Paulo", datetime(2018, 11, 4, 3, tzinfo=UTC)),  # midnight was skipped
        ("Europe/Berlin", datetime(2018, 11, 3, 23, tzinfo=UTC)),
    ],
)
def test_it_ends_at_the_day_s_first_instant(zone: str, at: datetime) -> None:
    assert Ending(date(2018, 11, 4)).at(zone) == at
    assert str(Ending(date(2018, 11, 4))) == "RETIRE '2018-11-04'"
