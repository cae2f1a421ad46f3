from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.systems import LandingFolder, unit_of
from waterclock.connectors.files import completeness, error_positions, file_name_matching, landing
from waterclock.connectors.files.changed_while_read import require_unchanged
from waterclock.connectors.files.connector import FilesCollector
from waterclock.connectors.files.error_positions import explain
from waterclock.connectors.files.file_name_matching import format_of, parse_unit_path
from waterclock.connectors.files.file_schemas import shapes_of
from waterclock.connectors.files.landing import Landing
from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.connectors.interface import Item, Listing
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Column, Columns, Place

DAY = datetime(2013, 1, 1, tzinfo=UTC)
ROWS = [{"id": "1", "note": "n"}]


@pytest.fixture
def folder(tmp_path: Path) -> LandingFolder:
    return LandingFolder(tmp_path)


def listing(folder: LandingFolder, path: str = "shop.orders", **options: str | float) -> Listing:
    return collector(folder).arrivals(unit_of("landing", path, **options))


def collector(folder: LandingFolder) -> FilesCollector:
    return FilesCollector(folder.setting)


def problems(folder: LandingFolder, path: str = "shop.orders", **options: str | float) -> dict[str, str]:
    return {Path(report.path).name: report.problem for report in listing(folder, path, **options).reports}


@pytest.mark.parametrize(
    ("path", "supplier"),
    [
        ("salesforce.customer", "salesforce"),
        ("web/click/*.json.gz", ""),
        ("*.csv", ""),
        ("airports.csv", ""),
        ("a/b.c/d.csv", ""),
    ],
)
def test_a_unit_is_supplier_and_source_or_a_glob(path: str, supplier: str) -> None:
    assert parse_unit_path(path).supplier == supplier


@pytest.mark.parametrize("path", ["", "orders", "/etc/*.csv", "../other/*.csv", "a/../../*.csv"])
def test_a_unit_never_leads_out_of_the_landing_folder(path: str) -> None:
    with pytest.raises(WaterclockError, match="E803"):
        parse_unit_path(path)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.csv", ("csv", "")),
        ("a.CSV.GZ", ("csv", "gz")),
        ("a.json.bz2", ("json", "bz2")),
        ("a.parquet", ("parquet", "")),
        ("a.tsv.zst", ("tsv", "zst")),
        ("a.gz", None),
        ("a.docx", None),
        ("csv", None),
    ],
)
def test_the_file_extension_determines_format_and_compression(name: str, kind: tuple[str, str] | None) -> None:
    assert format_of(name) == kind


def test_a_source_named_as_files_end_is_a_file_and_missed_where_it_is_not_there(folder: LandingFolder) -> None:
    new = folder.folder / "new"
    (new / "web" / "json").mkdir(parents=True)
    (new / "web" / "json" / "web_json_2013_01_01_00_00_00.jsonl").write_text("{}\n")
    with pytest.raises(WaterclockError) as missed:
        collector(folder).clock(unit_of("landing", "web.json"))
    assert (missed.value.code, missed.value.what) == ("E804", "there is no file web.json")
    assert "landing.`web/json/*`" in str(missed.value.fix)
    assert collector(folder).clock(unit_of("landing", "web/json/*")) is not None
    assert collector(folder).clock(unit_of("landing", "*.json")) is None, "wildcards mean files"
    (new / "web.json").write_text("{}\n")
    assert collector(folder).clock(unit_of("landing", "web.json")) is not None


def test_a_source_without_a_folder_is_reported_with_the_folders_that_exist(folder: LandingFolder) -> None:
    new = folder.folder / "new"
    new.mkdir(exist_ok=True)
    (new / "shop" / "orders").mkdir(parents=True, exist_ok=True)
    found = listing(folder, "salesforce.customer")
    (report,) = found.reports
    assert found.items == ()
    assert (report.path, report.problem) == (str(new / "salesforce" / "customer"), "no such folder")
    assert report.detail == f"{new} has the folders shop"
    (new / "landing" / "salesforce" / "customer").mkdir(parents=True)
    (report,) = listing(folder, "salesforce.customer").reports
    assert report.detail == f"{new} has the folders landing, shop"
    (new / "salesforce").mkdir()
    (report,) = listing(folder, "salesforce.customer").reports
    assert report.detail == f"{new / 'salesforce'} has none"
    (new / "salesforce" / "customers").mkdir()
    (report,) = listing(folder, "salesforce.customer").reports
    assert report.detail == f"{new / 'salesforce'} has the folders customers"
    (new / "salesforce" / "customer").mkdir()
    assert listing(folder, "salesforce.customer") == Listing(())


