"""A damaged file is identified from an error, and a slice is compared with its manifest."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from waterclock.errors import WaterclockError
from waterclock.storage.log.delta_log import foreign_commits, is_older_than, table_exists
from waterclock.storage.log.open_tables import open_table
from waterclock.storage.slices.damage import FilePlace, damage_of, place_in
from waterclock.storage.slices.manifest import Manifest, seal
from waterclock.storage.slices.statistics import read_files

LEAF = "_stage/y=2020/m=01/d=02/h=00/n=00/c=7"
LABEL = datetime(2020, 1, 2, tzinfo=UTC)


def of_slice(table: str, name: str) -> FilePlace:
    return FilePlace(table, f"{LEAF}/{name}", LEAF, LABEL)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"Path does not exist: file:/the lake/tables/a/b/{LEAF}/p.parquet.", of_slice("a.b", "p.parquet")),
        (f"file:///the%20lake/tables/a/b/{LEAF}/p.parquet is not a Parquet file", of_slice("a.b", "p.parquet")),
        (f"/the lake/publish/out/{LEAF}/_manifest.json", of_slice("publish/out", "_manifest.json")),
        ("/the lake/tables/a/b/state/c=7/v=2/p.parquet, and more", FilePlace("a.b", "state/c=7/v=2/p.parquet")),
        ("/another lake/tables/a/b/p.parquet", None),
        ("a word on /the lake", None),
    ],
)
def test_the_file_that_a_text_names_is_found(text: str, found: FilePlace | None) -> None:
    assert place_in("/the lake", text) == found


def sealed(folder: Path) -> Path:
    """Seal a slice of three rows, and return its file."""
    leaf = folder / LEAF
    leaf.mkdir(parents=True)
    pq.write_table(pa.table({"timelabel": ["20200102000000"] * 3, "id": [1, 2, 3]}), leaf / "part.parquet")
    files = read_files(folder, LEAF)
    manifest = Manifest(
        table="a.b", label=LABEL, claim=7, slice_path=LEAF, files=files, rows=3, bytes=files[0].size, digest="3:1:1",
        schema=json.dumps({"type": "struct", "fields": []}), code="c", source={}, sealed_at=LABEL,
    )  # fmt: skip
    seal(str(folder), manifest)
    return leaf / "part.parquet"


def test_a_whole_slice_has_no_damage(tmp_path: Path) -> None:
    sealed(tmp_path)
    assert damage_of(str(tmp_path), LEAF) is None


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("_manifest.json", None, "its manifest is missing"),
        ("_manifest.json", b'{"table": "a', "JSONDecodeError"),
        ("part.parquet", None, "part.parquet is gone"),
        ("part.parquet", b"PAR1", "part.parquet cannot be read"),
    ],
)
def test_the_damage_of_a_slice_is_described(tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    sealed(tmp_path)
    path = tmp_path / LEAF / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert said in str(damage_of(str(tmp_path), LEAF))


def test_a_file_with_other_rows_than_sealed_is_damaged(tmp_path: Path) -> None:
    file = sealed(tmp_path)
    pq.write_table(pa.table({"id": [1]}), file)
    assert "was sealed with" in str(damage_of(str(tmp_path), LEAF))


def test_rows_that_cannot_be_read_are_found_by_reading_them(tmp_path: Path) -> None:
    file = sealed(tmp_path)
    content = bytearray(file.read_bytes())
    content[8:24] = b"\xff" * 16
    file.write_bytes(bytes(content))
    assert damage_of(str(tmp_path), LEAF) is None
    assert "part.parquet cannot be read" in str(damage_of(str(tmp_path), LEAF, is_deep=True))


def commit(folder: Path, version: int, text: str) -> Path:
    path = folder / "_delta_log" / f"{version:020d}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_a_torn_commit_is_an_error_that_names_the_rebuild(tmp_path: Path) -> None:
    folder = tmp_path / "tables" / "a" / "b"
    folder.mkdir(parents=True)
    torn = commit(folder, 0, '{"commitInfo": {"times')
    with pytest.raises(WaterclockError) as refused:
        foreign_commits(str(folder), after_version=-1, project="p")
    assert (refused.value.code, refused.value.where) == ("E643", str(torn))
    assert "`waterclock rebuild a.b`" in str(refused.value.fix)
    with pytest.raises(WaterclockError) as unopened, open_table(str(folder)):
        pass
    assert unopened.value.code == "E643"


def test_a_log_that_lacks_a_known_version_is_older(tmp_path: Path) -> None:
    for version in (0, 1):
        commit(tmp_path, version, "{}")
    assert [is_older_than(str(tmp_path), version) for version in (-1, 0, 1, 2)] == [False, False, False, True]


def test_a_log_that_was_cleaned_up_to_its_checkpoint_is_not_older(tmp_path: Path) -> None:
    (commit(tmp_path, 11, "{}").parent / "_last_checkpoint").write_text('{"version": 10}')
    assert not is_older_than(str(tmp_path), 9)
    assert is_older_than(str(tmp_path), 12)


@pytest.mark.parametrize("content", [None, '{"vers'])
def test_a_checkpoint_that_nothing_names_is_found(tmp_path: Path, content: str | None) -> None:
    log = commit(tmp_path, 11, "{}").parent
    (log / f"{10:020d}.checkpoint.parquet").write_bytes(b"")
    if content is not None:
        (log / "_last_checkpoint").write_text(content)
    assert table_exists(str(tmp_path))
