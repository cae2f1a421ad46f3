"""Lists, creates and updates the tables and views of PUBLISH behind a view in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.connectors.postgres.dialect import table_of
from waterclock.connectors.sql.versioned_views import Columns
from waterclock.connectors.sql.view_tables import SqlViewTables, group_columns
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection

_GRANTS = (
    "SELECT privilege_type, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,"
    " CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END"
    " FROM pg_class, aclexplode(relacl) WHERE oid = to_regclass(%s) AND grantee <> relowner"
)
_KINDS = {"r": "table", "p": "table", "f": "table", "v": "view", "m": "view"}


@dataclass(frozen=True, slots=True)
class PostgresViewTables(SqlViewTables):
    """The tables and views of a PostgreSQL database."""

    connection: Connection

    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`, the kind of object with the unit's name; empty if the name is free."""
        row = self.session.first_of("SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)", (table_of(unit),))
        return _KINDS.get(str(row[0]), "table") if row else ""

    def columns(self, parts: Sequence[Unit]) -> dict[str, Columns]:
        """Map the path of each table that exists to its columns. Cost: one statement."""
        paths = {table_of(part): part.path for part in parts}
        rows = self.session.rows_of(
            "SELECT relation, attname::text, format_type(atttypid, atttypmod) FROM unnest(%s::text[]) AS relation"
            " JOIN pg_class AS c ON c.oid = to_regclass(relation) AND relkind IN ('r', 'p', 'f')"
            " JOIN pg_attribute ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped ORDER BY relation, attnum",
            (list(paths),),
        )
        return group_columns(rows, paths)

    def _show(self, view: str, query: str) -> None:
        """Replace a view's query, in place if its columns stay the same, which keeps dependent views.

        Otherwise the view is created again, with the same privileges.
        """
        import psycopg

        if not query:
            self.session.execute(f"DROP VIEW IF EXISTS {view}")
            return
        try:
            with self.connection.transaction():
                self.session.execute(f"CREATE OR REPLACE VIEW {view} AS {query}")
        except psycopg.errors.InvalidTableDefinition:  # a column was removed, or changed its type or position
            grants = self.session.rows_of(_GRANTS, (view,))
            self.session.execute(f"DROP VIEW {view}")
            self.session.execute(f"CREATE VIEW {view} AS {query}")
            for privilege, grantee, option in grants:
                self.session.execute(f"GRANT {privilege} ON {view} TO {grantee}{option}")
