"""Untrusted schemas that name a Python class: no module is imported for them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkValueError
from pyspark.sql.types import IntegerType, StringType, StructType, UserDefinedType

from tests.tiny import Tiny, day
from waterclock.engine.spark.user_defined_types import block_foreign_types
from waterclock.errors import ProjectErrors, WaterclockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Celsius(UserDefinedType):
    """A type of the user, loaded by the user's own code."""

    @classmethod
    def sqlType(cls) -> IntegerType:  # noqa: N802 - PySpark's name
        return IntegerType()

    @classmethod
    def module(cls) -> str:
        return __name__


def schema_of(name: str) -> dict[str, Any]:
    kind = {"type": "udt", "pyClass": name, "serializedClass": "", "sqlType": "string"}
    return {"type": "struct", "fields": [{"name": "a", "type": kind, "nullable": True, "metadata": {}}]}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a class in a module that leaves a mark when it is imported."""
    (tmp_path / "planted.py").write_text(
        f"open({str(tmp_path / 'mark')!r}, 'w').close()\nfrom pyspark.sql.types import UserDefinedType\n"
        "class X(UserDefinedType):\n    pass\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return "planted.X"


@pytest.mark.parametrize("name", ["planted.X", "antigravity.X", "os.path", "os.Nope", "sys", "", "None"])
@pytest.mark.usefixtures("module")
def test_no_module_is_imported_for_a_schema(name: str, tmp_path: Path) -> None:
    block_foreign_types()
    with pytest.raises(WaterclockError, match="E734"):
        StructType.fromJson(schema_of(name))
    assert not (tmp_path / "mark").exists()
    assert not {"planted", "antigravity"} & set(sys.modules)


def test_classes_that_are_loaded_and_those_of_pyspark_are_taken() -> None:
    block_foreign_types()
    assert isinstance(StructType.fromJson(schema_of(f"{__name__}.Celsius"))["a"].dataType, Celsius)
    vector = StructType.fromJson(schema_of("pyspark.ml.linalg.VectorUDT"))["a"].dataType
    assert type(vector).__name__ == "VectorUDT"
    assert StructType.fromJson(StructType().add("a", StringType()).jsonValue())["a"].dataType == StringType()


@pytest.mark.spark
def test_neither_a_query_nor_a_parquet_file_has_a_module_imported(
    module: str, tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path / "shop", spark)
    tiny.source("sales", "id INTEGER, at TEXT", [(1, "2020-01-01 10:00:00")])
    landing = tmp_path / "shop" / "landing" / "new" / "acme" / "people"
    landing.mkdir(parents=True, exist_ok=True)
    file = landing / "acme_people_2020_01_01_23_59_59.parquet"
    table = pa.table({"a": ["x"]}).replace_schema_metadata(
        {
            "org.apache.spark.sql.parquet.row.metadata": json.dumps(schema_of(module)),
            "org.apache.spark.version": "4.2.0",
        }
    )
    pq.write_table(table, file)
    tiny.declare(
        "COLLECT shop.sales PARTITIONED (id BIGINT, at TIMESTAMP) FROM shop.sales EVERY DAY BY DATA TIME at;\n"
        "COLLECT raw.people PARTITIONED FROM land.acme.people EVERY DAY START '2020-01-01' BY ARRIVAL TIME;"
    )
    outcome = tiny.run(day(3))
    with pytest.raises((ProjectErrors, WaterclockError)):
        tiny.rows(f"SELECT from_json('{{}}', '{json.dumps(schema_of(module))}') AS x")
    with pytest.raises(PySparkValueError, match="E734"):
        str(spark.read.parquet(str(file)).schema)
    assert not (tmp_path / "mark").exists()
    assert "E734" in str(outcome)


@pytest.mark.spark
def test_a_default_in_a_parquet_files_metadata_is_not_evaluated(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path / "shop", spark)
    landing = tmp_path / "shop" / "landing" / "new" / "acme" / "people"
    landing.mkdir(parents=True, exist_ok=True)
    field = {
        "name": "b",
        "type": "string",
        "nullable": True,
        "metadata": {"EXISTS_DEFAULT": "raise_error('evaluated')"},
    }
    told = {"type": "struct", "fields": [{**field, "name": "a", "metadata": {}}, field]}
    table = pa.table({"a": ["x"], "b": ["y"]}).replace_schema_metadata(
        {"org.apache.spark.sql.parquet.row.metadata": json.dumps(told), "org.apache.spark.version": "4.2.0"}
    )
    pq.write_table(table, landing / "acme_people_2020_01_01_23_59_59.parquet")
    tiny.declare("COLLECT raw.people PARTITIONED FROM land.acme.people EVERY DAY START '2020-01-01' BY ARRIVAL TIME;")
    assert not tiny.run(day(3)).failed
    assert tiny.rows("SELECT a, b FROM raw.people") == [("x", "y")]
