"""Tables of a MariaDB or MySQL database behind a view: how they are found, shown and dropped.

Each statement here stands by itself, outside of any transaction: it would end one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from waterclock.connectors.behind import Writing, query_of
from waterclock.connectors.delivery_record import Record
from waterclock.connectors.mysql.database import asked, kind_at, place_of, quoted, table_of
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.mysql.database import Connection

_WRITING = Writing(quoted, lambda _: "NULL", lambda label: f"'{label}'")


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables and views of a database."""

    connection: Connection

    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`, and nothing where the name is free."""
        return kind_at(self.connection, unit)

    def labels(self, project: str, publish: str) -> list[str]:
        """Return the labels that were delivered, in order."""
        return record_in(self.connection).labels(project, publish)

    def versions(self, project: str, publish: str) -> list[tuple[int, datetime]]:
        """Return the claims that delivered, and when, oldest first."""
        rows = record_in(self.connection).versions(project, publish)
        return [(claim, delivered.replace(tzinfo=UTC)) for claim, delivered in rows]

    def show(self, unit: Unit, parts: Mapping[str, Unit]) -> None:
        """Have the unit's view show tables by their labels, "" for a version. Of none there is no view."""
        found = {table_of(part): (label, self._columns(part)) for label, part in parts.items()}
        if found:
            asked(self.connection, f"CREATE OR REPLACE VIEW {table_of(unit)} AS {query_of(found, _WRITING)}")
        else:
            asked(self.connection, f"DROP VIEW IF EXISTS {table_of(unit)}")

    def drop(self, part: Unit) -> None:
        """Drop a table, if it is there."""
        asked(self.connection, f"DROP TABLE IF EXISTS {table_of(part)}")

    def comment_at(self, part: Unit) -> str:
        """Return what a table was made with as a comment."""
        row = asked(
            self.connection,
            "SELECT TABLE_COMMENT FROM information_schema.TABLES"
            " WHERE TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_NAME = %s",
            place_of(part),
        ).fetchone()
        return str(row[0]) if row else ""

    def _columns(self, unit: Unit) -> list[tuple[str, str]]:
        rows = asked(
            self.connection,
            "SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS"
            " WHERE TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
            place_of(unit),
        ).rows
        return [(str(name), str(kind)) for name, kind in rows]


def record_in(connection: Connection) -> Record:
    """Return the record of deliveries of the database."""
    return Record(lambda sql, values: asked(connection, sql, values), "%s")
