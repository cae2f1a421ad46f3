"""Creates or alters the destination table in a PostgreSQL database, and refuses tables that are not ours.

The first delivery creates the destination, with a unique index on its keys or an index on `timelabel`. Missing columns
are added. An existing column keeps its type: a text is parsed into a uuid, an enum or a json by the server. Types of
new columns: whole numbers, REAL, DOUBLE PRECISION, NUMERIC(p,s), BOOLEAN, DATE, TIMESTAMPTZ for instants, TIMESTAMP
without a zone, BYTEA, arrays of these, JSONB for deeper nesting, and TEXT.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.postgres.database import quote_identifier, table_of
from waterclock.connectors.postgres.stored_columns import PostgresDestinationColumn, columns_there
from waterclock.connectors.sql.cascades import Reference, refuse_cascades
from waterclock.connectors.sql.delivery_record import DeliveryRecord
from waterclock.connectors.sql.destination_refusals import alike_columns, foreign_rows
from waterclock.connectors.sql.overwrites import Dialect, rows_of
from waterclock.errors import WaterclockError
from waterclock.flow.choices import Mode
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection

_LONGEST_NAME = 63  # bytes
_RULES = {"c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"}
_NAMES = (
    "(SELECT array_agg(quote_ident(a.attname) ORDER BY k.place) FROM unnest({0}) WITH ORDINALITY AS k (attnum, place)"
    " JOIN pg_attribute AS a ON a.attrelid = {1} AND a.attnum = k.attnum)"
)
_CASCADES = (
    f"SELECT c.conrelid::regclass::text, c.confdeltype::text, {_NAMES.format('c.conkey', 'c.conrelid')},"
    f" {_NAMES.format('c.confkey', 'c.confrelid')} FROM pg_constraint AS c WHERE c.contype = 'f'"
    " AND c.confrelid = to_regclass(%s) AND c.confdeltype IN ('c', 'n', 'd') AND c.conrelid <> c.confrelid"
)
_SIMPLE = {
    **dict.fromkeys(("tinyint", "byte", "smallint", "short"), "SMALLINT"),
    **dict.fromkeys(("int", "integer"), "INTEGER"),
    **dict.fromkeys(("bigint", "long"), "BIGINT"),
    **dict.fromkeys(("float", "real"), "REAL"),
    **dict.fromkeys(("timestamp", "timestamp_ltz"), "TIMESTAMPTZ"),
    "double": "DOUBLE PRECISION",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp_ntz": "TIMESTAMP",
    "binary": "BYTEA",
    "string": "TEXT",
}


def sql_type(spark_type: str) -> str:
    """Return the type of a column for values of a Spark type."""
    kind = spark_type.strip().lower()
    if decimal := re.fullmatch(r"(?:decimal|dec|numeric)(?:\((\d+)(?:,\s*(\d+))?\))?", kind):
        return f"NUMERIC({int(decimal[1] or 10)},{int(decimal[2] or 0)})"
    if re.fullmatch(r"(?:var)?char\s*\(\s*\d+\s*\)", kind):
        return "TEXT"
    if element := element_of(kind):
        inner = sql_type(element)
        return f"{inner}[]" if not inner.endswith("[]") and inner != "JSONB" else "JSONB"
    return _SIMPLE.get(kind, "JSONB")


def element_of(spark_type: str) -> str | None:
    """Return the element type of an array type; None for any other type."""
    found = re.fullmatch(r"array\s*<(.+)>", spark_type.strip(), re.IGNORECASE | re.DOTALL)
    return found[1] if found else None


def settle_table(
    connection: Connection, unit: Unit, delivery: Delivery, *, is_ours: bool
) -> Mapping[str, PostgresDestinationColumn]:
    """Create or alter the destination to fit the delivery. Return its columns by their names in lower case.

    Raises  E813 for a name that is too long or fits two columns; E820 for a table that belongs to someone else, or
            whose rows are referenced by foreign keys that would change other tables
    """
    _refuse_long(unit, delivery)
    table = table_of(unit)
    wanted = {name: sql_type(kind) for name, kind in delivery.columns}
    if delivery.is_by_label:
        wanted[TIMELABEL] = "TEXT"
    known = columns_there(connection, unit)
    if not known:
        listed = ", ".join(f"{quote_identifier(column)} {kind}" for column, kind in wanted.items())
        connection.execute(f"CREATE TABLE {table} ({listed})")
    else:
        _refuse_foreign(connection, unit, delivery, is_ours=is_ours)
        _refuse_alike(unit, delivery, [known[name.lower()] for name in wanted if name.lower() in known])
        for column, kind in wanted.items():
            if column.lower() not in known:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {quote_identifier(column)} {kind}")
        if not delivery.is_by_label or TIMELABEL in known:
            _refuse_cascades(connection, unit, delivery, known)
    if delivery.mode is Mode.MERGE:
        _index(connection, unit, _spelt(delivery.keys, known), is_unique=True)
    elif delivery.is_by_label:
        _index(connection, unit, _spelt((TIMELABEL,), known), is_unique=False)
    return columns_there(connection, unit)


def rows_in(
    verb: str, unit: Unit, delivery: Delivery, there: Mapping[str, PostgresDestinationColumn]
) -> tuple[str, list[Any]]:
    """Return a statement on the rows that a delivery replaces, and its values; `verb` is its start, as `DELETE`."""
    condition, values = _build_row_condition(delivery, there)
    return f"{verb} FROM {table_of(unit)}".replace("%", "%%") + f" WHERE {condition}", values


def _build_row_condition(delivery: Delivery, there: Mapping[str, PostgresDestinationColumn]) -> tuple[str, list[Any]]:
    if delivery.is_by_label:
        return f"{quote_identifier(there[TIMELABEL].name)} = %s", [delivery.label_text]
    return rows_of(delivery, _DIALECT, {name: column.name for name, column in there.items()})


_DIALECT = Dialect(lambda name: quote_identifier(name).replace("%", "%%"), "%s", "{}::text", lambda value: value)


def _refuse_long(unit: Unit, delivery: Delivery) -> None:
    """Refuse names that the server would truncate, so that two names could become one."""
    names = [*unit.path.split("."), *(name for name, _ in delivery.columns)]
    long = [name for name in names if len(name.encode()) > _LONGEST_NAME]
    if long:
        raise WaterclockError(
            "E813",
            f"{unit} cannot be there: {', '.join(long)} {'is' if len(long) == 1 else 'are'} too long a name",
            where=f"{unit}@{delivery.label_text}",
            why=f"PostgreSQL keeps {_LONGEST_NAME} bytes of a name",
            fix="give the column a shorter name in the transform, or publish to a table of a shorter one",
        )


def _spelt(names: Sequence[str], known: Mapping[str, PostgresDestinationColumn]) -> tuple[str, ...]:
    return tuple(known[name.lower()].name if name.lower() in known else name for name in names)


def _refuse_foreign(connection: Connection, unit: Unit, delivery: Delivery, *, is_ours: bool) -> None:
    other = DeliveryRecord(connection.execute, "%s").other_project(delivery)
    spelt = {name: column.name for name, column in columns_there(connection, unit).items()}
    condition, values = rows_of(delivery, _DIALECT, spelt)
    rows = f"SELECT 1 FROM {table_of(unit)}".replace("%", "%%") + f" WHERE {condition}"
    has_rows = is_ours or connection.execute(f"{rows} LIMIT 1", values).fetchone()
    if not other and (is_ours or not has_rows or unit.options.get("adopt")):
        return
    raise foreign_rows(unit, delivery, of=other)


def _refuse_alike(unit: Unit, delivery: Delivery, columns: Sequence[PostgresDestinationColumn]) -> None:
    for column in columns:
        if column.alike:
            raise alike_columns(unit, delivery, column.alike, column.name)


def _refuse_cascades(
    connection: Connection, unit: Unit, delivery: Delivery, there: Mapping[str, PostgresDestinationColumn]
) -> None:
    found = connection.execute(_CASCADES, (table_of(unit),)).fetchall()
    references = [
        Reference(
            table, table.replace("%", "%%"), _RULES[rule], *(_escape_percents(names) for names in (own, referred))
        )
        for table, rule, own, referred in found
    ]
    condition, values = _build_row_condition(delivery, there)
    rows = f"SELECT * FROM {table_of(unit)}".replace("%", "%%") + f" WHERE {condition}"

    def first_of(sql: str, values: Sequence[Any]) -> Any:
        return connection.execute(sql, values).fetchone()

    fix = "make the constraint ON DELETE NO ACTION DEFERRABLE INITIALLY DEFERRED"
    refuse_cascades(unit, delivery, references, (rows, values), first_of, fix)


def _escape_percents(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.replace("%", "%%") for name in names)


def _index(connection: Connection, unit: Unit, columns: Sequence[str], *, is_unique: bool) -> None:
    """Create an index on columns, unless a complete index serves the same purpose."""
    rows = connection.execute(
        "SELECT i.indisunique, array_agg(a.attname::text ORDER BY k.place) FROM pg_index AS i"
        " CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, place)"
        " LEFT JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum"
        " WHERE i.indrelid = to_regclass(%s) AND i.indisvalid AND i.indimmediate"
        " AND i.indpred IS NULL AND i.indexprs IS NULL AND k.place <= i.indnkeyatts"
        " GROUP BY i.indexrelid, i.indisunique",
        (table_of(unit),),
    ).fetchall()
    for unique, members in rows:
        if (set(members) == set(columns) and unique) if is_unique else members[:1] == list(columns):
            return
    listed = ", ".join(map(quote_identifier, columns))
    connection.execute(f"CREATE {'UNIQUE ' if is_unique else ''}INDEX ON {table_of(unit)} ({listed})")
