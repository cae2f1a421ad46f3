"""The columns of SORT BY are table properties, used for writing states and for statistics."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.slices import PROJECT, commit, hour, ids, new_table, rows_of, schema_json, version
from waterclock.errors import WaterclockError
from waterclock.storage.commit.row_order import INDEXED, SORTED_BY, record_row_order, recorded_sort_columns
from waterclock.storage.log.delta_log import foreign_commits
from waterclock.storage.log.open_tables import open_table

WIDE = pa.schema(
    [
        ("timelabel", pa.string()),
        ("place", pa.struct([(f"p{number}", pa.int64()) for number in range(30)])),
        ("tags", pa.list_(pa.string())),
        ("name", pa.string()),
        ("id", pa.int64()),
        ("more", pa.string()),
    ]
)


def properties(folder: str) -> dict[str, str]:
    found = DeltaTable(folder).metadata().configuration
    return {key: value for key, value in found.items() if key in {SORTED_BY, INDEXED}}


def recorded(folder: str) -> tuple[str, ...]:
    with open_table(folder) as table:
        return recorded_sort_columns(table)


def test_the_columns_are_recorded_once_and_changed_and_removed(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1, 2)})
    kept = DeltaTable(folder).metadata().configuration
    assert recorded(folder) == ()
    for by, at in (([], 1), (["id", "name"], 2), (["id", "name"], 2), (["Name"], 3), ([], 4)):
        record_row_order(folder, by, project=PROJECT)
        assert (recorded(folder), version(folder)) == (tuple(by), at)
    assert DeltaTable(folder).metadata().configuration == kept
    assert ids(folder) == [1, 2]
    assert foreign_commits(folder, after_version=0, project=PROJECT) == []


def test_a_column_beyond_the_32nd_is_indexed_with_all_before_it(tmp_path: Path) -> None:
    for is_partitioned, counted in ((False, 34), (True, 33)):
        folder = new_table(tmp_path / str(is_partitioned), is_partitioned=is_partitioned, schema=WIDE)
        record_row_order(folder, ["tags", "ID", "place"], project=PROJECT)  # timelabel, 30 fields, and 3 more
        assert properties(folder)[INDEXED] == str(counted)
        record_row_order(folder, ["place"], project=PROJECT)
        assert properties(folder) == {SORTED_BY: '["place"]', INDEXED: str(counted)}


def test_a_column_of_the_next_batch_is_counted_behind_the_others(tmp_path: Path) -> None:
    folder = new_table(tmp_path, schema=WIDE)
    next_batch = pa.schema([("timelabel", pa.string()), ("new", pa.int64()), ("id", pa.int64())])
    record_row_order(folder, ["new"], schema_json(next_batch), project=PROJECT)
    assert properties(folder)[INDEXED] == "36"


@pytest.mark.parametrize("number", ["-1", "50"])
def test_a_number_that_the_user_has_set_is_only_raised(tmp_path: Path, number: str) -> None:
    folder = new_table(tmp_path, schema=WIDE)
    DeltaTable(folder).alter.set_table_properties({INDEXED: number})
    record_row_order(folder, ["more"], project=PROJECT)
    assert properties(folder) == {SORTED_BY: '["more"]', INDEXED: number}


def test_the_table_of_another_project_stays_as_it_is(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    with pytest.raises(WaterclockError) as raised:
        record_row_order(folder, ["id"], project="other")
    assert raised.value.code == "E601"
    assert properties(folder) == {}


def test_a_table_that_only_spark_may_write_stays_as_it_is(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    DeltaTable(folder).alter.set_table_properties({"delta.appendOnly": "true"})
    before = version(folder)
    record_row_order(folder, ["id"], project=PROJECT)
    assert version(folder) == before


def test_the_property_is_a_list_of_names_whatever_they_contain(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    record_row_order(folder, ["a,b", "ü'`"], project=PROJECT)
    assert json.loads(properties(folder)[SORTED_BY]) == ["a,b", "ü'`"]
    assert recorded(folder) == ("a,b", "ü'`")
