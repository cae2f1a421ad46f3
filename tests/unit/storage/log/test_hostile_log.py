"""Commits of other programs with arbitrary content are reported, and crash nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.slices import commit, hour, identity, new_table, rows_of
from waterclock.errors import WaterclockError
from waterclock.storage.commit.foreign_changes import foreign_change
from waterclock.storage.log.commit_history import read_new_commits
from waterclock.storage.log.delta_log import commit_file, foreign_commits
from waterclock.storage.log.identity import KEY, identity_in
from waterclock.storage.log.live_files import open_kept_version
from waterclock.storage.log.open_tables import open_table

DEEP = "[" * 200_000 + "]" * 200_000


def _write(folder: str, version: int, text: str) -> None:
    commit_file(folder, version).write_text(text + "\n", encoding="utf-8")


def test_a_commit_that_is_nested_too_deep_does_not_end_the_process(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    before = commit(folder, 1, {hour(0): rows_of(1)})
    _write(folder, before + 1, DEEP)  # delta-rs ends the process with SIGSEGV
    script = (
        "import sys\n"
        "from waterclock.errors import WaterclockError\n"
        "from waterclock.storage.log.open_tables import open_table\n"
        "try:\n"
        "    with open_table(sys.argv[1]): pass\n"
        "except WaterclockError as error:\n"
        "    print(error.code, error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script, folder], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-300:]
    assert "E643" in ran.stdout
    assert f"{before + 1:020d}.json is nested deeper than 1,000 levels" in ran.stdout


def test_only_versions_after_the_deep_commit_cannot_be_opened(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    before = commit(folder, 1, {hour(0): rows_of(1)})
    with open_table(folder):
        pass
    _write(folder, before + 1, '{"add":{"path":"x","partitionValues":' + '{"a":' * 200_000 + "1" + "}" * 200_002)
    _write(folder, before + 2, '{"commitInfo":{}}')
    with pytest.raises(WaterclockError, match="nested deeper"), open_table(folder):
        pass
    assert open_kept_version(folder, before) is not None
    for version in (before + 1, before + 2):
        with pytest.raises(WaterclockError, match="nested deeper"):
            open_kept_version(folder, version)


@pytest.mark.parametrize(
    ("info", "at"),
    [
        ({"timestamp": 1_500_000_000_000}, datetime(2017, 7, 14, 2, 40, tzinfo=UTC)),
        ({"timestamp": "now"}, datetime(1970, 1, 1, tzinfo=UTC)),
        ({"timestamp": None}, datetime(1970, 1, 1, tzinfo=UTC)),
        ({"timestamp": 10**30}, datetime(1970, 1, 1, tzinfo=UTC)),
        ({"timestamp": [1], "operation": {"a": 1}, "userName": 5}, datetime(1970, 1, 1, tzinfo=UTC)),
        ({"userMetadata": [1]}, datetime(1970, 1, 1, tzinfo=UTC)),
        ({"userMetadata": "[" * 100_000}, datetime(1970, 1, 1, tzinfo=UTC)),
        ({"userMetadata": '{"waterclock": [1, 2]}'}, datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_odd_information_of_a_foreign_commit_is_shown_as_far_as_it_can_be(
    tmp_path: Path, info: dict[str, Any], at: datetime
) -> None:
    folder = new_table(tmp_path)
    before = commit(folder, 1, {hour(0): rows_of(1)})
    added = {"path": "x", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    _write(folder, before + 1, "\n".join(map(json.dumps, ({"commitInfo": info}, {"add": added}))))
    found = foreign_commits(folder, after_version=before, project="shop")
    assert [each.at for each in found] == [at]
    assert [each.at for each in read_new_commits(folder, before).found] == [at]
    refused = foreign_change(folder, "raw.sales", project="shop", after_version=before)
    assert refused is not None
    assert refused.code == "E751"


@pytest.mark.parametrize("line", ['{"commitInfo": [1]}', '{"add": 5}', '{"txn": "a"}', '{"remove": null}', "[1]"])
def test_an_action_that_is_no_object_is_damage(tmp_path: Path, line: str) -> None:
    folder = new_table(tmp_path)
    before = commit(folder, 1, {hour(0): rows_of(1)})
    _write(folder, before + 1, line)
    with pytest.raises(WaterclockError, match="an action of the commit is not a JSON object") as caught:
        foreign_commits(folder, after_version=before, project="shop")
    assert caught.value.code == "E643"


@pytest.mark.parametrize(
    "part", [{"claim": "1"}, {"claim": True}, {"labels": 5}, {"labels": [1]}, {"table": None}, {"stands_from": 3}]
)
def test_an_identity_of_wrong_types_is_not_ours(part: dict[str, Any]) -> None:
    said = json.loads(identity(1, hour(0)).to_json())
    assert identity_in({"userMetadata": json.dumps(said)}) == identity(1, hour(0))
    said[KEY] |= part
    assert identity_in({"userMetadata": json.dumps(said)}) is None
