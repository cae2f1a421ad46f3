"""Maps the types of MariaDB and MySQL columns to Spark types, and defines the SQL that reads them.

Source: https://mariadb.com/kb/en/result-set-packets/ (types and flags of a column)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.connectors.mysql.dialect import quote_identifier, source_of
from waterclock.connectors.sql.columns import ExpressionColumn
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.mysql.statements import Connection

_WHOLE = {1: "tinyint", 2: "smallint", 9: "mediumint", 3: "int", 8: "bigint"}
_SIGNED = {"tinyint": "TINYINT", "smallint": "SMALLINT", "mediumint": "INT", "int": "INT", "bigint": "BIGINT"}
_UNSIGNED = {
    "tinyint": "SMALLINT",
    "smallint": "INT",
    "mediumint": "INT",
    "int": "BIGINT",
    "bigint": "DECIMAL(20,0)",
}
_DECIMAL = frozenset({0, 246})
_SIMPLE = {
    4: ("float", "FLOAT"),
    5: ("double", "DOUBLE"),
    7: ("timestamp", "TIMESTAMP"),
    10: ("date", "DATE"),
    14: ("date", "DATE"),
    11: ("time", "STRING"),
    12: ("datetime", "TIMESTAMP"),
    13: ("year", "SMALLINT"),
    245: ("json", "STRING"),
    247: ("enum", "STRING"),
    248: ("set", "STRING"),
}
_TEXTS = frozenset({15, 249, 250, 251, 252, 253, 254})
_BIT, _GEOMETRY = 16, 255
_IS_UNSIGNED, _BYTES, _BITS = 32, 63, 64
_MOST_DIGITS = 38
_TIMES = {"timestamp": "timestamptz", "datetime": "timestamp", "date": "date"}


@dataclass(frozen=True, slots=True)
class MysqlColumn(ExpressionColumn):
    """A column of a table or query of a MariaDB or MySQL database."""

    @property
    def time_kind(self) -> str | None:
        """The kind of time of the column, as `WindowFilter` uses it; None for a column that is not a time."""
        return _TIMES.get(self.kind, "int8" if self.kind in _SIGNED else None)


def columns_of(connection: Connection, unit: Unit) -> list[MysqlColumn]:
    """Return the columns of a table or query, as the server describes them."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {source_of(unit)} LIMIT 0")
        # the driver's own description omits whether a number is signed, and whether a string is text or bytes
        fields: Sequence[Any] = cursor._result.fields  # noqa: SLF001
        return [_describe_column(each) for each in fields]


def _describe_column(field: Any) -> MysqlColumn:
    name, sql, is_unsigned = field.name, quote_identifier(field.name), bool(field.flags & _IS_UNSIGNED)
    if field.type_code in _WHOLE:
        kind = _WHOLE[field.type_code]
        return MysqlColumn(name, kind, (_UNSIGNED if is_unsigned else _SIGNED)[kind], expression=sql, text=sql)
    if field.type_code in _DECIMAL:
        digits = field.length - bool(field.scale) - (not is_unsigned)
        return _describe_decimal(name, sql, digits, field.scale)
    if field.type_code in _SIMPLE:
        kind, spark = _SIMPLE[field.type_code]
        # the text of a FLOAT has six digits, that of a DOUBLE has all
        expression = f"({sql} + 0e0)" if kind == "float" else sql
        return MysqlColumn(name, kind, spark, expression=expression, text=expression)
    return _describe_other_column(name, sql, field)


def _describe_other_column(name: str, sql: str, field: Any) -> MysqlColumn:
    """Describe a column of bits, text, bytes or geometry, or a column without a type."""
    if field.type_code == _BIT:
        spark = "BOOLEAN" if field.length == 1 else "BIGINT" if field.length < _BITS else "DECIMAL(20,0)"
        return MysqlColumn(
            name, "bit", spark, expression=f"CAST({sql} AS UNSIGNED)", text=f"LPAD(BIN({sql}), {field.length}, '0')"
        )
    if field.type_code in _TEXTS:
        is_bytes = field.charsetnr == _BYTES
        return MysqlColumn(
            name, "blob" if is_bytes else "text", "BINARY" if is_bytes else "STRING", expression=sql, text=sql
        )
    if field.type_code == _GEOMETRY:
        why = "geometry has no counterpart in Spark"
        return MysqlColumn(name, "geometry", None, why, expression=sql, text=f"ST_AsText({sql})")
    return MysqlColumn(name, "null", None, "a column that is NULL in every row has no type", expression=sql, text=sql)


def _describe_decimal(name: str, sql: str, digits: int, after: int) -> MysqlColumn:
    if digits > _MOST_DIGITS or after > digits:
        why = f"decimal({digits},{after}) is more than DECIMAL can hold"
        return MysqlColumn(name, "decimal", None, why, expression=sql, text=sql)
    return MysqlColumn(name, "decimal", f"DECIMAL({digits},{after})", expression=sql, text=sql)
