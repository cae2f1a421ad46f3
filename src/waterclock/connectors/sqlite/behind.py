"""Tables of a SQLite database behind a view: how they are found, shown and dropped."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from waterclock.connectors.behind import Writing, query_of
from waterclock.connectors.delivery_record import Record
from waterclock.connectors.sqlite.database import quoted, table_of
from waterclock.flow.declarations import Unit

_WRITING = Writing(quoted, lambda _: "NULL", lambda label: f"'{label}'")


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables and views of a database, in the transaction of a connection."""

    connection: sqlite3.Connection

    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`, and nothing where the name is free."""
        *schema, name = unit.path.split(".")
        master = f"{quoted(schema[0])}.sqlite_master" if schema else "sqlite_master"
        row = self.connection.execute(f"SELECT type FROM {master} WHERE lower(name) = lower(?)", (name,)).fetchone()
        return str(row[0]) if row else ""

    def labels(self, project: str, publish: str) -> list[str]:
        """Return the labels that were delivered, in order."""
        return Record(self.connection.execute, "?").labels(project, publish)

    def versions(self, project: str, publish: str) -> list[tuple[int, datetime]]:
        """Return the claims that delivered, and when, oldest first."""
        rows = Record(self.connection.execute, "?").versions(project, publish)
        return [(claim, datetime.fromisoformat(delivered).replace(tzinfo=UTC)) for claim, delivered in rows]

    def show(self, unit: Unit, parts: Mapping[str, Unit]) -> None:
        """Have the unit's view show tables by their labels, "" for a version. Of none there is no view."""
        found = {table_of(part): (label, self._columns(part)) for label, part in parts.items()}
        self.connection.execute(f"DROP VIEW IF EXISTS {table_of(unit)}")
        if found:
            self.connection.execute(f"CREATE VIEW {table_of(unit)} AS {query_of(found, _WRITING)}")

    def drop(self, part: Unit) -> None:
        """Drop a table, if it is there."""
        self.connection.execute(f"DROP TABLE IF EXISTS {table_of(part)}")

    def _columns(self, unit: Unit) -> list[tuple[str, str]]:
        *schema, name = unit.path.split(".")
        prefix = f"{quoted(schema[0])}." if schema else ""
        rows = self.connection.execute(f"PRAGMA {prefix}table_xinfo({quoted(name)})")
        return [(str(row[1]), str(row[2])) for row in rows]
