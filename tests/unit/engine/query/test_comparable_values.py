"""Values of two types are compared in the narrowest type that loses nothing, or not at all."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from waterclock.engine.query.comparable_values import common_type, comparable_sql

STRUCT = StructType([StructField("a", IntegerType())])


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        (IntegerType(), LongType(), LongType()),
        (LongType(), ByteType(), LongType()),
        (IntegerType(), DecimalType(10, 2), DecimalType(12, 2)),
        (DecimalType(10, 2), DecimalType(8, 4), DecimalType(12, 4)),
        (DecimalType(38, 2), DecimalType(38, 10), None),
        (FloatType(), DoubleType(), DoubleType()),
        (LongType(), DoubleType(), DoubleType()),
        (DecimalType(10, 2), FloatType(), DoubleType()),
        (StringType(), StringType("UTF8_LCASE"), StringType()),
        (IntegerType(), StringType(), None),
        (DateType(), TimestampType(), None),
        (BinaryType(), StringType(), None),
        (ArrayType(IntegerType(), containsNull=False), ArrayType(IntegerType()), ArrayType(IntegerType())),
        (ArrayType(IntegerType()), ArrayType(LongType()), None),
        (STRUCT, StructType([StructField("b", IntegerType())]), None),
    ],
    ids=str,
)
def test_the_common_type_represents_the_values_of_both(
    left: DataType, right: DataType, common: DataType | None
) -> None:
    for pair in ((left, right), (right, left)):
        found = common_type(pair)
        assert (found and found.simpleString()) == (common and common.simpleString())


@pytest.mark.parametrize(
    ("kind", "sql"),
    [
        (IntegerType(), "`x`"),
        (DoubleType(), "nanvl(`x` + CAST(0 AS double), CAST('NaN' AS double))"),
        (StringType("UTF8_LCASE"), "collate(`x`, 'UTF8_BINARY')"),
        (ArrayType(STRUCT), "`x`"),
        (ArrayType(FloatType()), "transform(`x`, it0 -> nanvl(it0 + CAST(0 AS float), CAST('NaN' AS float)))"),
        (
            MapType(StringType(), MapType(StringType(), IntegerType())),
            (
                "array_sort(transform(map_entries(`x`), it0 -> named_struct('key', it0.key, 'value', array_sort("
                "transform(map_entries(it0.value), it1 -> named_struct('key', it1.key, 'value', it1.value))))))"
            ),
        ),
    ],
    ids=str,
)
def test_values_become_such_that_equal_ones_are_equal_in_a_group(kind: DataType, sql: str) -> None:
    assert comparable_sql("x", kind, kind) == sql


def test_a_value_is_cast_to_the_common_type_first() -> None:
    assert comparable_sql("x", IntegerType(), LongType()) == "CAST(`x` AS bigint)"
