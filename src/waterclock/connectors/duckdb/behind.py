"""Tables of a DuckDB database behind a view: how they are found, shown and dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.connectors.behind import Writing, query_of
from waterclock.connectors.duckdb.database import kind_at, quoted, record_in, rows_of, table_of
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    import duckdb

_WRITING = Writing(quoted, lambda kind: f"CAST(NULL AS {kind})", lambda label: f"'{label}'")


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables and views of a database, in the transaction of a connection."""

    connection: duckdb.DuckDBPyConnection

    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`, and nothing where the name is free."""
        return kind_at(self.connection, unit)

    def labels(self, project: str, publish: str) -> list[str]:
        """Return the labels that were delivered, in order."""
        return record_in(self.connection).labels(project, publish)

    def versions(self, project: str, publish: str) -> list[tuple[int, datetime]]:
        """Return the claims that delivered, and when, oldest first."""
        return record_in(self.connection).versions(project, publish)

    def show(self, unit: Unit, parts: Mapping[str, Unit]) -> None:
        """Have the unit's view show tables by their labels, "" for a version. Of none there is no view."""
        found = {table_of(part): (label, self._columns(part)) for label, part in parts.items()}
        rows_of(self.connection, f"DROP VIEW IF EXISTS {table_of(unit)}")
        if found:
            rows_of(self.connection, f"CREATE VIEW {table_of(unit)} AS {query_of(found, _WRITING)}")

    def drop(self, part: Unit) -> None:
        """Drop a table, if it is there."""
        rows_of(self.connection, f"DROP TABLE IF EXISTS {table_of(part)}")

    def _columns(self, unit: Unit) -> list[tuple[str, str]]:
        relation = self.connection.sql(f"SELECT * FROM {table_of(unit)} LIMIT 0")
        return [(name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True)]
