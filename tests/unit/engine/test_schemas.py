from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from waterclock.engine.schemas import stored_columns, type_words
from waterclock.storage import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    rows = pa.table(
        {
            "timelabel": pa.array(["20130101000000"]),
            "n": pa.array([1], pa.int64()),
            "tags": pa.array([["a"]], pa.list_(pa.string())),
            "at": pa.array([0], pa.timestamp("us", "UTC")),
            "of": pa.array([{"a": 1, "b": 2.0}], pa.struct([("a", pa.int32()), ("b", pa.float64())])),
        }
    )
    write_deltalake(tmp_path / "tables" / "raw" / "a", rows)
    return Lake(str(tmp_path))


def test_columns_have_spark_types_in_the_tables_order(lake: Lake) -> None:
    assert stored_columns(lake, "raw.a") == {
        "timelabel": "string",
        "n": "bigint",
        "tags": "array<string>",
        "at": "timestamp",
        "of": "struct<a:int,b:double>",
    }


def test_a_table_without_a_batch_has_no_columns_yet(lake: Lake) -> None:
    assert stored_columns(lake, "raw.b") == {}


def test_a_map_names_both_its_types() -> None:
    assert type_words({"type": "map", "keyType": "string", "valueType": "long"}) == "map<string,bigint>"