def test_a_source_whose_files_are_all_archived_needs_no_folder(folder: LandingFolder) -> None:
    folder.put(DAY, ROWS)
    connector, unit = collector(folder), unit_of("landing", "shop.orders")
    items = connector.arrivals(unit).items
    connector.archive(unit, items)
    folder.file(DAY).parent.rmdir()
    assert connector.arrivals(unit, {items[0].name}).reports == ()
    assert connector.arrivals(unit).reports == ()


def test_the_stamp_in_the_name_is_the_arrival(folder: LandingFolder) -> None:
    folder.put(DAY, ROWS)
    (item,) = listing(folder).items
    assert item == Item(
        "shop_orders_2013_01_01_00_00_00.csv.gz", DAY, folder.file(DAY).stat().st_size, str(folder.file(DAY))
    )


def test_stamps_can_be_declared_in_a_time_zone(folder: LandingFolder) -> None:
    folder.put(DAY, ROWS)
    (item,) = listing(folder, stamp_zone="America/New_York").items
    assert item.stamp == DAY + timedelta(hours=5)


def test_a_repeated_hour_in_a_stamp_is_its_first_pass(folder: LandingFolder) -> None:
    folder.put(datetime(2013, 11, 3, 1, 30, tzinfo=UTC), ROWS)
    (item,) = listing(folder, stamp_zone="America/New_York").items
    assert item.stamp == datetime(2013, 11, 3, 5, 30, tzinfo=UTC)


@pytest.mark.parametrize("inner", ["2013", "2013/01/01", "year=2013/month=01", "2013-01"])
def test_files_may_lie_in_date_subfolders_under_the_same_name(folder: LandingFolder, inner: str) -> None:
    path = folder.put(DAY, ROWS)
    target = folder.source / inner / path.name
    target.parent.mkdir(parents=True)
    path.rename(target)
    found = listing(folder)
    assert [item.name for item in found.items] == [path.name]
    assert found.reports == ()


@pytest.mark.parametrize(
    "name",
    [
        "orders_2013_01_01_00_00_00.csv",
        "shop_orders_2013_01_01.csv",
        "shop_orders_2013_13_01_00_00_00.csv",
        "shop_orders_2013_02_30_00_00_00.csv",
        "shop_orders_2013_01_01_24_00_00.csv",
        "shop_orders_9999_12_31_23_59_59.csv",
        "shop_orders_2013_01_01_00_00_00",
        "shop_orders_2013_01_01_00_00_00.docx",
        "shop_ordersx_2013_01_01_00_00_00.csv",
        "notes.txt",
    ],
)
def test_a_misnamed_file_is_left_alone_and_reported(folder: LandingFolder, name: str) -> None:
    folder.put(DAY, ROWS)
    (folder.source / name).write_text("id,note\n1,n\n")
    assert len(listing(folder).items) == 1
    assert problems(folder) == {name: "misnamed"}


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("shop_orders_0001_01_01_00_00_00.csv", "Asia/Tokyo"),
        ("shop_orders_9999_12_31_23_00_00.csv", "America/New_York"),
    ],
)
def test_a_stamp_at_an_end_of_time_is_reported_and_hides_no_other(folder: LandingFolder, name: str, zone: str) -> None:
    folder.put(DAY, ROWS)
    (folder.source / name).write_text("id,note\n1,n\n")
    assert problems(folder, stamp_zone=zone) == {name: "misnamed"}
    assert collector(folder).clock(unit_of("landing", "shop.orders")) is not None
    assert len(listing(folder, stamp_zone=zone).items) == 1


