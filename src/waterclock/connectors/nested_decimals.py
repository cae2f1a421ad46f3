"""Reads DECIMALs within nested values without rounding: as texts, which are parsed like text columns.

Spark's own readers round such a number to the scale of its type, and take hours for one such as 1e-99999999.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from sqlglot import exp

from waterclock.spark_sql import cast_text, quote_name

_FIELD_NAME = re.compile(r"(?<=[<,])\s*(\w+)\s*(?=:)")


def type_to_read(type_text: str, text: str = "STRING") -> str:
    """Return the type with which to read a nested value: its DECIMALs are replaced by `text`, either STRING or VARIANT.

    Use VARIANT where Spark would convert numbers to text through a double and lose digits; it is then cast to a STRING.
    Other types, and nested ones without a DECIMAL, are returned unchanged.
    """
    kind = _parse(type_text)
    if kind is None:
        return type_text
    read = kind.transform(lambda each: exp.DataType.build(text, dialect="spark") if _is_decimal(each) else each)
    return read.sql(dialect="spark")


def narrow_value(value: str, type_text: str) -> str:
    """Return SQL that casts a value read with `type_to_read` to its declared type; NULL if that would round a DECIMAL.

    Cost: each number in the value is parsed twice. The SQL is returned unchanged if the type has no DECIMAL.
    """
    kind = _parse(type_text)
    return (
        value
        if kind is None
        else f"CASE WHEN NOT {_mismatch_sql(value, kind, 0)} THEN {_narrow_sql(value, kind, 0)} END"
    )


@lru_cache(maxsize=1000)
def _parse(type_text: str) -> exp.DataType | None:
    """Parse a type; None if it is not nested, or has no DECIMAL within."""
    kind = parse_nested_type(type_text) if "<" in type_text else None
    return kind if kind is not None and _has_decimal(kind) else None


def parse_nested_type(type_text: str) -> exp.DataType:
    """Parse a nested type. Its fields may have names of types, such as `date`."""
    return exp.DataType.build(_FIELD_NAME.sub(r"`\1`", type_text), dialect="spark")


def _struct_fields(value: str, kind: exp.DataType) -> Iterator[tuple[str, exp.DataType, str]]:
    """Yield the name, the type and the SQL of each field of a struct."""
    for field in kind.expressions:
        yield field.name, field.args["kind"], f"{value}.{quote_name(field.name)}"


def _has_decimal(kind: exp.DataType) -> bool:
    return any(_is_decimal(each) for each in kind.walk())


def _is_decimal(each: exp.Expr) -> bool:
    return isinstance(each, exp.DataType) and each.this is exp.DataType.Type.DECIMAL


def _mismatch_sql(value: str, kind: exp.DataType, depth: int) -> str:
    """Return an SQL condition that is TRUE if a number within the value does not fit its type; it is never NULL."""
    if _is_decimal(kind):
        return f"({value} IS NOT NULL AND {_narrow_sql(value, kind, depth)} IS NULL)"
    item = f"each{depth}"
    if kind.this is exp.DataType.Type.STRUCT:
        parts = [_mismatch_sql(inner, of, depth) for _, of, inner in _struct_fields(value, kind) if _has_decimal(of)]
        return f"({' OR '.join(parts)})"
    lists = [value] if kind.this is exp.DataType.Type.ARRAY else [f"map_keys({value})", f"map_values({value})"]
    parts = [
        f"coalesce(exists({items}, {item} -> {_mismatch_sql(item, inner, depth + 1)}), FALSE)"
        for items, inner in zip(lists, kind.expressions, strict=True)
        if _has_decimal(inner)
    ]
    return f"({' OR '.join(parts)})"


def _narrow_sql(value: str, kind: exp.DataType, depth: int) -> str:
    """Return SQL that casts the texts within a value to numbers; a number that does not fit becomes NULL."""
    if _is_decimal(kind):
        return cast_text(value, kind.sql(dialect="spark"))
    if not _has_decimal(kind):
        return value
    if kind.this is exp.DataType.Type.STRUCT:
        fields = [
            f"{_narrow_sql(inner, of, depth)} AS {quote_name(name)}" for name, of, inner in _struct_fields(value, kind)
        ]
        return f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(fields)}) END"
    item = f"each{depth}"
    if kind.this is exp.DataType.Type.ARRAY:
        return f"transform({value}, {item} -> {_narrow_sql(item, kind.expressions[0], depth + 1)})"
    key, inner = kind.expressions
    made = f"transform_values({value}, (key{depth}, {item}) -> {_narrow_sql(item, inner, depth + 1)})"
    if not _has_decimal(key):
        return made
    return f"transform_keys({made}, ({item}, of{depth}) -> {_narrow_sql(item, key, depth + 1)})"
