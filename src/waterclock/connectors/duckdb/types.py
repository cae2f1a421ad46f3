"""Maps the types of DuckDB columns to Spark types, and defines the SQL that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.connectors.column_matching import Matched, SourceColumn
from waterclock.connectors.duckdb.database import quote_identifier, require_table, source_of
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit

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
class DuckdbColumn:
    """A column of a table or query. `kind` is DuckDB's name of its type, `asked` the SQL that reads it.

    `spark` is the Spark type that it becomes without a declaration; None if a declaration is needed, for the reason in
    `why`. `text` is the SQL of its text, which is used for a column that is declared STRING.
    """

    name: str
    kind: str
    asked: str
    text: str
    spark: str | None
    why: str = ""

    @property
    def source_column(self) -> SourceColumn:
        """The column in the form in which it is matched with declarations."""
        return SourceColumn(self.name, self.spark)

    @property
    def is_local(self) -> bool:
        """Whether its values are times without a zone."""
        return self.kind in _LOCAL

    @property
    def time_kind(self) -> str | None:
        """The kind of time for window bounds; None for a column that is not a time."""
        if self.kind == _INSTANT:
            return "timestamptz"
        if self.is_local:
            return "timestamp"
        return "date" if self.kind == "date" else "int8" if self.kind in _INTEGERS else None


def columns_of(connection: duckdb.DuckDBPyConnection, unit: Unit) -> list[DuckdbColumn]:
    """Return the columns of a table or query.

    Raises  E804 for a table that does not exist
    """
    require_table(connection, unit)
    relation = connection.sql(f"SELECT * FROM {source_of(unit)} LIMIT 0")
    return [_column(name, kind) for name, kind in zip(relation.columns, relation.types, strict=True)]


def _column(name: str, kind: Any) -> DuckdbColumn:
    sql, of = quote_identifier(name), str(kind).lower()
    text = f"CAST({sql} AS VARCHAR)"
    base = of.partition("(")[0]
    if kind.id == "decimal":
        return DuckdbColumn(name, "decimal", sql, text, of.upper())
    if of in _SIMPLE:
        # DuckDB's text form of bytes shows escape codes; bytes declared as text are decoded as UTF-8
        return DuckdbColumn(name, of, sql, f"decode({sql})" if of == "blob" else text, _SIMPLE[of])
    if of == _INSTANT or of in _LOCAL:
        return DuckdbColumn(name, of, sql, text, "TIMESTAMP")
    if base in _CAST:
        cast, spark = _CAST[base]
        return DuckdbColumn(name, base, f"CAST({sql} AS {cast})", text, spark)
    if kind.id in {"list", "array", "struct", "map"}:
        json = f"CAST(to_json({sql}) AS VARCHAR)"
        spark_type = _convert_nested_type(kind)
        return DuckdbColumn(name, kind.id, sql if spark_type else json, json, spark_type or "STRING")
    return DuckdbColumn(name, of, sql, text, None, f"{of} has no counterpart in Spark")


def _convert_nested_type(kind: Any) -> str | None:
    """Return the Spark type of a nested type; None if a part of it cannot be read directly."""
    if kind.id in {"list", "array"}:
        inner = _convert_nested_type(dict(kind.children)["child"])
        return inner and f"ARRAY<{inner}>"
    if kind.id == "struct":
        parts = [(name, _convert_nested_type(child)) for name, child in kind.children]
        if any(part is None for _, part in parts):
            return None
        return f"STRUCT<{', '.join(f'{_spark_name(name)}: {part}' for name, part in parts)}>"
    if kind.id == "map":
        key, value = (_convert_nested_type(child) for _, child in kind.children)
        return f"MAP<{key}, {value}>" if key and value else None
    if kind.id == "decimal":
        return str(kind).upper()
    return _SIMPLE.get(str(kind).lower())


def _spark_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def refuse_unsaid(matched: Matched, columns: Sequence[DuckdbColumn], unit: Unit) -> None:
    """Refuse columns without a declared type or a known counterpart, all of them in one error.

    Raises  E815
    """
    by_name = {column.name: column for column in columns}
    unsaid = [taken for taken in matched.taken if not taken.is_typed and by_name[taken.source].spark is None]
    if not unsaid:
        return
    listed = ", ".join(f"{taken.name} STRING" for taken in unsaid)
    raise WaterclockError(
        "E815",
        f"{unit}: {', '.join(taken.source for taken in unsaid)}"
        f" {'has a type' if len(unsaid) == 1 else 'have types'} that must be declared",
        where=str(unit),
        why="; ".join(dict.fromkeys(by_name[taken.source].why for taken in unsaid)),
        fix=f"declare the columns, as ({listed}, *); STRING takes any type as its text",
    )