def test_a_file_that_may_not_be_read_is_left_alone_and_hides_no_other(
    folder: LandingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, kept = folder.put(DAY, ROWS), completeness.problem_of
    folder.put(DAY + timedelta(days=1), ROWS)

    def asked(path: str, *more: Any) -> Any:
        if path == str(closed):
            raise PermissionError(13, "Permission denied", path)
        return kept(path, *more)

    monkeypatch.setattr(landing, "problem_of", asked)
    assert problems(folder) == {closed.name: "unreadable"}
    assert [item.name for item in listing(folder).items] == [folder.file(DAY + timedelta(days=1)).name]
    monkeypatch.setattr(landing, "problem_of", kept)
    assert len(listing(folder).items) == 2


def test_a_folder_without_list_permission_is_reported_by_name(
    folder: LandingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: object) -> list[str]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "listdir", refused)
    with pytest.raises(WaterclockError, match="E804") as caught:
        listing(folder)
    assert caught.value.what == f"the folder {folder.source} cannot be listed"


@pytest.mark.parametrize("path", ["*.csv", "b*/*.csv", "shop.orders"])
def test_a_file_whose_name_is_not_utf_8_is_reported_and_hides_no_other(folder: LandingFolder, path: str) -> None:
    odd = [b"caf\xe9.csv", b"b\xfccher/a.csv", b"shop/orders/shop_orders_2013_01_01_00_00_00.caf\xe9.csv"]
    for name in (*odd, b"good.csv", b"books/good.csv", b"shop/orders/shop_orders_2013_01_02_00_00_00.csv"):
        there = Path(os.fsdecode(os.fsencode(folder.folder / "new") + b"/" + name))
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text("id,note\n1,n\n")
    found = listing(folder, path)
    assert len(found.items) == 1
    assert [(one.problem, one.detail) for one in found.reports] == [("misnamed", "its name is not UTF-8 text")]
    assert collector(folder).clock(unit_of("landing", path)) == found.items[0].stamp + timedelta(seconds=1)


def test_a_misnamed_file_is_reported_with_the_expected_name(folder: LandingFolder) -> None:
    (folder.source / "notes.txt").write_text("x")
    (report,) = listing(folder).reports
    assert report.detail == "expected shop_orders_<YYYY_MM_DD_HH_MM_SS>.<ext>"


def test_a_subfolder_that_is_no_date_is_reported_and_not_entered(folder: LandingFolder) -> None:
    (folder.source / "backup").mkdir()
    folder.put(DAY, ROWS).rename(folder.source / "backup" / folder.file(DAY).name)
    assert listing(folder).items == ()
    assert problems(folder) == {"backup": "misnamed"}


@pytest.mark.parametrize("ending", [".part", ".tmp", "._COPYING_", ".crdownload", "~"])
def test_a_file_with_a_temporary_suffix_is_half_written(folder: LandingFolder, ending: str) -> None:
    path = folder.put(DAY, ROWS)
    path.rename(f"{path}{ending}")
    assert listing(folder).items == ()
    assert set(problems(folder).values()) == {"half-written"}


@pytest.mark.parametrize("ending", ["zip", "csv.gz", "csv.bz2", "csv.zst", "parquet", "avro"])
def test_of_files_that_nothing_is_read_of_an_ending_promises_nothing(folder: LandingFolder, ending: str) -> None:
    (folder.source / f"a.{ending}").write_bytes(b"It is something else, and goes on for a while." * 9)
    assert [item.name for item in listing(folder, "**/*", format="raw").items] == [f"shop/orders/a.{ending}"]
    assert set(problems(folder, f"**/*.{ending}").values()) == {"damaged"}


@pytest.mark.parametrize("name", [".shop_orders_2013_01_01_00_00_00.csv", "_SUCCESS"])
def test_hidden_files_are_ignored(folder: LandingFolder, name: str) -> None:
    (folder.source / name).write_text("x")
    assert listing(folder) == Listing(())


def test_a_file_that_changed_a_moment_ago_settles_first(folder: LandingFolder) -> None:
    path = folder.put(DAY, ROWS)
    assert listing(folder, settle=60).items == ()
    assert problems(folder, settle=60) == {path.name: "half-written"}
    earlier = path.stat().st_mtime - 61
    os.utime(path, (earlier, earlier))
    assert len(listing(folder, settle=60).items) == 1


