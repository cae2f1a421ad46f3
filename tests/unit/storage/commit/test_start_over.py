"""A table that is started over is empty, keeps its log, and gets columns again with its first batch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.slices import PROJECT, SCHEMA, TABLE, hour, identity, ids, new_table, rows_of, schema_json, sealed
from waterclock.errors import WaterclockError
from waterclock.storage.commit.creation import create_table
from waterclock.storage.commit.pointers import commit_slices, kill_claim
from waterclock.storage.commit.rebuild import start_over
from waterclock.storage.log.delta_log import commit_file, head, outcome
from waterclock.storage.log.identity import RESET, ClaimKilledError, Identity
from waterclock.storage.log.open_tables import has_columns, open_table

BY = Identity(PROJECT, TABLE, RESET, (), "", 9, "code")
LOCAL = {"name": "seen", "type": "timestamp_ntz", "nullable": True, "metadata": {}}


def emptied(folder: str, *, above: int = 1) -> int:
    version = start_over(folder, BY, above=above, stamp="now")
    assert not has_columns(folder)
    with open_table(folder) as table:
        assert dict(table.files) == {}
    return version


def filled(tmp_path: Path, *, is_partitioned: bool = False) -> str:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    commit_slices(folder, identity(1, hour(0)), [sealed(folder, hour(0), 1, rows_of(1, 2))], mode="append")
    return folder


@pytest.mark.parametrize("is_partitioned", [False, True])
def test_its_first_batch_gives_it_columns_and_partitions_as_they_are_declared_then(
    tmp_path: Path, is_partitioned: bool
) -> None:
    folder = filled(tmp_path, is_partitioned=is_partitioned)
    slices = sorted(path.name for path in Path(folder).rglob("*.parquet"))
    assert emptied(folder) == 2
    assert sorted(path.name for path in Path(folder).rglob("*.parquet")) == slices  # no file is deleted
    wider = json.loads(schema_json(SCHEMA))
    wider["fields"].append(LOCAL)
    for _ in range(2):
        create_table(folder, json.dumps(wider), is_partitioned=not is_partitioned, project=PROJECT)
    with open_table(folder) as table:
        assert [field["name"] for field in json.loads(table.schema)["fields"]][-1] == "seen"
        assert table.partition_columns == ([] if is_partitioned else ["timelabel"])
        assert table.configuration["waterclock.project"] == PROJECT
        assert "timestampNtz" in table.features
        assert table.version == 3
    commit_slices(folder, identity(3, hour(5)), [sealed(folder, hour(5), 3, rows_of(7))], mode="append")
    assert ids(folder) == [7]
    with pytest.raises(WaterclockError, match="E624"):
        create_table(folder, json.dumps(wider), is_partitioned=is_partitioned, project=PROJECT)


def test_a_claim_killed_before_a_reset_stays_killed(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    kill_claim(folder, 2)
    emptied(folder, above=2)
    create_table(folder, schema_json(SCHEMA), is_partitioned=False, project=PROJECT)
    with pytest.raises(ClaimKilledError):
        commit_slices(folder, identity(2, hour(1)), [sealed(folder, hour(1), 2, rows_of(3))], mode="append")
    assert outcome(folder, 9, after_version=-1).kind == "data"


def test_a_repeated_reset_has_no_further_effect(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    assert [emptied(folder), emptied(folder, above=2)] == [2, 2]
    assert start_over(folder, replace(BY, claim=10), above=2, stamp="now") == 3
    kill_claim(folder, 11)
    with pytest.raises(ClaimKilledError):
        start_over(folder, replace(BY, claim=11), above=3, stamp="now")


@pytest.mark.parametrize("harm", ["damaged", "older", "gone"])
def test_a_log_that_cannot_be_continued_is_kept_beside_a_new_one_above_its_versions(tmp_path: Path, harm: str) -> None:
    folder = filled(tmp_path)
    log = Path(folder) / "_delta_log"
    if harm == "damaged":
        commit_file(folder, 1).write_text("")
    elif harm == "older":
        commit_file(folder, 1).unlink()
    else:
        log.rename(tmp_path / "elsewhere")
    assert emptied(folder, above=4) == 5
    assert head(folder) == 5
    assert (log.with_name("_delta_log.reset-now").is_dir()) == (harm != "gone")
    create_table(folder, schema_json(SCHEMA), is_partitioned=False, project=PROJECT)
    assert has_columns(folder)


def test_the_table_of_another_project_is_left_alone(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    with pytest.raises(WaterclockError, match="E601"):
        start_over(folder, Identity("another", TABLE, RESET, (), "", 9, "code"), above=1, stamp="now")
    assert ids(folder) == [1, 2]
