from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from waterclock.errors import WaterclockError
from waterclock.timelabel.cron import compile_cron
from waterclock.timelabel.zone import nominal_zone


@pytest.mark.parametrize(
    ("schedule", "cadence"),
    [
        ("10 * * * *", "EVERY HOUR DELAY 10 MINUTES"),
        ("10 0 * * *", "EVERY DAY DELAY 10 MINUTES"),
        ("* * * * *", "EVERY MINUTE"),
        ("*/15 * * * *", "EVERY 15 MINUTES"),
        ("0,15,30,45 * * * *", "EVERY 15 MINUTES"),
        ("5-59/15 * * * *", "EVERY 15 MINUTES DELAY 5 MINUTES"),
        ("0 */6 * * *", "EVERY 6 HOURS"),
        ("30 2-23/4 * * *", "EVERY 4 HOURS DELAY 150 MINUTES"),
        ("0 0,12 * * *", "EVERY 12 HOURS"),
        ("30 6 * * 0-6", "EVERY DAY DELAY 390 MINUTES"),
        ("0 0 1-31 * 1", "EVERY DAY"),  # either day field may match, and one always does
        ("0 0 */1 * MON", "EVERY WEEK"),  # a day field that starts with a star restricts together with the other one
        ("0 0 * * 1", "EVERY WEEK"),
        ("0 0 * * 0", "EVERY WEEK DELAY 6 DAYS"),
        ("0 0 * * 7", "EVERY WEEK DELAY 6 DAYS"),
        ("0 3 * JAN-DEC tue", "EVERY WEEK DELAY 27 HOURS"),
        ("0 6 1 * *", "EVERY MONTH DELAY 6 HOURS"),
        ("0 0 15 * *", "EVERY MONTH DELAY 14 DAYS"),
        ("0 0 28 1-12 *", "EVERY MONTH DELAY 27 DAYS"),
        ("0 0 1 */3 *", "EVERY QUARTER"),
        ("0 5 2 1,4,7,10 *", "EVERY QUARTER DELAY 29 HOURS"),
        ("0 0 1 1 *", "EVERY YEAR"),
        ("0 0 28 feb *", "EVERY YEAR DELAY 58 DAYS"),
        ("0 0 */30 2 *", "EVERY YEAR DELAY 31 DAYS"),  # the 1st and 31st, and February has no 31st
        ("@hourly", "EVERY HOUR"),
        ("@daily", "EVERY DAY"),
        ("@midnight", "EVERY DAY"),
        ("@weekly", "EVERY WEEK DELAY 6 DAYS"),
        ("@monthly", "EVERY MONTH"),
        ("@yearly", "EVERY YEAR"),
        ("@Annually", "EVERY YEAR"),
        ("  10   0 * *\t* ", "EVERY DAY DELAY 10 MINUTES"),
    ],
)
def test_a_cron_is_a_spelling_of_a_cadence(schedule: str, cadence: str) -> None:
    assert str(compile_cron(schedule)) == cadence


@pytest.mark.parametrize(
    ("schedule", "why", "nearest"),
    [
        ("*/7 * * * *", "it fires 4 or 7 minutes apart", "EVERY 6 MINUTES or EVERY 8 MINUTES"),
        ("0 */5 * * *", "it fires 240 or 300 minutes apart", "EVERY 4 HOURS or EVERY 6 HOURS"),
        ("0 9,17 * * *", "it fires 480 or 960 minutes apart", "EVERY 8 HOURS or EVERY DAY"),
        ("*/15 9-17 * * *", "it fires 15 or 915 minutes apart", "EVERY 15 MINUTES or EVERY DAY"),
        ("*/15 9-17 * * 1-5", "it fires several times on some days", "EVERY 15 MINUTES or EVERY DAY"),
        ("0 0 * * 1-5", "its days of the week are not equally far apart", "EVERY DAY or EVERY WEEK"),
        ("0 0 1,15 * *", "its days of the month are not equally far apart", "EVERY WEEK or EVERY MONTH"),
        ("0 0 31 * *", "day 31 is not in each of its months", "EVERY MONTH"),
        ("0 0 31 1,4,7,10 *", "day 31 is not in each of its months", "EVERY QUARTER"),
        ("0 0 29 2 *", "day 29 is not in each of its months", "EVERY YEAR"),
        ("0 0 30 2 *", "it never fires", "EVERY MONTH"),
        ("0 0 1 2,5,8,11 *", "it fires in months that do not all start a quarter", "EVERY QUARTER"),
        ("0 0 1 */2 *", "the months it fires in are not whole quarters", "EVERY MONTH or EVERY QUARTER"),
        ("0 0 1 6 *", "the year before it has 365 or 366 days", "EVERY YEAR"),
        ("0 0 * 6 *", "it fires every day of some months", "EVERY DAY"),
        ("0 0 * 6 1", "it fires in some months only", "EVERY WEEK"),
        ("0 0 1 * 1", "combines days of the month and days of the week", "EVERY DAY or EVERY WEEK"),
    ],
)
def test_a_cron_without_uniform_windows_is_refused(schedule: str, why: str, nearest: str) -> None:
    with pytest.raises(WaterclockError) as refusal:
        compile_cron(schedule)
    error = refusal.value
    assert (error.code, error.what) == ("E104", f"the schedule {schedule!r} has no uniform windows")
    assert error.why is not None
    assert why in error.why
    assert error.fix is not None
    assert error.fix.startswith(f"use the nearest: {nearest}")


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ("", "it has 0 fields"),
        ("10 *", "it has 2 fields"),
        ("0 10 * * * *", "it has 6 fields"),
        ("@reboot", "it has 1 fields"),
        ("60 * * * *", "the minute '60' is not within 0-59"),
        ("0 24 * * *", "the hour '24' is not within 0-23"),
        ("0 0 0 * *", "the day of month '0' is not within 1-31"),
        ("0 0 * 13 *", "the month '13' is not within 1-12"),
        ("0 0 * * 8", "the day of week '8' is not within 0-7"),
        ("0 0 L * *", "the day of month 'L' is not within 1-31"),
        ("0 0 ? * 1", "the day of month '?' is not plain cron"),
        ("0 0 * * 1#2", "the day of week '1#2' is not plain cron"),
        ("10- * * * *", "the minute '10-' is not plain cron"),
        ("5/15 * * * *", "the minute '5/15' has a step after a single value"),
        ("*/0 * * * *", "the minute '*/0' has a step of 0"),
        ("30-10 * * * *", "the minute '30-10' runs backwards"),
        ("MON * * * *", "the minute 'MON' is not within 0-59"),
        (",5 * * * *", "the minute '' is not plain cron"),
    ],
)
def test_an_invalid_cron_schedule_is_refused_with_the_field(schedule: str, why: str) -> None:
    with pytest.raises(WaterclockError) as refusal:
        compile_cron(schedule)
    assert (refusal.value.code, refusal.value.what) == ("E104", f"cannot read {schedule!r} as a cron schedule")
    assert refusal.value.why == why


