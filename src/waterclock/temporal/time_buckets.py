"""Divides time into equal buckets for all keys, so that a join compares a row only with the versions of its bucket.

This suits keys that all have many versions, and about equally many. Rows are joined by one number, a hash of key and
bucket, because Spark's hash tables are fastest for numbers. Keys and times are compared after that, so neither two keys
with the same hash nor outdated statistics give a wrong pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from waterclock.temporal.version_statistics import FrameStatistics

BUCKET_HASH = "bucket_hash"
# equal values of these types have equal hashes, unlike -0.0 and 0.0, and texts whose collation ignores a difference
_HASHED = (BinaryType, BooleanType, DateType, DecimalType, IntegralType, TimestampNTZType, TimestampType)


@dataclass(frozen=True, slots=True)
class Buckets:
    """Time from `first` to `last`, in microseconds since 1970, divided into buckets of `width` microseconds.

    Times before or after belong to the first or the last bucket.
    """

    first: int
    last: int
    width: int


def buckets_of(numbers: FrameStatistics) -> Buckets | None:
    """Return as many buckets as a key has versions on average, for a frame with these statistics.

    Return None if the statistics do not contain when versions begin.
    """
    if numbers.first is None or numbers.last is None or not numbers.keys:
        return None
    pieces = max(numbers.versions // numbers.keys, 1)
    return Buckets(numbers.first, numbers.last, max(numbers.last - numbers.first, 0) // pieces + 1)


def hash_as_they_compare(kinds: Iterable[DataType]) -> bool:
    """Return whether values of these types that compare equal also have equal hashes."""
    return all(isinstance(kind, _HASHED) or (isinstance(kind, StringType) and kind == StringType()) for kind in kinds)


def add_bucket_hash(rows: DataFrame, keys: Sequence[str], buckets: Buckets, moment: str) -> DataFrame:
    """Add `bucket_hash`, the hash of a row's key and of the bucket that contains the column `moment`."""
    place = sql.expr(_place(f"unix_micros({moment})", buckets))
    return rows.withColumn(BUCKET_HASH, sql.xxhash64(*keys, place))


def over_periods(rows: DataFrame, keys: Sequence[str], buckets: Buckets, start: str, end: str) -> DataFrame:
    """Repeat each row for every bucket that its period overlaps, and add `bucket_hash`, the hash of key and bucket."""
    first, last = (_place(micros, buckets) for micros in (f"unix_micros({start})", f"unix_micros({end}) - 1L"))
    spanned = rows.withColumn("bucket", sql.expr(f"explode(sequence({first}, greatest({first}, {last})))"))
    return spanned.withColumn(BUCKET_HASH, sql.xxhash64(*keys, "bucket")).drop("bucket")


def _place(micros: str, buckets: Buckets) -> str:
    """Return the SQL of the bucket's number for an SQL expression in microseconds. It never decreases over time."""
    return f"greatest(least({micros}, {buckets.last}L), {buckets.first}L) div {buckets.width}L"
