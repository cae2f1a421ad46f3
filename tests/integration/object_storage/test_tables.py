"""Tables in a bucket, without Spark: what a process that kept one open sees of what others did to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import Schema

from tests.stores import fresh_bucket
from waterclock.filesystem import at, make_folder, remove_folder, writable
from waterclock.storage.commit.creation import create_table
from waterclock.storage.commit.pointers import commit_state
from waterclock.storage.commit.rebuild import recreate
from waterclock.storage.log import open_tables
from waterclock.storage.log.identity import Identity
from waterclock.storage.log.open_tables import opened

SCHEMA = Schema.from_arrow(pa.schema([("timelabel", pa.string()), ("id", pa.int64())])).to_json()


@pytest.fixture(params=["here", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    root = str(tmp_path) if request.param == "here" else fresh_bucket()
    yield f"{root}/tables/a/b"
    open_tables.forget(f"{root}/tables/a/b")


def commit(folder: str, claim: int) -> str:
    """Commit a state of one file, and return its path."""
    with opened(folder) as table:
        base = table.version
    path = f"state/c={claim}/v={base}"
    make_folder(at(folder, path))
    with writable(at(folder, path, "part-0.parquet")) as sink:
        pq.write_table(pa.table({"timelabel": ["20200101000000"], "id": [claim]}), sink)
    identity = Identity("p", "a.b", "data", (), "", claim, "")
    assert commit_state(folder, identity, path, base=base) == base + 1
    return f"{path}/part-0.parquet"


def test_a_log_that_another_process_made_anew_is_seen(folder: str) -> None:
    make_folder(at(folder))
    create_table(folder, SCHEMA, is_partitioned=False, project="p")
    commit(folder, 1)
    commit(folder, 2)
    with opened(folder) as table:
        seen, kept = table.version, dict(open_tables._kept)
        assert len(table.files) == 1
    open_tables._kept.clear()  # what follows is another process's
    remove_folder(at(folder, "_delta_log"))
    recreate(folder, SCHEMA, is_partitioned=False, project="p", above=seen)
    last = commit(folder, 3)
    open_tables._kept.clear()
    open_tables._kept.update(kept)
    with opened(folder) as table:
        assert list(table.files) == [last]
