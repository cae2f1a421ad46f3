"""A file that its sender can replace is read from a copy, so Spark reads the content that was checked."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.security.strangers import MALLORY, give, meeting_place, needs_root
from waterclock.connectors.files.connector import CONNECTOR
from waterclock.connectors.files.reading_options import ROOM, ReadOptions
from waterclock.connectors.files.zips import unpack_zips
from waterclock.connectors.interface import Item, Setting
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns, Place, Unit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "web_visits_2026_11_20_12_00_00.csv"
LABEL = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def place() -> Iterator[Path]:
    with meeting_place() as folder:
        (folder / "new/web/visits").mkdir(parents=True, mode=0o755)
        (folder / "secret").mkdir(mode=0o700)
        (folder / "secret" / NAME).write_text("id\n666\n")
        (folder / "new/web/visits" / NAME).write_text("id\n1\n")
        (folder / "new/web/visits" / NAME).chmod(0o644)
        yield folder


def landed(place: Path) -> Path:
    return place / "new/web/visits" / NAME


def reading(place: Path) -> ReadOptions:
    return ReadOptions(room=place / "archive" / ROOM, landing=place / "new")


def test_an_own_file_is_read_where_it_is(place: Path) -> None:
    assert unpack_zips([str(landed(place))], reading(place)).paths == (str(landed(place)),)


@needs_root
@pytest.mark.parametrize("what", ["new", "new/web", "new/web/visits", f"new/web/visits/{NAME}"])
def test_a_file_of_another_user_or_in_a_folder_of_one_is_copied(place: Path, what: str) -> None:
    os.chown(place / what, MALLORY, MALLORY)
    found = unpack_zips([str(landed(place))], reading(place))
    (copy,) = found.paths
    assert copy != str(landed(place))
    assert found.zips == {copy: str(landed(place))}
    landed(place).write_text("id\n2\n")
    assert Path(copy).read_text() == "id\n1\n"
    assert Path(copy).stat().st_mode & 0o777 == 0o600
    found.close()
    assert not Path(copy).exists()


@needs_root
@pytest.mark.parametrize("part", ["the file", "its folder"])
def test_a_link_in_place_of_a_listed_file_is_not_read(place: Path, part: str) -> None:
    path = landed(place)
    if part == "the file":
        path.unlink()
        path.symlink_to(place / "secret" / NAME)
    else:
        path.parent.rename(place / "new/web/other")
        path.parent.symlink_to(place / "secret")
    give(place / "new", MALLORY)
    with pytest.raises(WaterclockError) as raised:
        unpack_zips([str(path)], reading(place))
    assert raised.value.code == "E807"
    assert raised.value.where == str(path)
    assert list((place / "archive" / ROOM).iterdir()) == []


@needs_root
def test_a_sender_who_keeps_exchanging_a_file_has_only_its_own_rows_read(place: Path) -> None:
    path = landed(place)
    give(place / "new", MALLORY)
    sender = os.fork()
    if sender == 0:
        os.setgid(MALLORY)
        os.setuid(MALLORY)
        while True:
            link, plain = path.with_name("link"), path.with_name("plain")
            link.symlink_to(place / "secret" / NAME)
            link.replace(path)
            plain.write_text("id\n1\n")
            plain.replace(path)
    read = set()
    try:
        for _ in range(300):
            try:
                found = unpack_zips([str(path)], reading(place))
            except WaterclockError as error:
                read.add(error.code)
                continue
            read.add(Path(found.paths[0]).read_text())
            found.close()
    finally:
        os.kill(sender, signal.SIGKILL)
        os.waitpid(sender, 0)
    assert "id\n666\n" not in read
    assert read == {"id\n1\n", "E807"}


@needs_root
@pytest.mark.spark
def test_rows_and_errors_name_the_file_that_was_sent(place: Path, spark: SparkSession) -> None:
    give(place / "new", MALLORY)
    options = {"path": str(place / "new"), "archive": str(place / "archive")}
    setting = Setting("landing", options, folder=place, archive=place / "archives")
    collector = CONNECTOR.collector(setting)
    item = Item(NAME, LABEL, landed(place).stat().st_size, str(landed(place)))
    unit = Unit("landing", "web.visits", None, {}, Place("flows/a.dpl", 1, 1))
    collected = collector.read_items(spark, unit, {LABEL: [item]}, Columns(), "UTC")
    assert [row["id"] for row in collected.frame.collect()] == ["1"]
    collected.close()
    landed(place).write_text("")
    with pytest.raises(WaterclockError) as raised:
        collector.read_items(spark, unit, {LABEL: [item]}, Columns(), "UTC")
    assert str(place / "new/web/visits" / NAME) in raised.value.render()
    assert "_copies" not in raised.value.render()
