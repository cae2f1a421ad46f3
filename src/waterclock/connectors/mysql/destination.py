"""Creates or alters the destination table in a MariaDB or MySQL database, and refuses tables that are not ours.

All of this happens before the transaction of the delivery, since a statement that creates or alters a table would
commit it. A failed delivery may leave an empty table, or new columns that are NULL.

The first delivery creates the destination with InnoDB and utf8mb4, and an index on its keys or on `timelabel`. Missing
columns are added; an existing column keeps its type. Types of new columns: whole numbers, FLOAT, DOUBLE, DECIMAL(p,s),
BOOLEAN, DATE, DATETIME(6) (instants in UTC), LONGBLOB, JSON for nested values, and LONGTEXT. Texts and bytes of a key
are VARCHAR and VARBINARY, in which letter case and trailing blanks are significant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.mysql.database import place_of, quote_identifier, run_statement, table_of
from waterclock.connectors.mysql.versioned_views import record_in
from waterclock.connectors.sql.cascades import Reference, refuse_cascades
from waterclock.connectors.sql.destination_refusals import foreign_rows
from waterclock.connectors.sql.exact_values import Holds, StoredColumn
from waterclock.connectors.sql.overwrites import Dialect, rows_of
from waterclock.errors import WaterclockError
from waterclock.flow.choices import Mode
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from waterclock.connectors.mysql.database import Connection

_ENGINE = "InnoDB"
_LONGEST_NAME = 64  # characters
_LONGEST_KEY = 3072  # bytes, of all columns of an index together
_LONGEST_TEXT_OF_KEY = 255
# in the first two, trailing blanks are significant; utf8mb4_bin exists everywhere
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
_SIMPLE = {
    **dict.fromkeys(("tinyint", "byte"), "TINYINT"),
    **dict.fromkeys(("smallint", "short"), "SMALLINT"),
    **dict.fromkeys(("int", "integer"), "INT"),
    **dict.fromkeys(("bigint", "long"), "BIGINT"),
    **dict.fromkeys(("float", "real"), "FLOAT"),
    **dict.fromkeys(("timestamp", "timestamp_ltz", "timestamp_ntz"), "DATETIME(6)"),
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "binary": "LONGBLOB",
}


def sql_type(spark_type: str) -> str:
    """Return the type of a column for values of a Spark type."""
    kind = spark_type.strip().lower()
    if decimal := re.fullmatch(r"(?:decimal|dec|numeric)(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?", kind):
        return f"DECIMAL({int(decimal[1] or 10)},{int(decimal[2] or 0)})"
    return _SIMPLE.get(kind, "JSON" if kind.startswith(("array", "struct", "map", "variant")) else "LONGTEXT")


@dataclass(frozen=True, slots=True)
class MysqlDestinationColumn:
    """A column of the destination. `kind` is the name of its type, `sql` the full type for a statement.

    `stored` describes the values that it stores exactly.
    """

    name: str
    kind: str
    sql: str
    stored: StoredColumn
    is_text: bool = False

    @property
    def is_indexable(self) -> bool:
        """Whether an index can contain whole values."""
        return self.kind not in _LONG


def settle_table(
    connection: Connection, unit: Unit, delivery: Delivery, *, is_ours: bool, comment: str = ""
) -> Mapping[str, MysqlDestinationColumn]:
    """Create or alter the destination to fit the delivery. Return its columns by their names in lower case.

    Raises  E813 for a name that is too long; E820 for a table that belongs to someone else, or whose rows are
            referenced by foreign keys that would change other tables; E875 for a table without transactions
    """
    _refuse_long(unit, delivery)
    table, known = table_of(unit), columns_there(connection, unit)
    collation = _collation(connection)
    wanted = _choose_column_types(delivery, collation)
    if not known:
        listed = ", ".join(f"{quote_identifier(column)} {kind}" for column, kind in wanted.items())
        run_statement(
            connection,
            f"CREATE TABLE {table} ({listed}{_index_of(delivery)}) ENGINE = {_ENGINE} DEFAULT CHARACTER SET utf8mb4"
            f" COLLATE {collation} COMMENT = '{comment}'",
        )
        return columns_there(connection, unit)
    refuse_engine(connection, unit, delivery)
    _refuse_foreign(connection, unit, delivery, is_ours=is_ours)
    if not delivery.is_by_label or TIMELABEL in known:
        _refuse_cascades(connection, unit, delivery, known)
    for column, kind in wanted.items():
        if column.lower() not in known:
            run_statement(connection, f"ALTER TABLE {table} ADD COLUMN {quote_identifier(column)} {kind}")
    known = columns_there(connection, unit)
    if delivery.mode is Mode.MERGE:
        _index(connection, unit, delivery.keys, known, is_unique=True)
    elif delivery.is_by_label:
        _index(connection, unit, (TIMELABEL,), known, is_unique=False)
    return known


def _choose_column_types(delivery: Delivery, collation: str) -> dict[str, str]:
    """Return the columns of a delivery, with the types with which they are created."""
    wanted = {name: sql_type(kind) for name, kind in delivery.columns}
    if delivery.is_by_label:
        wanted[TIMELABEL] = "LONGTEXT"
    of_key = (*delivery.keys, *([TIMELABEL] if delivery.is_by_label else []))
    long = [name for name in of_key if wanted[name] in {"LONGTEXT", "LONGBLOB"}]
    for name in long:
        longest = min(_LONGEST_TEXT_OF_KEY, _LONGEST_KEY // 4 // len(long) - 8)
        is_text = wanted[name] == "LONGTEXT"
        wanted[name] = (
            f"VARCHAR({longest}) CHARACTER SET utf8mb4 COLLATE {collation}" if is_text else f"VARBINARY({longest})"
        )
    return {name: f"{kind} NULL DEFAULT NULL" for name, kind in wanted.items()}


def _index_of(delivery: Delivery) -> str:
    if delivery.mode is Mode.MERGE:
        return f", UNIQUE KEY ({', '.join(map(quote_identifier, delivery.keys))})"
    return f", KEY ({quote_identifier(TIMELABEL)})" if delivery.is_by_label else ""


def columns_there(connection: Connection, unit: Unit) -> dict[str, MysqlDestinationColumn]:
    """Return the table's columns by their names in lower case."""
    rows = run_statement(
        connection,
        "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME, NUMERIC_SCALE,"
        " DATETIME_PRECISION, CHARACTER_MAXIMUM_LENGTH FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
        place_of(unit),
    ).rows
    return {str(row[0]).lower(): _there(*row) for row in rows}


