"""Creates or alters the destination table in MariaDB or MySQL, and refuses tables with rows that others wrote.

This happens before the transaction of the delivery, as a statement that creates or alters a table would commit it. A
failed delivery may leave an empty table, or new columns that are NULL.

The first delivery creates the destination with InnoDB and utf8mb4, and an index on its keys or on `timelabel`. Missing
columns are added; an existing column keeps its type. Types of new columns: whole numbers, FLOAT, DOUBLE, DECIMAL(p,s),
BOOLEAN, DATE, DATETIME(6) (instants in UTC), LONGBLOB, JSON for nested values, and LONGTEXT. Texts and bytes of a key
are VARCHAR and VARBINARY, in which letter case and trailing blanks are significant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.mysql.database import split_table_name
from waterclock.connectors.mysql.dialect import DIALECT, quote_identifier, session_in, table_of
from waterclock.connectors.mysql.statements import run_statement
from waterclock.connectors.sql.cascades import foreign_keys, require_no_cascades
from waterclock.connectors.sql.destination import (
    DestinationIndex,
    add_columns,
    create_table,
    is_indexed,
    require_own_rows,
    require_short_names,
    stored_names,
    wanted_columns,
    wanted_index,
)
from waterclock.connectors.sql.exact_values import StoredColumn, ValueKind
from waterclock.connectors.sql.replace_where import replaced_rows
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from waterclock.connectors.mysql.statements import Connection

_ENGINE = "InnoDB"
_LONGEST_NAME = 64  # characters
_LONGEST_KEY = 3072  # bytes, of all columns of an index together
_LONGEST_TEXT_OF_KEY = 255
# trailing blanks are significant in the first two; the last one exists on every server
_COLLATIONS = ("utf8mb4_nopad_bin", "utf8mb4_0900_bin", "utf8mb4_bin")
_WHOLE = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})
_LONG = frozenset({"tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob", "json"})
_CASCADES = (
    "SELECT k.TABLE_SCHEMA, k.TABLE_NAME, k.CONSTRAINT_NAME, r.DELETE_RULE, k.COLUMN_NAME, k.REFERENCED_COLUMN_NAME"
    " FROM information_schema.KEY_COLUMN_USAGE AS k JOIN information_schema.REFERENTIAL_CONSTRAINTS AS r"
    " ON r.CONSTRAINT_SCHEMA = k.CONSTRAINT_SCHEMA AND r.CONSTRAINT_NAME = k.CONSTRAINT_NAME"
    " AND r.TABLE_NAME = k.TABLE_NAME WHERE k.REFERENCED_TABLE_SCHEMA = COALESCE(%s, DATABASE())"
    " AND k.REFERENCED_TABLE_NAME = %s AND r.DELETE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT')"
    " AND NOT (k.TABLE_SCHEMA = k.REFERENCED_TABLE_SCHEMA AND k.TABLE_NAME = k.REFERENCED_TABLE_NAME)"
    " ORDER BY k.TABLE_SCHEMA, k.TABLE_NAME, k.CONSTRAINT_NAME, k.ORDINAL_POSITION"
)


@dataclass(frozen=True, slots=True)
class MysqlDestinationColumn:
    """A column of the destination, with a description of which values it stores exactly.

    `kind` is the name of its type, `sql` the complete type in SQL.
    """

    name: str
    kind: str
    sql: str
    stored: StoredColumn
    is_text: bool = False

    @property
    def is_indexable(self) -> bool:
        """True if an index can contain the complete values."""
        return self.kind not in _LONG


def prepare_table(
    connection: Connection,
    unit: Unit,
    delivery: Delivery,
    is_ours: bool,  # noqa: FBT001 - passed by position, as a function of DdlWriter
    comment: str,
) -> Mapping[str, MysqlDestinationColumn]:
    """Create or alter the destination for a delivery's columns. Return its columns by lower-case name.

    Raises E813 for names that are too long; E820 for a table with rows of other owners, or to which other tables refer;
    E875 for a table without transactions.
    """
    require_short_names(unit, delivery, _LONGEST_NAME, f"MariaDB and MySQL names have up to {_LONGEST_NAME} characters")
    session, known = session_in(connection), read_stored_columns(connection, unit)
    collation = _choose_collation(connection)
    wanted = _choose_column_types(delivery, collation)
    if not known:
        ending = f" ENGINE = {_ENGINE} DEFAULT CHARACTER SET utf8mb4 COLLATE {collation} COMMENT = '{comment}'"
        create_table(session, unit, wanted, _index_sql(delivery), ending)
        return read_stored_columns(connection, unit)
    require_transactional_table(connection, unit, delivery)
    require_own_rows(session, unit, delivery, stored_names(known), is_ours=is_ours)
    if not delivery.is_by_label or TIMELABEL in known:
        _require_no_cascades(connection, unit, delivery, known)
    add_columns(session, unit, wanted, known)
    known = read_stored_columns(connection, unit)
    if index := wanted_index(delivery):
        _create_index(connection, unit, index, known)
    return known


def _choose_column_types(delivery: Delivery, collation: str) -> dict[str, str]:
    """Map the columns that a delivery writes to the SQL types for new columns."""
    wanted = wanted_columns(delivery, DIALECT)
    of_key = (*delivery.keys, *([TIMELABEL] if delivery.is_by_label else []))
    long = [name for name in of_key if wanted[name] in {"LONGTEXT", "LONGBLOB"}]
    for name in long:
        longest = min(_LONGEST_TEXT_OF_KEY, _LONGEST_KEY // 4 // len(long) - 8)
        is_text = wanted[name] == "LONGTEXT"
        wanted[name] = (
            f"VARCHAR({longest}) CHARACTER SET utf8mb4 COLLATE {collation}" if is_text else f"VARBINARY({longest})"
        )
    return {name: f"{kind} NULL DEFAULT NULL" for name, kind in wanted.items()}


def _index_sql(delivery: Delivery) -> str:
    if (index := wanted_index(delivery)) is None:
        return ""
    return f", {'UNIQUE ' if index.is_unique else ''}KEY ({', '.join(map(quote_identifier, index.columns))})"


def read_stored_columns(connection: Connection, unit: Unit) -> dict[str, MysqlDestinationColumn]:
    """Return the columns of the unit's table by lower-case name; empty if the table does not exist."""
    rows = run_statement(
        connection,
        "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME, NUMERIC_SCALE,"
        " DATETIME_PRECISION, CHARACTER_MAXIMUM_LENGTH, EXTRA, IS_NULLABLE FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
        split_table_name(unit),
    ).rows
    return {str(row[0]).lower(): _stored_column(*row) for row in rows}