def test_a_daily_cron_fires_in_its_zone() -> None:
    cadence = compile_cron("10 0 * * *", "Asia/Tokyo")
    assert str(cadence) == "EVERY DAY DELAY 10 MINUTES ZONE 'Asia/Tokyo'"
    window = cadence.window_of(datetime(2024, 3, 4, 20, tzinfo=UTC))
    assert cadence.due_at(window) == datetime(2024, 3, 5, 15, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "zone", "cadence"),
    [
        ("10 * * * *", "Asia/Kolkata", "EVERY HOUR DELAY 40 MINUTES ZONE 'Asia/Kolkata'"),
        ("*/30 * * * *", "Asia/Kathmandu", "EVERY 30 MINUTES DELAY 15 MINUTES ZONE 'Asia/Kathmandu'"),
        ("10 * * * *", "America/New_York", "EVERY HOUR DELAY 10 MINUTES ZONE 'America/New_York'"),
        ("0 */6 * * *", "Asia/Tokyo", "EVERY 6 HOURS DELAY 3 HOURS ZONE 'Asia/Tokyo'"),
        ("*/30 * * * *", "Australia/Lord_Howe", "EVERY 30 MINUTES ZONE 'Australia/Lord_Howe'"),
    ],
)
def test_minutes_of_a_zone_become_a_delay_on_the_utc_grid(schedule: str, zone: str, cadence: str) -> None:
    compiled = compile_cron(schedule, zone)
    assert str(compiled) == cadence
    window = compiled.window_of(datetime(2030, 6, 15, 12, 1, tzinfo=UTC))
    fires = compiled.due_at(window).astimezone(nominal_zone(zone))
    minute = schedule.split(maxsplit=1)[0]
    assert fires.minute % (30 if minute == "*/30" else 60) == (0 if "/" in minute else int(minute))


def test_hours_that_a_change_of_the_clock_would_stretch_are_refused() -> None:
    with pytest.raises(WaterclockError) as refusal:
        compile_cron("0 */6 * * *", "America/New_York")
    assert refusal.value.code == "E104"
    assert refusal.value.fix == "use the nearest: EVERY HOUR, EVERY DAY, or the same schedule with ZONE 'UTC'"


def test_half_hours_of_the_clock_stretch_hours_on_lord_howe() -> None:
    with pytest.raises(WaterclockError) as refusal:
        compile_cron("0 * * * *", "Australia/Lord_Howe")
    assert refusal.value.fix == "use the nearest: EVERY 30 MINUTES, EVERY DAY, or the same schedule with ZONE 'UTC'"


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(WaterclockError, match="E105"):
        compile_cron("0 * * * *", "Mars/Olympus_Mons")


def test_a_delay_of_days_keeps_the_firing_time_away_from_changes_of_the_clock() -> None:
    cadence = compile_cron("30 6 * * SUN", "Europe/Berlin")
    due = cadence.due_at(cadence.window_of(datetime(2024, 6, 5, tzinfo=UTC)))
    assert due == datetime(2024, 6, 16, 4, 30, tzinfo=UTC)
    assert cadence.delay == timedelta(days=6, hours=6, minutes=30)
