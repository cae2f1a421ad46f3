"""Equal buckets of time: their number, and the keys that a hash may replace."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from waterclock.temporal.time_buckets import Buckets, buckets_of, hash_as_they_compare
from waterclock.temporal.version_statistics import FrameStatistics


@pytest.mark.parametrize(
    ("numbers", "buckets"),
    [
        (FrameStatistics(100, 10, 20, 0, 0, 1000), Buckets(0, 1000, 101)),
        (FrameStatistics(5, 10, 1, 0, 0, 1000), Buckets(0, 1000, 1001)),
        (FrameStatistics(1, 1, 1, 0, -7, -7), Buckets(-7, -7, 1)),
        (FrameStatistics(100, 10, 20, 0, -500, 500), Buckets(-500, 500, 101)),
        (FrameStatistics(100, 10, 20, 0, 500, -500), Buckets(500, -500, 1)),
        (FrameStatistics(100, 10, 20, 0), None),
        (FrameStatistics(0, 0, 0, 0, 0, 0), None),
    ],
)
def test_a_key_has_about_as_many_buckets_as_versions(numbers: FrameStatistics, buckets: Buckets | None) -> None:
    assert buckets_of(numbers) == buckets


@pytest.mark.parametrize(
    "kind", [IntegerType(), LongType(), DecimalType(20, 3), StringType(), DateType(), TimestampType(), BinaryType()]
)
def test_equal_keys_have_equal_hashes(kind: DataType) -> None:
    assert hash_as_they_compare([kind, LongType()])


@pytest.mark.parametrize("kind", [DoubleType(), FloatType(), StringType("UTF8_LCASE"), StructType()])
def test_where_equal_keys_may_have_other_hashes_they_are_not_hashed(kind: DataType) -> None:
    assert not hash_as_they_compare([LongType(), kind])
