"""A MERGE by a staging table delivers columns of every kind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.systems import DuckDatabase, FirebirdDatabase, MysqlDatabase, PostgresDatabase
from waterclock.connectors.delivering import Delivery
from waterclock.flow.enums import Mode


@pytest.mark.parametrize(
    "kind",
    [
        DuckDatabase,
        *(pytest.param(each, marks=pytest.mark.slow) for each in (FirebirdDatabase, MysqlDatabase, PostgresDatabase)),
    ],
)
def test_a_column_may_have_the_name_by_which_deliveries_once_marked_rows(
    tmp_path: Path, kind: Callable[[Path], Any]
) -> None:
    system = kind(tmp_path)
    rows = [("a", 1, False), ("b", 2, False), ("c", None, True)]
    path = tmp_path / "part.parquet"
    ids, marks, deleted = zip(*rows, strict=True)
    pq.write_table(pa.table({"id": ids, "waterclock_gone": pa.array(marks, pa.int32()), "d": deleted}), path)
    delivery = Delivery(
        project="flights",
        publish="ops.totals",
        claim=1,
        label=datetime(2013, 1, 1, tzinfo=UTC),
        label_text="20130101000000",
        mode=Mode.MERGE,
        is_from_partitioned=False,
        columns=(("id", "STRING"), ("waterclock_gone", "INT")),
        files=(path,),
        keys=("id",),
        deleted_column="d",
    )
    (delivered,) = system.connector.deliverer(system.setting).deliver(system.unit, [delivery])
    assert delivered.rows == 2
    found = [{name.lower(): value for name, value in row.items()} for row in system.rows()]
    assert sorted((row["id"], row["waterclock_gone"]) for row in found) == [("a", 1), ("b", 2)]
