"""A table whose log was lost is rebuilt; an interrupted rebuild is distinguished from a complete table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.slices import PROJECT, SCHEMA, hour, identity, ids, new_table, rows_in, rows_of, schema_json, sealed
from waterclock.storage.commit.pointers import commit_slices
from waterclock.storage.commit.rebuild import move_log, rebuild_table_content, recreate
from waterclock.storage.log.delta_log import is_older_than, is_unfinished
from waterclock.storage.slices.read import table_schema

NO_SPARK: Any = None
KNOWN = 3


def test_a_table_that_kept_versions_gets_the_columns_that_only_its_slices_have(tmp_path: Path) -> None:
    shown = pa.schema([("timelabel", pa.string()), ("id", pa.int64()), ("rec_eff_time", pa.timestamp("us", "UTC"))])
    folder = new_table(tmp_path, schema=shown)
    raw = pa.schema([*SCHEMA, ("_waterclock_missing", pa.list_(pa.string()))])
    manifest = sealed(folder, hour(0), 1, rows_of(1, 2), schema=raw)
    rebuild_table_content(NO_SPARK, folder, identity(2, hour(0)), [manifest], is_partitioned=False)
    assert [(row["id"], row["name"]) for row in rows_in(folder)] == [(1, "n1"), (2, "n2")]
    assert [field.name for field in table_schema(folder).fields] == ["timelabel", "id", "rec_eff_time", "name"]


@pytest.mark.parametrize("shown", [[], [1, 2]])
@pytest.mark.parametrize("is_partitioned", [False, True])
def test_a_new_log_waits_for_its_rows_until_they_are_back(
    tmp_path: Path, is_partitioned: bool, shown: list[int]
) -> None:
    folder = new_table(tmp_path, is_partitioned=is_partitioned)
    manifest = sealed(folder, hour(0), 1, rows_of(1, 2))
    commit_slices(folder, identity(1, hour(0)), [manifest], mode="append")
    move_log(folder, "now")
    recreate(folder, schema_json(SCHEMA), is_partitioned=is_partitioned, project=PROJECT, above=KNOWN)
    assert is_unfinished(folder, KNOWN)
    manifests = [manifest] if shown else []
    version = rebuild_table_content(
        NO_SPARK, folder, identity(2, *(each.label for each in manifests)), manifests, is_partitioned=is_partitioned
    )
    assert version == KNOWN + 1
    assert not is_unfinished(folder, version)
    assert not is_older_than(folder, version)
    assert ids(folder) == shown
