"""Creates or alters the destination table in a DuckDB database, and refuses tables with rows that others wrote.

The first delivery creates the destination. Missing columns are added, with the type that corresponds to the Spark type;
nested values are JSON. An existing destination keeps its own types and columns. An array is written to a list column
directly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from waterclock.connectors.arrow_values import is_plain
from waterclock.connectors.delivering import Delivery
from waterclock.connectors.duckdb.database import kind_at
from waterclock.connectors.duckdb.dialect import DIALECT, session_in, table_of
from waterclock.connectors.sql import destination
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    import duckdb


def list_type(spark_type: str) -> str | None:
    """Return the DuckDB list type for a Spark array of plain values or of such arrays; None for another type."""
    found = re.fullmatch(r"array\s*<(.+)>", spark_type.strip(), re.IGNORECASE | re.DOTALL)
    if found is None:
        return None
    inner = DIALECT.sql_type(found[1]) if is_plain(found[1]) else list_type(found[1])
    return inner and f"{inner}[]"


def wanted_columns(delivery: Delivery, there: Mapping[str, tuple[str, str]] | None = None) -> dict[str, str]:
    """Map the columns that a delivery writes to their types in a new destination.

    Arrays are JSON, unless the existing destination `there` has a list column for them.
    """
    wanted = destination.wanted_columns(delivery, DIALECT)
    for name, kind in delivery.columns:
        _, kept = (there or {}).get(name.lower(), ("", ""))
        if kept.endswith("]"):
            wanted[name] = list_type(kind) or wanted[name]
    return wanted


def read_stored_columns(connection: duckdb.DuckDBPyConnection, unit: Unit) -> dict[str, tuple[str, str]]:
    """Map the lower-case names of the unit's columns to name and type; empty if there is no table."""
    if not kind_at(connection, unit):
        return {}
    relation = connection.sql(f"SELECT * FROM {table_of(unit)} LIMIT 0")
    return {name.lower(): (name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True)}


def prepare_table(
    connection: duckdb.DuckDBPyConnection, unit: Unit, delivery: Delivery, *, is_ours: bool
) -> dict[str, tuple[str, str]]:
    """Create the destination, or add missing columns. Return its columns as `read_stored_columns` does.

    Raises E820 for a table with rows of other owners.
    """
    session, wanted = session_in(connection), wanted_columns(delivery)
    known = read_stored_columns(connection, unit)
    if not known:
        destination.create_table(session, unit, wanted)
        return read_stored_columns(connection, unit)
    destination.require_own_rows(session, unit, delivery, {}, is_ours=is_ours)
    is_wider = destination.add_columns(session, unit, wanted, known)
    return read_stored_columns(connection, unit) if is_wider else known
