"""Tables in a bucket, without Spark: a process with an open table sees the changes of other processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import Schema

from tests.s3 import server
from tests.s3_refusing import Refusing, refusing_server
from tests.stores import fresh_bucket
from waterclock.engine.spark.errors import to_error
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import arrow_target, entry_path, make_folder, put_if_absent, remove_folder
from waterclock.files.object_stores import register_bucket
from waterclock.storage.commit import creation
from waterclock.storage.commit.creation import create_table
from waterclock.storage.commit.pointers import commit_slices, commit_state
from waterclock.storage.commit.rebuild import recreate
from waterclock.storage.log import open_tables
from waterclock.storage.log.identity import Identity
from waterclock.storage.log.open_tables import open_table
from waterclock.storage.slices import read

SCHEMA = Schema.from_arrow(pa.schema([("timelabel", pa.string()), ("id", pa.int64())])).to_json()


@pytest.fixture(params=["here", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    root = str(tmp_path) if request.param == "here" else fresh_bucket()
    yield f"{root}/tables/a/b"
    open_tables.forget_open_table(f"{root}/tables/a/b")


def commit(folder: str, claim: int) -> str:
    """Commit a state of one file, and return its path."""
    with open_table(folder) as table:
        base = table.version
    path = f"state/c={claim}/v={base}"
    make_folder(entry_path(folder, path))
    with arrow_target(entry_path(folder, path, "part-0.parquet")) as sink:
        pq.write_table(pa.table({"timelabel": ["20200101000000"], "id": [claim]}), sink)
    identity = Identity("p", "a.b", "data", (), "", claim, "")
    assert commit_state(folder, identity, path, base=base) == base + 1
    return f"{path}/part-0.parquet"


def test_a_delta_log_recreated_by_another_process_is_detected(folder: str) -> None:
    make_folder(entry_path(folder))
    create_table(folder, SCHEMA, is_partitioned=False, project="p")
    commit(folder, 1)
    commit(folder, 2)
    with open_table(folder) as table:
        seen, kept = table.version, dict(open_tables._kept)
        assert len(table.files) == 1
    open_tables._kept.clear()  # act as another process
    remove_folder(entry_path(folder, "_delta_log"))
    recreate(folder, SCHEMA, is_partitioned=False, project="p", above=seen)
    last = commit(folder, 3)
    open_tables._kept.clear()
    open_tables._kept.update(kept)
    with open_table(folder) as table:
        assert list(table.files) == [last]


def test_an_empty_file_is_damage_however_a_version_is_read(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a bucket, the test covers only reads that look files up in a listing."""
    spark: Any = None  # the error is raised before Spark is used
    make_folder(entry_path(folder))
    create_table(folder, SCHEMA, is_partitioned=False, project="p")
    commit(folder, 1)
    path = commit(folder, 2)
    entry_path(folder, path).write_bytes(b"")
    ways: list[Callable[[], object]] = [lambda: read.try_frame_at_version(spark, folder, 2, is_partitioned=False)]
    if not folder.startswith("s3:"):
        ways.append(lambda: read.frame_at(spark, folder, 2, is_partitioned=False))
    for read_directly in (0, 9):
        monkeypatch.setattr(read, "FILES_READ_DIRECTLY", read_directly)
        for way in ways:
            with pytest.raises(WaterclockError, match="E605") as error:
                way()
            assert error.value.where == f"{folder}/{path}"


@pytest.mark.parametrize("version", [1, 2])
def test_an_empty_commit_is_a_damaged_log(tmp_path: Path, version: int) -> None:
    folder = str(tmp_path / "tables" / "a" / "b")
    make_folder(entry_path(folder))
    create_table(folder, SCHEMA, is_partitioned=False, project="p")
    for claim in (1, 2):
        commit(folder, claim)
    open_tables.forget_open_table(folder)
    empty = entry_path(folder, "_delta_log", f"{version:020d}.json")
    empty.write_bytes(b"")
    with pytest.raises(WaterclockError, match="E643") as error, open_table(folder):
        pass
    assert (error.value.where, error.value.why) == (str(empty), f"{empty.name} is empty")


CONFLICT = (409, "ConditionalRequestConflict")


@pytest.fixture
def refusing() -> Iterator[Refusing]:
    with refusing_server() as found:
        yield found


@pytest.fixture
def refused(refusing: Refusing, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the folder of a table in a bucket of a store that refuses configured requests."""
    monkeypatch.setattr(creation, "_PAUSE", 0)
    url = f"s3://{server().new_bucket()}"
    register_bucket(url, refusing.options())
    return f"{url}/tables/a/b"


@pytest.mark.parametrize("times", [2, 9])
def test_a_table_is_created_where_s3_was_at_another_such_put(refusing: Refusing, refused: str, times: int) -> None:
    refusing.refuse("PUT", "_delta_log", *CONFLICT, times=times)
    if times == 2:
        create_table(refused, SCHEMA, is_partitioned=False, project="p")
        assert len(refusing.refused) == 2
        return
    with pytest.raises(WaterclockError, match="E622") as error:
        create_table(refused, SCHEMA, is_partitioned=False, project="p")
    assert error.value.transient


def test_columns_are_added_where_s3_was_at_another_such_put(refusing: Refusing, refused: str) -> None:
    create_table(refused, SCHEMA, is_partitioned=False, project="p")
    refusing.refuse("PUT", "_delta_log", *CONFLICT, times=2)
    wide = Schema.from_arrow(
        pa.schema([("timelabel", pa.string()), ("id", pa.int64()), ("more", pa.int64())])
    ).to_json()
    assert commit_slices(refused, Identity("p", "a.b", "data", (), "", 1, ""), (), mode="append", schema=wide) == 2
    assert len(refusing.refused) == 2
    with open_table(refused) as table:
        assert "more" in table.schema


def test_a_request_timeout_of_the_store_is_a_transient_error(refusing: Refusing, refused: str) -> None:
    refusing.refuse("PUT", "", 400, "RequestTimeout")
    with pytest.raises(WaterclockError, match="E609 the object store cannot be reached") as told:
        put_if_absent(entry_path(refused, "any"), "x")
    assert told.value.transient
    refusing.refuse("PUT", "", 400, "RequestTimeout")
    with pytest.raises(OSError, match="RequestTimeout") as raised:
        create_table(refused, SCHEMA, is_partitioned=False, project="p")
    error = to_error(raised.value, where=refused)
    assert (error.code, error.transient) == ("E609", True)
