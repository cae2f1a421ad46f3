"""The key that maps the rows of a file to their label is equal in Spark and in Python, and unique per file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from waterclock.connectors.windowing import file_key_of, file_key_sql
from waterclock.spark_sql import sql_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PATHS = ("/file/1.csv", "/file/file1.csv", "/life/1.csv", "/data/1.csv", "/data/e/1.csv")


def test_each_file_has_a_key_of_its_own_that_spark_makes_as_well(spark: SparkSession) -> None:
    for prefix in ("file://", "file:", ""):
        keys = spark.range(1).selectExpr(*(file_key_sql(sql_text(f"{prefix}{path}")) for path in PATHS)).first()
        assert keys is not None
        assert list(keys) == [file_key_of(path) for path in PATHS]
        assert len(set(keys)) == len(PATHS)
