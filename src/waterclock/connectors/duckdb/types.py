"""Maps the types of DuckDB columns to Spark types, and defines the SQL that reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.connectors.duckdb.database import require_table
from waterclock.connectors.duckdb.dialect import quote_identifier, source_of
from waterclock.connectors.sql.columns import ExpressionColumn
from waterclock.flow.declarations import Unit
from waterclock.spark_sql import quote_name

if TYPE_CHECKING:
    import duckdb

_SIMPLE = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "integer": "INT",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "varchar": "STRING",
    "blob": "BINARY",
    "date": "DATE",
}
# types whose counterpart is wider, and types that other systems represent as text
_CAST = {
    "utinyint": ("SMALLINT", "SMALLINT"),
    "usmallint": ("INTEGER", "INT"),
    "uinteger": ("BIGINT", "BIGINT"),
    "ubigint": ("DECIMAL(20,0)", "DECIMAL(20,0)"),
    "hugeint": ("DECIMAL(38,0)", "DECIMAL(38,0)"),
    **dict.fromkeys(("uuid", "enum", "time", "time with time zone", "json", "bit"), ("VARCHAR", "STRING")),
}
_LOCAL = frozenset({"timestamp", "timestamp_s", "timestamp_ms"})
_INSTANT = "timestamp with time zone"
_INTEGERS = frozenset({"tinyint", "smallint", "integer", "bigint"})


@dataclass(frozen=True, slots=True)
class DuckdbColumn(ExpressionColumn):
    """A column of a table or query of a DuckDB database."""

    @property
    def is_local(self) -> bool:
        """True if the column's values are times without a zone."""
        return self.kind in _LOCAL

    @property
    def time_kind(self) -> str | None:
        """The kind of time of the column, as `WindowFilter` uses it; None for a column that is not a time."""
        if self.kind == _INSTANT:
            return "timestamptz"
        if self.is_local:
            return "timestamp"
        return "date" if self.kind == "date" else "int8" if self.kind in _INTEGERS else None


def columns_of(connection: duckdb.DuckDBPyConnection, unit: Unit) -> list[DuckdbColumn]:
    """Return the columns of a table or query. Raises E804 for a table that does not exist."""
    require_table(connection, unit)
    relation = connection.sql(f"SELECT * FROM {source_of(unit)} LIMIT 0")
    return [_describe_column(name, kind) for name, kind in zip(relation.columns, relation.types, strict=True)]


def _describe_column(name: str, kind: Any) -> DuckdbColumn:
    sql, of = quote_identifier(name), str(kind).lower()
    text = f"CAST({sql} AS VARCHAR)"
    base = of.partition("(")[0]
    if kind.id == "decimal":
        return DuckdbColumn(name, "decimal", of.upper(), expression=sql, text=text)
    if of in _SIMPLE:
        # DuckDB's text form of bytes shows escape codes; bytes declared as text are decoded as UTF-8
        return DuckdbColumn(name, of, _SIMPLE[of], expression=sql, text=f"decode({sql})" if of == "blob" else text)
    if of == _INSTANT or of in _LOCAL:
        return DuckdbColumn(name, of, "TIMESTAMP", expression=sql, text=text)
    if base in _CAST:
        cast, spark = _CAST[base]
        return DuckdbColumn(name, base, spark, expression=f"CAST({sql} AS {cast})", text=text)
    if kind.id in {"list", "array", "struct", "map"}:
        json = f"CAST(to_json({sql}) AS VARCHAR)"
        spark_type = _convert_nested_type(kind)
        return DuckdbColumn(name, kind.id, spark_type or "STRING", expression=sql if spark_type else json, text=json)
    return DuckdbColumn(name, of, None, f"{of} has no counterpart in Spark", expression=sql, text=text)


def _convert_nested_type(kind: Any) -> str | None:
    """Return the Spark type of a nested type; None if a part of it cannot be read directly."""
    if kind.id in {"list", "array"}:
        inner = _convert_nested_type(dict(kind.children)["child"])
        return inner and f"ARRAY<{inner}>"
    if kind.id == "struct":
        parts = [(name, _convert_nested_type(child)) for name, child in kind.children]
        if any(part is None for _, part in parts):
            return None
        return f"STRUCT<{', '.join(f'{quote_name(name)}: {part}' for name, part in parts)}>"
    if kind.id == "map":
        key, value = (_convert_nested_type(child) for _, child in kind.children)
        return f"MAP<{key}, {value}>" if key and value else None
    if kind.id == "decimal":
        return str(kind).upper()
    return _SIMPLE.get(str(kind).lower())
