from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from waterclock.errors import WaterclockError
from waterclock.timelabel.duration import Duration, elapsed_text, parse_duration

NEW_YORK = "America/New_York"


def at(month: int, day: int, hour: int = 0, *, year: int = 2024) -> datetime:
    return datetime(year, month, day, hour, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("2 HOURS", Duration(2, "HOUR")),
        ("7 days", Duration(7, "DAY")),
        ("1 SECOND", Duration(1, "SECOND")),
        ("0 MINUTES", Duration(0, "MINUTE")),
        ("INTERVAL 7 DAYS", Duration(7, "DAY")),
        ("interval '7' day", Duration(7, "DAY")),
        ("INTERVAL '7 days'", Duration(7, "DAY")),
        ('INTERVAL "3 months"', Duration(3, "MONTH")),
        ("7 MINUTES", Duration(7, "MINUTE")),
    ],
)
def test_a_duration_is_read_in_its_forms(text: str, duration: Duration) -> None:
    assert parse_duration(text) == duration
    assert parse_duration(str(duration)) == duration


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("DAY", "write 1 DAY"),
        ("7d", "write 7 DAYS"),
        ("2 huors", "write 2 HOURS"),
        ("", "write one such as 2 HOURS or 7 DAYS"),
        ("-2 HOURS", "write one such as 2 HOURS or 7 DAYS"),
        ("1.5 HOURS", "write one such as 2 HOURS or 7 DAYS"),
        ("INTERVAL", "write one such as 2 HOURS or 7 DAYS"),
        ("INTERVAL '7 days", "write one such as 2 HOURS or 7 DAYS"),
        ("1 DAY 2 HOURS", "write one such as 2 HOURS or 7 DAYS"),
    ],
)
def test_an_invalid_duration_is_refused(text: str, fix: str) -> None:
    with pytest.raises(WaterclockError) as refusal:
        parse_duration(text)
    assert (refusal.value.code, refusal.value.what) == ("E107", f"cannot read {text!r} as a duration")
    assert refusal.value.fix == fix


def test_a_negative_duration_cannot_be_made() -> None:
    with pytest.raises(WaterclockError, match="E107"):
        Duration(-1, "DAY")


def test_hours_elapse_over_a_change_of_the_clock() -> None:
    midnight = at(3, 11, 4)  # New York's, after the night of 23 hours
    assert Duration(24, "HOUR").subtract_from(midnight, NEW_YORK) == at(3, 10, 4)


def test_days_keep_local_midnight_over_a_change_of_the_clock() -> None:
    midnight = at(3, 11, 4)
    assert Duration(1, "DAY").subtract_from(midnight, NEW_YORK) == at(3, 10, 5)
    assert Duration(7, "DAY").subtract_from(midnight, NEW_YORK) == at(3, 4, 5)
    assert Duration(1, "WEEK").subtract_from(midnight, NEW_YORK) == at(3, 4, 5)
    assert Duration(7, "DAY").add_to(at(3, 4, 5), NEW_YORK) == midnight


def test_from_the_start_of_a_date_days_lead_to_the_start_of_a_date() -> None:
    one_oclock = at(10, 15, 3, year=2017)  # São Paulo's date began at 01:00
    assert Duration(7, "DAY").subtract_from(one_oclock, "America/Sao_Paulo") == at(10, 8, 3, year=2017)
    assert Duration(7, "DAY").add_to(at(10, 8, 3, year=2017), "America/Sao_Paulo") == one_oclock


def test_days_keep_the_local_time() -> None:
    assert Duration(1, "DAY").subtract_from(at(3, 11, 13), NEW_YORK) == at(3, 10, 13)
    assert Duration(1, "DAY").subtract_from(at(3, 10, 13), NEW_YORK) == at(3, 9, 14)


def test_a_day_before_a_skipped_date_is_the_day_before_it() -> None:
    new_year = at(12, 31, 10, year=2011)  # Apia's 2012-01-01
    assert Duration(1, "DAY").subtract_from(new_year, "Pacific/Apia") == at(12, 30, 10, year=2011)
    assert Duration(2, "DAY").subtract_from(new_year, "Pacific/Apia") == at(12, 30, 10, year=2011)
    assert Duration(3, "DAY").subtract_from(new_year, "Pacific/Apia") == at(12, 29, 10, year=2011)


@pytest.mark.parametrize(
    ("start", "duration", "before"),
    [
        (at(3, 31), Duration(1, "MONTH"), at(2, 29)),
        (at(1, 15), Duration(1, "MONTH"), at(12, 15, year=2023)),
        (at(2, 29), Duration(1, "YEAR"), at(2, 28, year=2023)),
        (at(5, 31), Duration(1, "QUARTER"), at(2, 29)),
        (at(3, 1), Duration(90, "SECOND"), at(3, 1) - timedelta(seconds=90)),
        (at(3, 1), Duration(0, "DAY"), at(3, 1)),
    ],
)
def test_months_end_where_the_month_ends(start: datetime, duration: Duration, before: datetime) -> None:
    assert duration.subtract_from(start, "UTC") == before


def test_elapsed_time_of_days_is_24_hours_each() -> None:
    assert Duration(2, "DAY").to_timedelta() == timedelta(hours=48)
    assert Duration(1, "WEEK").to_timedelta() == timedelta(days=7)


@pytest.mark.parametrize(("unit", "days"), [("MONTH", 30), ("QUARTER", 90), ("YEAR", 360)])
def test_months_have_no_elapsed_time(unit: str, days: int) -> None:
    with pytest.raises(WaterclockError) as refusal:
        parse_duration(f"1 {unit}").to_timedelta()
    assert (refusal.value.code, refusal.value.what) == ("E107", f"1 {unit} has no fixed length")
    assert refusal.value.fix == f"use days: {days} DAYS"


@pytest.mark.parametrize("text", ["99999 YEARS", "999999999 DAYS", "999999999 WEEKS", "99999999 HOURS"])
def test_a_duration_that_leads_beyond_the_calendar_is_refused(text: str) -> None:
    duration = parse_duration(text)
    for move in (duration.subtract_from, duration.add_to):
        with pytest.raises(WaterclockError, match=f"E106 {text}.*is outside the years 1 to 9999"):
            move(at(1, 1), "Asia/Tokyo")


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(0), "0 SECONDS"),
        (timedelta(minutes=1), "1 MINUTE"),
        (timedelta(minutes=90), "90 MINUTES"),
        (timedelta(hours=6), "6 HOURS"),
        (timedelta(days=6), "6 DAYS"),
        (timedelta(seconds=61), "61 SECONDS"),
    ],
)
def test_elapsed_time_is_written_in_the_largest_whole_unit(span: timedelta, text: str) -> None:
    assert elapsed_text(span) == text
    assert parse_duration(text).to_timedelta() == span


def test_a_duration_longer_than_the_calendar_has_no_elapsed_time() -> None:
    with pytest.raises(WaterclockError, match="E106 999999999 WEEKS is outside"):
        parse_duration("999999999 WEEKS").to_timedelta()
