"""Describes the columns of a Firebird table or query: their Spark types, and which values they store exactly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from waterclock.connectors.firebird.database import DIALECT, FirebirdConnection
from waterclock.connectors.sql.columns import ExpressionColumn
from waterclock.connectors.sql.database_errors import missing_table_error, refused_statement_error
from waterclock.connectors.sql.exact_values import StoredColumn, ValueKind
from waterclock.flow.declarations import Unit

_WHOLE = StoredColumn("", "", holds=ValueKind.DECIMAL, places=0)
_TIMES = {"timestamp": "timestamp", "date": "date", **dict.fromkeys(("smallint", "integer", "bigint"), "int8")}
# by the driver's name of a type: its name in SQL, its Spark type, and the values that it stores
_KINDS = {
    "SHORT": ("smallint", "SMALLINT", _WHOLE),
    "LONG": ("integer", "INT", _WHOLE),
    "INT64": ("bigint", "BIGINT", _WHOLE),
    "FLOAT": ("float", "FLOAT", StoredColumn("", "", holds=ValueKind.FLOAT, bits=24)),
    "DOUBLE": ("double precision", "DOUBLE", StoredColumn("", "", holds=ValueKind.FLOAT, bits=53)),
    "BOOLEAN": ("boolean", "BOOLEAN", StoredColumn("", "")),
    "DATE": ("date", "DATE", StoredColumn("", "", holds=ValueKind.DATE)),
    "TIME": ("time", "STRING", StoredColumn("", "", holds=ValueKind.TIME, places=4, has_zone=False)),
    "TIMESTAMP": ("timestamp", "TIMESTAMP", StoredColumn("", "", holds=ValueKind.TIMESTAMP, places=4, has_zone=False)),
}
_DIGITS = {"SHORT": 4, "LONG": 9, "INT64": 18}
_NONE, _OCTETS = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FirebirdColumn(ExpressionColumn):
    """A column of a Firebird table or query. `stored` describes which values it stores exactly."""

    stored: StoredColumn

    @property
    def time_kind(self) -> str | None:
        """The kind of time of the column, as `WindowFilter` uses it; None for a column that is not a time."""
        return _TIMES.get(self.kind)


def kind_at(connection: FirebirdConnection, unit: Unit) -> str:
    """Return `table` or `view`, the kind of object with the unit's name; empty if the name is free."""
    sql = "SELECT RDB$VIEW_BLR IS NULL FROM RDB$RELATIONS WHERE RDB$RELATION_NAME = ?"
    row = connection.in_session().first_of(sql, (stored_name(unit.path),))
    return ("table" if row[0] else "view") if row else ""


def stored_name(name: str) -> str:
    """Return a name in the form in which the catalog stores it."""
    return DIALECT.quote_identifier(name)[1:-1].replace('""', '"')


def columns_of(connection: FirebirdConnection, unit: Unit) -> list[FirebirdColumn]:
    """Return the columns of a table or query, as the server describes them. Raises E804 for a missing table."""
    if unit.query is None and not kind_at(connection, unit):
        sql = "SELECT TRIM(RDB$RELATION_NAME) FROM RDB$RELATIONS WHERE RDB$SYSTEM_FLAG = 0 ORDER BY 1 ROWS 500"
        names = [_declared_name(row[0]) for row in connection.in_session().rows_of(sql)]
        known = [name for name in names if not name.startswith("waterclock_")]
        raise missing_table_error(unit, known, (unit.path, known))
    return [_describe_column(each, unit) for each in connection.describe(f"SELECT * FROM {DIALECT.source_of(unit)}")]


def _declared_name(name: str) -> str:
    """Return a name from the catalog as a declaration spells it: in lower case if it is all in upper case."""
    return name.lower() if name == name.upper() else name


def _describe_column(meta: Any, unit: Unit) -> FirebirdColumn:
    name = _declared_name(meta.alias)
    if name == meta.alias and name == name.lower() != name.upper():
        fix = f'rename the column, or use a QUERY: SELECT "{name}" AS {name}_ …'
        raise refused_statement_error(str(unit), f'its column "{name}" was created with quotes in lower case', fix)
    sql, kind = DIALECT.quote_identifier(name), meta.datatype.name
    if meta.scale and kind in _DIGITS:
        digits = _DIGITS[kind]
        spelt, spark, stored = f"numeric({digits},{-meta.scale})", f"DECIMAL({digits},{-meta.scale})", _WHOLE
        stored = replace(_WHOLE, places=-meta.scale)
        return _build_column(name, "numeric", spark, replace(stored, type_name=spelt), sql)
    if kind in _KINDS:
        spelt, spark, stored = _KINDS[kind]
        text = f"LOWER(CAST({sql} AS VARCHAR(5)))" if kind == "BOOLEAN" else sql
        return _build_column(name, spelt, spark, replace(stored, type_name=spelt), sql, text)
    if kind in {"TEXT", "VARYING"}:
        is_bytes, is_char = meta.charset == _OCTETS, kind == "TEXT"
        length = meta.length if meta.charset in {_OCTETS, _NONE} else meta.length // 4
        stored = StoredColumn(
            name, f"{'char' if is_char else 'varchar'}({length})", holds=ValueKind.TEXT, length=length
        )
        stored = replace(stored, forgets_blanks=is_char, is_in_bytes=meta.charset in {_OCTETS, _NONE})
        return _build_column(name, "octets" if is_bytes else "text", "BINARY" if is_bytes else "STRING", stored, sql)
    if kind == "BLOB":
        is_text = meta.subtype == 1
        stored = StoredColumn(name, f"blob sub_type {'text' if is_text else 'binary'}")
        return _build_column(name, "text" if is_text else "octets", "STRING" if is_text else "BINARY", stored, sql)
    stored = StoredColumn(
        name, kind.lower(), refuses="is not supported: convert it to a type of Firebird 3, such as VARCHAR"
    )
    text = f"CAST({sql} AS VARCHAR(255))"
    why = f"{kind.lower()} has no counterpart in Spark"
    return FirebirdColumn(name, kind.lower(), None, why, expression=text, text=text, stored=stored)


def _build_column(
    name: str, kind: str, spark: str, stored: StoredColumn, expression: str, text: str = ""
) -> FirebirdColumn:
    return FirebirdColumn(
        name, kind, spark, expression=expression, text=text or expression, stored=replace(stored, name=name)
    )
