"""Finds, shows and drops the tables behind a view in a MariaDB or MySQL database.

These statements run outside of any transaction, since each of them would commit it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from waterclock.connectors.mysql.database import kind_at, place_of, quote_identifier, run_statement, table_of
from waterclock.connectors.sql.delivery_record import DeliveryRecord
from waterclock.connectors.sql.parts import Shown
from waterclock.connectors.sql.versioned_views import Columns, ViewDialect, query_of
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.mysql.database import Connection

_WRITING = ViewDialect(quote_identifier, lambda _: "NULL", lambda label: f"'{label}'")


@dataclass(frozen=True, slots=True)
class MysqlViewTables:
    """The tables and views of a database."""

    connection: Connection

    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`, or an empty text if the name is free."""
        return kind_at(self.connection, unit)

    def labels(self, project: str, publish: str) -> list[str]:
        """Return the labels that were delivered, in order."""
        return record_in(self.connection).labels(project, publish)

    def versions(self, project: str, publish: str) -> list[tuple[int, datetime]]:
        """Return the claims that were delivered and their times, oldest first."""
        rows = record_in(self.connection).versions(project, publish)
        return [(claim, delivered.replace(tzinfo=UTC)) for claim, delivered in rows]

    def columns(self, parts: Sequence[Unit]) -> dict[str, Columns]:
        """Return the columns of the existing tables by path, with one statement."""
        if not parts:
            return {}
        schema, _ = place_of(parts[0])
        paths = {place_of(part)[1].lower(): part.path for part in parts}
        rows = run_statement(
            self.connection,
            "SELECT c.TABLE_NAME, COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS AS c"
            " JOIN information_schema.TABLES AS t USING (TABLE_SCHEMA, TABLE_NAME)"
            " WHERE c.TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_TYPE = 'BASE TABLE'"
            f" AND c.TABLE_NAME IN ({', '.join(['%s'] * len(paths))}) ORDER BY c.TABLE_NAME, ORDINAL_POSITION",
            (schema, *(place_of(part)[1] for part in parts)),
        ).rows
        found: dict[str, list[tuple[str, str]]] = {}
        for table, name, kind in rows:
            found.setdefault(paths[str(table).lower()], []).append((str(name), str(kind)))
        return {**found}

    def show(self, unit: Unit, parts: Mapping[str, Shown]) -> None:
        """Make the unit's view show tables by label, or by "" for a version. Without tables the view is dropped."""
        found = {table_of(part): (label, columns) for label, (part, columns) in parts.items()}
        if found:
            run_statement(self.connection, f"CREATE OR REPLACE VIEW {table_of(unit)} AS {query_of(found, _WRITING)}")
        else:
            run_statement(self.connection, f"DROP VIEW IF EXISTS {table_of(unit)}")

    def drop(self, part: Unit) -> None:
        """Drop a table, if it is there."""
        run_statement(self.connection, f"DROP TABLE IF EXISTS {table_of(part)}")

    def comment_at(self, part: Unit) -> str:
        """Return the comment of a table."""
        row = run_statement(
            self.connection,
            "SELECT TABLE_COMMENT FROM information_schema.TABLES"
            " WHERE TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_NAME = %s",
            place_of(part),
        ).fetchone()
        return str(row[0]) if row else ""


def record_in(connection: Connection) -> DeliveryRecord:
    """Return the record of deliveries of the database."""
    return DeliveryRecord(lambda sql, values: run_statement(connection, sql, values), "%s")
