"""Creates or alters the destination table in a SQLite database, and refuses tables with rows that others wrote.

The first delivery creates the destination, with an index on its keys or on `timelabel`. Missing columns are added.
Types: whole numbers INTEGER, floats REAL, DECIMAL(p,s) up to 15 digits (beyond: TEXT), BOOLEAN as 0 and 1, DATE and
TIMESTAMP as ISO text (`2013-01-01 05:00:00`, instants in UTC; it sorts as time), BINARY as BLOB, and nested values as
JSON text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import replace

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.sql.destination import (
    DestinationIndex,
    add_columns,
    create_table,
    require_own_rows,
    wanted_columns,
    wanted_index,
)
from waterclock.connectors.sql.exact_values import StoredColumn, ValueKind
from waterclock.connectors.sqlite.database import split_table_name
from waterclock.connectors.sqlite.dialect import DIALECT, quote_identifier, session_in
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

_DIGITS_AS_TEXT = 15  # digits of a number that is written to a text column


def prepare_table(
    connection: sqlite3.Connection, unit: Unit, delivery: Delivery, *, is_ours: bool
) -> Mapping[str, StoredColumn]:
    """Create the destination, or add missing columns, and create the index that it needs.

    Return its columns by lower-case name.
    Raises E820 for a table with rows of other owners.
    """
    session, wanted = session_in(connection), wanted_columns(delivery, DIALECT)
    known = read_stored_columns(connection, unit)
    if not known:
        create_table(session, unit, wanted)
    else:
        require_own_rows(session, unit, delivery, {}, is_ours=is_ours)
        add_columns(session, unit, wanted, known)
    if index := wanted_index(delivery):
        _create_index(connection, unit, index)
    return read_stored_columns(connection, unit)


def read_stored_columns(connection: sqlite3.Connection, unit: Unit) -> dict[str, StoredColumn]:
    """Return the columns of the unit's table by lower-case name; empty if the table does not exist."""
    prefix, name = split_table_name(unit)
    rows = connection.execute(f"PRAGMA {prefix}table_xinfo({quote_identifier(name)})").fetchall()
    found = {str(row[1]).lower(): _resolve_stored_column(str(row[1]), str(row[2])) for row in rows}
    of_key = [str(row[1]).lower() for row in rows if row[5]]
    if len(of_key) == 1 and (key := found[of_key[0]]).type_name.upper() == "INTEGER":  # another name of the rowid
        found[of_key[0]] = replace(key, null_becomes="the next number")
    return found


def _resolve_stored_column(name: str, declared: str) -> StoredColumn:
    """Describe which values a column stores exactly, by the affinity of its declared type.

    NaN always becomes NULL.
    """
    kind = declared.upper()
    column = StoredColumn(name, declared or "of no type", unknown=("nan",))
    if "INT" in kind:
        return replace(column, holds=ValueKind.NUMBER_OR_TEXT)
    if any(word in kind for word in ("CHAR", "CLOB", "TEXT")):
        return replace(column, holds=ValueKind.TEXT, digits=_DIGITS_AS_TEXT)
    if "BLOB" in kind or not kind:
        return column
    is_real = any(word in kind for word in ("REAL", "FLOA", "DOUB"))
    return replace(column, holds=ValueKind.NUMBER_OR_TEXT, bits=53 if is_real else None)


def is_key_coarse(connection: sqlite3.Connection, unit: Unit, delivery: Delivery) -> bool:
    """Return whether an index on a key has a collation that treats different texts as equal, such as NOCASE."""
    prefix, table = split_table_name(unit)
    keys = {key.lower() for key in delivery.keys}
    for _, index, *_ in connection.execute(f"PRAGMA {prefix}index_list({quote_identifier(table)})").fetchall():
        for row in connection.execute(f"PRAGMA {prefix}index_xinfo({quote_identifier(index)})").fetchall():
            if str(row[2]).lower() in keys and str(row[4]).upper() != "BINARY":
                return True
    return False


def _create_index(connection: sqlite3.Connection, unit: Unit, wanted: DestinationIndex) -> None:
    prefix, table = split_table_name(unit)
    rows = connection.execute(f"PRAGMA {prefix}table_xinfo({quote_identifier(table)})").fetchall()
    if {str(row[1]).lower() for row in rows if row[5]} == {column.lower() for column in wanted.columns}:
        return
    rows = connection.execute(f"PRAGMA {prefix}index_list({quote_identifier(table)})").fetchall()
    for _, index, unique, _, partial in rows:
        of_index = connection.execute(f"PRAGMA {prefix}index_info({quote_identifier(index)})")
        if not partial and wanted.is_served_by([str(row[2]) for row in of_index], is_unique=bool(unique)):
            return
    name = quote_identifier(f"waterclock_{table}_{'key' if wanted.is_unique else TIMELABEL}")
    listed = ", ".join(quote_identifier(column) for column in wanted.columns)
    kind = "UNIQUE INDEX" if wanted.is_unique else "INDEX"
    connection.execute(f"CREATE {kind} {prefix}{name} ON {quote_identifier(table)} ({listed})")
