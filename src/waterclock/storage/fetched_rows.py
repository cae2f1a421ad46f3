"""Fetches a few rows of a frame to Python, with all instants in UTC."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sql
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SENT_AS_TEXT = (CalendarIntervalType, NullType, YearMonthIntervalType)


def rows_of(frame: DataFrame, limit: int) -> list[tuple[Any, ...]]:
    """Return at most `limit` rows of a frame, in its order, with each TIMESTAMP as a datetime in UTC.

    A TIMESTAMP_NTZ becomes a datetime without zone, a struct a dict, a value that contains a VARIANT its JSON text, and
    an interval of months a text. The rows are sent by Arrow, because `collect` has three faults: it returns datetimes
    in the zone of the Python process, and fails for the year 1, which some software writes for "never". It also
    unpickles data from the JVM, which is not trusted in queries.

    Cost: one job.
    """
    kinds = [field.dataType for field in frame.schema.fields]
    names = [f"c{at}" for at in range(len(kinds))]  # a query may give two columns one name
    columns = [_select_for_arrow(name, kind) for name, kind in zip(names, kinds, strict=True)]
    found = frame.toDF(*names).select(*columns).limit(limit).toArrow()
    values = (found.column(name).to_pylist(maps_as_pydicts="lossy") for name in names)
    return [tuple(map(_convert_to_utc, row)) for row in zip(*values, strict=True)]


def _select_for_arrow(name: str, kind: DataType) -> Column:
    if _contains_variant(kind):
        return sql.to_json(name).alias(name)
    taken = _choose_arrow_type(kind)
    return sql.col(name) if taken == kind else sql.col(name).cast(taken).alias(name)


def _contains_variant(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_contains_variant(field.dataType) for field in kind.fields)
    if isinstance(kind, MapType):
        return _contains_variant(kind.keyType) or _contains_variant(kind.valueType)
    return _contains_variant(kind.elementType) if isinstance(kind, ArrayType) else isinstance(kind, VariantType)


def _choose_arrow_type(kind: DataType) -> DataType:
    """Return the type in which Arrow sends a value: the same type, or STRING for types that Arrow does not have."""
    return map_leaf_types(kind, lambda leaf: StringType() if isinstance(leaf, _SENT_AS_TEXT) else leaf)


def map_leaf_types(kind: DataType, change: Callable[[DataType], DataType]) -> DataType:
    """Return a type in which `change` replaced all types that contain no other types. Fields lose their metadata."""
    if isinstance(kind, ArrayType):
        return ArrayType(map_leaf_types(kind.elementType, change), kind.containsNull)
    if isinstance(kind, MapType):
        key, value = map_leaf_types(kind.keyType, change), map_leaf_types(kind.valueType, change)
        return MapType(key, value, kind.valueContainsNull)
    if isinstance(kind, StructType):
        fields = [StructField(it.name, map_leaf_types(it.dataType, change), it.nullable) for it in kind.fields]
        return StructType(fields)
    return change(kind)


def _convert_to_utc(value: Any) -> Any:
    """Replace Arrow's zone of instants by Python's UTC, also within lists and structs."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.replace(tzinfo=UTC)
    if isinstance(value, dict):
        return {name: _convert_to_utc(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return list(map(_convert_to_utc, value))
    return value
