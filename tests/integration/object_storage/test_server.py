"""The S3 server of the tests handles refusals and races as S3 does."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from tests.s3 import server, start_server

pytestmark = pytest.mark.slow


def test_another_secret_is_refused() -> None:
    table = f"{server().url(server().new_bucket())}/t"
    write_deltalake(table, pa.table({"x": [1]}), storage_options=server().for_delta())
    with pytest.raises(OSError, match="403"):
        DeltaTable(table, storage_options=server().for_delta(secret="another"))
    assert DeltaTable(table, storage_options=server().for_delta()).version() == 0


def test_of_commits_that_race_none_is_lost() -> None:
    table = f"{server().url(server().new_bucket())}/t"
    options = server().for_delta()
    write_deltalake(table, pa.table({"x": [0]}), storage_options=options)
    seen = [DeltaTable(table, storage_options=options) for _ in range(8)]

    def append(number: int) -> bool:
        fresh = seen[number]
        try:
            fresh.create_write_transaction(
                [], mode="append", schema=fresh.schema(), partition_by=[],
                commit_properties=None, post_commithook_properties=None,
            )  # fmt: skip
        except CommitFailedError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = sum(pool.map(append, range(8)))
    assert DeltaTable(table, storage_options=options).version() == won > 0


def test_requests_are_counted() -> None:
    bucket = server().new_bucket()
    write_deltalake(f"{server().url(bucket)}/t", pa.table({"x": [1]}), storage_options=server().for_delta())
    assert f"PutObject /{bucket}/t/_delta_log/00000000000000000000.json 200" in server().requests()


def test_a_restarted_server_still_has_its_objects() -> None:
    own = start_server()
    try:
        table = f"{own.url(own.new_bucket())}/t"
        write_deltalake(table, pa.table({"x": [1]}), storage_options=own.for_delta())
        own.stop()
        own.start()
        assert DeltaTable(table, storage_options=own.for_delta()).version() == 0
    finally:
        own.stop()
        shutil.rmtree(own.folder)
