from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest

from waterclock.errors import WaterclockError
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.period import parse_period
from waterclock.timelabel.window import Window


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]  # year, month, day, hour, minute


def every(period: str, zone: str = "UTC", *, delay: timedelta = timedelta(0)) -> Cadence:
    return Cadence(parse_period(period), delay, zone)


def lengths(cadence: Cadence, start: datetime, end: datetime) -> list[timedelta]:
    return [window.end - window.start for window in cadence.windows(start, end)]


def test_a_boundary_is_its_own_floor_and_ceiling() -> None:
    hourly = every("HOUR")
    nine = at(2018, 3, 5, 9)
    assert hourly.floor(nine) == hourly.ceil(nine) == nine
    assert hourly.next(nine) == at(2018, 3, 5, 10)
    assert hourly.previous(nine) == at(2018, 3, 5, 8)


def test_an_instant_between_boundaries_is_in_the_window_between_them() -> None:
    hourly = every("HOUR")
    t = at(2018, 3, 5, 9, 1)
    assert (
        hourly.window_of(t) == Window(hourly.floor(t), hourly.ceil(t)) == Window(at(2018, 3, 5, 9), at(2018, 3, 5, 10))
    )
    assert hourly.previous(t) == at(2018, 3, 5, 9)
    assert not hourly.is_boundary(t)


def test_instants_of_any_zone_are_taken_and_utc_is_given() -> None:
    t = datetime(2018, 3, 5, 18, 1, tzinfo=timezone(timedelta(hours=9)))
    for boundary in (every("HOUR").floor(t), every("DAY", "Asia/Tokyo").next(t), every("HOUR").next(t)):
        assert boundary.tzinfo is UTC
    assert every("HOUR").floor(t) == at(2018, 3, 5, 9)


def test_an_instant_without_a_zone_is_refused() -> None:
    with pytest.raises(WaterclockError, match="E106"):
        every("HOUR").floor(at(2018, 3, 5).replace(tzinfo=None))


def test_minutes_lie_on_the_utc_grid_whatever_the_zone() -> None:
    t = at(2018, 3, 5, 9, 1)
    assert every("HOUR", "Asia/Kolkata").window_of(t) == every("HOUR").window_of(t)
    assert every("6 HOURS", "Europe/Berlin").floor(t) == at(2018, 3, 5, 6)


def test_days_are_those_of_the_zone() -> None:
    daily = every("DAY", "Asia/Tokyo")
    assert daily.window_of(at(2024, 3, 5, 1)).label == "20240304150000"


