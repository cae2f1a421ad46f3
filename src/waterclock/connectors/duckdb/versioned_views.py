"""Finds, shows and drops the tables behind a view in a DuckDB database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.connectors.duckdb.database import kind_at, quote_identifier, record_in, rows_of, table_of
from waterclock.connectors.sql.parts import Shown
from waterclock.connectors.sql.versioned_views import Columns, ViewDialect, query_of
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    import duckdb

_WRITING = ViewDialect(quote_identifier, lambda kind: f"CAST(NULL AS {kind})", lambda label: f"'{label}'")


@dataclass(frozen=True, slots=True)
class DuckdbViewTables:
    """The tables and views of a database, in the transaction of a connection."""

    connection: duckdb.DuckDBPyConnection

    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`, or an empty text if the name is free."""
        return kind_at(self.connection, unit)

    def labels(self, project: str, publish: str) -> list[str]:
        """Return the labels that were delivered, in order."""
        return record_in(self.connection).labels(project, publish)

    def versions(self, project: str, publish: str) -> list[tuple[int, datetime]]:
        """Return the claims that were delivered and their times, oldest first."""
        return record_in(self.connection).versions(project, publish)

    def columns(self, parts: Sequence[Unit]) -> dict[str, Columns]:
        """Return the columns of the existing tables by path, with one statement."""
        paths = {part.path.lower(): part.path for part in parts}
        found: dict[str, list[tuple[str, str]]] = {}
        if paths:
            schema, dot, _ = parts[0].path.rpartition(".")
            rows = rows_of(
                self.connection,
                "SELECT table_name, column_name, data_type FROM duckdb_columns() SEMI JOIN duckdb_tables()"
                " USING (database_oid, table_oid) WHERE database_name = current_database()"
                " AND lower(schema_name) = lower(?) AND list_contains(?, lower(table_name))"
                " ORDER BY table_name, column_index",
                (schema or "main", [path.rpartition(".")[2] for path in paths]),
            )
            for table, name, kind in rows:
                found.setdefault(paths[f"{schema}{dot}{table}".lower()], []).append((name, kind))
        return {**found}

    def show(self, unit: Unit, parts: Mapping[str, Shown]) -> None:
        """Make the unit's view show tables by label, or by "" for a version. Without tables the view is dropped."""
        found = {table_of(part): (label, columns) for label, (part, columns) in parts.items()}
        rows_of(self.connection, f"DROP VIEW IF EXISTS {table_of(unit)}")
        if found:
            rows_of(self.connection, f"CREATE VIEW {table_of(unit)} AS {query_of(found, _WRITING)}")

    def drop(self, part: Unit) -> None:
        """Drop a table, if it is there."""
        rows_of(self.connection, f"DROP TABLE IF EXISTS {table_of(part)}")
