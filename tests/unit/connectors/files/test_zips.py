"""Zips are unpacked within bounds, and hostile paths are refused."""

from __future__ import annotations

import errno
import stat
import struct
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.counting import calls_named
from waterclock.connectors.files import zips
from waterclock.connectors.files.completeness import problem_of
from waterclock.connectors.files.reading_options import ROOM, ReadOptions
from waterclock.connectors.files.zips import display_name, unpack_zips
from waterclock.errors import WaterclockError


def reading(tmp_path: Path, member: str = "", most_bytes: int = 1 << 30) -> ReadOptions:
    return ReadOptions(room=tmp_path / ROOM, member=member, most_bytes=most_bytes)


def zip_of(tmp_path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> str:
    path = tmp_path / "orders.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members:
            file.writestr(name, content)
    return str(path)


def refused(tmp_path: Path, path: str, member: str = "", most_bytes: int = 1 << 30) -> WaterclockError:
    with pytest.raises(WaterclockError) as caught:
        unpack_zips([path], reading(tmp_path, member, most_bytes))
    assert not list((tmp_path / ROOM).glob("*"))
    return caught.value


def test_a_list_of_many_members_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """zipfile uses some 600 bytes of memory for each entry of 46 bytes, before their number is checked."""
    monkeypatch.setattr(zips, "_MOST_LISTED", 100_000)
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, *[0] * 7, 5, *[0] * 6) + b"a.csv"
    count = 3_000
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, count * len(entry), 0, 0)
    (tmp_path / "orders.zip").write_bytes(entry * count + end)
    error = refused(tmp_path, str(tmp_path / "orders.zip"))
    assert (error.code, error.what) == ("E882", "orders.zip is too large when unpacked")
    assert error.why == "its list of members has more than 100000 bytes"


def test_members_are_files_until_they_are_closed(tmp_path: Path) -> None:
    path = zip_of(tmp_path, ("a.csv", b"1"), ("x/a.csv", b"2"), ("x/", b""), (".hidden.csv", b"3"))
    other = str(tmp_path / "plain.csv")
    found = unpack_zips([other, path], reading(tmp_path))
    assert [Path(each).name for each in found.paths] == ["plain.csv", "a.csv", "a.csv"]
    assert [Path(each).read_bytes() for each in found.paths[1:]] == [b"1", b"2"]
    assert set(found.zips.values()) == {path}
    assert display_name(found.paths[1]) == "orders.zip/a.csv"
    found.close()
    found.close()
    assert not list((tmp_path / ROOM).glob("*"))


def test_files_that_are_removed_again_are_not_flushed_to_disk(tmp_path: Path) -> None:
    path, copied = zip_of(tmp_path, *((f"{at}.csv", b"1") for at in range(20))), tmp_path / "shared.csv"
    copied.write_text("1")
    copied.chmod(0o666)
    options = replace(reading(tmp_path), landing=tmp_path)
    found, flushes = calls_named(lambda: unpack_zips([path, str(copied)], options), "fsync")
    assert (len(found.paths), flushes) == (21, 0)
    assert found.zips[found.paths[-1]] == str(copied)
    found.close()


@pytest.mark.parametrize(
    "name", ["../evil.csv", "/etc/evil.csv", "x/../../evil.csv", "..\\evil.csv", "C:\\evil.csv", "C:/evil.csv"]
)
def test_a_member_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    path = zip_of(tmp_path, ("fine.csv", b"1"), (name, b"2"))
    error = refused(tmp_path, path)
    assert (error.code, error.where) == ("E881", path)
    assert not list(tmp_path.parent.glob("evil*"))


def test_a_member_that_is_a_link_is_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link.csv")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    assert refused(tmp_path, zip_of(tmp_path, (link, b"/etc/passwd"))).code == "E881"


def test_a_zip_that_unpacks_beyond_the_size_limit_is_refused(tmp_path: Path) -> None:
    path = zip_of(tmp_path, *((f"{at}.csv", bytes(range(256)) * 8) for at in range(4)))
    assert refused(tmp_path, path, most_bytes=8191).code == "E882"
    assert len(unpack_zips([path], reading(tmp_path, most_bytes=8192)).paths) == 4


