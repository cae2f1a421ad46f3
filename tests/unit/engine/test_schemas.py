from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.model.flows import collect, transform
from waterclock.engine.schemas import stored_columns, stored_schemas, type_words
from waterclock.flow import Flow
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
    tables = {table.name: table for table in (collect("raw.a"), transform("raw.b", ["raw.a"]))}
    assert list(stored_schemas(lake, Flow(project="x", tables=tables))) == ["raw.a"]


def test_a_map_names_both_its_types() -> None:
    assert type_words({"type": "map", "keyType": "string", "valueType": "long"}) == "map<string,bigint>"