def _there(  # noqa: PLR0913, PLR0917 - a row of the catalog
    name: str,
    kind: str,
    sql: str,
    letters: str | None,
    collation: str | None,
    scale: int | None,
    second: int | None,
    length: int | None,
) -> MysqlDestinationColumn:
    kind = kind.lower()
    places = 0 if kind in _WHOLE else scale if kind == "decimal" else second
    holds = Holds.DECIMAL if kind in _WHOLE else _HOLDS.get(kind)
    stored = StoredColumn(
        name,
        sql,
        holds=holds,
        places=None if places is None else int(places),
        bits={"float": 24, "double": 53}.get(kind),
        length=int(length) if length is not None and kind in {"char", "varchar"} else None,
        forgets_blanks=kind == "char",
        unknown=("nan", "inf"),
    )
    spelt = f"{sql} CHARACTER SET {letters} COLLATE {collation}" if letters else sql
    return MysqlDestinationColumn(name, kind, spelt, stored, is_text=letters is not None)


_HOLDS = {
    "decimal": Holds.DECIMAL,
    "float": Holds.FLOAT,
    "double": Holds.FLOAT,
    "date": Holds.DATE,
    "time": Holds.TIME,
    "datetime": Holds.TIMESTAMP,
    "timestamp": Holds.TIMESTAMP,
    "char": Holds.TEXT,
    "varchar": Holds.TEXT,
}


def some_rows(
    verb: str, unit: Unit, delivery: Delivery, there: Mapping[str, MysqlDestinationColumn]
) -> tuple[str, list[Any]]:
    """Return a statement on the rows of a delivery's condition, and its values; `verb` is its start, as `SELECT 1`."""
    spelt = {name: column.name for name, column in there.items()}
    condition, values = rows_of(delivery, _DIALECT, spelt)
    where = f" WHERE {condition}" if delivery.where else ""
    return f"{verb} FROM {table_of(unit)}".replace("%", "%%") + where, values


def replaced_rows(
    verb: str, unit: Unit, delivery: Delivery, there: Mapping[str, MysqlDestinationColumn]
) -> tuple[str, list[Any]]:
    """Return a statement on the rows that a delivery replaces: those of its label or of its condition."""
    if not delivery.is_by_label:
        return some_rows(verb, unit, delivery, there)
    label = quote_identifier(there[TIMELABEL].name)
    return f"{verb} FROM {table_of(unit)} WHERE {label} = ".replace("%", "%%") + "%s", [delivery.label_text]


# texts are equal if Spark treats them so, byte by byte, and not by the column's collation
_DIALECT = Dialect(
    lambda name: quote_identifier(name).replace("%", "%%"),
    "%s",
    "CAST(CONVERT({} USING utf8mb4) AS BINARY)",
    lambda value: int(value) if isinstance(value, bool) else value,
)


