"""Tables of a PostgreSQL database behind a view: how they are found, shown and dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.connectors.behind import Writing, query_of
from waterclock.connectors.delivery_record import Record
from waterclock.connectors.postgres.database import quoted, table_of
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection

_WRITING = Writing(quoted, lambda kind: f"NULL::{kind}", lambda label: f"'{label}'::text")
_KINDS = {"r": "table", "p": "table", "f": "table", "v": "view", "m": "view"}


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables and views of a database, in the transaction of a connection."""

    connection: Connection

    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`, and nothing where the name is free."""
        sql = "SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)"
        row = self.connection.execute(sql, (table_of(unit),)).fetchone()
        return _KINDS.get(str(row[0]), "table") if row else ""

    def labels(self, project: str, publish: str) -> list[str]:
        """Return the labels that were delivered, in order."""
        return Record(self.connection.execute, "%s").labels(project, publish)

    def versions(self, project: str, publish: str) -> list[tuple[int, datetime]]:
        """Return the claims that delivered, and when, oldest first."""
        return Record(self.connection.execute, "%s").versions(project, publish)

    def show(self, unit: Unit, parts: Mapping[str, Unit]) -> None:
        """Have the unit's view show tables by their labels, "" for a version. Of none there is no view."""
        found = {table_of(part): (label, self._columns(part)) for label, part in parts.items()}
        if not found:
            self.connection.execute(f"DROP VIEW IF EXISTS {table_of(unit)}")
            return
        _replace_view(self.connection, table_of(unit), query_of(found, _WRITING))

    def drop(self, part: Unit) -> None:
        """Drop a table, if it is there."""
        self.connection.execute(f"DROP TABLE IF EXISTS {table_of(part)}")

    def _columns(self, unit: Unit) -> list[tuple[str, str]]:
        rows = self.connection.execute(
            "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            (table_of(unit),),
        )
        return [(str(name), str(kind)) for name, kind in rows]


def _replace_view(connection: Connection, view: str, query: str) -> None:
    """Put another query under a view: in its place where its columns stay, which keeps its rights and its readers."""
    import psycopg

    try:
        with connection.transaction():
            connection.execute(f"CREATE OR REPLACE VIEW {view} AS {query}")
    except psycopg.errors.InvalidTableDefinition:  # a column went, or has another type or place
        connection.execute(f"DROP VIEW {view}")
        connection.execute(f"CREATE VIEW {view} AS {query}")
