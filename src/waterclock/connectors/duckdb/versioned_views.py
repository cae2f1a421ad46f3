"""Lists the tables behind a view in a DuckDB database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.connectors.duckdb.database import kind_at
from waterclock.connectors.sql.versioned_views import Columns
from waterclock.connectors.sql.view_tables import SqlViewTables, group_columns
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class DuckdbViewTables(SqlViewTables):
    """The tables and views of a DuckDB database."""

    connection: duckdb.DuckDBPyConnection

    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`, the kind of object with the unit's name; empty if the name is free."""
        return kind_at(self.connection, unit)

    def columns(self, parts: Sequence[Unit]) -> dict[str, Columns]:
        """Map the path of each table that exists to its columns. Cost: one statement."""
        paths = {part.path.rpartition(".")[2].lower(): part.path for part in parts}
        schema = parts[0].path.rpartition(".")[0] or "main" if parts else "main"
        rows = self.session.rows_of(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() SEMI JOIN duckdb_tables()"
            " USING (database_oid, table_oid) WHERE database_name = current_database()"
            " AND lower(schema_name) = lower(?) AND list_contains(?, lower(table_name))"
            " ORDER BY table_name, column_index",
            (schema, list(paths)),
        )
        return group_columns(((str(table).lower(), *column) for table, *column in rows), paths)
