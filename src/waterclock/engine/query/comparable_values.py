"""Builds the SQL by which values of two revisions are compared: in one type, without maps, with one zero and one NaN.

NULL equals NULL, NaN equals NaN and -0.0 equals 0.0, as in Spark's GROUP BY. Texts are compared byte by byte, whatever
their collation, and maps without regard to the order of their entries. This holds within arrays, structs and maps.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import TYPE_CHECKING, cast

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    FractionalType,
    IntegerType,
    LongType,
    MapType,
    NumericType,
    ShortType,
    StringType,
    StructType,
    VariantType,
)

from waterclock.spark_sql import quote_name, sql_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_INTEGERS: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
"""The integer types with their digits, narrowest first."""
_MOST_DIGITS = 38
_BINARY = "UTF8_BINARY"


def is_number(kind: DataType) -> bool:
    """Return whether a type is numeric, so that the difference of two values can be computed."""
    return isinstance(kind, NumericType)


def is_float(kind: DataType) -> bool:
    """Return whether a type is FLOAT or DOUBLE, whose values a tolerance applies to."""
    return isinstance(kind, FractionalType) and not isinstance(kind, DecimalType)


def common_type(kinds: Iterable[DataType]) -> DataType | None:
    """Return the type in which values of several types are compared; None if they cannot be compared.

    Numbers of different types are compared as the narrowest type that can represent all: integers and decimals exactly,
    others as DOUBLE. All other types must be the same, apart from NOT NULL within them.
    """
    first, *others = kinds
    common: DataType | None = first
    for kind in others:
        if common is not None:
            common = _common_type(common, kind)
    return common


def _common_type(left: DataType, right: DataType) -> DataType | None:
    if left.simpleString() == right.simpleString():
        return left
    if isinstance(left, StringType) and isinstance(right, StringType):  # of other collations or lengths
        return StringType()
    if not (is_number(left) and is_number(right)):
        return None
    if is_float(left) or is_float(right):
        return DoubleType()
    sizes = [_INTEGERS.get(type(kind)) for kind in (left, right)]
    if None not in sizes:
        return left if cast("int", sizes[0]) >= cast("int", sizes[1]) else right
    (whole, places), (other_whole, other_places) = map(_digits_of, (left, right))
    most_whole, most_places = max(whole, other_whole), max(places, other_places)
    return DecimalType(most_whole + most_places, most_places) if most_whole + most_places <= _MOST_DIGITS else None


def _digits_of(kind: DataType) -> tuple[int, int]:
    """Return the digits before and after the point of an integer or decimal type."""
    if isinstance(kind, DecimalType):
        return kind.precision - kind.scale, kind.scale
    return _INTEGERS[type(kind)], 0


def comparable_sql(name: str, kind: DataType, wanted: DataType) -> str:
    """Return the SQL of a column's values in the type `wanted`, such that equal values are equal in GROUP BY.

    A map becomes an array of its entries by key, a VARIANT its JSON.
    """
    column = quote_name(name)
    if kind.simpleString() != wanted.simpleString():
        column = f"CAST({column} AS {wanted.simpleString()})"
    return _comparable(column, wanted, (f"it{number}" for number in count()))


def _comparable(value: str, kind: DataType, names: Iterator[str]) -> str:  # noqa: PLR0911 - one type after the other
    if not _needs_change(kind):
        return value
    if isinstance(kind, FloatType | DoubleType):
        # adding zero turns -0.0 into 0.0; each NaN becomes the same one
        return f"nanvl({value} + CAST(0 AS {kind.simpleString()}), CAST('NaN' AS {kind.simpleString()}))"
    if isinstance(kind, StringType):
        return f"collate({value}, '{_BINARY}')"
    if isinstance(kind, VariantType):
        return f"to_json({value})"
    if isinstance(kind, ArrayType):
        each = next(names)
        return f"transform({value}, {each} -> {_comparable(each, kind.elementType, names)})"
    if isinstance(kind, MapType):
        each = next(names)
        key = _comparable(f"{each}.key", kind.keyType, names)
        entry = _comparable(f"{each}.value", kind.valueType, names)
        return f"array_sort(transform(map_entries({value}), {each} -> named_struct('key', {key}, 'value', {entry})))"
    fields = cast("StructType", kind).fields
    parts = (
        f"{sql_text(field.name)}, {_comparable(f'{value}.{quote_name(field.name)}', field.dataType, names)}"
        for field in fields
    )
    return f"CASE WHEN {value} IS NOT NULL THEN named_struct({', '.join(parts)}) END"


def _needs_change(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _needs_change(kind.elementType)
    if isinstance(kind, StructType):
        return any(_needs_change(field.dataType) for field in kind.fields)
    if isinstance(kind, StringType):
        return kind.collation != _BINARY
    return isinstance(kind, FloatType | DoubleType | MapType | VariantType)


def shown_sql(column: str, kind: DataType) -> str:
    """Return the SQL that turns a comparable value into one to show: the entries of maps become maps again."""
    return _shown(column, kind, (f"it{number}" for number in count()))


def _shown(value: str, kind: DataType, names: Iterator[str]) -> str:
    if not _contains_map(kind):
        return value
    if isinstance(kind, ArrayType):
        each = next(names)
        return f"transform({value}, {each} -> {_shown(each, kind.elementType, names)})"
    if isinstance(kind, MapType):
        if not _contains_map(kind.valueType):  # keys contain no maps
            return f"map_from_entries({value})"
        each = next(names)
        shown = _shown(f"{each}.value", kind.valueType, names)
        return f"map_from_entries(transform({value}, {each} -> struct({each}.key, {shown})))"
    fields = cast("StructType", kind).fields
    parts = (
        f"{sql_text(field.name)}, {_shown(f'{value}.{quote_name(field.name)}', field.dataType, names)}"
        for field in fields
    )
    return f"CASE WHEN {value} IS NOT NULL THEN named_struct({', '.join(parts)}) END"


def _contains_map(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _contains_map(kind.elementType)
    if isinstance(kind, StructType):
        return any(_contains_map(field.dataType) for field in kind.fields)
    return isinstance(kind, MapType)
