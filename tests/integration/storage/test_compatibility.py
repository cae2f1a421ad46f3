"""Types that `can_read` allows: Spark writes them to a Delta table and reads the wider type without loss."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from waterclock.flow.column_types import text_of_type, type_of
from waterclock.flow.compatibility import SchemaColumn, TableSchema, can_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
# written type, type it is read as, and its values in SQL
SAMPLE = [
    ("tinyint", "smallint", ["-128Y", "127Y"]),
    ("smallint", "int", ["-32768S", "32767S"]),
    ("int", "bigint", ["-2147483648", "2147483647"]),
    ("int", "double", ["-2147483648", "2147483647"]),
    ("int", "decimal(12,2)", ["-2147483648", "2147483647"]),
    ("bigint", "decimal(20,0)", ["-9223372036854775808", "9223372036854775807"]),
    ("float", "double", ["CAST(1.4E-45 AS FLOAT)", "CAST(3.4028235E38 AS FLOAT)"]),
    ("decimal(10,2)", "decimal(12,2)", ["-99999999.99", "1.25"]),
    ("decimal(10,2)", "decimal(14,4)", ["99999999.99", "1.25"]),
    ("date", "timestamp_ntz", ["DATE'0001-01-01'", "DATE'9999-12-31'"]),
    ("array<int>", "array<bigint>", ["array(1, NULL)", "array()"]),
    ("map<string,int>", "map<string,bigint>", ["map('k', 2147483647)", "map()"]),
    ("struct<a:int,b:string>", "struct<a:bigint,b:string>", ["struct(1, 'x')", "struct(CAST(NULL AS INT), 'y')"]),
]


def test_allowed_type_changes_preserve_the_values_of_a_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    columns = [(f"c{at}", *sample) for at, sample in enumerate(SAMPLE)]
    for name, have, wanted, _ in columns:
        written, read = type_of(have), type_of(wanted)
        assert written is not None
        assert read is not None
        assert not can_read(TableSchema((SchemaColumn(name, read),)), TableSchema((SchemaColumn(name, written),)))
        assert text_of_type(written) == have
    rows = [
        ", ".join(f"CAST({values[row]} AS {have}) AS {name}" for name, have, _, values in columns) for row in (0, 1)
    ]
    folder = str(tmp_path / "table")
    spark.sql(" UNION ALL ".join(f"SELECT {row} AS n, {said}" for row, said in enumerate(rows))).write.format(
        "delta"
    ).save(folder)
    table = spark.read.format("delta").load(folder).orderBy("n")
    assert [table.schema[name].dataType.simpleString() for name, *_ in columns] == [have for _, have, *_ in columns]
    there = table.selectExpr(*(f"CAST({name} AS {wanted}) AS {name}" for name, _, wanted, _ in columns))
    back = there.selectExpr(*(f"CAST({name} AS {have}) AS {name}" for name, have, *_ in columns))
    assert back.collect() == table.drop("n").collect()
