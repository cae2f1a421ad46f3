"""Stamps in file names: the option `stamp`, known formats, undeclared dates, and messages about these."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.systems import LandingFolder, unit_of
from waterclock.connectors.files import landing as land
from waterclock.connectors.files.connector import CAPABILITIES, FilesCollector
from waterclock.connectors.files.file_name_matching import parse_unit_path
from waterclock.connectors.files.landing import Landing
from waterclock.connectors.files.name_stamps import stamp_in, undeclared_date
from waterclock.connectors.files.stamp_notes import stamp_note

NOW = datetime(2026, 11, 26, tzinfo=UTC)
LANDED = datetime(2026, 11, 20, 12, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def put(folder: Path, name: str, changed: datetime = LANDED) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("id\n1\n")
    os.utime(path, (changed.timestamp(), changed.timestamp()))
    return path


@pytest.mark.parametrize(
    ("name", "pattern", "zone", "stamp"),
    [
        ("orders_20261110.csv", "%Y%m%d", "UTC", "2026-11-10T23:59:59"),
        ("2026/11/10/orders.csv", "%Y/%m/%d/orders", "UTC", "2026-11-10T23:59:59"),
        ("orders_20261110.csv", "%Y%m%d", "Europe/Berlin", "2026-11-10T22:59:59"),
        ("o_2026-10-25.csv", "%Y-%m-%d", "Europe/Berlin", "2026-10-25T22:59:59"),  # a day of 25 hours
        ("o_2026-11.csv", "%Y-%m", "UTC", "2026-11-30T23:59:59"),
        ("o_2026-12.csv", "%Y-%m", "UTC", "2026-12-31T23:59:59"),
        ("o_2026.csv", "o_%Y", "UTC", "2026-12-31T23:59:59"),
        ("o_2026314.csv", "%Y%j", "UTC", "2026-11-10T23:59:59"),
        ("o_10.11.2026_07h.csv", "%d.%m.%Y_%Hh", "UTC", "2026-11-10T07:59:59"),
        ("o_20261110-0730.csv", "%Y%m%d-%H%M", "UTC", "2026-11-10T07:30:59"),
        ("o_20261110-073015.csv", "%Y%m%d-%H%M%S", "UTC", "2026-11-10T07:30:15"),
        ("100%_20261110.csv", "100%%_%Y%m%d", "UTC", "2026-11-10T23:59:59"),
        ("o_20261110.csv", "", "UTC", None),
        ("o_20261110T073015.csv", "", "UTC", "2026-11-10T07:30:15"),
        ("o_20261110T073015.csv", "changed", "UTC", None),
        ("o_20261310.csv", "%Y%m%d", "UTC", None),
        ("o_2026400.csv", "%Y%j", "UTC", None),
        ("o_920261110.csv", "%Y%m%d", "UTC", None),
        ("o_99991231.csv", "%Y%m%d", "UTC", None),
    ],
)
def test_a_stamp_is_the_last_second_of_the_period_in_the_name(
    name: str, pattern: str, zone: str, stamp: str | None
) -> None:
    assert stamp_in(name, pattern, zone) == (None if stamp is None else at(stamp))


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("orders_20261110.csv", "%Y%m%d"),
        ("2026/11/10/orders.csv", "%Y/%m/%d"),
        ("orders-2026-11-10.csv.gz", "%Y-%m-%d"),
        ("orders-2026-11-10T0730.csv", "%Y-%m-%dT%H%M"),
        ("orders_2026-11-10_07-30-15.csv", "%Y-%m-%d_%H-%M-%S"),
        ("orders_2026-11.csv", "%Y-%m"),
        ("orders_20261110073015.csv", None),
        ("orders_123420261110.csv", None),
        ("orders_20269910.csv", None),
        ("orders.csv", None),
        ("orders_202611.csv", None),
    ],
)
def test_a_date_that_nothing_declares_is_found_with_the_pattern_that_declares_it(
    name: str, pattern: str | None
) -> None:
    assert undeclared_date(name) == pattern
    if pattern is not None:
        assert stamp_in(name, pattern, "UTC") is not None


def test_a_declared_date_is_the_arrival_and_a_name_without_it_is_left_alone(tmp_path: Path) -> None:
    folder = LandingFolder(tmp_path)
    put(folder.folder / "new", "orders_20261110.csv")
    stray = put(folder.folder / "new", "orders_today.csv")
    collector = FilesCollector(folder.setting)
    found = collector.arrivals(unit_of("landing", "orders_*.csv", stamp="%Y%m%d"))
    assert [(item.name, item.stamp) for item in found.items] == [("orders_20261110.csv", at("2026-11-10T23:59:59"))]
    assert [(report.path, report.problem) for report in found.reports] == [(str(stray), "misnamed")]
    assert collector.clock(unit_of("landing", "orders_*.csv", stamp="%Y%m%d")) == at("2026-11-11")


def test_a_window_reads_all_files_changed_after_it_whose_names_have_no_stamp(tmp_path: Path) -> None:
    names = ["a/orders_20261110.csv", "a/orders_20261111.csv", "a/orders_20261112.csv"]
    for n, name in enumerate(names):
        put(tmp_path / "new", name, LANDED + timedelta(seconds=n))
    put(tmp_path / "new", "a/orders_old.csv", at("2026-11-09"))
    landing = Landing(tmp_path / "new", tmp_path / "archive")

    def between(low: str, high: str, stamp: str = "") -> list[str]:
        unit = parse_unit_path("a/orders_*.csv", stamp=stamp)
        return [item.name for item in land.list_between(landing, unit, (at(low), at(high)), now=NOW)]

    assert between("2026-11-11", "2026-11-12") == names, "the second day's rows may be in any of them"
    assert between("2026-11-11", "2026-11-12", stamp="%Y%m%d") == names[1:]
    put(tmp_path / "new", "a/orders_20261113T000000.csv", LANDED)
    put(tmp_path / "new", "a/orders_20261114T000000.csv", LANDED)
    stamped = "a/orders_20261113T000000.csv"
    assert sorted(between("2026-11-11", "2026-11-12")) == sorted([*names, stamped]), (
        "a stamp limits the files that are read"
    )


def test_files_stamped_by_their_modification_time_are_reported() -> None:
    glob = parse_unit_path("orders_*.csv")
    assert stamp_note(glob, ["orders_20261110.csv", "orders_20261111.csv"]) == (
        "orders_20261110.csv and 1 more have dates in their names that nothing declares; the stamp of such a file is "
        "the time of its last change. "
        "Fix: add OPTIONS (stamp '%Y%m%d') after the unit; or (stamp 'changed') to use the last change"
    )
    assert stamp_note(glob, ["orders_a.csv"]) == (
        "the stamp of orders_a.csv is the time of the last change: the name has no date"
    )
    assert stamp_note(glob, ["orders_20261110T000000.csv"]) is None
    assert stamp_note(parse_unit_path("orders_*.csv", stamp="changed"), ["orders_20261110.csv"]) is None
    assert stamp_note(parse_unit_path("orders_20261110.csv"), ["orders_20261110.csv"]) is None, "one file by its name"
    assert stamp_note(parse_unit_path("shop.orders"), []) is None


@pytest.mark.parametrize(
    ("path", "options", "codes"),
    [
        ("o_*.csv", {"stamp": "%Y%m%d"}, []),
        ("o_*.csv", {"stamp": "%Y%m%d", "format": "raw"}, []),
        ("o_*.csv", {"stamp": "changed"}, []),
        ("o_*.csv", {"stamp": "%m%d"}, ["E335"]),
        ("o_*.csv", {"stamp": "%Y%d"}, ["E335"]),
        ("o_*.csv", {"stamp": "%Y%m%m"}, ["E335"]),
        ("o_*.csv", {"stamp": "yyyyMMdd"}, ["E335"]),
        ("o_*.csv", {"stamp": "%Y%m%"}, ["E335"]),
        ("shop.orders", {"stamp": "%Y%m%d"}, ["E334"]),
    ],
)
def test_a_stamp_that_is_no_pattern_is_refused(path: str, options: dict[str, str], codes: list[str]) -> None:
    assert CAPABILITIES.wrong_options is not None
    assert [wrong.code for wrong in CAPABILITIES.wrong_options("collect", options, path)] == codes
