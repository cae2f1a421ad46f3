"""Makes a table of a SQLite database fit what is delivered there, and refuses what is somebody else's.

The destination is created by the first delivery, with an index on its keys or on `timelabel`; columns that it lacks
are added. Types: whole numbers INTEGER, floats REAL, DECIMAL(p,s) up to 15 digits (beyond: TEXT), BOOLEAN as 0 and 1,
DATE and TIMESTAMP as ISO text (`2013-01-01 05:00:00`, instants in UTC; it sorts as time), BINARY BLOB, nested ones
JSON text.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.delivery_record import Record
from waterclock.connectors.foreign_rows import foreign_rows
from waterclock.connectors.overwrites import Dialect, number_or_text, rows_of
from waterclock.connectors.sqlite.database import quoted, table_of
from waterclock.flow.choices import Mode
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL


def sql_type(spark_type: str) -> str:
    """Return the declared type of a column that takes values of a Spark type."""
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


DIALECT = Dialect(quoted, "?", "{} COLLATE BINARY", number_or_text)


def settle_table(connection: sqlite3.Connection, unit: Unit, delivery: Delivery, *, is_ours: bool) -> None:
    """Make the destination fit: create it, add columns it lacks, index its keys.

    Raises  E820 for a table that is somebody else's
    """
    table = table_of(unit)
    wanted = {name: sql_type(kind) for name, kind in delivery.columns}
    if delivery.is_by_label:
        wanted[TIMELABEL] = "TEXT"
    prefix, name = _place_of(unit)
    known = columns_there(connection, unit)
    if not known:
        connection.execute(
            f"CREATE TABLE {table} ({', '.join(f'{quoted(column)} {kind}' for column, kind in wanted.items())})"
        )
    else:
        _refuse_foreign(connection, unit, delivery, is_ours=is_ours)
        for column, kind in wanted.items():
            if column.lower() not in known:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {quoted(column)} {kind}")
    if delivery.mode is Mode.MERGE:
        _index(connection, prefix, name, delivery.keys, is_unique=True)
    elif delivery.is_by_label:
        _index(connection, prefix, name, (TIMELABEL,), is_unique=False)


def _place_of(unit: Unit) -> tuple[str, str]:
    *schema, name = unit.path.split(".")
    return (f"{quoted(schema[0])}." if schema else "", name)


def columns_there(connection: sqlite3.Connection, unit: Unit) -> set[str]:
    """Return the names of the table's columns in lower case; none where there is no table."""
    prefix, name = _place_of(unit)
    return {str(row[1]).lower() for row in connection.execute(f"PRAGMA {prefix}table_xinfo({quoted(name)})")}


def _refuse_foreign(connection: sqlite3.Connection, unit: Unit, delivery: Delivery, *, is_ours: bool) -> None:
    other = Record(connection.execute, "?").other_project(delivery)
    some, values = rows_of(delivery, DIALECT)
    has_rows = is_ours or connection.execute(f"SELECT 1 FROM {table_of(unit)} WHERE {some} LIMIT 1", values).fetchone()
    if not other and (is_ours or not has_rows or unit.options.get("adopt")):
        return
    raise foreign_rows(unit, delivery, of=other)


def _index(connection: sqlite3.Connection, prefix: str, table: str, columns: Sequence[str], *, is_unique: bool) -> None:
    wanted = {column.lower() for column in columns}
    rows = connection.execute(f"PRAGMA {prefix}table_xinfo({quoted(table)})").fetchall()
    if {str(row[1]).lower() for row in rows if row[5]} == wanted:
        return
    for _, index, unique, _, partial in connection.execute(f"PRAGMA {prefix}index_list({quoted(table)})").fetchall():
        members = [str(row[2]).lower() for row in connection.execute(f"PRAGMA {prefix}index_info({quoted(index)})")]
        if not partial and (set(members) == wanted if is_unique and unique else members[:1] == list(wanted)):
            return
    name = quoted(f"waterclock_{table}_{'key' if is_unique else TIMELABEL}")
    listed = ", ".join(quoted(column) for column in columns)
    kind = "UNIQUE INDEX" if is_unique else "INDEX"
    connection.execute(f"CREATE {kind} {prefix}{name} ON {quoted(table)} ({listed})")
