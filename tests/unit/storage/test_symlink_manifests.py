"""Engines without Delta that read a symlink manifest see exactly the rows of the table, after any history."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from tests.slices import commit, hour, identity, ids, new_table, rows_of
from waterclock.errors import WaterclockError
from waterclock.storage import symlink_manifests
from waterclock.storage.file_maintenance import drop_windows
from waterclock.timelabel.label import label_of

both_types = pytest.mark.parametrize("is_partitioned", [False, True])


def listed(folder: str) -> list[str]:
    """Read all manifests, as Hive does."""
    places = sorted(Path(folder, symlink_manifests.FOLDER).rglob("manifest"))
    return [line for place in places for line in place.read_text().splitlines()]


def plain(paths: Sequence[str]) -> list[str]:
    return [path.removeprefix("file://") for path in paths]


def asked(sql: str, of: object) -> list[Any]:
    found = duckdb.sql(sql, params=[of])
    assert found is not None
    return found.fetchall()


def read_by_all(paths: Sequence[str]) -> list[list[int]]:
    """Return the ids in some files, as read by DuckDB, pyarrow and Polars."""
    if not paths:
        return [[], [], []]
    by_duckdb = asked("SELECT id FROM read_parquet(?) ORDER BY id", list(paths))
    by_arrow = ds.dataset(plain(paths), format="parquet").to_table(columns=["id"])["id"].to_pylist()
    by_polars = pl.scan_parquet(list(paths)).select("id").collect()["id"].to_list()
    return [[row[0] for row in by_duckdb], sorted(by_arrow), sorted(by_polars)]


@both_types
def test_readers_of_the_symlink_manifest_never_see_a_replaced_slice_with_its_replacement(
    tmp_path: Path, is_partitioned: bool
) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    commit(folder, 1, {hour(0): rows_of(1, 2), hour(1): rows_of(3)}, files=2)
    symlink_manifests.write_newest_manifests(folder)
    commit(folder, 2, {hour(0): rows_of(9)})
    # between the commit and its manifest: the previous label, whose files still exist
    assert read_by_all(listed(folder)) == [[1, 2, 3]] * 3
    assert symlink_manifests.write_newest_manifests(folder) == 1
    assert read_by_all(listed(folder)) == [[3, 9]] * 3
    everything = f"{folder}/_stage/**/*.parquet"  # the files that a reader of the stage would count
    assert len(asked("SELECT * FROM read_parquet(?)", everything)) == 4
    assert symlink_manifests.write_newest_manifests(folder) == 0


@both_types
def test_a_label_that_is_emptied_or_dropped_leaves_the_manifest(tmp_path: Path, is_partitioned: bool) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    commit(folder, 1, {hour(0): rows_of(1), hour(1): rows_of(2), hour(2): rows_of(3)})
    symlink_manifests.write_newest_manifests(folder)
    commit(folder, 2, {hour(1): []})
    drop_windows(folder, label_of(hour(1)), identity(0))
    symlink_manifests.write_newest_manifests(folder)
    assert read_by_all(listed(folder)) == [[3]] * 3
    drop_windows(folder, label_of(hour(3)), identity(0))
    symlink_manifests.write_newest_manifests(folder)
    assert listed(folder) == []


def test_a_rebuilt_manifest_omits_removed_labels_and_another_layout(tmp_path: Path) -> None:
    folder = new_table(tmp_path, is_partitioned=True)
    commit(folder, 1, {hour(0): rows_of(1), hour(1): rows_of(2)})
    symlink_manifests.write_newest_manifests(folder)
    place = Path(folder, symlink_manifests.FOLDER)
    (place / "manifest").write_text("file:///as/it/was/before/it/was/partitioned.parquet\n")
    commit(folder, 2, {hour(0): []})
    (place / "_version").unlink()
    symlink_manifests.write_newest_manifests(folder)
    assert read_by_all(listed(folder)) == [[2]] * 3


@pytest.mark.parametrize("seed", range(6))
def test_after_any_history_and_any_crash_the_manifest_matches_the_table(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    folder = new_table(tmp_path, is_partitioned=bool(seed % 2))
    for claim in range(1, 25):
        some = {hour(chance.randrange(6)) for _ in range(chance.randrange(1, 3))}
        commit(folder, claim, {at: rows_of(*range(claim * 10, claim * 10 + chance.randrange(3))) for at in some})
        fate = chance.random()
        if fate < 0.2:  # the committing process died before the manifest
            continue
        if fate < 0.3:  # or while writing it
            Path(folder, symlink_manifests.FOLDER, "_version").unlink(missing_ok=True)
        if fate < 0.4:  # a slow writer restored the older manifests that it had read
            for path in Path(folder, symlink_manifests.FOLDER).rglob("manifest"):
                path.write_text("file:///nowhere.parquet\n")
            symlink_manifests.restore_links(folder)
        symlink_manifests.write_newest_manifests(folder)
        assert symlink_manifests.find_stale_symlink_manifests(folder) == []
        assert sorted(plain(listed(folder))) == sorted(plain(DeltaTable(folder).file_uris()))
    symlink_manifests.restore_links(folder)
    assert read_by_all(listed(folder))[0] == ids(folder)


def test_of_two_concurrent_writers_the_later_one_leaves_a_correct_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = new_table(tmp_path, is_partitioned=True)
    commit(folder, 1, {hour(0): rows_of(1)})
    put = symlink_manifests._write_manifests
    raced: list[int] = []

    def overtaken(*arguments: Any) -> None:
        if not raced:
            raced.append(commit(folder, 2, {hour(0): rows_of(2)}))
            symlink_manifests.write_newest_manifests(folder)
        put(*arguments)

    monkeypatch.setattr(symlink_manifests, "_write_manifests", overtaken)
    symlink_manifests.write_newest_manifests(folder)
    assert read_by_all(listed(folder)) == [[2]] * 3


def test_a_manifest_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1)})
    symlink_manifests.write_newest_manifests(folder)
    before = listed(folder)
    commit(folder, 2, {hour(1): rows_of(2)})

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        symlink_manifests.write_newest_manifests(folder)
    assert listed(folder) == before
    assert not list(Path(folder, symlink_manifests.FOLDER).glob(".*"))


def test_a_table_with_deletion_vectors_has_no_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1)})
    monkeypatch.setattr("waterclock.storage.log.open_tables.OpenTable.marked_paths", property(lambda _: {"a"}))
    with pytest.raises(WaterclockError, match="E434"):
        symlink_manifests.write_newest_manifests(folder)
    assert not symlink_manifests.is_kept(folder)
