"""Versions that can still be read after OPTIMIZE and VACUUM."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.slices import commit, hour, identity, new_table, rows_of, version
from waterclock.errors import WaterclockError
from waterclock.storage.commit.pointers import commit_nothing
from waterclock.storage.log.delta_log import last_version_with_same_rows
from waterclock.storage.log.live_files import open_kept_version, relative_path
from waterclock.storage.log.open_tables import is_readable


def test_every_version_can_be_read_until_vacuum_removes_its_files(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    first = commit(folder, 1, {hour(0): rows_of(1)}, mode="replace")
    second = commit(folder, 2, {hour(1): rows_of(2)}, mode="replace")
    assert [is_readable(folder, number) for number in (-1, first, second, second + 1)] == [False, True, True, False]
    _vacuum(folder)
    assert [is_readable(folder, number) for number in (first, second)] == [False, True]


def test_where_files_were_joined_the_later_version_with_the_same_rows_is_read(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1)})
    second = commit(folder, 2, {hour(1): rows_of(2)})
    DeltaTable(folder).optimize.compact()
    commit_nothing(folder, identity(3, hour(2)))
    assert last_version_with_same_rows(folder, second) == version(folder) == second + 2
    _vacuum(folder)
    kept = open_kept_version(folder, second)
    assert kept is not None
    assert kept.version() == second + 2
    assert is_readable(folder, second)
    last = commit(folder, 4, {hour(3): rows_of(4)})
    assert last_version_with_same_rows(folder, second) == last - 1
    assert is_readable(folder, second)


def test_only_files_that_may_contain_the_requested_labels_must_exist(tmp_path: Path) -> None:
    folder = new_table(tmp_path, is_partitioned=True)
    commit(folder, 1, {hour(0): rows_of(1)})
    newest = commit(folder, 2, {hour(1): rows_of(2)})
    gone = next(file for file in Path(folder, "_stage").rglob("*.parquet") if "c=1" in str(file))
    gone.unlink()
    assert open_kept_version(folder, newest) is None
    assert open_kept_version(folder, newest, "20180305090000") is not None


def test_a_version_with_a_truncated_file_is_not_opened(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    first = commit(folder, 1, {hour(0): rows_of(1)}, mode="replace")
    file = next(Path(folder, "_stage").rglob("*.parquet"))
    commit(folder, 2, {hour(1): rows_of(2)}, mode="replace")
    size = file.stat().st_size
    file.write_bytes(b"PAR1")
    with pytest.raises(WaterclockError, match="damaged") as raised:
        open_kept_version(folder, first)
    assert raised.value.code == "E605"
    assert raised.value.why == f"{file.name} has 4 bytes, but was written with {size} bytes"


def test_a_file_is_found_whatever_it_is_called() -> None:
    assert relative_path("file:/lake/t%20x/state/c=1/p.parquet", "/lake/t x") == "state/c=1/p.parquet"
    assert relative_path("file:///lake/t/state/c=1/p.parquet", "/lake/t/") == "state/c=1/p.parquet"
    assert relative_path("state/c=1/p.parquet", "/lake/t") == "state/c=1/p.parquet"


def _vacuum(folder: str) -> None:
    """Remove the files that the newest version does not need, including the stage."""
    live = {relative_path(uri, folder) for uri in DeltaTable(folder).file_uris()}
    for file in Path(folder).rglob("*.parquet"):
        if file.relative_to(folder).as_posix() not in live and "_delta_log" not in file.parts:
            file.unlink()