def test_a_half_written_file_is_checked_again_after_it_grew(folder: LandingFolder) -> None:
    path = folder.put_unfinished(DAY)
    assert problems(folder) == {path.name: "half-written"}
    folder.put(DAY, ROWS)
    assert [item.name for item in listing(folder).items] == [path.name]


def test_a_landing_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    folder = LandingFolder(tmp_path)
    (tmp_path / "new").rename(tmp_path / "old")
    with pytest.raises(WaterclockError, match="E804") as caught:
        listing(folder)
    assert caught.value.where == str(tmp_path / "new")


def test_the_clock_is_the_second_after_the_newest_complete_stamp(folder: LandingFolder) -> None:
    assert collector(folder).clock(folder.unit) is None
    folder.put(DAY, ROWS)
    folder.put(DAY - timedelta(hours=1), ROWS)
    folder.put_unfinished(DAY + timedelta(hours=1))
    assert collector(folder).clock(folder.unit) == DAY + timedelta(seconds=1)


def test_the_clock_does_not_go_back_when_files_are_archived(folder: LandingFolder) -> None:
    folder.put(DAY, ROWS)
    reader = collector(folder)
    reader.archive(folder.unit, reader.arrivals(folder.unit).items)
    assert reader.clock(folder.unit) == DAY + timedelta(seconds=1)


@pytest.mark.parametrize("path", ["shop.orders", "shop/orders/*"])
def test_an_archived_file_that_is_taken_is_not_listed_and_every_other_is(folder: LandingFolder, path: str) -> None:
    unit = unit_of("landing", path)
    files = [folder.put(DAY + timedelta(hours=hour), ROWS) for hour in range(4)]
    reader = collector(folder)
    names = [item.name for item in reader.arrivals(unit).items]
    reader.archive(unit, reader.arrivals(unit).items[:2])  # the last two were not archived, or just arrived
    listed = reader.arrivals(unit, {names[0], names[2]}).items
    assert [(item.name, item.is_archived) for item in listed] == [
        (names[1], True),  # another table collected it, and it is still free for this one
        (names[2], False),  # collected, and not yet archived
        (names[3], False),
    ]
    assert [file.exists() for file in files] == [False, False, True, True]


def test_other_content_under_a_taken_name_is_reported_all_the_same(folder: LandingFolder) -> None:
    reader = collector(folder)
    folder.put(DAY, ROWS)
    taken = reader.arrivals(folder.unit).items
    reader.archive(folder.unit, taken)
    folder.put(DAY, [{"id": "2", "note": "other"}])
    found = reader.arrivals(folder.unit, {item.name for item in taken})
    assert (found.items, [one.problem for one in found.reports]) == ((), ["same name, other content"])


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_the_clock_of_an_archive_is_its_newest_stamp_where_an_hour_was_set_back_too(
    folder: LandingFolder, zone: str
) -> None:
    unit = unit_of("landing", "shop.orders", stamp_zone=zone)
    for stamp in (datetime(2013, 11, day, hour, 30, tzinfo=UTC) for day in (2, 3, 1) for hour in (23, 0, 1)):
        folder.put(stamp, ROWS)
    reader = collector(folder)
    newest = max(item.stamp for item in reader.arrivals(unit).items)
    assert reader.clock(unit) == newest + timedelta(seconds=1)
    reader.archive(unit, reader.arrivals(unit).items)
    assert reader.clock(unit) == newest + timedelta(seconds=1)


def test_the_archive_mirrors_the_landing_folder(folder: LandingFolder) -> None:
    inner = folder.source / "2013" / "01"
    inner.mkdir(parents=True)
    path = folder.put(DAY, ROWS).rename(inner / folder.file(DAY).name)
    content = path.read_bytes()
    reader = collector(folder)
    reader.archive(folder.unit, reader.arrivals(folder.unit).items)
    target = folder.folder / "storage" / "archive" / "landing" / "shop" / "orders" / "2013" / "01" / path.name
    assert target.read_bytes() == content
    assert not path.exists()


