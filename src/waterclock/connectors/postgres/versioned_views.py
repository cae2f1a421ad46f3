"""Finds, shows and drops the tables behind a view in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.connectors.postgres.database import quote_identifier, table_of
from waterclock.connectors.sql.delivery_record import DeliveryRecord
from waterclock.connectors.sql.parts import Shown
from waterclock.connectors.sql.versioned_views import Columns, ViewDialect, query_of
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection

_WRITING = ViewDialect(quote_identifier, lambda kind: f"NULL::{kind}", lambda label: f"'{label}'::text")
_KINDS = {"r": "table", "p": "table", "f": "table", "v": "view", "m": "view"}


@dataclass(frozen=True, slots=True)
class PostgresViewTables:
    """The tables and views of a database, in the transaction of a connection."""

    connection: Connection

    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`, or an empty text if the name is free."""
        sql = "SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)"
        row = self.connection.execute(sql, (table_of(unit),)).fetchone()
        return _KINDS.get(str(row[0]), "table") if row else ""

    def labels(self, project: str, publish: str) -> list[str]:
        """Return the labels that were delivered, in order."""
        return DeliveryRecord(self.connection.execute, "%s").labels(project, publish)

    def versions(self, project: str, publish: str) -> list[tuple[int, datetime]]:
        """Return the claims that were delivered and their times, oldest first."""
        return DeliveryRecord(self.connection.execute, "%s").versions(project, publish)

    def columns(self, parts: Sequence[Unit]) -> dict[str, Columns]:
        """Return the columns of the existing tables by path, with one statement."""
        paths = {table_of(part): part.path for part in parts}
        rows = self.connection.execute(
            "SELECT said, attname::text, format_type(atttypid, atttypmod) FROM unnest(%s::text[]) AS said"
            " JOIN pg_class AS c ON c.oid = to_regclass(said) AND relkind IN ('r', 'p', 'f')"
            " JOIN pg_attribute ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped ORDER BY said, attnum",
            (list(paths),),
        )
        found: dict[str, list[tuple[str, str]]] = {}
        for said, name, kind in rows:
            found.setdefault(paths[str(said)], []).append((str(name), str(kind)))
        return {**found}

    def show(self, unit: Unit, parts: Mapping[str, Shown]) -> None:
        """Make the unit's view show tables by label, or by "" for a version. Without tables the view is dropped."""
        found = {table_of(part): (label, columns) for label, (part, columns) in parts.items()}
        if not found:
            self.connection.execute(f"DROP VIEW IF EXISTS {table_of(unit)}")
            return
        _replace_view(self.connection, table_of(unit), query_of(found, _WRITING))

    def drop(self, part: Unit) -> None:
        """Drop a table, if it is there."""
        self.connection.execute(f"DROP TABLE IF EXISTS {table_of(part)}")


def _replace_view(connection: Connection, view: str, query: str) -> None:
    """Change the query of a view.

    If its columns stay, the view keeps its privileges and dependents; else it is dropped and created again.
    """
    import psycopg

    try:
        with connection.transaction():
            connection.execute(f"CREATE OR REPLACE VIEW {view} AS {query}")
    except psycopg.errors.InvalidTableDefinition:  # a column was removed, or changed its type or position
        connection.execute(f"DROP VIEW {view}")
        connection.execute(f"CREATE VIEW {view} AS {query}")
