"""A table whose log was created again is not read before its rows are restored."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ledgers import flow, table
from tests.slices import PROJECT, SCHEMA, TABLE, commit, hour, new_table, rows_of, schema_json
from waterclock.engine.damage import (
    damage_error,
    damaged_file,
    find_log_errors,
    reporting_damage,
    require_log,
    require_versions,
)
from waterclock.errors import WaterclockError
from waterclock.storage.commit.pointers import kill_claim
from waterclock.storage.commit.rebuild import move_log, recreate
from waterclock.storage.lake import Lake
from waterclock.storage.log.delta_log import damaged_log
from waterclock.storage.log.live_files import damaged_file_error

KNOWN = 3


def work_with(root: Path, record: Any, known: Iterable[int]) -> Any:
    reads = SimpleNamespace(
        tables=lambda: [record],
        table=lambda _: record,
        find_table=lambda _: record,
        unknown_claims=lambda numbers: frozenset(numbers) - frozenset(known),
    )
    flow = SimpleNamespace(project=PROJECT)
    return SimpleNamespace(lake=Lake(str(root)), ledger=SimpleNamespace(reads=reads), flow=flow)


def test_batches_of_claims_that_the_ledger_does_not_know_say_that_it_is_an_older_copy(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 7, {hour(1): rows_of(1)})
    version = commit(folder, 8, {hour(2): rows_of(2)})
    kill_claim(folder, 9)
    record: Any = SimpleNamespace(name=TABLE, head_version=version - 1)
    require_log(work_with(tmp_path, record, known={7, 8}), TABLE)  # committed, and not recorded yet
    require_log(work_with(tmp_path, SimpleNamespace(name=TABLE, head_version=version), known={7, 8}), TABLE)
    with pytest.raises(WaterclockError, match="E758") as refused:
        require_log(work_with(tmp_path, record, known={7}), TABLE)
    assert "claim 8" in (refused.value.why or "")
    assert list(find_log_errors(work_with(tmp_path, record, known={7}))) == [TABLE]
    other = work_with(tmp_path, record, known={7})
    other.flow.project = "another"
    require_log(other, TABLE)  # the owner of the table is checked elsewhere


def test_a_rebuild_that_was_broken_off_is_refused_and_its_claims_can_be_settled(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    move_log(folder, "now")
    recreate(folder, schema_json(SCHEMA), is_partitioned=False, project=PROJECT, above=KNOWN)
    record: Any = SimpleNamespace(name=TABLE, head_version=KNOWN)
    work = work_with(tmp_path, record, known=())
    for _ in range(2):
        with pytest.raises(WaterclockError, match="E754") as refused:
            require_log(work, TABLE)
        assert refused.value.what == "the log of web.clicks was recreated, but its rows are missing"
        require_versions(work, TABLE)
        kill_claim(folder, 7)


@pytest.mark.parametrize("is_recreated", [True, False])
def test_a_borrowed_log_that_its_base_recreated_or_put_back_is_a_change_of_the_base(
    tmp_path: Path, *, is_recreated: bool
) -> None:
    folder = new_table(tmp_path / "prod")
    if is_recreated:
        move_log(folder, "now")
        recreate(folder, schema_json(SCHEMA), is_partitioned=False, project=PROJECT, above=KNOWN)
    work = work_with(tmp_path, SimpleNamespace(name=TABLE, head_version=KNOWN), known=())
    work.lake = Lake(str(tmp_path / "branch"), folders={TABLE: folder})
    work.project = SimpleNamespace(env="try", bases=(SimpleNamespace(env="prod"),))
    with pytest.raises(WaterclockError, match="E475") as refused:
        require_log(work, TABLE)
    assert "`waterclock branch delete try`" in (refused.value.fix or "")


def test_a_file_that_could_not_be_fetched_is_not_damaged() -> None:
    lake = Lake("s3://lake/flights")
    path = "stage/y=2013/m=01/d=01/h=00/n=00/c=7/part-0.parquet"
    read = (
        f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file s3://lake/flights/tables/web/clicks/{path}."
    )
    away = "Unable to execute HTTP request: The target server failed to respond (SDK Attempt Count: 4)"
    found = damaged_file(lake, OSError(f"{read} is not a Parquet file"))
    assert found is not None
    assert found.table == "web.clicks"
    assert damaged_file(lake, OSError(f"{read} {away}")) is None


def test_an_error_that_is_its_own_cause_is_examined_once(tmp_path: Path) -> None:
    error = WaterclockError("E730", "wrong")
    error.__cause__ = error
    assert damaged_file(Lake(str(tmp_path)), error) is None


RENAMED = {"web.visits": "tables/web/clicks", "web.clicks": "tables/web/clicks.2"}


@pytest.mark.parametrize(
    ("folder", "table"), [("web/clicks", "web.visits"), ("web/clicks.2", "web.clicks"), ("web/other", "web.other")]
)
def test_damage_in_the_folder_of_a_renamed_table_is_that_of_its_current_name(folder: str, table: str) -> None:
    """Otherwise its fix would name no table, or one that has the former name since."""
    lake = Lake("/lake", folders=RENAMED)
    path = "_stage/y=2020/m=01/d=01/h=00/n=00/c=7"
    error = WaterclockError("E605", "the slice is damaged", where=f"/lake/tables/{folder}/{path}")
    place = damaged_file(lake, error)
    assert place is not None
    assert (place.table, place.slice_path) == (table, path)


def test_a_damaged_log_of_a_renamed_table_is_made_again_by_its_current_name() -> None:
    lake = Lake("/lake", folders=RENAMED)
    work: Any = SimpleNamespace(lake=lake, flow=flow(table("web.visits"), table("web.clicks")))
    where = "/lake/tables/web/clicks/_delta_log/00000000000000000004.json"
    found = damage_error(work, damaged_log("/lake/tables/web/clicks", where, "the commit is empty"))
    assert found is not None
    assert (found.code, found.why) == ("E643", "the commit is empty")
    assert "`waterclock rebuild web.visits`" in str(found.fix)


SLICE_OF_CLAIM_7 = "_stage/y=2018/m=03/d=05/h=08/n=00/c=7"


def _raised_by_a_query(root: Path, error: Exception) -> BaseException:
    """Return the error that a query reports if a read raises `error`, and the current slice is of another claim."""
    current = SimpleNamespace(label=hour(0), slice_path=SLICE_OF_CLAIM_7.replace("c=7", "c=8"))
    reads = SimpleNamespace(slices=lambda *_: [current])
    work: Any = SimpleNamespace(
        lake=Lake(str(root)), ledger=SimpleNamespace(reads=reads), flow=flow(table(TABLE, every="hour"))
    )

    @reporting_damage
    def read(_: Any) -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        read(work)
    return raised.value


def test_a_damaged_file_of_an_earlier_revision_names_it_and_a_fix(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    path = f"{SLICE_OF_CLAIM_7}/part-0.parquet"
    found = _raised_by_a_query(tmp_path, damaged_file_error(folder, path, 4, 700))
    assert isinstance(found, WaterclockError)
    assert (found.code, found.where) == ("E605", f"tables/web/clicks/{path}")
    assert found.what == "web.clicks@20180305080000 is damaged: its revision of claim 7"
    assert found.why == "part-0.parquet has 4 bytes, but was written with 700 bytes"
    assert (found.fix or "").startswith("restore the file from a backup: no command makes the rows of an earlier")


def test_a_state_that_is_no_longer_kept_keeps_its_error(tmp_path: Path) -> None:
    error = WaterclockError("E640", "gone", where=f"{new_table(tmp_path)}/{SLICE_OF_CLAIM_7}")
    assert _raised_by_a_query(tmp_path, error) is error


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (
            "java.io.FileNotFoundException: File file:/prod/tables/raw/a/_stage/c=7/x.parquet does not exist",
            "x.parquet",
        ),
        ("file not found: /prod/tables/raw/a/_stage/c=7/_manifest.json", "_manifest.json"),
        ("file not found: /prod/tables/raw/ab/_stage/c=7/x.parquet", None),
        ("the job was cancelled: /prod/tables/raw/a/_stage/c=7/x.parquet", None),
    ],
)
def test_a_missing_file_that_a_branch_borrows_names_the_branch(text: str, path: str | None) -> None:
    lake = Lake("/branch", folders={"raw.a": "/prod/tables/raw/a"})
    project = SimpleNamespace(env="try", bases=(SimpleNamespace(env="prod"),))
    work: Any = SimpleNamespace(lake=lake, flow=flow(table("raw.a")), project=project)
    found = damage_error(work, RuntimeError(text))
    if path is None:
        assert found is None
        return
    assert found is not None
    assert (found.code, found.where) == ("E475", f"/prod/tables/raw/a/_stage/c=7/{path}")
    assert found.what == "prod has removed rows of raw.a that the branch try borrows"
    assert "`waterclock branch delete try`" in str(found.fix)


@pytest.mark.parametrize(("version", "code"), [(2, "E475"), (3, "E643")])
def test_a_log_that_its_base_has_shortened_is_no_damage(tmp_path: Path, version: int, code: str) -> None:
    folder = tmp_path / "prod" / "tables" / "raw" / "a"
    (folder / "_delta_log").mkdir(parents=True)
    (folder / "_delta_log" / f"{3:020d}.json").touch()
    lake = Lake(str(tmp_path / "branch"), folders={"raw.a": str(folder)})
    project = SimpleNamespace(env="try", bases=(SimpleNamespace(env="prod"),))
    ledger = SimpleNamespace(reads=SimpleNamespace(table=lambda _: SimpleNamespace(head_version=version)))
    work: Any = SimpleNamespace(lake=lake, flow=flow(table("raw.a")), project=project, ledger=ledger)
    error = WaterclockError("E643", "the log is damaged", where=f"{folder}/_delta_log", why="no files in log segment")
    found = damage_error(work, error) or error
    assert found.code == code


def test_a_missing_file_behind_a_link_of_a_branch_is_that_of_its_base(tmp_path: Path) -> None:
    place = tmp_path / "tables" / "raw" / "b" / "_stage" / "y=2018" / "m=03" / "d=05" / "h=08" / "n=00" / "c=7"
    place.mkdir(parents=True)
    (place / "x.parquet").symlink_to(tmp_path / "gone.parquet")
    lake = Lake(str(tmp_path), folders={"raw.a": "/prod/tables/raw/a", "raw.b": "tables/raw/b"})
    project = SimpleNamespace(env="try", bases=(SimpleNamespace(env="prod"),))
    work: Any = SimpleNamespace(lake=lake, flow=flow(table("raw.a"), table("raw.b")), project=project)
    found = damage_error(work, FileNotFoundError(f"file not found: {place / 'x.parquet'}"))
    assert found is not None
    assert (found.code, found.where) == ("E475", str(place / "x.parquet"))
