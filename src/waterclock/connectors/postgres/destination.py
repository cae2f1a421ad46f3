"""Makes a table of a PostgreSQL database fit what is delivered there, and refuses what is somebody else's.

The destination is created by the first delivery, with a unique index on its keys or an index on `timelabel`; columns
that it lacks are added. One that is there keeps its own types: a text goes into a uuid, an enum or a json as it is read
there. Types of what is made: whole numbers, REAL, DOUBLE PRECISION, NUMERIC(p,s), BOOLEAN, DATE, TIMESTAMPTZ for
instants, TIMESTAMP without a zone, BYTEA, arrays of these, JSONB for what is nested deeper, TEXT.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.delivery_record import Record
from waterclock.connectors.foreign_rows import foreign_rows
from waterclock.connectors.overwrites import Dialect, rows_of
from waterclock.connectors.postgres.database import quoted, table_of
from waterclock.errors import WaterclockError
from waterclock.flow.choices import Mode
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection

_LONGEST_NAME = 63  # bytes
# of a column's own type: digits behind the point stand in its modifier, where it bounds them
_PLACES = (
    "CASE WHEN t.typname = 'numeric' AND a.atttypmod >= 4 THEN (((a.atttypmod - 4) & 2047) # 1024) - 1024"
    " WHEN t.typname IN ('timestamp', 'timestamptz') AND a.atttypmod >= 0 THEN a.atttypmod"
    " WHEN t.typname = 'date' THEN -1 END"
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
    """Return the type of a column that takes values of a Spark type."""
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
    """Return the type of the elements of an array, None for what is none."""
    found = re.fullmatch(r"array\s*<(.+)>", spark_type.strip(), re.IGNORECASE | re.DOTALL)
    return found[1] if found else None


@dataclass(frozen=True, slots=True)
class There:
    """A column of the destination.

    `places` is how many digits behind the point it keeps of a number or of a second, None for all; a date keeps -1.
    """

    name: str
    is_array: bool = False
    places: int | None = None


def settle_table(connection: Connection, unit: Unit, delivery: Delivery, *, is_ours: bool) -> Mapping[str, There]:
    """Make the destination fit; give its columns by their names in lower case.

    Raises  E813 for a name that is too long, E820 for a table that is somebody else's
    """
    _refuse_long(unit, delivery)
    table = table_of(unit)
    wanted = {name: sql_type(kind) for name, kind in delivery.columns}
    if delivery.is_by_label:
        wanted[TIMELABEL] = "TEXT"
    known = columns_there(connection, unit)
    if not known:
        listed = ", ".join(f"{quoted(column)} {kind}" for column, kind in wanted.items())
        connection.execute(f"CREATE TABLE {table} ({listed})")
    else:
        _refuse_foreign(connection, unit, delivery, is_ours=is_ours)
        for column, kind in wanted.items():
            if column.lower() not in known:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {quoted(column)} {kind}")
    if delivery.mode is Mode.MERGE:
        _index(connection, unit, _spelt(delivery.keys, known), is_unique=True)
    elif delivery.is_by_label:
        _index(connection, unit, _spelt((TIMELABEL,), known), is_unique=False)
    return columns_there(connection, unit)


def columns_there(connection: Connection, unit: Unit) -> dict[str, There]:
    """Return the table's columns by their names in lower case."""
    rows = connection.execute(
        f"SELECT a.attname, t.typcategory = 'A', {_PLACES}"
        " FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid"
        " WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        (table_of(unit),),
    )
    return {str(name).lower(): There(str(name), bool(is_array), places) for name, is_array, places in rows}


def some_rows(verb: str, unit: Unit, delivery: Delivery, there: Mapping[str, There]) -> tuple[str, list[Any]]:
    """Return a statement over the rows that a delivery replaces, `SELECT 1` or `DELETE`, and its values."""
    spelt = {name: column.name for name, column in there.items()}
    condition, values = rows_of(delivery, _DIALECT, spelt)
    where = f" WHERE {condition}" if delivery.where else ""
    return f"{verb} FROM {table_of(unit)}".replace("%", "%%") + where, values


_DIALECT = Dialect(lambda name: quoted(name).replace("%", "%%"), "%s", "{}::text", lambda value: value)


def _refuse_long(unit: Unit, delivery: Delivery) -> None:
    """Refuse names that the server would cut, so that two could become one."""
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


def _spelt(names: Sequence[str], known: Mapping[str, There]) -> tuple[str, ...]:
    return tuple(known.get(name.lower(), There(name)).name for name in names)


def _refuse_foreign(connection: Connection, unit: Unit, delivery: Delivery, *, is_ours: bool) -> None:
    other = Record(connection.execute, "%s").other_project(delivery)
    rows, values = some_rows("SELECT 1", unit, delivery, columns_there(connection, unit))
    has_rows = is_ours or connection.execute(f"{rows} LIMIT 1", values).fetchone()
    if not other and (is_ours or not has_rows or unit.options.get("adopt")):
        return
    raise foreign_rows(unit, delivery, of=other)


def _index(connection: Connection, unit: Unit, columns: Sequence[str], *, is_unique: bool) -> None:
    """Make an index on columns where no whole one does as well."""
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
    listed = ", ".join(map(quoted, columns))
    connection.execute(f"CREATE {'UNIQUE ' if is_unique else ''}INDEX ON {table_of(unit)} ({listed})")
