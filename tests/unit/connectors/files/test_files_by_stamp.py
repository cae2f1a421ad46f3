"""A few files of many are found by their names; a full listing finds the same files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.counting import calls_named, calls_of
from waterclock.connectors.files import landing as land
from waterclock.connectors.files.archiving import archive_items
from waterclock.connectors.files.file_name_matching import has_stamp, parse_unit_path
from waterclock.connectors.files.landing import Landing
from waterclock.timelabel.zone import nominal_zone

NOW = datetime(2030, 1, 1, tzinfo=UTC)
BACK = datetime(2013, 11, 3, 6, tzinfo=UTC)  # New York's clocks go back
SECOND = timedelta(seconds=1)
NAMES = {"shop.orders": parse_unit_path("shop.orders"), "shop/orders/*.csv": parse_unit_path("shop/orders/*.csv")}


def put(folder: Path, stamps: Sequence[datetime], zone: str, dice: Random) -> None:
    for stamp in stamps:
        local = stamp.astimezone(nominal_zone(zone))
        below = folder / "shop" / "orders" / dice.choice(["", f"{local:%Y}/{local:%m}"])
        below.mkdir(parents=True, exist_ok=True)
        (below / f"shop_orders_{local:%Y_%m_%d_%H_%M_%S}.csv").write_text(dice.choice(["", "id\n1\n", "id\n1\n"]))


def made(root: Path, dice: Random, zone: str) -> Landing:
    """Create files around the repeated hour, some archived, and some empty, which are incomplete."""
    hours = [BACK + timedelta(minutes=30 * dice.randrange(-150, 150)) for _ in range(60)]
    landing = Landing(root / "new", root / "archive", stamp_zone=zone)
    put(landing.folder, hours[:30], zone, dice)
    put(landing.archive, hours[30:], zone, dice)
    (landing.folder / "shop" / "orders" / "shop_orders_2013_13_01_00_00_00.csv").write_text("no such month")
    (landing.folder / "shop" / "orders" / "else.csv").write_text("id\n")
    return landing


@pytest.mark.parametrize("path", NAMES)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_files_of_a_time_span_match_a_full_listing_plus_the_first_file_after_it(
    tmp_path: Path, zone: str, path: str
) -> None:
    dice = Random(f"{zone} {path}")
    landing, names = made(tmp_path, dice, zone), NAMES[path]
    every = land.list_items(landing, names, now=NOW).items
    assert len(every) > 10
    for _ in range(40):
        low = BACK + timedelta(minutes=15 * dice.randrange(-320, 320))
        high = low + timedelta(hours=dice.randrange(1, 60))
        after = [item for item in every if item.stamp >= high]
        wanted = [item for item in every if low <= item.stamp < high]
        by_name = [item.stamp for item in after if has_stamp(names, item.name)]
        wanted += [item for item in after if item.stamp in by_name[:1] or not has_stamp(names, item.name)]
        assert list(land.list_between(landing, names, (low, high), now=NOW)) == wanted


@pytest.mark.parametrize("path", NAMES)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_back_from_any_instant_all_files_come_stamp_by_stamp(tmp_path: Path, zone: str, path: str) -> None:
    dice = Random(f"{path} {zone}")
    landing, names = made(tmp_path, dice, zone), NAMES[path]
    every = land.list_items(landing, names, now=NOW).items
    for until in (None, *(BACK + timedelta(minutes=15 * dice.randrange(-320, 320)) for _ in range(20))):
        there = [item for item in every if until is None or item.stamp <= until]
        stamps = sorted({item.stamp for item in there}, reverse=True)
        found = list(land.newest_first(landing, names, now=NOW, until=until))
        assert found == [tuple(item for item in there if item.stamp == stamp) for stamp in stamps]


def test_the_first_and_the_last_instants_there_are_bound_nothing(tmp_path: Path) -> None:
    landing = made(tmp_path, Random(0), "Asia/Tokyo")
    names = NAMES["shop.orders"]
    ends = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert land.list_between(landing, names, ends, now=NOW) == land.list_items(landing, names, now=NOW).items


def test_listing_one_window_costs_hardly_more_with_a_hundred_times_as_many_files(tmp_path: Path) -> None:
    calls = []
    for days in (10, 1000):
        landing = Landing(tmp_path / str(days), tmp_path / "archive")
        first = datetime(2013, 1, 1, 23, 59, 59, tzinfo=UTC)
        stamps = [first + timedelta(days=day) for day in range(days)]
        folder = landing.folder / "shop" / "orders"
        folder.mkdir(parents=True)
        for stamp in stamps:
            (folder / f"shop_orders_{stamp:%Y_%m_%d_%H_%M_%S}.csv").write_text("id\n1\n")
        for span in ((stamps[3], stamps[4]), (stamps[-2], stamps[-1] + SECOND)):
            found, cost = calls_of(lambda: land.list_between(landing, NAMES["shop.orders"], span, now=NOW))  # noqa: B023
            assert len(found) == 2
            calls.append(cost - 4 * days)  # names come from the listing of the folder
    assert max(calls[2:]) < 1.5 * max(calls[:2]), calls


@pytest.mark.parametrize("look", ["window", "newest"])
def test_files_of_many_stamps_that_are_all_empty_are_each_checked_once(tmp_path: Path, look: str) -> None:
    landing, names = Landing(tmp_path / "new", tmp_path / "archive"), NAMES["shop.orders"]
    folder = landing.folder / "shop" / "orders"
    folder.mkdir(parents=True)
    for minute in range(100):
        (folder / f"shop_orders_{BACK + timedelta(minutes=minute):%Y_%m_%d_%H_%M_%S}.csv").touch()
    span = (BACK - timedelta(hours=1), BACK)

    def items() -> list[object]:
        found = land.newest_first(landing, names, now=NOW)
        return [*found] if look == "newest" else [*land.list_between(landing, names, span, now=NOW)]

    found, calls = calls_named(items, "lstat")
    assert not found
    assert calls <= 110


@pytest.mark.parametrize("step", ["_list_by_stamp", "_find_problem"])
@pytest.mark.parametrize("look", ["window", "newest"])
def test_a_file_archived_during_listing_is_found_in_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, look: str
) -> None:
    landing = Landing(tmp_path / "new", tmp_path / "archive")
    names = NAMES["shop.orders"]
    put(landing.folder, [BACK], "UTC", Random(1))
    [(wanted,)] = land.newest_first(landing, names, now=NOW)
    real = getattr(land, step)

    def archive(*args: Any) -> Any:
        result = real(*args) if step == "_list_by_stamp" else None
        if Path(wanted.path).exists():
            archive_items(landing, [wanted])
        return result if step == "_list_by_stamp" else real(*args)

    monkeypatch.setattr(land, step, archive)
    if look == "window":
        [found] = land.list_between(landing, names, (BACK, BACK + SECOND), now=NOW)
    else:
        [(found,)] = land.newest_first(landing, names, now=NOW)
    assert (found.name, found.is_archived) == (wanted.name, True)


@pytest.mark.parametrize("content", ["id\n1\n", "id\n2\n"])
def test_one_name_of_a_glob_is_one_file_though_its_copies_changed_at_different_times(
    tmp_path: Path, content: str
) -> None:
    landing, names = Landing(tmp_path / "new", tmp_path / "archive"), parse_unit_path("web/*.csv")
    for folder, text, day in ((landing.archive, "id\n1\n", 0), (landing.folder, content, 1)):
        (folder / "web").mkdir(parents=True)
        (folder / "web" / "a.csv").write_text(text)
        changed = (BACK + timedelta(days=day)).timestamp()
        os.utime(folder / "web" / "a.csv", (changed, changed))
    every = land.list_items(landing, names, now=NOW).items
    assert len(every) == 1
    assert list(land.newest_first(landing, names, now=NOW)) == [every]
    week = BACK - timedelta(days=3), BACK + timedelta(days=4)
    assert land.list_between(landing, names, week, now=NOW) == every


def test_a_date_folder_that_leads_to_itself_is_left_alone(tmp_path: Path) -> None:
    landing = Landing(tmp_path / "new", tmp_path / "archive")
    put(landing.folder, [BACK], "UTC", Random(1))
    loop = landing.folder / "shop" / "orders" / "2099"
    loop.symlink_to(loop)
    assert [len(items) for items in land.newest_first(landing, NAMES["shop.orders"], now=NOW)] == [1]
