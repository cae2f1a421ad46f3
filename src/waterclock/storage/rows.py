"""Brings a few rows of a frame to Python, with instants in UTC on a machine of any zone."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType, VariantType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def rows_of(frame: DataFrame, limit: int) -> list[tuple[Any, ...]]:
    """Return at most `limit` rows of a frame, in its order; a TIMESTAMP is a datetime without zone, in UTC.

    `collect` makes such a datetime in the zone of Python's process, and none at all of the year 1, with which software
    writes "never". Arrow takes both as they are; there a struct is a dict, and a VARIANT is its JSON text.
    Cost: one job.
    """
    kinds = [field.dataType for field in frame.schema.fields]
    if not any(map(_has_instants, kinds)):
        return [tuple(row) for row in frame.limit(limit).collect()]
    names = [f"c{at}" for at in range(len(kinds))]  # a query may give two columns one name
    columns = [
        sql.to_json(name).alias(name) if isinstance(kind, VariantType) else sql.col(name)
        for name, kind in zip(names, kinds, strict=True)
    ]
    found = frame.toDF(*names).select(*columns).limit(limit).toArrow()
    values = (found.column(name).to_pylist(maps_as_pydicts="lossy") for name in names)
    return [tuple(map(_without_zone, row)) for row in zip(*values, strict=True)]


def _has_instants(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_instants(field.dataType) for field in kind.fields)
    if isinstance(kind, MapType):
        return _has_instants(kind.keyType) or _has_instants(kind.valueType)
    if isinstance(kind, ArrayType):
        return _has_instants(kind.elementType)
    return isinstance(kind, TimestampType)


def _without_zone(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, dict):
        return {name: _without_zone(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return list(map(_without_zone, value))
    return value
