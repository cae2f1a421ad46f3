"""Rows shown by pointers to sealed slices, and the rules M1 to M6 of docs/decisions/commits-are-pointers.md."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.transaction import CommitProperties

from tests.slices import (
    PROJECT,
    SCHEMA,
    actions,
    commit,
    hour,
    identity,
    ids,
    new_table,
    rows_of,
    schema_json,
    sealed,
    version,
)
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.storage.commit.change import NeedsSpark
from waterclock.storage.commit.creation import create_table
from waterclock.storage.commit.pointers import commit_nothing, commit_older, commit_slices, kill_claim
from waterclock.storage.log.delta_log import foreign_commits, outcome
from waterclock.storage.log.identity import ClaimKilledError

both_types = pytest.mark.parametrize("is_partitioned", [False, True])


@both_types
def test_every_label_is_shown_once_it_is_committed(tmp_path: Path, is_partitioned: bool) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    assert commit(folder, 1, {hour(0): rows_of(1, 2)}) == 1
    assert commit(folder, 2, {hour(1): rows_of(3)}, files=1) == 2
    assert ids(folder) == [1, 2, 3]


@both_types
def test_a_restated_label_replaces_its_own_rows_alone(tmp_path: Path, is_partitioned: bool) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    commit(folder, 1, {hour(0): rows_of(1, 2), hour(1): rows_of(3)}, files=2)
    commit(folder, 2, {hour(0): rows_of(9)})
    assert ids(folder) == [3, 9]
    assert len(DeltaTable(folder).file_uris()) == 2


@both_types
def test_a_restated_slice_without_rows_empties_its_label(tmp_path: Path, is_partitioned: bool) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    commit(folder, 1, {hour(0): rows_of(1, 2), hour(1): rows_of(3)})
    assert commit(folder, 2, {hour(0): []}) == 2
    assert ids(folder) == [3]


@both_types
def test_a_first_slice_without_rows_is_still_a_commit(tmp_path: Path, is_partitioned: bool) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    assert commit(folder, 1, {hour(0): []}) == 1
    assert outcome(folder, 1, after_version=-1).kind == "data"
    assert ids(folder) == []


def test_many_labels_share_one_commit(tmp_path: Path) -> None:
    folder = new_table(tmp_path, is_partitioned=True)
    assert commit(folder, 1, {hour(n): rows_of(n) for n in range(24)}) == 1
    assert commit(folder, 2, {hour(n): rows_of(100 + n) for n in range(0, 24, 2)}) == 2
    assert ids(folder) == [*range(1, 24, 2), *range(100, 124, 2)]


def test_replace_shows_the_new_state_alone(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1, 2)}, mode="replace")
    commit(folder, 2, {hour(1): rows_of(3)}, mode="replace", files=1)
    assert ids(folder) == [3]
    commit(folder, 3, {hour(2): []}, mode="replace")
    assert ids(folder) == []


def test_an_older_replace_state_is_pointed_at_and_the_head_stays(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(2): rows_of(1, 2)}, mode="replace")
    wide = SCHEMA.append(pa.field("seats", pa.int64()))
    older = sealed(folder, hour(1), 2, [{"id": 9, "name": "n", "seats": 3}], schema=wide)
    made = commit_older(folder, identity(2, hour(1)), older)
    assert [kind for action in actions(folder, made) for kind in action] == ["commitInfo", "txn"]
    assert ids(folder) == [1, 2]
    assert [field.name for field in DeltaTable(folder).schema().fields] == ["timelabel", "id", "name", "seats"]
    assert commit_older(folder, identity(2, hour(1)), older) == made == version(folder)
    kill_claim(folder, 3)
    with pytest.raises(ClaimKilledError):
        commit_older(folder, identity(3, hour(1)), older)


@both_types
def test_a_claim_is_committed_once(tmp_path: Path, is_partitioned: bool) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    manifest = sealed(folder, hour(0), 1, rows_of(1))
    assert commit_slices(folder, identity(1, hour(0)), [manifest], mode="append") == 1
    commit(folder, 2, {hour(1): rows_of(2)})
    assert commit_slices(folder, identity(1, hour(0)), [manifest], mode="append") == 1
    assert version(folder) == 2


@both_types
def test_data_after_the_kill_is_refused(tmp_path: Path, is_partitioned: bool) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    kill_claim(folder, 1)
    manifest = sealed(folder, hour(0), 1, rows_of(1))
    with pytest.raises(ClaimKilledError) as refused:
        commit_slices(folder, identity(1, hour(0)), [manifest], mode="append")
    assert refused.value.claim == 1
    assert ids(folder) == []


def test_a_kill_after_the_data_changes_nothing(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1)})
    kill_claim(folder, 1)
    kill_claim(folder, 1)
    assert (version(folder), ids(folder)) == (1, [1])
    assert outcome(folder, 1, after_version=0).kind == "data"


def test_a_kill_between_the_check_and_the_commit_wins(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    manifest = sealed(folder, hour(0), 1, rows_of(1))
    with (
        inject_faults(_once("looked", lambda: _commit_elsewhere(folder, "waterclock:1", kill_of=1))),
        pytest.raises(ClaimKilledError),
    ):
        commit_slices(folder, identity(1, hour(0)), [manifest], mode="append")
    assert ids(folder) == []


def test_m1_a_commit_prepared_on_an_older_version_is_refused_and_checked_again(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1, 2, 3, 4)}, files=4)
    late = sealed(folder, hour(0), 2, rows_of(9))
    # delta-rs's own retries would accept this, and the joined file and the new one would both show the label
    with inject_faults(_once("looked", DeltaTable(folder).optimize.compact)), pytest.raises(NeedsSpark):
        commit_slices(folder, identity(2, hour(0)), [late], mode="append")
    assert ids(folder) == [1, 2, 3, 4]


def test_m1_compaction_of_a_partition_leaves_its_label_replaceable(tmp_path: Path) -> None:
    folder = new_table(tmp_path, is_partitioned=True)
    commit(folder, 1, {hour(0): rows_of(1, 2, 3, 4), hour(1): rows_of(5, 6)}, files=2)
    late = sealed(folder, hour(0), 2, rows_of(9))
    with inject_faults(_once("looked", DeltaTable(folder).optimize.compact)):
        assert commit_slices(folder, identity(2, hour(0)), [late], mode="append") == 3
    assert ids(folder) == [5, 6, 9]


def test_m2_the_claims_id_carries_its_time(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1)})
    kill_claim(folder, 2)
    for number in (1, 2):
        txn = next(action["txn"] for action in actions(folder, number) if "txn" in action)
        assert txn["version"] == 1
        assert txn["lastUpdated"] > 1_500_000_000_000


def test_m3_removed_files_are_kept_from_vacuum(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1)}, mode="replace")
    commit(folder, 2, {hour(1): rows_of(2)}, mode="replace")
    assert DeltaTable(folder).vacuum(dry_run=True, full=False) == []
    assert DeltaTable(folder).metadata().configuration["delta.deletedFileRetentionDuration"] == "interval 36500 days"


@both_types
def test_m5_a_slice_that_is_live_already_is_not_added_again(tmp_path: Path, is_partitioned: bool) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    manifest = sealed(folder, hour(0), 1, rows_of(1, 2), files=2)
    commit_slices(folder, identity(1, hour(0)), [manifest], mode="append")
    assert commit_slices(folder, identity(2, hour(0)), [manifest], mode="append") == 2
    assert [key for action in actions(folder, 2) for key in action if key in {"add", "remove"}] == []
    assert (ids(folder), outcome(folder, 2, after_version=1).kind) == ([1, 2], "data")


def test_m5_holds_for_replace_and_within_a_group(tmp_path: Path) -> None:
    folder = new_table(tmp_path / "replace")
    manifest = sealed(folder, hour(0), 1, rows_of(1))
    commit_slices(folder, identity(1, hour(0)), [manifest], mode="replace")
    commit_slices(folder, identity(2, hour(0)), [manifest], mode="replace")
    assert ids(folder) == [1]
    group = new_table(tmp_path / "group", is_partitioned=True)
    old = sealed(group, hour(0), 1, rows_of(1))
    commit_slices(group, identity(1, hour(0)), [old], mode="append")
    new = sealed(group, hour(1), 2, rows_of(2))
    commit_slices(group, identity(2, hour(0), hour(1)), [old, new], mode="append")
    assert ids(group) == [1, 2]


def test_m5_of_a_slice_that_is_live_in_part_the_other_files_are_added(tmp_path: Path) -> None:
    for is_partitioned in (False, True):
        folder = new_table(tmp_path / str(is_partitioned), is_partitioned=is_partitioned)
        manifest = sealed(folder, hour(0), 1, rows_of(1, 2), files=2)
        commit_slices(folder, identity(1, hour(0)), [manifest], mode="append")
        DeltaTable(folder).delete("id = 1")
        commit_slices(folder, identity(2, hour(0)), [manifest], mode="append")
        assert ids(folder) == [1, 2]


def test_m6_files_are_removed_as_they_are_live_with_their_true_size(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    old = sealed(folder, hour(0), 1, rows_of(1, 2, 3))
    commit_slices(folder, identity(1, hour(0)), [old], mode="append")
    commit(folder, 2, {hour(0): rows_of(4)})
    removed = [action["remove"] for action in actions(folder, 2) if "remove" in action]
    assert [(action["path"], action["size"]) for action in removed] == [(old.files[0].path, old.files[0].size)]


def test_m6_a_label_whose_files_were_joined_with_others_is_left_to_spark(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    for number in range(3):
        commit(folder, number + 1, {hour(number): rows_of(number)})
    DeltaTable(folder).optimize.compact()
    late = sealed(folder, hour(1), 9, rows_of(100))
    with pytest.raises(NeedsSpark, match="together with rows of other labels"):
        commit_slices(folder, identity(9, hour(1)), [late], mode="append")
    assert commit(folder, 10, {hour(3): rows_of(3)}) == 5
    assert ids(folder) == [0, 1, 2, 3]


def test_new_columns_widen_the_table_and_show_null_before(tmp_path: Path) -> None:
    wider = SCHEMA.append(pa.field("age", pa.int32()))
    for is_partitioned in (False, True):
        folder = new_table(tmp_path / str(is_partitioned), is_partitioned=is_partitioned)
        commit(folder, 1, {hour(0): rows_of(1)})
        manifest = sealed(folder, hour(1), 2, [{"id": 2, "name": "x", "age": 7}], schema=wider)
        commit_slices(folder, identity(2, hour(1)), [manifest], mode="append")
        shown = pa.table(DeltaTable(folder).to_pyarrow_table()).sort_by("id")
        assert shown.column("age").to_pylist() == [None, 7]
        assert foreign_commits(folder, after_version=0, project=PROJECT) == []


def test_the_tables_schema_stays_as_it_is_when_a_slice_lacks_a_column(tmp_path: Path) -> None:
    for mode in ("append", "replace"):
        folder = new_table(tmp_path / mode)
        commit(folder, 1, {hour(0): rows_of(1)}, mode=mode)
        narrow = pa.schema([SCHEMA.field("timelabel"), SCHEMA.field("id")])
        manifest = sealed(folder, hour(1), 2, [{"id": 2}], schema=narrow)
        commit_slices(folder, identity(2, hour(1)), [manifest], mode=mode)
        assert [field.name for field in DeltaTable(folder).schema().fields] == ["timelabel", "id", "name"]


def test_a_slice_of_other_types_is_refused_before_anything_is_committed(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    other = pa.schema([("timelabel", pa.string()), ("id", pa.string()), ("name", pa.string())])
    manifest = sealed(folder, hour(0), 1, [{"id": "1", "name": "x"}], schema=other)
    with pytest.raises(WaterclockError, match=r"E617 the slice does not fit web.clicks: column id is string"):
        commit_slices(folder, identity(1, hour(0)), [manifest], mode="append")
    assert version(folder) == 0


def test_a_null_in_a_not_null_column_is_refused(tmp_path: Path) -> None:
    strict = pa.schema([("timelabel", pa.string()), pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    folder = str(tmp_path / "t")
    DeltaTable.create(folder, strict, configuration={"waterclock.project": PROJECT}, raise_if_key_not_exists=False)
    manifest = sealed(folder, hour(0), 1, [{"id": None, "name": "x"}])
    with pytest.raises(WaterclockError, match=r"E616 web.clicks has NULL in id"):
        commit_slices(folder, identity(1, hour(0)), [manifest], mode="append")


def test_concurrent_creations_create_the_table_once(tmp_path: Path) -> None:
    folder = str(tmp_path / "t")
    errors: list[BaseException] = []

    def create() -> None:
        try:
            create_table(folder, schema_json(SCHEMA), is_partitioned=True, project=PROJECT)
        except BaseException as error:  # noqa: BLE001 - the test asserts on it
            errors.append(error)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (errors, version(folder)) == ([], 0)


def test_scenario_o_another_projects_table_is_refused_naming_its_owner(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    with pytest.raises(WaterclockError, match="E601 the table belongs to project shop") as refused:
        create_table(folder, schema_json(SCHEMA), is_partitioned=False, project="bank")
    assert "project bank may not write it" in str(refused.value)
    manifest = sealed(folder, hour(0), 1, rows_of(1))
    with pytest.raises(WaterclockError, match="E601"):
        commit_slices(folder, identity(1, hour(0), project="bank"), [manifest], mode="append")


def test_a_table_of_no_project_is_refused(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path / "t"), SCHEMA)
    with pytest.raises(WaterclockError, match="E601 the table does not belong to a project"):
        create_table(str(tmp_path / "t"), schema_json(SCHEMA), is_partitioned=False, project=PROJECT)


def test_a_table_partitioned_otherwise_is_refused(tmp_path: Path) -> None:
    folder = new_table(tmp_path, is_partitioned=True)
    with pytest.raises(WaterclockError, match="E624 the table is partitioned by timelabel, not by nothing"):
        create_table(folder, schema_json(SCHEMA), is_partitioned=False, project=PROJECT)


def test_timelabel_is_the_first_column_whatever_the_query_brings(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("TimeLabel", pa.string())])
    folder = new_table(tmp_path, is_partitioned=True, schema=schema)
    assert [field.name for field in DeltaTable(folder).schema().fields] == ["timelabel", "id"]


def test_constraints_and_unknown_features_are_left_to_spark(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    DeltaTable(folder).alter.add_constraint({"positive": "id > 0"})
    manifest = sealed(folder, hour(0), 1, rows_of(1))
    with pytest.raises(NeedsSpark, match=r"checkConstraints|delta.constraints.positive"):
        commit_slices(folder, identity(1, hour(0)), [manifest], mode="append")


def test_a_commit_records_its_project_table_claim_and_labels(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 7, {hour(0): rows_of(1)})
    info = next(action["commitInfo"] for action in actions(folder, 1) if "commitInfo" in action)
    said = json.loads(info["userMetadata"])["waterclock"]
    assert (said["project"], said["table"], said["claim"], said["labels"]) == (
        PROJECT,
        "web.clicks",
        7,
        ["20180305080000"],
    )
    assert outcome(folder, 7, after_version=0).identity == identity(7, hour(0))


def test_an_empty_commit_contains_the_claims_id(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    assert commit_nothing(folder, identity(1, hour(0))) == 1
    assert outcome(folder, 1, after_version=0).kind == "data"


def test_a_table_created_again_in_the_same_folder_is_recognized_as_another_one(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1)})
    shutil.rmtree(folder)
    with pytest.raises(WaterclockError, match="E623"):
        kill_claim(folder, 2)
    new_table(tmp_path)
    assert commit(folder, 3, {hour(0): rows_of(2)}) == 1
    assert ids(folder) == [2]


def test_the_table_can_be_moved_whole(tmp_path: Path) -> None:
    folder = new_table(tmp_path / "here", is_partitioned=True)
    commit(folder, 1, {hour(0): rows_of(1), hour(1): rows_of(2)})
    moved = str(tmp_path / "there")
    shutil.move(folder, moved)
    commit(moved, 2, {hour(0): rows_of(3)})
    assert ids(moved) == [2, 3]


def _once(point: str, act: Any) -> Any:
    """Call a function at the first passing of a fault point."""
    passed: list[str] = []

    def strike(name: str) -> None:
        if name == point and not passed:
            passed.append(name)
            act()

    return strike


def _commit_elsewhere(folder: str, app_id: str, *, kill_of: int) -> None:
    """Kill a claim as another process would, bypassing the table that this process keeps open."""
    from deltalake.transaction import Transaction

    from waterclock.storage.log.identity import Identity

    assert app_id == f"waterclock:{kill_of}"
    table = DeltaTable(folder)
    table.create_write_transaction(
        [],
        "append",
        table.schema(),
        commit_properties=CommitProperties(
            custom_metadata={"userMetadata": Identity.for_kill(kill_of, project=PROJECT).to_json()},
            app_transactions=[Transaction(app_id, 1, int(time.time() * 1000))],
        ),
    )


@pytest.mark.slow
def test_a_log_entry_that_was_written_and_cleaned_up_is_not_overwritten(tmp_path: Path) -> None:
    folder = new_table(tmp_path, is_partitioned=True)
    waiting = sealed(folder, hour(0), 1, rows_of(1, 2))
    passed: list[str] = []
    work = (
        "import sys; from tests.slices import commit, hour, rows_of; folder = sys.argv[1]\n"
        "for claim in (2, 3): commit(folder, claim, {hour(claim): rows_of(claim)})\n"
        "from deltalake import DeltaTable; DeltaTable(folder).create_checkpoint()"
    )

    def others_come(point: str) -> None:
        if point != "looked" or passed:
            return
        passed.append(point)
        # another process, because in this one only one thread at a time uses the table
        subprocess.run([sys.executable, "-c", work, folder], check=True, timeout=60, cwd=Path(__file__).parents[4])
        for number in (0, 1):
            Path(folder, "_delta_log", f"{number:020d}.json").unlink()

    with inject_faults(others_come):
        made = commit_slices(folder, identity(1, hour(0)), [waiting], mode="append")
    assert made == 3
    assert ids(folder) == [1, 2, 2, 3]
    assert commit_slices(folder, identity(1, hour(0)), [waiting], mode="append") == made


def test_other_users_cannot_read_a_table_whatever_its_storage_and_the_umask_are(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    before = os.umask(0o022)
    try:
        create_table(
            str(tmp_path / "tables" / "shop" / "orders"), schema_json(SCHEMA), is_partitioned=True, project="p"
        )
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "tables").stat().st_mode) == 0o700
