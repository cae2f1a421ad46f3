"""Describes the columns of a PostgreSQL destination: which values each stores exactly, and how it compares texts.

The description comes from the catalog. A domain is described by its base type and an array by its elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from waterclock.connectors.postgres.dialect import table_of
from waterclock.connectors.sql.exact_values import StoredColumn, ValueKind
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection

_COLUMNS = """
WITH RECURSIVE of (number, name, full_type, type, modifier, is_array, collation_of) AS (
  SELECT attnum, attname::text, format_type(atttypid, atttypmod), atttypid, atttypmod, false, attcollation
  FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
UNION ALL
  SELECT of.number, of.name, of.full_type, CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.typelem END,
    CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE of.modifier END, of.is_array OR t.typtype <> 'd', of.collation_of
  FROM of JOIN pg_type AS t ON t.oid = of.type WHERE t.typtype = 'd' OR t.typcategory = 'A' AND t.typelem <> 0
)
SELECT of.name, of.full_type, t.typname::text, of.modifier, of.is_array, t.typcategory = 'S',
  t.typname IN ('citext', 'bpchar') OR NOT coalesce(c.collisdeterministic, true), CASE WHEN t.typtype = 'c' THEN (
    SELECT coalesce(string_agg(quote_ident(f.attname) || ' ' || format_type(f.atttypid, f.atttypmod), ', '), '')
    FROM pg_attribute AS f WHERE f.attrelid = t.typrelid AND f.attnum > 0 AND NOT f.attisdropped
    AND NOT (f.atttypmod = -1 AND f.atttypid = ANY (
      '{text,varchar,int2,int4,int8,numeric,bool,bytea,uuid,json,jsonb}'::regtype[]))) END
FROM of JOIN pg_type AS t ON t.oid = of.type LEFT JOIN pg_collation AS c ON c.oid = of.collation_of
WHERE NOT (t.typtype = 'd' OR t.typcategory = 'A' AND t.typelem <> 0) ORDER BY of.number"""
_MONEY = "SELECT '1.5'::money::numeric IN (1.5, 2), scale(1::money::numeric)"
_SECOND = 1 << 12  # the bit for seconds in the fields of an interval
_ALL_FIELDS = 0x7FFF
_ALL_DIGITS = 0xFFFF
_HEADER = 4  # bytes of a header, which a modifier includes


@dataclass(frozen=True, slots=True)
class PostgresDestinationColumn:
    """A column of the destination. `is_coarse`: its type or collation treats different texts as equal, as citext does.

    `alike` is the name of another column that differs only by case.
    """

    name: str
    stored: StoredColumn
    is_text: bool = False
    is_coarse: bool = False
    alike: str = ""


def read_stored_columns(connection: Connection, unit: Unit) -> dict[str, PostgresDestinationColumn]:
    """Return the columns of the unit's table by lower-case name; empty if the table does not exist."""
    rows = connection.execute(_COLUMNS, (table_of(unit),)).fetchall()
    there: dict[str, PostgresDestinationColumn] = {}
    for name, declared_type, kind, modifier, is_array, is_text, is_coarse, inexact_fields in rows:
        column = StoredColumn(str(name), str(declared_type), is_array=bool(is_array))
        if inexact_fields is not None:
            stored = _describe_composite(column, str(inexact_fields))
        else:
            stored = (
                _describe_money(connection, column)
                if kind == "money"
                else _resolve_stored_column(column, str(kind), int(modifier))
            )
        lower = str(name).lower()
        alike = there[lower].name if lower in there else ""
        there[lower] = PostgresDestinationColumn(str(name), stored, bool(is_text), bool(is_coarse), alike)
    return there


def _resolve_stored_column(column: StoredColumn, kind: str, modifier: int) -> StoredColumn:
    """Describe which values a column of a base type stores exactly.

    `modifier` encodes the parameters of the type, as in `numeric(10,2)`.
    """
    if kind == "interval":
        return _describe_interval(column, modifier)
    if kind in _FIXED:
        return replace(column, **_FIXED[kind])
    if kind in _TIMES:
        return replace(column, **_TIMES[kind], places=modifier if modifier >= 0 else None)
    if kind == "numeric" and modifier >= _HEADER:
        return replace(column, holds=ValueKind.DECIMAL, places=(((modifier - _HEADER) & 2047) ^ 1024) - 1024)
    if kind in {"varchar", "bpchar"}:
        length = modifier - _HEADER if modifier >= _HEADER else None
        return replace(column, holds=ValueKind.TEXT, length=length, forgets_blanks=kind == "bpchar")
    return column


def _describe_composite(column: StoredColumn, inexact_fields: str) -> StoredColumn:
    """Describe a column of a composite type: the server parses its values from text, and its fields may round them."""
    refuses = f"has fields that may cut or round a value ({inexact_fields})" if inexact_fields else ""
    return replace(column, refuses=refuses, takes_json=False)


_FIXED: Mapping[str, Mapping[str, Any]] = {
    "float4": {"holds": ValueKind.FLOAT, "bits": 24},
    "float8": {"holds": ValueKind.FLOAT, "bits": 53},
    "date": {"holds": ValueKind.DATE},
    "name": {"holds": ValueKind.TEXT, "length": 63, "is_in_bytes": True},
    "char": {"holds": ValueKind.TEXT, "length": 1, "is_in_bytes": True},
}
_TIMES: Mapping[str, Mapping[str, Any]] = {
    "timestamp": {"holds": ValueKind.TIMESTAMP, "has_zone": False},
    "timestamptz": {"holds": ValueKind.TIMESTAMP},
    "time": {"holds": ValueKind.TIME, "has_zone": False},
    "timetz": {"holds": ValueKind.TIME},
}


def _describe_interval(column: StoredColumn, modifier: int) -> StoredColumn:
    fields, digits = (modifier >> 16) & _ALL_FIELDS, modifier & _ALL_DIGITS
    if modifier >= 0 and fields != _ALL_FIELDS and not fields & _SECOND:
        return replace(column, refuses="keeps only some fields of an interval")
    places = digits if modifier >= 0 and digits != _ALL_DIGITS else None
    return replace(column, holds=ValueKind.INTERVAL, places=places)


def _describe_money(connection: Connection, column: StoredColumn) -> StoredColumn:
    """Describe which values a money column stores, which depends on the server's locale (lc_monetary)."""
    row = connection.execute(_MONEY).fetchone()
    if row is None or not row[0]:
        return replace(column, refuses="reads numbers in the format of another locale (lc_monetary)")
    return replace(column, holds=ValueKind.DECIMAL, places=int(row[1]))
