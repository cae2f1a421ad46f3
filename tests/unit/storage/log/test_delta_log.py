"""The outcome of a claim is read from the log's files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.counting import calls_named
from tests.slices import PROJECT, SCHEMA, commit, hour, new_table, rows_of
from waterclock.errors import WaterclockError
from waterclock.storage.commit.pointers import kill_claim
from waterclock.storage.log.delta_log import (
    actions_of,
    commit_file,
    find_claim,
    foreign_commits,
    head,
    outcome,
    require_shallow_commits,
    table_exists,
)


def test_the_outcome_is_found_forward_of_the_claims_target_version(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1)})
    kill_claim(folder, 12)
    commit(folder, 2, {hour(1): rows_of(2)})
    ends = [outcome(folder, claim, after_version=0) for claim in (1, 12, 2, 3)]
    assert [(end.kind, end.version) for end in ends] == [
        ("data", 1),
        ("killed", 2),
        ("data", 3),
        ("none", -1),
    ]
    assert outcome(folder, 1, after_version=1).kind == "none"
    assert outcome(folder, 1, after_version=-1).version == 1


def test_a_claim_is_found_backward_from_the_head(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    for claim in range(1, 6):
        commit(folder, claim, {hour(claim): rows_of(claim)})
    assert find_claim(folder, 2, newest=5).version == 2
    assert find_claim(folder, 22, newest=5).kind == "none"


def test_one_claims_number_within_anothers_is_not_mistaken(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 123, {hour(0): rows_of(1)})
    for claim in (1, 12, 23, 1234):
        assert outcome(folder, claim, after_version=-1).kind == "none"


def test_an_outcome_that_was_cleaned_away_is_not_guessed(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    for claim in range(1, 13):
        commit(folder, claim, {hour(claim): rows_of(claim)})
    for number in range(10):
        Path(folder, "_delta_log", f"{number:020d}.json").unlink()
    assert json.loads(Path(folder, "_delta_log", "_last_checkpoint").read_text())["version"] == 10
    with pytest.raises(WaterclockError, match="E621 the outcome of claim 3 cannot be determined"):
        outcome(folder, 3, after_version=2)
    assert outcome(folder, 10, after_version=9).version == 10
    assert head(folder) == 12
    with pytest.raises(WaterclockError, match="E621 claim 3 was used"):
        commit(folder, 3, {hour(30): rows_of(1)})


def test_the_head_is_the_newest_version(tmp_path: Path) -> None:
    assert head(str(tmp_path)) == -1
    assert not table_exists(str(tmp_path))
    folder = new_table(tmp_path)
    assert (head(folder), table_exists(folder)) == (0, True)
    for claim in range(1, 25):
        commit(folder, claim, {hour(claim): rows_of(claim)})
    assert head(folder) == head(folder, after_version=7) == 24


def test_a_commit_that_is_not_ours_is_found(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1, 2, 3)}, files=3)
    kill_claim(folder, 2)
    DeltaTable(folder).optimize.compact()
    write_deltalake(folder, pa.table({"timelabel": ["x"], "id": [9], "name": ["z"]}, schema=SCHEMA), mode="append")
    DeltaTable(folder).delete("id = 9")
    found = foreign_commits(folder, after_version=0, project=PROJECT)
    assert [(commit_.version, commit_.operation) for commit_ in found] == [(4, "WRITE"), (5, "DELETE")]
    assert foreign_commits(folder, after_version=5, project=PROJECT) == []
    assert [commit_.version for commit_ in foreign_commits(folder, after_version=0, project="bank")] == [1, 4, 5]


def test_commits_are_checked_once_however_often_their_table_is_opened(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    for claim in range(1, 4):
        commit(folder, claim, {hour(claim): rows_of(claim)})
    require_shallow_commits(folder)
    _, reads = calls_named(lambda: require_shallow_commits(folder), "read_bytes")
    assert reads == 0
    path = commit_file(folder, 3)
    path.write_bytes(path.read_bytes())  # as a log that was restored
    _, reads = calls_named(lambda: require_shallow_commits(folder), "_read_commit")
    assert reads == 1


def test_the_brackets_of_a_commit_with_many_files_are_only_counted(tmp_path: Path) -> None:
    path = tmp_path / "commit.json"
    path.write_text("\n".join(json.dumps({"add": {"path": str(at), "tags": {}}}) for at in range(1_000)))
    actions, scans = calls_named(lambda: actions_of(path), "finditer")
    assert (len(actions), scans) == (1_000, 0)
