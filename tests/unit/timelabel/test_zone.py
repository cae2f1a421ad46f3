from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from waterclock.errors import WaterclockError
from waterclock.timelabel.zone import (
    date_start,
    first_instant,
    local_text,
    nominal_zone,
    parse_instant,
    resolve_local,
    zone_names,
)


def start_of(zone: str, year: int, month: int, day: int) -> datetime:
    return date_start(zone, date(year, month, day).toordinal())


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]  # year, month, day, hour, minute


@pytest.mark.parametrize(
    ("zone", "day", "start"),
    [
        ("America/New_York", (2013, 1, 1), at(2013, 1, 1, 5)),
        ("America/New_York", (2013, 3, 10), at(2013, 3, 10, 5)),
        ("America/New_York", (2013, 3, 11), at(2013, 3, 11, 4)),
        ("Asia/Tokyo", (2024, 3, 5), at(2024, 3, 4, 15)),
        ("America/Sao_Paulo", (2017, 10, 15), at(2017, 10, 15, 3)),  # clocks went from 00:00 to 01:00
        ("America/Sao_Paulo", (2018, 2, 18), at(2018, 2, 18, 3)),  # and from 00:00 back to 23:00
        ("America/Goose_Bay", (2010, 11, 7), at(2010, 11, 7, 3)),  # 00:01 back to 23:01: the first pass counts
        ("America/Havana", (2023, 11, 5), at(2023, 11, 5, 4)),  # 01:00 back to 00:00: the first pass counts
        ("America/Toronto", (1919, 3, 31), at(1919, 3, 31, 4, 30)),  # 23:30 to 00:30
        ("Pacific/Apia", (2011, 12, 29), at(2011, 12, 29, 10)),
        ("Pacific/Apia", (2011, 12, 31), at(2011, 12, 30, 10)),
        ("Asia/Kathmandu", (2024, 1, 1), at(2023, 12, 31, 18, 15)),
        ("Australia/Lord_Howe", (2024, 1, 1), at(2023, 12, 31, 13)),
        ("Australia/Lord_Howe", (2024, 7, 1), at(2024, 6, 30, 13, 30)),
    ],
)
def test_a_date_starts_at_its_first_instant(zone: str, day: tuple[int, int, int], start: datetime) -> None:
    assert start_of(zone, *day) == start


def test_a_skipped_date_has_no_time_of_its_own() -> None:
    assert start_of("Pacific/Apia", 2011, 12, 30) == start_of("Pacific/Apia", 2011, 12, 31)


def test_an_offset_with_seconds_is_refused() -> None:
    with pytest.raises(WaterclockError) as refusal:
        start_of("Africa/Monrovia", 1971, 5, 1)
    error = refusal.value
    assert error.code == "E105"
    assert error.what == "1971-05-01 started in Africa/Monrovia at 00:44:30 UTC: no label can name that instant"
    assert start_of("Africa/Monrovia", 1972, 5, 1) == at(1972, 5, 1)


def test_a_date_beyond_the_calendar_is_refused() -> None:
    with pytest.raises(WaterclockError, match="is outside the years 1 to 9999"):
        first_instant("Asia/Tokyo", 1)


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("Europe/Berlim", "did you mean Europe/Berlin"),
        ("Berlin", "did you mean Europe/Berlin?"),
        ("new york", "did you mean America/New_York?"),
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("Europe", "did you mean Europe/"),
        ("+05:30", "write one such as UTC or Europe/Berlin"),
        ("../../etc/passwd", "write one such as UTC or Europe/Berlin"),
        ("", "write one such as UTC or Europe/Berlin"),
    ],
)
def test_an_unknown_zone_is_refused_with_the_nearest(name: str, fix: str) -> None:
    with pytest.raises(WaterclockError) as refusal:
        nominal_zone(name)
    assert (refusal.value.code, refusal.value.what) == ("E105", f"unknown zone {name!r}")
    assert refusal.value.fix is not None
    assert refusal.value.fix.startswith(fix)