def test_the_archive_is_never_overwritten(folder: LandingFolder) -> None:
    reader = collector(folder)
    folder.put(DAY, ROWS)
    reader.archive(folder.unit, reader.arrivals(folder.unit).items)
    taken = listing(folder).items
    again = folder.put(DAY, [{"id": "2", "note": "other"}])
    found = listing(folder)
    assert found.items == taken
    assert {Path(one.path).name: one.problem for one in found.reports} == {again.name: "same name, other content"}
    fresh = Item(again.name, DAY, again.stat().st_size, str(again))
    (report,) = reader.archive(folder.unit, [fresh])
    assert report.problem == "same name, other content"
    assert again.exists()
    assert listing(folder).items == taken


def test_the_same_file_delivered_again_is_archived_away(folder: LandingFolder) -> None:
    reader = collector(folder)
    folder.put(DAY, ROWS)
    reader.archive(folder.unit, reader.arrivals(folder.unit).items)
    again = folder.put(DAY, ROWS)
    (item,) = listing(folder).items
    assert not item.is_archived
    assert reader.archive(folder.unit, [item]) == ()
    assert not again.exists()
    assert [one.is_archived for one in listing(folder).items] == [True]


def test_other_content_of_the_same_size_and_time_is_not_removed_for_an_earlier_comparison(
    folder: LandingFolder,
) -> None:
    reader, path = collector(folder), folder.file(DAY, "csv")

    def put(content: str) -> Item:
        path.write_text(content)
        os.utime(path, (0, 0))  # some senders set the modification time to that of the data
        (item,) = listing(folder).items
        return item

    for _ in range(2):
        assert reader.archive(folder.unit, [put("id\n1\n")]) == ()
    item = replace(put("id\n2\n"), path=str(path), is_archived=False)
    assert [one.problem for one in listing(folder).reports] == ["same name, other content"]
    (report,) = reader.archive(folder.unit, [item])
    assert report.problem == "same name, other content"
    assert path.exists()


def test_a_crash_between_link_and_removal_loses_and_doubles_nothing(folder: LandingFolder) -> None:
    path = folder.put(DAY, ROWS)
    target = folder.folder / "storage" / "archive" / "landing" / "shop" / "orders" / path.name
    target.parent.mkdir(parents=True)
    os.link(path, target)
    (item,) = listing(folder).items
    assert listing(folder).reports == ()
    collector(folder).archive(folder.unit, [item])
    assert not path.exists()
    assert target.exists()


def test_one_name_in_two_subfolders_is_taken_once(folder: LandingFolder) -> None:
    path = folder.put(DAY, ROWS)
    for inner, content in (("2013", path.read_bytes()), ("2014", gzip.compress(b"id,note\n9,z\n"))):
        (folder.source / inner).mkdir()
        (folder.source / inner / path.name).write_bytes(content)
    found = listing(folder)
    assert [item.name for item in found.items] == [path.name]
    assert [report.problem for report in found.reports] == ["same name, other content"]


def test_a_glob_reads_stamps_from_names_or_else_from_modification_times(folder: LandingFolder) -> None:
    click = folder.folder / "new" / "web" / "click"
    click.mkdir(parents=True)
    named = ("a_2013_01_01_00_00_05.json", "b-20130101000006.json", "c-20130101T000007Z.json")
    for name in (*named, "plain.json"):
        (click / name).write_text('{"id": 1}\n')
    os.utime(click / "plain.json", (DAY.timestamp(), DAY.timestamp()))
    items = listing(folder, "web/click/*.json").items
    assert [(item.name, (item.stamp - DAY).seconds) for item in items] == [
        ("web/click/plain.json", 0),
        *((f"web/click/{name}", 5 + at) for at, name in enumerate(named)),
    ]


def test_a_glob_does_not_enter_the_archive_of_deliveries(folder: LandingFolder) -> None:
    hidden = folder.folder / "new" / "_waterclock"
    hidden.mkdir()
    (hidden / "x.json").write_text("{}")
    assert listing(folder, "**/*.json").items == ()


def archiving_at(monkeypatch: pytest.MonkeyPatch, folder: LandingFolder, step: str) -> list[str]:
    """Let another table archive all files while a step of this one checks the first file."""
    real = getattr(landing, step)
    seen: list[str] = []

    def look(*args: Any, **more: Any) -> Any:
        if not seen:
            seen.append(step)
            collector(folder).archive(folder.unit, collector(folder).arrivals(folder.unit).items)
        return real(*args, **more)

    monkeypatch.setattr(landing, step, look)
    return seen


