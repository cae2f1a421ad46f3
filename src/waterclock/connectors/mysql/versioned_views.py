"""Lists, creates and drops the tables and views of PUBLISH behind a view in a MariaDB or MySQL database.

These statements run outside of any transaction, as each of them would commit it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from waterclock.connectors.mysql.database import kind_at, split_table_name
from waterclock.connectors.mysql.dialect import session_in
from waterclock.connectors.sql.versioned_views import Columns
from waterclock.connectors.sql.view_tables import SqlViewTables, group_columns
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.mysql.statements import Connection


@dataclass(frozen=True, slots=True)
class MysqlViewTables(SqlViewTables):
    """The tables and views of a MariaDB or MySQL database."""

    connection: Connection

    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`, the kind of object with the unit's name; empty if the name is free."""
        return kind_at(self.connection, unit)

    def columns(self, parts: Sequence[Unit]) -> dict[str, Columns]:
        """Map the path of each table that exists to its columns. Cost: one statement."""
        if not parts:
            return {}
        schema, _ = split_table_name(parts[0])
        paths = {split_table_name(part)[1].lower(): part.path for part in parts}
        rows = self.session.rows_of(
            "SELECT c.TABLE_NAME, COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS AS c"
            " JOIN information_schema.TABLES AS t USING (TABLE_SCHEMA, TABLE_NAME)"
            " WHERE c.TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_TYPE = 'BASE TABLE'"
            f" AND c.TABLE_NAME IN ({', '.join(['%s'] * len(parts))}) ORDER BY c.TABLE_NAME, ORDINAL_POSITION",
            (schema, *(split_table_name(part)[1] for part in parts)),
        )
        return group_columns(((str(table).lower(), *column) for table, *column in rows), paths)

    def comment_at(self, part: Unit) -> str:
        """Return the comment of a table."""
        row = self.session.first_of(
            "SELECT TABLE_COMMENT FROM information_schema.TABLES"
            " WHERE TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_NAME = %s",
            split_table_name(part),
        )
        return str(row[0]) if row else ""

    def _show(self, view: str, query: str) -> None:
        if query:
            self.session.execute(f"CREATE OR REPLACE VIEW {view} AS {query}")
        else:
            self.session.execute(f"DROP VIEW IF EXISTS {view}")

    def _instant(self, delivered_at: datetime) -> datetime:
        return delivered_at.replace(tzinfo=UTC)


def open_view_tables(connection: Connection) -> MysqlViewTables:
    """Return an object that lists, creates and drops the tables and views of a connection's database."""
    return MysqlViewTables(session_in(connection), connection)