def test_every_zone_of_the_database_can_be_loaded() -> None:
    noon = at(2024, 6, 1, 12)
    for name in zone_names():
        assert abs(noon.astimezone(nominal_zone(name)).utcoffset() or timedelta(0)) <= timedelta(hours=14)


def test_utc_is_the_one_utc_object() -> None:
    assert nominal_zone("UTC") is UTC


@pytest.mark.parametrize(
    ("zone", "local", "instant"),
    [
        ("UTC", datetime(2024, 3, 10, 2, 30), at(2024, 3, 10, 2, 30)),  # noqa: DTZ001  # zone-less on purpose
        ("America/New_York", datetime(2024, 3, 10, 1, 30), at(2024, 3, 10, 6, 30)),  # noqa: DTZ001
        ("America/New_York", datetime(2024, 3, 10, 2, 30), at(2024, 3, 10, 7, 30)),  # noqa: DTZ001  # skipped: 03:30
        ("America/New_York", datetime(2024, 11, 3, 1, 30), at(2024, 11, 3, 5, 30)),  # noqa: DTZ001  # first pass
        ("America/New_York", datetime(2024, 11, 3, 1, 30, fold=1), at(2024, 11, 3, 5, 30)),  # noqa: DTZ001
    ],
)
def test_a_zoneless_value_is_read_in_the_zone(zone: str, local: datetime, instant: datetime) -> None:
    assert resolve_local(local, zone) == instant


def test_a_value_with_a_zone_is_not_read_again() -> None:
    with pytest.raises(WaterclockError, match="has a zone already") as refusal:
        resolve_local(at(2024, 1, 1), "Asia/Tokyo")
    assert refusal.value.code == "E106"


@pytest.mark.parametrize(
    ("text", "zone", "instant"),
    [
        ("2018-01-01", "UTC", at(2018, 1, 1)),
        ("2013-01-01", "America/New_York", at(2013, 1, 1, 5)),
        ("2017-10-15", "America/Sao_Paulo", at(2017, 10, 15, 3)),
        ("2018-01-01 06:00", "UTC", at(2018, 1, 1, 6)),
        ("2018-01-01 06:00", "Asia/Tokyo", at(2017, 12, 31, 21)),
        ("2018-01-01T06:00Z", "Asia/Tokyo", at(2018, 1, 1, 6)),
        ("2018-01-01T06:00z", "Asia/Tokyo", at(2018, 1, 1, 6)),
        ("2018-01-01 06:00:30.5 +02:00", "UTC", datetime(2018, 1, 1, 4, 0, 30, 500_000, tzinfo=UTC)),
        (" 2018-01-01T06:00-0530 ", "UTC", at(2018, 1, 1, 11, 30)),
        ("20180305080000", "Asia/Tokyo", at(2018, 3, 5, 8)),
    ],
)
def test_an_instant_is_read_in_its_forms(text: str, zone: str, instant: datetime) -> None:
    assert parse_instant(text, zone) == instant
    assert parse_instant(text, zone).tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    ["", "2018", "2018-1-1", "2018-02-30", "01.02.2018", "2018-01-01 24:00", "2018-01-01Z", "now", "2018-01-01 6:00"],
)
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(WaterclockError) as refusal:
        parse_instant(text, "UTC")
    assert (refusal.value.code, refusal.value.what) == ("E106", f"cannot read {text!r} as an instant")


def test_a_malformed_bare_label_is_refused_as_a_label() -> None:
    with pytest.raises(WaterclockError, match="E101 malformed label '20180230080000'"):
        parse_instant("20180230080000", "UTC")


def test_an_instant_is_shown_as_its_zone_reads_it() -> None:
    assert local_text(at(2024, 3, 4, 15), "Asia/Tokyo") == "2024-03-05 00:00 +09:00"
    assert local_text(at(2024, 3, 4, 15), "UTC") == "2024-03-04 15:00 +00:00"
