"""Spark parses texts as times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from waterclock.connectors.windowing import instant_sql
from waterclock.spark_sql import cast_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ODD = ["12:30", "12:30:00", " T12:30", "12:30+01:00", "1:2", "202311", "12345-01-01", "+12345-01-01", "-2013-01-01"]
GOOD = ["2013-01-01", " 2013-01-01 05:00:00", "2013-01-01T05:00:00Z", "2013-01", "2013", "9999-12-31"]


def test_a_text_without_a_date_is_no_time(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(text,) for text in (*ODD, *GOOD)], "text STRING")
    sql = [instant_sql("text", "STRING", "UTC"), *(cast_text("text", kind) for kind in ("DATE", "TIMESTAMP_NTZ"))]
    rows = frame.selectExpr("text", *(f"({each}) IS NOT NULL" for each in sql)).collect()
    read = {row[0]: list(row[1:]) for row in rows}
    assert [text for text in ODD if any(read[text])] == []
    assert [text for text in GOOD if not all(read[text])] == []
