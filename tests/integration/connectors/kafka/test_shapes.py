"""Values become columns unchanged, by any way of reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from waterclock.connectors.column_matching import CollectedColumn, ColumnMatch
from waterclock.connectors.kafka.collection import TopicShape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_no_digit_of_a_number_is_lost(spark: SparkSession) -> None:
    values = [
        '\n\t{"money": 12345678901234567.89, "whole": 123456789012345678, "x": 0.5}',
        '{"money": "0.50", "x": "NaN"}',
        '{"money": null}',
    ]
    frame = spark.createDataFrame([(value.encode(), 0, at, "l") for at, value in enumerate(values)], ROW)
    kinds = {"money": "DECIMAL(20,2)", "whole": "BIGINT", "x": "DOUBLE"}
    for is_typed in (True, False):
        taken = tuple(CollectedColumn(name, name, kind, is_typed=is_typed) for name, kind in kinds.items())
        shown = TopicShape("json", has_metadata=False).select_columns(frame, ColumnMatch(taken, ()), "UTC")
        cast = shown.selectExpr(*(f"CAST({name} AS {kind}) AS {name}" for name, kind in kinds.items()))
        assert [tuple(map(str, row)) for row in cast.collect()] == [
            ("12345678901234567.89", "123456789012345678", "0.5"),
            ("0.50", "None", "nan"),
            ("None", "None", "None"),
        ]


ROW = "value BINARY, partition INT, offset BIGINT, timelabel STRING"