def _stored_column(  # noqa: PLR0913, PLR0917 - a row of the catalog
    name: str,
    kind: str,
    sql: str,
    character_set: str | None,
    collation: str | None,
    scale: int | None,
    second_digits: int | None,
    length: int | None,
    extra: str,
    is_nullable: str,
) -> MysqlDestinationColumn:
    kind = kind.lower()
    places = 0 if kind in _WHOLE else scale if kind == "decimal" else second_digits
    holds = ValueKind.DECIMAL if kind in _WHOLE else _HOLDS.get(kind)
    stored = StoredColumn(
        name,
        sql,
        holds=holds,
        places=None if places is None else int(places),
        bits={"float": 24, "double": 53}.get(kind),
        length=int(length) if length is not None and kind in {"char", "varchar"} else None,
        forgets_blanks=kind == "char",
        unknown=("nan", "inf"),
        null_becomes="the next number"
        if "auto_increment" in extra.lower()
        else "the current time"
        if kind == "timestamp" and is_nullable == "NO"
        else "",
    )
    spelt = f"{sql} CHARACTER SET {character_set} COLLATE {collation}" if character_set else sql
    return MysqlDestinationColumn(name, kind, spelt, stored, is_text=character_set is not None)


_HOLDS = {
    "decimal": ValueKind.DECIMAL,
    "float": ValueKind.FLOAT,
    "double": ValueKind.FLOAT,
    "date": ValueKind.DATE,
    "time": ValueKind.TIME,
    "datetime": ValueKind.TIMESTAMP,
    "timestamp": ValueKind.TIMESTAMP,
    "char": ValueKind.TEXT,
    "varchar": ValueKind.TEXT,
}


def _choose_collation(connection: Connection) -> str:
    rows = run_statement(
        connection,
        "SELECT COLLATION_NAME FROM information_schema.COLLATIONS WHERE COLLATION_NAME IN (%s, %s, %s)",
        _COLLATIONS,
    ).rows
    known = {str(row[0]) for row in rows}
    return next(name for name in _COLLATIONS if name in known)


def require_transactional_table(connection: Connection, unit: Unit, delivery: Delivery) -> None:
    """Raise E875 for a view, and for a table of an engine without transactions."""
    row = run_statement(
        connection,
        "SELECT TABLE_TYPE, ENGINE FROM information_schema.TABLES"
        " WHERE TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_NAME = %s",
        split_table_name(unit),
    ).fetchone()
    if row is None or str(row[1] or "").lower() == _ENGINE.lower():
        return
    is_view = "VIEW" in str(row[0])
    raise WaterclockError(
        "E875",
        f"{unit} is {'a view' if is_view else f'a table of {row[1]}'}, which cannot take a delivery",
        where=f"{unit}@{delivery.label_text}",
        why="the rows and the record of a delivery share a transaction, which"
        + (" a view over other tables may not support" if is_view else f" {row[1]} does not support")
        + "; nothing was changed",
        fix="publish to the table behind it, or to another name"
        if is_view
        else f"ALTER TABLE {unit.path} ENGINE = {_ENGINE}, or publish to another name",
    )


def _require_no_cascades(
    connection: Connection, unit: Unit, delivery: Delivery, known: Mapping[str, MysqlDestinationColumn]
) -> None:
    references = foreign_keys(
        run_statement(connection, _CASCADES, split_table_name(unit)).rows, _quote_escaping_percents
    )
    rows = replaced_rows("SELECT *", unit, delivery, DIALECT, stored_names(known))
    require_no_cascades(unit, delivery, references, rows, session_in(connection).first_of, "drop the constraint")


def _quote_escaping_percents(name: str) -> str:
    return quote_identifier(name).replace("%", "%%")


def _create_index(
    connection: Connection, unit: Unit, wanted: DestinationIndex, known: Mapping[str, MysqlDestinationColumn]
) -> None:
    """Create the wanted index, unless an existing one serves the same purpose or a column is too long for an index."""
    there = [known[column.lower()] for column in wanted.columns]
    if not all(column.is_indexable for column in there):
        return
    rows = run_statement(
        connection,
        "SELECT INDEX_NAME, NON_UNIQUE, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS"
        " WHERE TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_NAME = %s ORDER BY INDEX_NAME, SEQ_IN_INDEX",
        split_table_name(unit),
    ).rows
    whole = (
        (index, not int(is_not_unique), column if part is None else "") for index, is_not_unique, column, part in rows
    )
    if is_indexed(wanted, whole):
        return
    kind = "UNIQUE KEY" if wanted.is_unique else "KEY"
    listed = ", ".join(quote_identifier(column.name) for column in there)
    run_statement(connection, f"ALTER TABLE {table_of(unit)} ADD {kind} ({listed})")
