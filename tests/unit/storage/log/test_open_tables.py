"""A table that is followed commit by commit equals one that is opened again."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.counting import calls_of
from tests.slices import SCHEMA, commit, hour, identity, ids, new_table, rows_of, sealed
from waterclock.errors import WaterclockError
from waterclock.storage.commit.change import NeedsSpark
from waterclock.storage.commit.pointers import commit_slices, kill_claim
from waterclock.storage.log.open_tables import OpenTable, open_table

WIDER = SCHEMA.append(pa.field("age", pa.int32()))


def told(table: OpenTable) -> dict[str, object]:
    files = dict(table.files)
    labels = {file.label or path.rpartition("/")[0].rpartition("/")[0] for path, file in files.items()}
    return {
        "version": table.version,
        "schema": table.schema,
        "configuration": dict(table.configuration),
        "files": files,
        "places": {label: table.files_at(label) for label in labels},
        "outside": table.files_outside_stage(),
        "claims": [claim for claim in range(60) if table.has_claim(claim)],
    }


def history(folder: str, dice: random.Random) -> Iterator[str]:
    """Commit random changes, by us and by delta-rs, and yield a description after each one."""
    for claim in range(1, 41):
        label = hour(dice.randrange(6))
        what = dice.choice(["slice", "slice", "slice", "group", "kill", "joined", "widened", "nothing", "properties"])
        if what == "joined":
            DeltaTable(folder).optimize.compact()
        elif what == "kill":
            kill_claim(folder, claim)
        elif what == "properties":
            DeltaTable(folder).alter.set_table_properties({"delta.logRetentionDuration": f"interval {claim} days"})
        else:
            schema = WIDER if what == "widened" else SCHEMA
            labels = [label, hour(7 + claim)] if what == "group" else [label]
            rows = [] if what == "nothing" else rows_of(claim)
            manifests = [sealed(folder, each, claim, rows, schema=schema, files=2) for each in labels]
            try:
                commit_slices(folder, identity(claim, *labels), manifests, mode="append")
            except NeedsSpark:
                what = "refused"
        yield what


@pytest.mark.parametrize("is_partitioned", [False, True])
def test_a_followed_table_equals_a_newly_opened_one(tmp_path: Path, is_partitioned: bool) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    followed, dice = OpenTable(folder), random.Random(3)
    assert followed.files == {}
    for what in history(folder, dice):
        if dice.random() < 0.6:  # otherwise it follows several commits at once
            followed.follow()
            assert told(followed) == told(OpenTable(folder)), what
    assert followed.version > 15


def test_a_table_whose_unread_log_entries_were_cleaned_up_is_reopened(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    followed = OpenTable(folder)
    for claim in range(1, 13):
        commit(folder, claim, {hour(claim): rows_of(claim)})
    for number in range(10):
        Path(folder, "_delta_log", f"{number:020d}.json").unlink()
    followed.follow()
    assert told(followed) == told(OpenTable(folder))


def test_a_table_whose_log_was_restored_from_a_copy_is_reopened(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(1): rows_of(1)})
    shutil.copytree(Path(folder, "_delta_log"), tmp_path / "copy")
    commit(folder, 2, {hour(2): rows_of(2)})
    for path in Path(folder, "_delta_log").iterdir():
        path.unlink()
    shutil.copytree(tmp_path / "copy", Path(folder, "_delta_log"), dirs_exist_ok=True)
    with open_table(folder) as table:
        assert (table.version, len(table.files), table.has_claim(2)) == (1, 1, False)


def test_a_torn_commit_is_reported_and_read_again_once_it_is_repaired(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(1): rows_of(1)})
    with open_table(folder) as table:
        assert len(table.files) == 1
    commit(folder, 2, {hour(2): rows_of(2)})
    path = Path(folder, "_delta_log", f"{3:020d}.json")
    text = path.with_name(f"{2:020d}.json").read_bytes()
    path.write_bytes(text[:60])
    with pytest.raises(WaterclockError, match="E643"), open_table(folder):
        pass
    path.unlink()
    with open_table(folder) as table:
        assert (table.version, len(table.files)) == (2, 2)


def test_a_file_whose_name_needs_codes_is_live_and_replaced(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1)}, mode="replace")
    name = "a b%20ü.parquet"
    shutil.copy(next(Path(folder).rglob("*.parquet")), Path(folder, name))
    add = {"path": quote(name), "partitionValues": {}, "size": 7, "modificationTime": 1, "dataChange": True}
    path = Path(folder, "_delta_log", f"{2:020d}.json")
    path.write_text(json.dumps({"commitInfo": {"timestamp": 1}}) + "\n" + json.dumps({"add": add}))
    with open_table(folder) as table:
        assert name in table.files
    assert name in OpenTable(folder).files
    commit(folder, 3, {hour(1): rows_of(5)}, mode="replace")
    assert ids(folder) == [5]


def test_the_cost_of_a_commit_does_not_grow_with_the_number_of_files(tmp_path: Path) -> None:
    def cost(files: int) -> int:
        folder = new_table(tmp_path / str(files), is_partitioned=True)
        commit(folder, 1, {hour(number): rows_of(number) for number in range(files)})
        kill_claim(folder, 2)  # from here on, the existing commits are known
        manifest = sealed(folder, hour(0), 3, rows_of(9))
        return calls_of(lambda: commit_slices(folder, identity(3, hour(0)), [manifest], mode="append"))[1]

    few, many = cost(10), cost(200)
    assert many <= few + 10


def test_claims_are_found_in_a_checkpoint_of_parts(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    for claim in range(1, 12):
        commit(folder, claim, {hour(claim): rows_of(claim)})
    log = Path(folder, "_delta_log")
    whole = log / f"{10:020d}.checkpoint.parquet"
    found = OpenTable(folder)
    assert (found.has_claim(3), found.has_claim(11), found.has_claim(99)) == (True, True, False)
    whole.rename(log / f"{10:020d}.checkpoint.{1:010d}.{1:010d}.parquet")
    (log / "_last_checkpoint").write_text(json.dumps({"version": 10, "size": 24, "parts": 1}))
    for number in range(10):
        (log / f"{number:020d}.json").unlink()
    found = OpenTable(folder)
    assert (found.has_claim(3), found.has_claim(11), found.has_claim(99)) == (True, True, False)


def test_claims_are_found_where_an_older_checkpoint_is_named(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    for claim in range(1, 22):
        commit(folder, claim, {hour(claim): rows_of(claim)})
    log = Path(folder, "_delta_log")
    (log / "_last_checkpoint").write_text(json.dumps({"version": 10, "size": 24}))
    for number in range(21):
        (log / f"{number:020d}.json").unlink()
    found = OpenTable(folder)
    assert [found.has_claim(claim) for claim in (3, 15, 21, 99)] == [True, True, True, False]
