"""Maps the types of MariaDB and MySQL columns to Spark types, and defines the SQL that reads them.

Source  https://mariadb.com/kb/en/result-set-packets/ (types and flags of a column)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.connectors.column_matching import Matched, SourceColumn
from waterclock.connectors.mysql.database import quote_identifier, source_of
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.mysql.database import Connection

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
class MysqlColumn:
    """A column of a table or query. `kind` is the server's name of its type, `asked` the SQL that reads it.

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
    def is_bytes(self) -> bool:
        """Whether its values are bytes rather than text."""
        return self.kind in {"blob", "geometry"}

    @property
    def time_kind(self) -> str | None:
        """The kind of time for window bounds; None for a column that is not a time."""
        return _TIMES.get(self.kind, "int8" if self.kind in _SIGNED else None)


def columns_of(connection: Connection, unit: Unit) -> list[MysqlColumn]:
    """Return the columns of a table or query, as the server describes them."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {source_of(unit)} LIMIT 0")
        # the driver's own description omits whether a number is signed, and whether a string is text or bytes
        fields: Sequence[Any] = cursor._result.fields  # noqa: SLF001
        return [_column(each) for each in fields]


def _column(field: Any) -> MysqlColumn:
    name, sql, is_unsigned = field.name, quote_identifier(field.name), bool(field.flags & _IS_UNSIGNED)
    if field.type_code in _WHOLE:
        kind = _WHOLE[field.type_code]
        return MysqlColumn(name, kind, sql, sql, (_UNSIGNED if is_unsigned else _SIGNED)[kind])
    if field.type_code in _DECIMAL:
        digits = field.length - bool(field.scale) - (not is_unsigned)
        return _decimal(name, sql, digits, field.scale)
    if field.type_code in _SIMPLE:
        kind, spark = _SIMPLE[field.type_code]
        # the text of a FLOAT has six digits, that of a DOUBLE has all
        asked = f"({sql} + 0e0)" if kind == "float" else sql
        return MysqlColumn(name, kind, asked, asked, spark)
    return _of_signs(name, sql, field)


def _of_signs(name: str, sql: str, field: Any) -> MysqlColumn:
    """Describe a column of bits, text, bytes or geometry, or one without a type."""
    if field.type_code == _BIT:
        spark = "BOOLEAN" if field.length == 1 else "BIGINT" if field.length < _BITS else "DECIMAL(20,0)"
        return MysqlColumn(name, "bit", f"CAST({sql} AS UNSIGNED)", f"LPAD(BIN({sql}), {field.length}, '0')", spark)
    if field.type_code in _TEXTS:
        is_bytes = field.charsetnr == _BYTES
        return MysqlColumn(name, "blob" if is_bytes else "text", sql, sql, "BINARY" if is_bytes else "STRING")
    if field.type_code == _GEOMETRY:
        why = "geometry has no counterpart in Spark"
        return MysqlColumn(name, "geometry", sql, f"ST_AsText({sql})", None, why)
    return MysqlColumn(name, "null", sql, sql, None, "what is NULL in every row has no type")


def _decimal(name: str, sql: str, digits: int, after: int) -> MysqlColumn:
    if digits > _MOST_DIGITS or after > digits:
        why = f"decimal({digits},{after}) is more than DECIMAL can hold"
        return MysqlColumn(name, "decimal", sql, sql, None, why)
    return MysqlColumn(name, "decimal", sql, sql, f"DECIMAL({digits},{after})")


def refuse_unsaid(matched: Matched, columns: Sequence[MysqlColumn], unit: Unit) -> None:
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