def test_days_of_23_and_25_hours_are_one_window() -> None:
    daily = every("DAY", "America/New_York")
    hours = [length // timedelta(hours=1) for length in lengths(daily, at(2013, 3, 9, 5), at(2013, 3, 12, 4))]
    assert hours == [24, 23, 24]
    hours = [length // timedelta(hours=1) for length in lengths(daily, at(2013, 11, 2, 4), at(2013, 11, 5, 5))]
    assert hours == [24, 25, 24]


def test_a_skipped_date_is_no_window() -> None:
    daily = every("DAY", "Pacific/Apia")
    windows = list(daily.windows(at(2011, 12, 28, 10), at(2012, 1, 1, 10)))
    assert [window.label for window in windows] == [
        "20111228100000",
        "20111229100000",
        "20111230100000",
        "20111231100000",
    ]
    assert {window.end - window.start for window in windows} == {timedelta(hours=24)}
    assert daily.count(at(2011, 12, 28, 10), at(2012, 1, 1, 10)) == 4
    assert daily.shift(at(2011, 12, 29, 10), 2) == at(2011, 12, 31, 10)
    assert daily.shift(at(2011, 12, 31, 10), -2) == at(2011, 12, 29, 10)


def test_a_date_passed_twice_at_midnight_starts_at_the_first_pass() -> None:
    daily = every("DAY", "America/Goose_Bay")  # 2010-11-07 00:01 back to 23:01 of the day before
    assert daily.window_of(at(2010, 11, 7, 3, 30)) == Window(at(2010, 11, 7, 3), at(2010, 11, 8, 4))


@pytest.mark.parametrize(
    ("period", "labels"),
    [
        ("WEEK", ["20240101000000", "20240108000000", "20240115000000"]),
        ("MONTH", ["20240101000000", "20240201000000", "20240301000000"]),
        ("QUARTER", ["20240101000000", "20240401000000", "20240701000000"]),
        ("YEAR", ["20240101000000", "20250101000000", "20260101000000"]),
    ],
)
def test_calendar_windows_start_on_monday_and_the_first(period: str, labels: list[str]) -> None:
    windows = every(period).windows(at(2023, 12, 30), at(2027, 1, 1))
    assert [next(windows).label for _ in labels] == labels


def test_a_month_is_that_of_the_zone() -> None:
    monthly = every("MONTH", "Europe/Berlin")
    assert monthly.window_of(at(2024, 3, 31, 21)) == Window(at(2024, 2, 29, 23), at(2024, 3, 31, 22))


def test_a_label_gives_its_window_back() -> None:
    daily = every("DAY", "America/New_York")
    assert daily.window("20130101050000") == Window(at(2013, 1, 1, 5), at(2013, 1, 2, 5))


def test_a_label_that_starts_no_window_is_refused_with_the_nearest() -> None:
    with pytest.raises(WaterclockError) as refusal:
        every("15 MINUTES").window("20180305081000")
    error = refusal.value
    assert (error.code, error.what) == ("E103", "no window starts at label '20180305081000'")
    assert error.why == "the cadence is EVERY 15 MINUTES"
    assert error.fix == "use the nearest label: 20180305080000 or 20180305081500"


def test_the_nearest_labels_show_their_local_date() -> None:
    with pytest.raises(WaterclockError) as refusal:
        every("DAY", "Asia/Tokyo").window("20240305000000")
    assert refusal.value.fix == (
        "use the nearest label: 20240304150000 (2024-03-05 00:00 +09:00) or 20240305150000 (2024-03-06 00:00 +09:00)"
    )


def test_a_malformed_label_names_no_window() -> None:
    with pytest.raises(WaterclockError, match="E101"):
        every("DAY").window("2018-03-05")


def test_windows_lie_within_the_span() -> None:
    hourly = every("HOUR")
    windows = list(hourly.windows(at(2018, 3, 5, 8, 1), at(2018, 3, 5, 10, 59)))
    assert windows == [Window(at(2018, 3, 5, 9), at(2018, 3, 5, 10))]
    assert list(hourly.windows(at(2018, 3, 5, 9), at(2018, 3, 5, 9))) == []
    assert list(hourly.windows(at(2018, 3, 5, 9), at(2018, 3, 5, 8))) == []


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("period", ["HOUR", "DAY", "MONTH"])
def test_a_span_without_a_window_counts_none(period: str, zone: str) -> None:
    cadence = every(period, zone)
    for start, end in [(at(2018, 3, 5, 9), at(2018, 3, 5, 9)), (at(2018, 3, 5), at(2018, 3, 1))]:
        assert cadence.count(start, end) == 0
    assert cadence.count(at(2018, 3, 5, 9, 1), at(2018, 3, 5, 9, 2)) == 0


def test_counting_makes_no_windows() -> None:
    assert every("MINUTE").count(at(1, 1, 1), at(9999, 1, 1)) == 3_651_694 * 1440
    assert every("DAY", "America/New_York").count(at(1971, 1, 1), at(2100, 1, 1)) == 47_116


def test_a_batch_is_due_at_the_end_of_its_window_and_the_delay() -> None:
    cadence = every("15 MINUTES", delay=timedelta(minutes=2))
    window = cadence.window("20180305080000")
    assert cadence.due_at(window) == at(2018, 3, 5, 8, 17)
    assert cadence.last_due(at(2018, 3, 5, 8, 17)) == window.end
    assert cadence.last_due(at(2018, 3, 5, 8, 16)) == window.start


def test_a_delay_is_elapsed_time() -> None:
    cadence = every("DAY", "America/New_York", delay=timedelta(hours=6))
    window = cadence.window_of(at(2013, 3, 9, 12))
    assert cadence.due_at(window) == at(2013, 3, 10, 11)  # 07:00 on the day whose clock skips an hour


def test_a_delay_longer_than_the_window_leaves_several_waiting() -> None:
    cadence = every("HOUR", delay=timedelta(hours=5))
    assert cadence.last_due(at(2018, 3, 5, 12, 30)) == at(2018, 3, 5, 7)


def test_due_windows_begin_at_the_start() -> None:
    cadence = every("HOUR", delay=timedelta(minutes=10))
    labels = [window.label for window in cadence.windows(at(2018, 3, 5, 7), cadence.last_due(at(2018, 3, 5, 9, 10)))]
    assert labels == ["20180305070000", "20180305080000"]
    assert list(cadence.windows(at(2018, 3, 5, 7), cadence.last_due(at(2018, 3, 4)))) == []


def test_only_a_boundary_can_be_shifted() -> None:
    assert every("5 MINUTES").shift(at(2018, 3, 5), -3) == at(2018, 3, 4, 23, 45)
    assert every("MONTH").shift(at(2018, 3, 1), 12) == at(2019, 3, 1)
    with pytest.raises(WaterclockError, match="E103 no window starts at 2018-03-05T00:01:00"):
        every("5 MINUTES").shift(at(2018, 3, 5, 0, 1), 1)


def test_a_negative_delay_is_refused() -> None:
    with pytest.raises(WaterclockError, match="is negative") as refusal:
        every("DAY", delay=timedelta(minutes=-1))
    assert refusal.value.code == "E107"


def test_an_unknown_zone_is_refused_at_once() -> None:
    with pytest.raises(WaterclockError, match="E105 unknown zone 'Europe/Berlim'"):
        every("HOUR", "Europe/Berlim")


def test_days_of_a_zone_off_by_seconds_are_refused_and_later_ones_are_not() -> None:
    daily = every("DAY", "Africa/Monrovia")
    with pytest.raises(WaterclockError, match="no label can name that instant"):
        daily.floor(at(1971, 6, 1, 12))
    assert daily.floor(at(1972, 6, 1, 12)) == at(1972, 6, 1)


@pytest.mark.parametrize(("zone", "period"), [("UTC", "HOUR"), ("UTC", "DAY"), ("Asia/Tokyo", "DAY"), ("UTC", "YEAR")])
def test_the_end_of_the_calendar_is_refused_not_wrapped(zone: str, period: str) -> None:
    cadence = every(period, zone)
    boundary = cadence.floor(at(2018, 3, 5))
    with pytest.raises(WaterclockError, match="is outside the years 1 to 9999"):
        cadence.next(datetime(9999, 12, 31, 23, 30, tzinfo=UTC))
    with pytest.raises(WaterclockError, match="is outside the years 1 to 9999"):
        cadence.previous(datetime(1, 1, 1, tzinfo=UTC))
    with pytest.raises(WaterclockError, match="is outside the years 1 to 9999"):
        cadence.shift(boundary, 10**9)


def test_a_delay_that_leads_before_the_calendar_is_refused() -> None:
    with pytest.raises(WaterclockError, match="is outside the years 1 to 9999"):
        every("DAY", delay=timedelta(days=1)).last_due(at(1, 1, 1))


@pytest.mark.parametrize(
    ("cadence", "text"),
    [
        (every("HOUR"), "EVERY HOUR"),
        (every("15 MINUTES", delay=timedelta(minutes=2)), "EVERY 15 MINUTES DELAY 2 MINUTES"),
        (every("DAY", "Asia/Tokyo", delay=timedelta(hours=1)), "EVERY DAY DELAY 1 HOUR ZONE 'Asia/Tokyo'"),
    ],
)
def test_a_cadence_is_shown_in_the_words_of_the_language(cadence: Cadence, text: str) -> None:
    assert str(cadence) == text


def test_a_cadence_survives_pickling() -> None:
    cadence = every("DAY", "Asia/Tokyo", delay=timedelta(hours=1))
    assert pickle.loads(pickle.dumps(cadence)) == cadence
    window = cadence.window_of(at(2024, 3, 5))
    assert pickle.loads(pickle.dumps(window)).start.tzinfo is UTC