STEPS = ("find", "find_named", "_find_problem", "_build_item", "_find_name_clash")


@pytest.mark.parametrize("step", STEPS)
def test_files_archived_by_another_table_during_listing_are_still_listed(
    folder: LandingFolder, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    for hour in range(3):
        folder.put(DAY + timedelta(hours=hour), ROWS)
    wanted = [item.name for item in listing(folder).items]
    seen = archiving_at(monkeypatch, folder, step)
    found = listing(folder)
    assert seen
    assert [item.name for item in found.items] == wanted
    assert found.reports == ()
    assert not list(folder.source.iterdir())


def test_a_file_that_moves_between_the_two_walks_is_listed(
    folder: LandingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put(DAY, ROWS)
    walks: list[Path] = []

    def walk(root: Path, *args: Any, **more: Any) -> Any:
        if len(walks) == 1:
            collector(folder).archive(folder.unit, [item_of(folder)])
        walks.append(root)
        return file_name_matching.find(root, *args, **more)

    monkeypatch.setattr(landing, "find", walk)
    assert [item.is_archived for item in listing(folder).items] == [True]
    assert collector(folder).clock(folder.unit) == DAY + timedelta(seconds=1)


def item_of(folder: LandingFolder) -> Item:
    path = folder.file(DAY)
    return Item(path.name, DAY, path.stat().st_size, str(path))


@pytest.mark.parametrize("step", ["find_named", "_build_item"])
def test_a_file_archived_by_another_table_meanwhile_is_found_by_name(
    folder: LandingFolder, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    name = folder.put(DAY, ROWS).name
    seen = archiving_at(monkeypatch, folder, step)
    assert [item.name for item in collector(folder).find(folder.unit, [name])] == [name]
    assert seen


def test_the_source_clock_includes_files_archived_by_another_table_meanwhile(
    folder: LandingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put(DAY, ROWS)
    seen = archiving_at(monkeypatch, folder, "_find_problem")
    assert collector(folder).clock(folder.unit) == DAY + timedelta(seconds=1)
    assert seen


@pytest.mark.parametrize("has_links", [True, False])
def test_two_tables_that_archive_one_file_at_once_archive_it_once(
    folder: LandingFolder, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    folder.put(DAY, ROWS)
    items = listing(folder).items
    real, first = os.link, [True]

    def link(source: Path, target: Path) -> None:
        if first:
            first.clear()
            assert collector(folder).archive(folder.unit, items) == ()
        if not has_links:
            raise PermissionError
        real(source, target)

    monkeypatch.setattr(os, "link", link)
    assert collector(folder).archive(folder.unit, items) == ()
    assert [item.is_archived for item in listing(folder).items] == [True]
    archive = folder.folder / "storage" / "archive"
    assert [path.name for path in archive.rglob("*") if path.is_file()] == [items[0].name]


def explained(path: Path) -> WaterclockError:
    types = Columns((Column("n", Place("a.dpl", 1, 1), "INT"),))
    text = f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file://{path}. SQLSTATE: KD001"
    found = explain(RuntimeError(text), ReadOptions(), types)
    assert found is not None
    return found


def test_all_broken_rows_of_a_file_are_counted_and_the_first_ones_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("n,at\n1,a\nx,b\n2,c,d\n3,e\n")
    error = explained(path)
    assert error.what == "a.csv has 2 broken rows, in lines 3, 4"
    assert (error.where, error.why) == (f"{path}:3", "n is 'x', which is not INT")
    path.write_text("n\n" + "x\n" * 8)
    assert explained(path).what == "a.csv has 8 broken rows, in lines 2, 3, 4, 5, 6, …"
    lines = path.with_suffix(".jsonl")
    lines.write_text('{"n": 1}\n{"n":\n[]\n')
    assert explained(lines).what == "a.jsonl has 2 broken rows, in lines 2, 3"


def test_only_a_limited_number_of_rows_after_the_first_broken_row_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(error_positions, "_MOST_FURTHER_ROWS", 3)
    path = tmp_path / "a.csv"
    path.write_text("n\n1\nx\ny\n2\n3\nz\n")
    assert explained(path).what == "a.csv has at least 2 broken rows, in lines 3, 4"


def test_unreadable_data_after_a_broken_row_does_not_hide_it() -> None:
    def rows() -> Iterator[tuple[int, str | None]]:
        yield 2, None
        yield 3, "n is 'x', which is not INT"
        raise UnicodeError("no such byte")

    found = error_positions._find_broken_rows(rows())
    assert (found.describe(), found.is_all) == ("a broken row in line 3", False)


def test_a_removed_file_is_a_transient_error_and_an_empty_file_is_not(tmp_path: Path) -> None:
    with pytest.raises(WaterclockError, match="E807") as caught:
        shapes_of([str(tmp_path / "a.csv")], ReadOptions(), Columns())
    assert caught.value.transient
    (tmp_path / "a.csv").write_bytes(b"")
    with pytest.raises(WaterclockError, match="E807") as caught:
        shapes_of([str(tmp_path / "a.csv")], ReadOptions(), Columns())
    assert not caught.value.transient


def test_a_parquet_column_whose_name_is_not_utf_8_is_an_error_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for kind, data in ((pa.int64(), [1]), (pa.struct({"column_x": pa.int64()}), [{"column_x": 1}])):
        pq.write_table(pa.table({"column_x": pa.array(data, kind)}), path, store_schema=False)
        path.write_bytes(path.read_bytes().replace(b"column_x", b"colum\xff_x"))
        with pytest.raises(WaterclockError, match="the name of a column is not UTF-8") as caught:
            shapes_of([str(path)], ReadOptions(), Columns())
        assert (caught.value.code, caught.value.where) == ("E807", str(path))


@pytest.mark.parametrize(
    "text",
    [
        "[PATH_NOT_FOUND] Path does not exist: file:{}. SQLSTATE: 42K03",
        "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file://{}. File does not exist.",
    ],
)
def test_a_file_that_spark_no_longer_finds_is_a_transient_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    told = explain(RuntimeError(text.format(path)), ReadOptions(), Columns())
    assert told is not None
    assert (told.code, told.where, told.transient) == ("E807", str(path), True)


def test_a_file_that_changed_under_its_reading_fails_the_batch_and_can_be_tried_again(folder: LandingFolder) -> None:
    grown, same, moved = (folder.put(DAY + timedelta(hours=at), ROWS) for at in range(3))
    listed = listing(folder).items
    place = Landing(folder.folder / "new", folder.setting.archive / folder.setting.name)
    require_unchanged(place, parse_unit_path("shop.orders"), listed)
    target = path_in_archive(place, moved)
    moved.rename(target)
    require_unchanged(place, parse_unit_path("shop.orders"), listed)  # another table has archived it
    with grown.open("ab") as file:
        file.write(b"more")
    with pytest.raises(WaterclockError) as caught:
        require_unchanged(place, parse_unit_path("shop.orders"), listed)
    told = caught.value
    assert (told.code, told.where, told.transient) == ("E807", str(grown), True)
    assert told.what == f"{grown.name} changed while it was read"
    size = grown.stat().st_size
    assert str(told.why).startswith(f"it had {size - 4} bytes when the batch began, and it has {size} now")
    require_unchanged(place, parse_unit_path("shop.orders"), listing(folder).items)
    again = listing(folder).items
    os.utime(same, (1, 1))
    with pytest.raises(WaterclockError, match="changed while it was read"):
        require_unchanged(place, parse_unit_path("shop.orders"), again)
    target.write_bytes(b"another")
    with pytest.raises(WaterclockError, match="changed while it was read"):
        require_unchanged(place, parse_unit_path("shop.orders"), [item for item in listed if item.path == str(moved)])
    target.unlink()
    with pytest.raises(WaterclockError, match="it is gone now"):
        require_unchanged(place, parse_unit_path("shop.orders"), [item for item in listed if item.path == str(moved)])


def path_in_archive(place: Landing, path: Path) -> Path:
    target = place.archive / path.relative_to(place.folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    return target
