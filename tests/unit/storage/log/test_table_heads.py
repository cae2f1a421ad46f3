"""The head of a table is that of the opened table, and reading it costs no list of files."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

import pytest
from deltalake import DeltaTable

from tests.slices import commit, hour, new_table, rows_of
from waterclock.errors import WaterclockError
from waterclock.storage.log import open_tables
from waterclock.storage.log.open_tables import open_table
from waterclock.storage.log.table_heads import TableHead, read_table_head


def opened(folder: str) -> TableHead:
    with open_table(folder) as table:
        return TableHead(table.version, table.identity, table.schema)


def read_without_opening(folder: str) -> TableHead:
    with patch.object(open_tables, "OpenTable", side_effect=AssertionError("the table was opened")):
        return read_table_head(folder)


@pytest.mark.parametrize("is_partitioned", [True, False])
def test_it_is_read_from_commits_and_from_checkpoints(tmp_path: Path, *, is_partitioned: bool) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    for number in range(3):
        commit(folder, number + 1, {hour(number): rows_of(number)})
    assert read_without_opening(folder) == opened(folder)
    DeltaTable(folder).create_checkpoint()
    assert read_without_opening(folder) == opened(folder)
    commit(folder, 9, {hour(9): rows_of(9)})
    found = read_without_opening(folder)
    assert found == opened(folder)
    DeltaTable(folder).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    assert read_without_opening(folder) == TableHead(found.version + 1, found.identity, found.schema)


def test_the_commits_before_a_checkpoint_are_not_needed(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1)})
    DeltaTable(folder).create_checkpoint()
    before = read_without_opening(folder)
    for path in Path(folder, "_delta_log").glob("*.json"):
        path.unlink()
    assert read_without_opening(folder) == before


def test_a_checkpoint_that_cannot_be_read_is_left_to_delta(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1)})
    before = read_table_head(folder)
    Path(folder, "_delta_log", "_last_checkpoint").write_text('{"version": 1, "size": 3}')
    with patch("waterclock.storage.log.table_heads.open_table", side_effect=WaterclockError("E643", "x")) as opening:
        with pytest.raises(WaterclockError, match="E643"):
            read_table_head(folder)
        assert opening.called
    Path(folder, "_delta_log", "_last_checkpoint").unlink()
    assert read_table_head(folder) == before


def test_a_damaged_head_and_a_folder_without_a_table_are_reported(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    log = Path(folder, "_delta_log", f"{0:020d}.json")
    for damage in ("{", json.dumps({"id": "x"}), json.dumps({"id": "x", "schemaString": 7})):
        text = json.dumps({"metaData": json.loads(damage)}) if damage != "{" else damage
        log.write_text(text)
        with pytest.raises(WaterclockError, match="E643"):
            read_table_head(folder)
    with pytest.raises(WaterclockError, match="E623"):
        read_table_head(str(tmp_path / "none"))
