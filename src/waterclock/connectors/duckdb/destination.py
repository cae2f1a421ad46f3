"""Creates or alters the destination table in a DuckDB database, and refuses tables that are not ours.

The first delivery creates the destination. Missing columns are added, with the type that corresponds to the Spark type;
nested values are JSON. An existing destination keeps its own types and columns. An array is written to a list column
directly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.duckdb.database import first_of, kind_at, quote_identifier, record_in, table_of
from waterclock.connectors.sql.destination_refusals import foreign_rows
from waterclock.connectors.sql.overwrites import Dialect, rows_of
from waterclock.connectors.values import is_plain
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    import duckdb

_TYPES = {
    **dict.fromkeys(("tinyint", "byte"), "TINYINT"),
    **dict.fromkeys(("smallint", "short"), "SMALLINT"),
    **dict.fromkeys(("int", "integer"), "INTEGER"),
    **dict.fromkeys(("bigint", "long"), "BIGINT"),
    **dict.fromkeys(("float", "real"), "FLOAT"),
    **dict.fromkeys(("timestamp", "timestamp_ltz"), "TIMESTAMP WITH TIME ZONE"),
    "double": "DOUBLE",
    "timestamp_ntz": "TIMESTAMP",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "binary": "BLOB",
}


def sql_type(spark_type: str) -> str:
    """Return DuckDB's type of a column for values of a Spark type."""
    kind = spark_type.strip().lower()
    if decimal := re.fullmatch(r"(?:decimal|dec|numeric)(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?", kind):
        return f"DECIMAL({int(decimal[1] or 10)},{int(decimal[2] or 0)})"
    return _TYPES.get(kind, "JSON" if kind.startswith(("array", "struct", "map", "variant")) else "VARCHAR")


def list_type(spark_type: str) -> str | None:
    """Return the list type for values of a Spark type; None unless it is an array of plain values or of such arrays."""
    found = re.fullmatch(r"array\s*<(.+)>", spark_type.strip(), re.IGNORECASE | re.DOTALL)
    if found is None:
        return None
    inner = sql_type(found[1]) if is_plain(found[1]) else list_type(found[1])
    return inner and f"{inner}[]"


def _to_bind_value(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else value


DIALECT = Dialect(quote_identifier, "?", "CAST({} AS VARCHAR)", _to_bind_value)


def wanted_columns(delivery: Delivery, there: Mapping[str, tuple[str, str]] | None = None) -> dict[str, str]:
    """Return the columns of a delivery, with the types of a newly created destination.

    An array is JSON, unless its column in `there` is a list.
    """
    wanted = {}
    for name, kind in delivery.columns:
        _, kept = (there or {}).get(name.lower(), ("", ""))
        wanted[name] = (list_type(kind) if kept.endswith("]") else None) or sql_type(kind)
    if delivery.is_by_label:
        wanted[TIMELABEL] = "VARCHAR"
    return wanted


def columns_there(connection: duckdb.DuckDBPyConnection, unit: Unit) -> dict[str, tuple[str, str]]:
    """Return the name and type of each column of the table by its name in lower case; empty if there is no table."""
    if not kind_at(connection, unit):
        return {}
    relation = connection.sql(f"SELECT * FROM {table_of(unit)} LIMIT 0")
    return {name.lower(): (name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True)}


def settle_table(
    connection: duckdb.DuckDBPyConnection, unit: Unit, delivery: Delivery, *, is_ours: bool
) -> dict[str, tuple[str, str]]:
    """Create the destination or add missing columns. Return its columns as `columns_there` does.

    Raises  E820 for a table that belongs to someone else
    """
    table, wanted = table_of(unit), wanted_columns(delivery)
    known = columns_there(connection, unit)
    if not known:
        listed = ", ".join(f"{quote_identifier(name)} {kind}" for name, kind in wanted.items())
        first_of(connection, f"CREATE TABLE {table} ({listed})")
        return columns_there(connection, unit)
    _refuse_foreign(connection, unit, delivery, is_ours=is_ours)
    lacking = {name: kind for name, kind in wanted.items() if name.lower() not in known}
    for name, kind in lacking.items():
        first_of(connection, f"ALTER TABLE {table} ADD COLUMN {quote_identifier(name)} {kind}")
    return columns_there(connection, unit) if lacking else known


def _refuse_foreign(connection: duckdb.DuckDBPyConnection, unit: Unit, delivery: Delivery, *, is_ours: bool) -> None:
    other = record_in(connection).other_project(delivery)
    some, values = rows_of(delivery, DIALECT)
    has_rows = is_ours or first_of(connection, f"SELECT 1 FROM {table_of(unit)} WHERE {some} LIMIT 1", values)
    if not other and (is_ours or not has_rows or unit.options.get("adopt")):
        return
    raise foreign_rows(unit, delivery, of=other)