def _collation(connection: Connection) -> str:
    rows = run_statement(
        connection,
        "SELECT COLLATION_NAME FROM information_schema.COLLATIONS WHERE COLLATION_NAME IN (%s, %s, %s)",
        _COLLATIONS,
    ).rows
    known = {str(row[0]) for row in rows}
    return next(name for name in _COLLATIONS if name in known)


def refuse_engine(connection: Connection, unit: Unit, delivery: Delivery) -> None:
    """Refuse a table whose changes would remain when a delivery is rolled back.

    Raises  E875
    """
    row = run_statement(
        connection,
        "SELECT TABLE_TYPE, ENGINE FROM information_schema.TABLES"
        " WHERE TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_NAME = %s",
        place_of(unit),
    ).fetchone()
    if row is None or str(row[1] or "").lower() == _ENGINE.lower():
        return
    is_view = "VIEW" in str(row[0])
    raise WaterclockError(
        "E875",
        f"{unit} is {'a view' if is_view else f'a table of {row[1]}'}, which takes no delivery",
        where=f"{unit}@{delivery.label_text}",
        why="the rows and the record of a delivery share a transaction, which"
        + (" tables behind a view may not hold together" if is_view else f" {row[1]} does not hold together")
        + "; nothing was changed",
        fix="publish to the table behind it, or to another name"
        if is_view
        else f"ALTER TABLE {unit.path} ENGINE = {_ENGINE}, or publish to another name",
    )


def _refuse_long(unit: Unit, delivery: Delivery) -> None:
    names = [*unit.path.split("."), *(name for name, _ in delivery.columns)]
    long = [name for name in names if len(name) > _LONGEST_NAME]
    if long:
        raise WaterclockError(
            "E813",
            f"{unit} cannot be there: {', '.join(long)} {'is' if len(long) == 1 else 'are'} too long a name",
            where=f"{unit}@{delivery.label_text}",
            why=f"MariaDB and MySQL know names of up to {_LONGEST_NAME} characters",
            fix="give the column a shorter name in the transform, or publish to a table of a shorter one",
        )


def _refuse_foreign(connection: Connection, unit: Unit, delivery: Delivery, *, is_ours: bool) -> None:
    other = record_in(connection).other_project(delivery)
    rows, values = some_rows("SELECT 1", unit, delivery, columns_there(connection, unit))
    has_rows = is_ours or run_statement(connection, f"{rows} LIMIT 1", values).fetchone()
    if not other and (is_ours or not has_rows or unit.options.get("adopt")):
        return
    raise foreign_rows(unit, delivery, of=other)


def _refuse_cascades(
    connection: Connection, unit: Unit, delivery: Delivery, known: Mapping[str, MysqlDestinationColumn]
) -> None:
    found: dict[tuple[str, str, str], list[list[str]]] = {}
    for schema, table, constraint, *of_column in run_statement(connection, _CASCADES, place_of(unit)).rows:
        found.setdefault((str(schema), str(table), str(constraint)), []).append(of_column)
    references = [
        Reference(
            table,
            f"{_place(schema)}.{_place(table)}",
            columns[0][0],
            tuple(_place(own) for _, own, _ in columns),
            tuple(_place(referred) for _, _, referred in columns),
        )
        for (schema, table, _), columns in found.items()
    ]

    def first_of(sql: str, values: Sequence[Any]) -> Any:
        return run_statement(connection, sql, values).fetchone()

    rows = replaced_rows("SELECT *", unit, delivery, known)
    refuse_cascades(unit, delivery, references, rows, first_of, "drop the constraint")


def _place(name: str) -> str:
    return quote_identifier(name).replace("%", "%%")


def _index(
    connection: Connection,
    unit: Unit,
    columns: Sequence[str],
    known: Mapping[str, MysqlDestinationColumn],
    *,
    is_unique: bool,
) -> None:
    """Create an index on columns, unless a complete index serves the same purpose or the columns are too long."""
    there = [known[column.lower()] for column in columns]
    if not all(column.is_indexable for column in there):
        return
    spelt = [column.name for column in there]
    rows = run_statement(
        connection,
        "SELECT INDEX_NAME, NON_UNIQUE, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS"
        " WHERE TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_NAME = %s ORDER BY INDEX_NAME, SEQ_IN_INDEX",
        place_of(unit),
    ).rows
    members: dict[str, list[str]] = {}
    uniques: set[str] = set()
    for index, is_not_unique, column, part in rows:
        members.setdefault(index, []).append(str(column) if part is None else "")
        uniques |= set() if int(is_not_unique) else {index}
    for index, names in members.items():
        if (index in uniques and set(names) == set(spelt)) if is_unique else names[:1] == spelt:
            return
    kind = "UNIQUE KEY" if is_unique else "KEY"
    run_statement(connection, f"ALTER TABLE {table_of(unit)} ADD {kind} ({', '.join(map(quote_identifier, spelt))})")
