"""Cuts time into equal buckets, the same for all keys: a row is compared only with the versions of its bucket.

For keys that have many versions, and about as many each. Rows are joined by one number, a hash of key and bucket,
because no hash table of Spark's is faster than one over a number. Keys and times are compared after that. So neither
two keys with the same hash nor outdated numbers give a wrong pair.
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

from waterclock.temporal.measure import Numbers

BUCKET_HASH = "bucket_hash"
# equal values of these types have equal hashes; not so -0.0 and 0.0, nor texts whose collation ignores a difference
_HASHED = (BinaryType, BooleanType, DateType, DecimalType, IntegralType, TimestampNTZType, TimestampType)


@dataclass(frozen=True, slots=True)
class Buckets:
    """Equal buckets of `width` microseconds between two moments; earlier and later times belong to the outer ones."""

    first: int
    last: int
    width: int


def buckets_of(numbers: Numbers) -> Buckets | None:
    """Return as many buckets as a key has versions on average, None if it is not known when versions begin."""
    if numbers.first is None or numbers.last is None or not numbers.keys:
        return None
    pieces = max(numbers.versions // numbers.keys, 1)
    return Buckets(numbers.first, numbers.last, max(numbers.last - numbers.first, 0) // pieces + 1)


def hash_as_they_compare(kinds: Iterable[DataType]) -> bool:
    """Return whether equal keys of these types have equal hashes."""
    return all(isinstance(kind, _HASHED) or (isinstance(kind, StringType) and kind == StringType()) for kind in kinds)


def at_moment(rows: DataFrame, keys: Sequence[str], buckets: Buckets, moment: str) -> DataFrame:
    """Add the number by which a row is joined to the versions of its key that touch the bucket of a moment."""
    place = sql.expr(_place(f"unix_micros({moment})", buckets))
    return rows.withColumn(BUCKET_HASH, sql.xxhash64(*keys, place))


def over_periods(rows: DataFrame, keys: Sequence[str], buckets: Buckets, start: str, end: str) -> DataFrame:
    """Repeat each row for every bucket that its period touches, with the number by which it is joined there."""
    first, last = (_place(micros, buckets) for micros in (f"unix_micros({start})", f"unix_micros({end}) - 1L"))
    spanned = rows.withColumn("bucket", sql.expr(f"explode(sequence({first}, greatest({first}, {last})))"))
    return spanned.withColumn(BUCKET_HASH, sql.xxhash64(*keys, "bucket")).drop("bucket")


def _place(micros: str, buckets: Buckets) -> str:
    """Return the bucket of an instant. It never decreases over time, so a row's version touches its bucket."""
    return f"greatest(least({micros}, {buckets.last}L), {buckets.first}L) div {buckets.width}L"
