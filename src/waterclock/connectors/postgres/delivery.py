"""Delivers sealed slices to a PostgreSQL database with COPY, in one transaction, once per claim.

`sql/database_delivery` describes the modes. Deliveries of a publish run one after another, under an advisory lock with
its name. Killing a claim first ends the connection that still delivers it, as a suspended runner would keep the lock
forever.

REPLACE uses DELETE and COPY: each reader sees the old rows or the new ones, never none. (After TRUNCATE, or with a new
table under the name, transactions that started before see an empty table.) `destination` creates or alters the table
first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.connectors.delivering import Delivered, Delivery, DeliveryOutcome
from waterclock.connectors.postgres.database import PostgresDatabase
from waterclock.connectors.postgres.destination import prepare_table
from waterclock.connectors.postgres.dialect import DIALECT, session_in, table_of
from waterclock.connectors.postgres.privileges import PRIVILEGES
from waterclock.connectors.postgres.row_merging import has_filters, merge, put
from waterclock.connectors.postgres.stored_columns import PostgresDestinationColumn, read_stored_columns
from waterclock.connectors.sql.database_delivery import SingleTransactionDeliverer
from waterclock.connectors.sql.delivery_record import DELIVERIES, INDEX
from waterclock.connectors.sql.destination import stored_names
from waterclock.connectors.sql.privileges import PrivilegeReader
from waterclock.connectors.sql.replace_where import replaced_rows
from waterclock.connectors.sql.sessions import SqlSession
from waterclock.connectors.sql.versioned_views import Columns
from waterclock.connectors.sql.view_tables import SqlViewTables, group_columns
from waterclock.flow.declarations import Unit
from waterclock.flow.enums import Mode

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection

_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {DELIVERIES} ("
    "project TEXT NOT NULL, claim BIGINT NOT NULL, publish TEXT NOT NULL, label TEXT NOT NULL, outcome TEXT NOT NULL,"
    " mode TEXT NOT NULL, row_count BIGINT NOT NULL, deleted_count BIGINT NOT NULL, note TEXT NOT NULL,"
    " delivered_at TIMESTAMPTZ NOT NULL DEFAULT now(), PRIMARY KEY (project, claim, label))"
)
LONGEST_PAUSE = 60
"""Seconds after which the server ends a connection that has stopped while it delivers open windows."""
_LONGEST_STATEMENT = 600  # seconds of one COPY of an open window
_LOCK_CREATION = "SELECT pg_advisory_xact_lock(hashtext('waterclock_deliveries'))"
_LOCK_PUBLISH = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
_END_CONNECTION = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
    " WHERE application_name = %s AND usename = current_user AND datname = current_database()"
)


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


@dataclass(frozen=True, slots=True)
class PostgresDeliverer(SingleTransactionDeliverer["Connection", Mapping[str, PostgresDestinationColumn]]):
    """Delivers to a PostgreSQL database."""

    database: PostgresDatabase

    def kill(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered:
        """Record a claim as killed, unless it has an outcome already.

        A connection that still delivers the claim is ended first.
        """
        with self.database.open_connection(str(unit)) as connection:
            connection.execute(_END_CONNECTION, (_format_application_name(project, claim),))
        return SingleTransactionDeliverer.kill(self, unit, project, publish, claim)

    @property
    def _destination(self) -> PostgresDatabase:
        return self.database

    @property
    def _catalog(self) -> PostgresDatabase:
        return self.database.for_catalog

    @property
    def _privileges(self) -> PrivilegeReader:
        return PRIVILEGES

    def _session(self, connection: Connection) -> SqlSession:
        return session_in(connection)

    def _open_for_writing(
        self, where: str, *, called: tuple[str, int] | None = None
    ) -> AbstractContextManager[Connection]:
        return (
            self.database.open_for_writing(where, called=_format_application_name(*called))
            if called
            else self.database.open_for_writing(where)
        )

    def _limit_pauses(self, connection: Connection) -> None:
        connection.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{LONGEST_PAUSE}s'")
        connection.execute(f"SET LOCAL statement_timeout = '{_LONGEST_STATEMENT}s'")

    def _prepare(self, connection: Connection, project: str, publish: str) -> None:
        if not self._has_record(connection):
            connection.execute(_LOCK_CREATION)
            connection.execute(_CREATE)
            connection.execute(INDEX)
        connection.execute(_LOCK_PUBLISH, (f"waterclock {project} {publish}",))

    def _has_record(self, connection: Connection) -> bool:
        known = connection.execute("SELECT to_regclass(%s)", (DELIVERIES,)).fetchone()
        return known is not None and known[0] is not None

    def _tables(self, connection: Connection) -> PostgresViewTables:
        return PostgresViewTables(session_in(connection), connection)

    def _destination_names(self, connection: Connection, unit: Unit) -> Mapping[str, str]:
        return stored_names(read_stored_columns(connection, unit))

    def _prepare_table(
        self, connection: Connection, unit: Unit, delivery: Delivery, *, is_ours: bool
    ) -> Mapping[str, PostgresDestinationColumn]:
        return prepare_table(connection, unit, delivery, is_ours=is_ours)

    def _deliver_rows(
        self, connection: Connection, unit: Unit, delivery: Delivery, there: Mapping[str, PostgresDestinationColumn]
    ) -> Delivered:
        is_filtered = has_filters(connection, unit)
        deleted = 0
        if delivery.replaces_rows:
            deleted = connection.execute(
                *replaced_rows("DELETE", unit, delivery, DIALECT, stored_names(there))
            ).rowcount
        if delivery.mode is Mode.MERGE:
            rows, gone = merge(connection, unit, delivery, there, is_filtered=is_filtered)
            deleted += gone
        else:
            rows = put(connection, unit, delivery, there, is_filtered=is_filtered)
        return Delivered(delivery.claim, DeliveryOutcome.DELIVERED, delivery.label_text, rows, deleted, delivery.note)


def _format_application_name(project: str, claim: int) -> str:
    """Return the `application_name` of a connection that delivers a claim. Claims are numbered per project."""
    return f"waterclock {claim} {project}"[:63]
