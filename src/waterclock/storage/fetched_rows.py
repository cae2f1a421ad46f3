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
    an interval of months a text. A map becomes a dict, whose keys are texts if they are arrays or structs. The rows are
    sent by Arrow, because `collect` has three faults: it returns datetimes in the zone of the Python process, and fails
    for the year 1, which some software writes for "never". It also unpickles data from the JVM, which is not trusted in
    queries.

    Cost: one job.
    """
    kinds = [field.dataType for field in frame.schema.fields]
    names = [f"c{at}" for at in range(len(kinds))]  # a query may give two columns one name
    columns = [_select_for_arrow(name, kind) for name, kind in zip(names, kinds, strict=True)]
    found = frame.toDF(*names).select(*columns).limit(limit).toArrow()
    values = (
        [_convert(value, kind) for value in found.column(name).to_pylist()]
        for name, kind in zip(names, kinds, strict=True)
    )
    return list(zip(*values, strict=True))


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
    """Return the type in which Arrow sends a value: the same type, or STRING for types that Arrow does not have.

    Everything in it may be NULL, because Arrow sends a field of a struct that is NULL as NULL.
    """
    return _as_nullable(map_leaf_types(kind, lambda leaf: StringType() if isinstance(leaf, _SENT_AS_TEXT) else leaf))


def _as_nullable(kind: DataType) -> DataType:
    if isinstance(kind, ArrayType):
        return ArrayType(_as_nullable(kind.elementType), containsNull=True)
    if isinstance(kind, MapType):
        return MapType(_as_nullable(kind.keyType), _as_nullable(kind.valueType), valueContainsNull=True)
    if isinstance(kind, StructType):
        return StructType([StructField(each.name, _as_nullable(each.dataType)) for each in kind.fields])
    return kind


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


def _convert(value: Any, kind: DataType) -> Any:
    """Convert a value of Arrow: instants to Python's UTC in place of Arrow's zone, and entries of maps to a dict."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.replace(tzinfo=UTC)
    if isinstance(value, list) and isinstance(kind, ArrayType):
        return [_convert(each, kind.elementType) for each in value]
    if isinstance(value, list) and isinstance(kind, MapType):
        is_nested = isinstance(kind.keyType, ArrayType | StructType)
        entries = ((_convert(key, kind.keyType), _convert(inner, kind.valueType)) for key, inner in value)
        return {str(key) if is_nested else key: inner for key, inner in entries}
    if isinstance(value, dict) and isinstance(kind, StructType):
        types = {each.name: each.dataType for each in kind.fields}
        return {name: _convert(inner, types[name]) for name, inner in value.items()}
    return value
