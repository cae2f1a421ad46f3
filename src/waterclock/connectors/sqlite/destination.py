"""Creates or alters the destination table in a SQLite database, and refuses tables that are not ours.

The first delivery creates the destination, with an index on its keys or on `timelabel`. Missing columns are added.
Types: whole numbers INTEGER, floats REAL, DECIMAL(p,s) up to 15 digits (beyond: TEXT), BOOLEAN as 0 and 1, DATE and
TIMESTAMP as ISO text (`2013-01-01 05:00:00`, instants in UTC; it sorts as time), BINARY as BLOB, and nested values as
JSON text.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.sql.delivery_record import DeliveryRecord
from waterclock.connectors.sql.destination_refusals import foreign_rows
from waterclock.connectors.sql.exact_values import Holds, StoredColumn
from waterclock.connectors.sql.overwrites import Dialect, number_or_text, rows_of
from waterclock.connectors.sqlite.database import quote_identifier, table_of
from waterclock.flow.choices import Mode
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

_DIGITS_AS_TEXT = 15  # digits of a number that is written to a text column


def sql_type(spark_type: str) -> str:
    """Return the declared type of a column for values of a Spark type."""
    kind = spark_type.strip().lower()
    if decimal := re.fullmatch(r"(?:decimal|dec|numeric)(?:\((\d+)(?:,\s*(\d+))?\))?", kind):
        digits, scale = int(decimal[1] or 10), int(decimal[2] or 0)
        return f"DECIMAL({digits},{scale})" if digits <= 15 else "TEXT"
    return _TYPES.get(kind, "TEXT")


_TYPES = {
    **dict.fromkeys(("tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long"), "INTEGER"),
    **dict.fromkeys(("float", "real", "double"), "REAL"),
    **dict.fromkeys(("timestamp", "timestamp_ltz", "timestamp_ntz"), "TIMESTAMP"),
    "boolean": "BOOLEAN",
    "date": "DATE",
    "binary": "BLOB",
}


DIALECT = Dialect(quote_identifier, "?", "{} COLLATE BINARY", number_or_text)


def settle_table(
    connection: sqlite3.Connection, unit: Unit, delivery: Delivery, *, is_ours: bool
) -> Mapping[str, StoredColumn]:
    """Create the destination, or add missing columns; index its keys. Return its columns by their names in lower case.

    Raises  E820 for a table that belongs to someone else
    """
    table = table_of(unit)
    wanted = {name: sql_type(kind) for name, kind in delivery.columns}
    if delivery.is_by_label:
        wanted[TIMELABEL] = "TEXT"
    prefix, name = _place_of(unit)
    known = columns_there(connection, unit)
    if not known:
        connection.execute(
            f"CREATE TABLE {table} "
            f"({', '.join(f'{quote_identifier(column)} {kind}' for column, kind in wanted.items())})"
        )
    else:
        _refuse_foreign(connection, unit, delivery, is_ours=is_ours)
        for column, kind in wanted.items():
            if column.lower() not in known:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {quote_identifier(column)} {kind}")
    if delivery.mode is Mode.MERGE:
        _index(connection, prefix, name, delivery.keys, is_unique=True)
    elif delivery.is_by_label:
        _index(connection, prefix, name, (TIMELABEL,), is_unique=False)
    return columns_there(connection, unit)


def _place_of(unit: Unit) -> tuple[str, str]:
    *schema, name = unit.path.split(".")
    return (f"{quote_identifier(schema[0])}." if schema else "", name)


def columns_there(connection: sqlite3.Connection, unit: Unit) -> dict[str, StoredColumn]:
    """Return the table's columns by their names in lower case; empty if there is no table."""
    prefix, name = _place_of(unit)
    rows = connection.execute(f"PRAGMA {prefix}table_xinfo({quote_identifier(name)})")
    return {str(row[1]).lower(): _resolve_stored_column(str(row[1]), str(row[2])) for row in rows}


def _resolve_stored_column(name: str, declared: str) -> StoredColumn:
    """Return which values a column stores exactly, by the affinity of its declared type. NaN becomes NULL in all."""
    kind = declared.upper()
    column = StoredColumn(name, declared or "of no type", unknown=("nan",))
    if "INT" in kind:
        return replace(column, holds=Holds.NUMBER_OR_TEXT)
    if any(word in kind for word in ("CHAR", "CLOB", "TEXT")):
        return replace(column, holds=Holds.TEXT, digits=_DIGITS_AS_TEXT)
    if "BLOB" in kind or not kind:
        return column
    is_real = any(word in kind for word in ("REAL", "FLOA", "DOUB"))
    return replace(column, holds=Holds.NUMBER_OR_TEXT, bits=53 if is_real else None)


def is_key_coarse(connection: sqlite3.Connection, unit: Unit, delivery: Delivery) -> bool:
    """Return whether a collation treats different keys as equal, as NOCASE does with `a` and `A`."""
    prefix, table = _place_of(unit)
    keys = {key.lower() for key in delivery.keys}
    for _, index, *_ in connection.execute(f"PRAGMA {prefix}index_list({quote_identifier(table)})").fetchall():
        for row in connection.execute(f"PRAGMA {prefix}index_xinfo({quote_identifier(index)})").fetchall():
            if str(row[2]).lower() in keys and str(row[4]).upper() != "BINARY":
                return True
    return False


def _refuse_foreign(connection: sqlite3.Connection, unit: Unit, delivery: Delivery, *, is_ours: bool) -> None:
    other = DeliveryRecord(connection.execute, "?").other_project(delivery)
    some, values = rows_of(delivery, DIALECT)
    has_rows = is_ours or connection.execute(f"SELECT 1 FROM {table_of(unit)} WHERE {some} LIMIT 1", values).fetchone()
    if not other and (is_ours or not has_rows or unit.options.get("adopt")):
        return
    raise foreign_rows(unit, delivery, of=other)


def _index(connection: sqlite3.Connection, prefix: str, table: str, columns: Sequence[str], *, is_unique: bool) -> None:
    wanted = {column.lower() for column in columns}
    rows = connection.execute(f"PRAGMA {prefix}table_xinfo({quote_identifier(table)})").fetchall()
    if {str(row[1]).lower() for row in rows if row[5]} == wanted:
        return
    for _, index, unique, _, partial in connection.execute(
        f"PRAGMA {prefix}index_list({quote_identifier(table)})"
    ).fetchall():
        members = [
            str(row[2]).lower() for row in connection.execute(f"PRAGMA {prefix}index_info({quote_identifier(index)})")
        ]
        if not partial and (set(members) == wanted if is_unique and unique else members[:1] == list(wanted)):
            return
    name = quote_identifier(f"waterclock_{table}_{'key' if is_unique else TIMELABEL}")
    listed = ", ".join(quote_identifier(column) for column in columns)
    kind = "UNIQUE INDEX" if is_unique else "INDEX"
    connection.execute(f"CREATE {kind} {prefix}{name} ON {quote_identifier(table)} ({listed})")
