"""Lists the tables behind a view in a SQLite database."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from waterclock.connectors.sql.versioned_views import Columns
from waterclock.connectors.sql.view_tables import SqlViewTables, group_columns
from waterclock.connectors.sqlite.database import split_table_name
from waterclock.connectors.sqlite.dialect import quote_identifier
from waterclock.flow.declarations import Unit


class SqliteViewTables(SqlViewTables):
    """The tables and views of a SQLite database."""

    __slots__ = ()

    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`, the kind of object with the unit's name; empty if the name is free."""
        prefix, name = split_table_name(unit)
        sql = f"SELECT type FROM {prefix}sqlite_master WHERE lower(name) = lower(?)"
        row = self.session.first_of(sql, (name,))
        return str(row[0]) if row else ""

    def columns(self, parts: Sequence[Unit]) -> dict[str, Columns]:
        """Map the path of each table that exists to its columns. Cost: one statement."""
        paths = {part.path.rpartition(".")[2].lower(): part.path for part in parts}
        schema = parts[0].path.rpartition(".")[0] or "main" if parts else "main"
        rows = self.session.rows_of(
            f"SELECT m.name, x.name, x.type FROM {quote_identifier(schema)}.sqlite_master AS m"
            " JOIN pragma_table_xinfo(m.name, ?) AS x WHERE m.type = 'table'"
            " AND lower(m.name) IN (SELECT lower(value) FROM json_each(?)) ORDER BY m.name, x.cid",
            (schema, json.dumps(list(paths))),
        )
        return group_columns(((str(table).lower(), *column) for table, *column in rows), paths)

    def _instant(self, delivered_at: str) -> datetime:
        return datetime.fromisoformat(delivered_at).replace(tzinfo=UTC)
