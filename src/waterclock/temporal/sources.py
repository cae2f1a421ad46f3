"""Unites the raw rows of several sources, and marks the columns of a source in which a null is a value."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, NullType, StructType

from waterclock.errors import WaterclockError
from waterclock.temporal.columns import exact_column, require_columns, require_distinct

_SAID = "waterclock_said"


def nulls_are_values(df: DataFrame, *attributes: str) -> DataFrame:
    """Mark attributes of a frame in which a null is a value ("empty now") and does not mean "missing".

    Marked values are wrapped in a struct. `compute_temporal` does not fill their nulls, and unwraps them. Marks on
    columns that `compute_temporal` uses as key, time or sequence have no effect. If nulls are values in all sources,
    `compute_temporal(nulls="value")` does the same without wrapping.

    Raises E301 for an unknown attribute.
    """
    require_columns(df, attributes, where="nulls_are_values")
    return df.select(
        *(
            sql.struct(exact_column(name).alias(_SAID)).alias(name)
            if name in attributes and not is_wrapped(kind)
            else exact_column(name)
            for name, kind in _kinds(df).items()
        )
    )


def union_sources(*sources: DataFrame) -> DataFrame:
    """Return the rows of all sources in one frame. A column that a source does not have is null in its rows.

    Columns are matched by name. Pass the result to `compute_temporal`.

    Raises E311 if there are no sources or a column has different types, and E308 for names that differ only by case.
    """
    if not sources:
        raise WaterclockError("E311", "no sources", where="union_sources", fix="pass at least one")
    known: dict[str, DataType] = {}
    for source in sources:
        require_distinct(source.columns, where="union_sources")
        for name, kind in _kinds(source).items():
            _require_same(name, kind, known)
            if isinstance(known.get(name, NullType()), NullType) or is_wrapped(kind):
                known[name] = kind
    require_distinct(known, where="union_sources")
    alike = [
        source.select(*(_alike(name, kind, known[name]) for name, kind in _kinds(source).items())) for source in sources
    ]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), alike)


def wrapped_only(df: DataFrame, attributes: Collection[str]) -> DataFrame:
    """Return the frame with wrapped columns unwrapped (see `nulls_are_values`), except those in `attributes`."""
    unwanted = {name for name, kind in _kinds(df).items() if is_wrapped(kind) and name not in attributes}
    if not unwanted:
        return df
    return df.select(
        *(
            unwrap_value(exact_column(name)).alias(name) if name in unwanted else exact_column(name)
            for name in df.columns
        )
    )


def is_wrapped(kind: DataType) -> bool:
    """Return whether this is the type of a column that `nulls_are_values` wrapped."""
    return isinstance(kind, StructType) and kind.names == [_SAID]


def unwrap_value(value: Column) -> Column:
    """Return the value inside a column that `nulls_are_values` wrapped."""
    return value.getField(_SAID)


def _kinds(df: DataFrame) -> dict[str, DataType]:
    return {field.name: field.dataType for field in df.schema.fields}


def _bare(kind: DataType) -> DataType:
    return kind[_SAID].dataType if isinstance(kind, StructType) and is_wrapped(kind) else kind


def _require_same(name: str, kind: DataType, known: dict[str, DataType]) -> None:
    one, other = _bare(known.get(name, kind)), _bare(kind)
    if NullType() not in {one, other} and one.simpleString() != other.simpleString():
        raise WaterclockError(
            "E311",
            f"{name} is {one.simpleString()} in one source and {other.simpleString()} in another",
            where="union_sources",
            fix=f"cast {name} in one of them; a time to TIMESTAMP with its zone",
        )


def _alike(name: str, kind: DataType, wanted: DataType) -> Column:
    if not is_wrapped(wanted) or is_wrapped(kind):
        return exact_column(name)
    return sql.when(exact_column(name).isNotNull(), sql.struct(exact_column(name).alias(_SAID))).alias(name)
