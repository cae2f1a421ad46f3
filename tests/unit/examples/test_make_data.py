from __future__ import annotations

import csv
import gzip
import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from examples.flights import make_data, oracle

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def two_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target: Path = tmp_path_factory.mktemp("flights") / "data"
    make_data.put_days(target, date(2013, 1, 1), 2)
    return target


@pytest.fixture(scope="module")
def whole_year(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target: Path = tmp_path_factory.mktemp("flights") / "data"
    make_data.put_days(target, date(2013, 1, 1), 365)
    return target


def rows_of(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def end_of(path: Path) -> datetime:
    """Return the end of a file's rows, according to the stamp in its name."""
    stamp = path.name.removesuffix(".csv.gz").split("_", 2)[2]
    return datetime.strptime(stamp, "%Y_%m_%d_%H_%M_%S").replace(tzinfo=UTC) + timedelta(seconds=1)


def planes(target: Path) -> list[tuple[str, str, int, str]]:
    with closing(sqlite3.connect(target / "ops.sqlite")) as database:
        return database.execute(
            "SELECT tailnum, operator, is_retired, updated_at FROM planes ORDER BY tailnum, updated_at"
        ).fetchall()


def test_flights_land_in_one_file_per_new_york_day(two_days: Path) -> None:
    files = sorted((two_days / "new" / "faa" / "flights").iterdir())

    assert [file.name for file in files] == [
        "faa_flights_2013_01_02_04_59_59.csv.gz",
        "faa_flights_2013_01_03_04_59_59.csv.gz",
    ]
    assert [len(rows_of(file)) for file in files] == [842, 943]


def test_a_file_holds_the_rows_of_the_period_that_ends_at_its_stamp(two_days: Path) -> None:
    for length, folder in ((timedelta(days=1), "faa/flights"), (timedelta(hours=1), "noaa/weather")):
        for file in (two_days / "new" / folder).iterdir():
            hours = {datetime.fromisoformat(row["time_hour"]) for row in rows_of(file)}
            assert end_of(file) - length <= min(hours) <= max(hours) < end_of(file)


def test_an_hour_without_weather_has_no_file(two_days: Path) -> None:
    names = {file.name for file in (two_days / "new" / "noaa" / "weather").iterdir()}

    assert len(names) == 47
    assert "noaa_weather_2013_01_01_05_59_59.csv.gz" not in names


def test_the_year_s_last_hour_has_a_file_though_its_weather_was_never_read(tmp_path: Path) -> None:
    make_data.put_days(tmp_path, date(2013, 12, 31), 1)

    [closing] = (tmp_path / "new" / "noaa" / "weather").iterdir()
    assert end_of(closing) == make_data.day_start(date(2014, 1, 1))
    assert rows_of(closing) == []


def test_unknown_values_are_empty(two_days: Path) -> None:
    [day] = (two_days / "new" / "faa" / "flights").glob("*2013_01_02_*")

    assert sum(row["dep_time"] == "" for row in rows_of(day)) == 4
    assert not any(value == "NA" for row in rows_of(day) for value in row.values())


@pytest.mark.parametrize(("day", "hours"), [(date(2013, 3, 10), 23), (date(2013, 11, 3), 25)])
def test_days_on_which_the_clocks_change_keep_their_length(tmp_path: Path, day: date, hours: int) -> None:
    make_data.put_days(tmp_path, day, 1)

    [flights] = (tmp_path / "new" / "faa" / "flights").iterdir()
    weather = sorted((tmp_path / "new" / "noaa" / "weather").iterdir())
    assert end_of(flights) - make_data.day_start(day) == timedelta(hours=hours)
    assert all(make_data.day_start(day) < end_of(file) <= end_of(flights) for file in weather)
    assert len({end_of(file) for file in weather}) == len(weather)


def test_the_same_days_give_the_same_bytes_in_one_go_or_in_two(two_days: Path, tmp_path: Path) -> None:
    make_data.put_days(tmp_path, date(2013, 1, 1), 1)
    make_data.put_days(tmp_path, date(2013, 1, 1), 2)

    def content(target: Path) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in sorted((target / "new").rglob("*.gz"))}

    assert content(tmp_path) == content(two_days)
    assert planes(tmp_path) == planes(two_days)


def test_days_that_were_laid_out_are_not_laid_out_again_when_their_files_have_moved_on(tmp_path: Path) -> None:
    make_data.put_days(tmp_path, date(2013, 1, 1), 1)
    for file in (tmp_path / "new").rglob("*.gz"):
        file.unlink()

    assert make_data.put_days(tmp_path, date(2013, 1, 1), 1).days == ()
    assert list((tmp_path / "new").rglob("*.gz")) == []


def test_days_of_another_year_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the data are of 2013"):
        make_data.put_days(tmp_path, date(2013, 12, 31), 2)


def test_the_database_holds_the_changes_before_the_end_of_the_newest_day(two_days: Path) -> None:
    instants = [at for *_, at in planes(two_days)]

    assert min(instants) == "2013-01-01T10:15:00Z"
    assert max(instants) < "2013-01-03T05:00:00Z"


@pytest.mark.soak
def test_the_whole_year_is_laid_out(whole_year: Path) -> None:
    assert len(list((whole_year / "new" / "faa" / "flights").iterdir())) == 365
    assert len(list((whole_year / "new" / "noaa" / "weather").iterdir())) == 8715
    assert len(make_data.days_put(whole_year)) == 365


@pytest.mark.soak
@pytest.mark.parametrize("days", [1, 5, 59, 365])
def test_the_last_change_of_each_plane_equals_the_oracle_on_a_year_of_flights(whole_year: Path, days: int) -> None:
    compare_planes(whole_year, days)


@pytest.mark.parametrize("days", [1, 2])
def test_the_last_change_of_each_plane_equals_the_oracle_on_the_raw_flights(two_days: Path, days: int) -> None:
    compare_planes(two_days, days)


def compare_planes(laid_out: Path, days: int) -> None:
    end = make_data.day_start(date(2013, 1, 1) + timedelta(days=days))
    known = [change for change in planes(laid_out) if change[3] < f"{end:%Y-%m-%dT%H:%M:%SZ}"]
    latest = {tailnum: (operator, gone, at) for tailnum, operator, gone, at in known}

    in_service = [
        (tailnum, operator, at[:16].replace("T", " "))
        for tailnum, (operator, gone, at) in sorted(latest.items())
        if not gone
    ]
    assert in_service == [
        (row["tailnum"], row["operator"], row["updated_at"]) for row in oracle.expected("raw.planes", days)
    ]


@pytest.mark.soak
def test_some_planes_are_retired_and_some_change_hands(whole_year: Path) -> None:
    changes = planes(whole_year)

    assert sum(gone for _, _, gone, _ in changes) == 370
    assert sum(not gone for _, _, gone, _ in changes) - len({tailnum for tailnum, *_ in changes}) == 17