def test_a_zip_with_a_suspicious_compression_ratio_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, zip_of(tmp_path, ("bomb.csv", b"0" * (17 << 20)))).code == "E882"


def test_too_many_members_are_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, zip_of(tmp_path, *((f"{at}.csv", b"") for at in range(10_001)))).code == "E882"


def test_a_zip_member_larger_than_its_declared_size_is_refused(tmp_path: Path) -> None:
    path = zip_of(tmp_path, ("a.csv", b"0123456789" * 10))
    content = Path(path).read_bytes()
    Path(path).write_bytes(content.replace((100).to_bytes(4, "little"), (50).to_bytes(4, "little")))
    assert refused(tmp_path, path).code == "E807"


def test_a_member_whose_name_is_not_utf_8_is_an_error_of_the_zip(tmp_path: Path) -> None:
    path = zip_of(tmp_path, ("\u00e4.csv", b"1"))
    content = Path(path).read_bytes()
    Path(path).write_bytes(content.replace("\u00e4".encode(), b"\xff\xff"))
    assert refused(tmp_path, path).code == "E807"


def test_a_member_packed_by_a_method_without_bounds_is_refused(tmp_path: Path) -> None:
    packed = zipfile.ZipInfo("a.csv")
    packed.compress_type = zipfile.ZIP_BZIP2
    error = refused(tmp_path, zip_of(tmp_path, (packed, b"1")))
    assert (error.code, error.why) == ("E883", "it is compressed with a method other than deflate")


def test_a_zip_within_a_zip_is_refused(tmp_path: Path) -> None:
    error = refused(tmp_path, zip_of(tmp_path, ("in.zip", b"PK"), ("a.csv", b"1")))
    assert (error.code, error.why) == ("E883", "in.zip has a format that is not read from a zip")


def test_a_zip_without_the_requested_member_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, zip_of(tmp_path, ("a.csv", b"1")), member="*.json").code == "E883"


def test_a_member_with_a_password_is_refused(tmp_path: Path) -> None:
    path = zip_of(tmp_path, ("a.csv", b"1"))
    content = bytearray(Path(path).read_bytes())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + at] |= 1
    Path(path).write_bytes(content)
    assert refused(tmp_path, path).code == "E883"


def test_a_full_disk_is_not_taken_for_a_damaged_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zips, "open_for_writing", lambda _, **_more: open("/dev/full", "wb"))  # noqa: PTH123, SIM115
    with pytest.raises(OSError, match="No space left on device") as caught:
        unpack_zips([zip_of(tmp_path, ("a.csv", b"1"))], reading(tmp_path))
    assert caught.value.errno == errno.ENOSPC
    assert not list((tmp_path / ROOM).glob("*"))


def test_a_zip_that_was_cut_is_half_written(tmp_path: Path) -> None:
    path = Path(zip_of(tmp_path, ("a.csv", b"1" * 1000)))
    whole = path.read_bytes()
    assert problem_of(str(path), len(whole), 0, ("zip", "")) is None
    path.write_bytes(whole[:-30])
    assert problem_of(str(path), len(whole) - 30, 1, ("zip", "")) == (
        "half-written",
        "it ends before its list of members",
    )
    path.write_bytes(b"id,note\n")
    assert problem_of(str(path), 8, 2, ("zip", "")) == ("damaged", "it is not a zip file")


def test_leftovers_of_a_killed_read_are_removed_after_days(tmp_path: Path) -> None:
    old, new = tmp_path / ROOM / "20200101000000-x", tmp_path / ROOM / "20990101000000-x"
    for each in (old, new):
        each.mkdir(parents=True)
    unpack_zips([zip_of(tmp_path, ("a.csv", b"1"))], reading(tmp_path)).close()
    assert [each.name for each in (tmp_path / ROOM).iterdir()] == [new.name]


def test_nothing_is_packed_where_no_zip_is(tmp_path: Path) -> None:
    assert unpack_zips([str(tmp_path / "a.csv")], reading(tmp_path)).paths == (str(tmp_path / "a.csv"),)
