from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.slices import hour, sealed
from waterclock.engine.query.stored_schemas import stored_columns, stored_row_columns, type_words
from waterclock.storage.lake import Lake


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


RAW = pa.schema(
    [("timelabel", pa.string()), ("n", pa.int32()), ("seq", pa.int64()), ("seen", pa.timestamp("us", "UTC"))]
)


def test_rows_have_the_columns_of_the_newest_sealed_slice_and_those_of_the_table(lake: Lake) -> None:
    folder = lake.folder("raw.a")
    for label, claim, schema in ((hour(15), 3, RAW), (hour(16), 9, RAW.append(pa.field("by", pa.string()))),
                                 (hour(16), 8, RAW), (hour(7), 12, RAW)):  # fmt: skip
        sealed(folder, label, claim, [], schema=schema)
    unsealed = Path(folder, Lake("").slice_path(hour(17), 20))
    unsealed.mkdir(parents=True)
    assert stored_row_columns(lake, "raw.a") == {
        "n": "int",
        "tags": "array<string>",
        "at": "timestamp",
        "of": "struct<a:int,b:double>",
        "seq": "bigint",
        "seen": "timestamp",
        "by": "string",
    }


def test_nothing_is_known_of_rows_before_a_slice_is_sealed(lake: Lake) -> None:
    assert stored_row_columns(lake, "raw.a") == {}
    assert stored_row_columns(lake, "raw.b") == {}
