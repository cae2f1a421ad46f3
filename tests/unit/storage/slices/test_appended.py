"""Slices of open windows that share files with an earlier slice."""

from __future__ import annotations

import random
from pathlib import Path

from tests.slices import hour, new_table, rows_of, sealed
from waterclock.storage.commit.change import build_slice_change
from waterclock.storage.commit.write_commit import try_commit
from waterclock.storage.log.identity import Identity
from waterclock.storage.log.open_tables import open_table
from waterclock.storage.slices.appended import MOST_PARTS, append_slices, find_parts_to_merge, folder_of, newest_part
from waterclock.storage.slices.digest import add_digests
from waterclock.storage.slices.manifest import DataFile, Manifest


def test_an_appended_slice_has_the_rows_of_both(tmp_path: Path) -> None:
    folder = new_table(tmp_path, is_partitioned=True)
    old, other = (sealed(folder, hour(at), 1, rows_of(1, 2)) for at in (0, 1))
    new = sealed(folder, hour(0), 2, rows_of(3), files=1)
    both, same = append_slices({hour(0): old}, [new, other])
    assert (both.rows, both.bytes, both.slice_path) == (3, old.bytes + new.bytes, new.slice_path)
    assert [file.path for file in both.files] == [file.path for file in (*old.files, *new.files)]
    assert same == other
    assert newest_part(both).files == new.files
    assert newest_part(both).rows == 1
    assert both.digest is None  # these slices have none
    assert add_digests("2:10:-5", "1:3:7") == "3:13:2"


def test_a_commit_adds_the_new_files_of_a_label_and_keeps_the_others(tmp_path: Path) -> None:
    folder = new_table(tmp_path, is_partitioned=True)
    slices: dict[int, Manifest] = {}
    for at in range(4):
        made = sealed(folder, hour(0), at, rows_of(at))
        # the third one replaces all files, the others are appended
        [slices[at]] = append_slices({} if at in {0, 2} else {hour(0): slices[at - 1]}, [made])
        with open_table(folder) as table:
            change = build_slice_change(table, [slices[at]], "append")
            assert len(change.adds) == 1
            assert len(change.removes) == (2 if at == 2 else 0)
            try_commit(table, change, Identity("shop", "web.clicks", "t", (), "", at, ""))
        with open_table(folder) as table:
            assert {*table.files} == {file.path for file in slices[at].files}


def _file(part: int, rows: int) -> DataFile:
    return DataFile(f"_stage/c={part}/{part}-{rows}.parquet", 1, rows, "")


def test_small_parts_are_merged_so_that_few_parts_remain_and_rows_are_seldom_copied() -> None:
    draw = random.Random(1)
    for choices in ([1], [1, 5, 500], range(10)):
        files: tuple[DataFile, ...] = ()
        copied = total = 0
        for tick in range(3000):
            merged = find_parts_to_merge(files)
            if merged:
                assert files[-len(merged) :] == tuple(merged)
                rows = sum(file.rows for file in merged)
                copied += rows
                files = (*files[: -len(merged)], _file(10_000 + tick, rows))
            new = draw.choice(choices)
            total += new
            files = (*files, _file(tick, new))
            assert len({folder_of(file) for file in files}) <= MOST_PARTS + 1
        assert sum(file.rows for file in files) == total
        assert copied < 8 * total
