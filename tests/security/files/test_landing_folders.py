"""Links in a landing folder are not followed, and the sender of an archived file cannot change it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import table
from tests.security.strangers import MALLORY, as_user, meeting_place, needs_root
from tests.systems import unit_of
from waterclock.connectors.files import landing as land
from waterclock.connectors.files.archiving import archive_items
from waterclock.connectors.files.file_name_matching import parse_unit_path
from waterclock.connectors.files.landing import Landing
from waterclock.connectors.interface import Item, Report
from waterclock.engine.collect.collect import _archive
from waterclock.permissions.ownership import open_below

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NAME = "web_visits_2026_11_20_12_00_00.csv"
UNITS = ("web.visits", "web/visits/*.csv", "web/**/*.csv")


@pytest.fixture
def place() -> Iterator[Path]:
    with meeting_place() as folder:
        (folder / "new/web/visits").mkdir(parents=True)
        (folder / "secret").mkdir(mode=0o700)
        (folder / "secret" / NAME).write_text("password\nhunter2\n")
        yield folder


def landing(place: Path) -> Landing:
    return Landing(place / "new", place / "archive")


def names(place: Path, unit: str) -> tuple[list[str], list[str]]:
    """Return the items and the problems of a unit, found by every listing function."""
    found = land.list_items(landing(place), parse_unit_path(unit), now=NOW)
    by_stamp = [item for items in land.newest_first(landing(place), parse_unit_path(unit), now=NOW) for item in items]
    assert {item.name for item in by_stamp} == {item.name for item in found.items}
    wanted = {NAME, f"web/visits/{NAME}", f"web/visits/2026/{NAME}"}
    assert {item.name for item in land.find_items(landing(place), parse_unit_path(unit), wanted)} <= {
        item.name for item in found.items
    }
    return [item.name for item in found.items], [report.problem for report in found.reports]


@pytest.mark.parametrize("unit", UNITS)
def test_a_link_to_a_file_is_left_alone_and_reported(place: Path, unit: str) -> None:
    (place / "new/web/visits" / NAME).symlink_to(place / "secret" / NAME)
    assert names(place, unit) == ([], ["a link"])


@pytest.mark.parametrize("unit", UNITS)
def test_a_link_to_a_folder_is_left_alone(place: Path, unit: str) -> None:
    (place / "new/web/visits/2026").symlink_to(place / "secret")
    assert names(place, unit)[0] == []
    (place / "new/web/visits/2026").unlink()
    (place / "new/web/visits").rmdir()
    (place / "new/web/visits").symlink_to(place / "secret")
    assert names(place, unit)[0] == []
    (place / "new/web/visits").unlink()
    (place / "new/web").rmdir()
    (place / "secret/visits").mkdir()
    (place / "secret/visits" / NAME).write_text("password\n")
    (place / "new/web").symlink_to(place / "secret")
    assert names(place, unit)[0] == []


@pytest.mark.parametrize("unit", UNITS)
def test_a_pipe_is_not_waited_for(place: Path, unit: str) -> None:
    os.mkfifo(place / "new/web/visits" / NAME)
    assert names(place, unit)[0] == []


def test_a_landing_folder_may_itself_be_a_link(place: Path) -> None:
    (place / "new/web/visits" / NAME).write_text("id\n1\n")
    (place / "link").symlink_to(place / "new")
    found = land.list_items(Landing(place / "link", place / "archive"), parse_unit_path("web.visits"), now=NOW)
    assert [item.name for item in found.items] == [NAME]


def landed(place: Path) -> Item:
    path = place / "new/web/visits" / NAME
    path.write_text("id\n1\n")
    return Item(NAME, NOW, path.stat().st_size, str(path))


def test_an_own_file_is_archived_by_its_name_alone(place: Path) -> None:
    item = landed(place)
    before = Path(item.path).stat().st_ino
    assert archive_items(landing(place), [item]) == ()
    assert (place / "archive/web/visits" / NAME).stat().st_ino == before
    assert not Path(item.path).exists()


@needs_root
def test_a_sender_cannot_append_to_an_archived_file(place: Path) -> None:
    item = landed(place)
    os.utime(item.path, (1_700_000_000, 1_700_000_000))
    os.chown(item.path, MALLORY, MALLORY)
    with Path(item.path).open("a") as held:
        assert archive_items(landing(place), [item]) == ()
        held.write("2\n")
    archived = place / "archive/web/visits" / NAME
    assert archived.read_text() == "id\n1\n"
    status = archived.stat()
    assert (status.st_uid, status.st_mode & 0o777, status.st_nlink) == (os.geteuid(), 0o600, 1)
    assert status.st_mtime == 1_700_000_000
    assert not Path(item.path).exists()
    assert as_user(MALLORY, lambda: os.access(archived, os.W_OK | os.R_OK)) is False


@pytest.mark.parametrize("how", ["a second name", "a mode"])
def test_a_file_that_others_can_still_change_is_copied(place: Path, how: str) -> None:
    item = landed(place)
    if how == "a mode":
        Path(item.path).chmod(0o666)
    else:
        os.link(item.path, place / "kept.csv")
    with Path(item.path).open("a") as held:
        assert archive_items(landing(place), [item]) == ()
        held.write("2\n")
    assert (place / "archive/web/visits" / NAME).read_text() == "id\n1\n"


@pytest.mark.parametrize("part", ["the file", "its folder"])
def test_a_link_put_in_place_of_a_file_since_it_was_read_is_not_archived(place: Path, part: str) -> None:
    item = landed(place)
    if part == "the file":
        Path(item.path).unlink()
        Path(item.path).symlink_to(place / "secret" / NAME)
    else:
        Path(item.path).parent.rename(place / "new/web/other")
        Path(item.path).parent.symlink_to(place / "secret")
    (report,) = archive_items(landing(place), [item])
    assert report.problem == "a link"
    assert (place / "secret" / NAME).read_text() == "password\nhunter2\n"
    assert not (place / "archive/web/visits" / NAME).exists()


def test_opening_below_a_folder_follows_no_link(place: Path) -> None:
    item = landed(place)
    os.close(open_below(place / "new", f"web/visits/{NAME}"))
    (place / "new/web/link").symlink_to(place / "secret")
    (place / "new/web/visits/link").symlink_to(item.path)
    for relative in (f"web/link/{NAME}", "web/visits/link", f"web/../../secret/{NAME}"):
        with pytest.raises(OSError, match=r"link|\.\."):
            open_below(place / "new", relative)


def listed(place: Path) -> Item:
    landed(place)
    (item,) = land.list_items(landing(place), parse_unit_path("web.visits"), now=NOW).items
    return item


@pytest.mark.parametrize("change", ["content", "size", "file"])
def test_a_file_that_changed_between_its_read_and_its_archiving_is_reported(place: Path, change: str) -> None:
    item = listed(place)
    path = Path(item.path)
    if change == "file":
        path.unlink()
    path.write_text("id\n1\n2\n" if change == "size" else "id\n2\n")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    (report,) = archive_items(landing(place), [item])
    assert report.problem == "changed between its read and its archiving"
    assert (place / "archive/web/visits" / NAME).read_text() == ("id\n1\n2\n" if change == "size" else "id\n2\n")
    assert not path.exists()


def test_a_file_that_did_not_change_is_not_reported(place: Path) -> None:
    item = listed(place)
    assert archive_items(landing(place), [item]) == ()
    assert archive_items(landing(place), [item]) == ()


def test_a_run_prints_the_problems_reported_by_archiving() -> None:
    said: list[str] = []
    work: Any = SimpleNamespace(report_once=said.append)
    collector: Any = SimpleNamespace(archive=lambda *_: (Report("new/a.csv", "a link", "it is not moved"),))
    _archive(table("raw.a"), collector, unit_of("land", "web.visits"), [], work)
    assert said == ["raw.a: new/a.csv: a link; it is not moved"]
