"""The rows of a query are converted to the columns of their table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.ledgers import SOMEWHERE, table
from waterclock.engine.batch.transform_slices import _conform_rows
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Column, Columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_reserved_name_is_refused_before_its_column_is_lost(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, 2)], "id INT, _Waterclock_x INT")
    of = table("marts.a")
    with pytest.raises(WaterclockError, match="E614 _Waterclock_x is a reserved name"):
        _conform_rows(replace(of, columns=Columns()), rows, None)
    closed = Columns((Column("id", SOMEWHERE),), is_open=False)
    assert _conform_rows(replace(of, columns=closed), rows, None).left_out == ("_Waterclock_x",)
