"""Delivers a sealed slice to a PostgreSQL database with COPY, in one transaction, once per claim.

The table `waterclock_deliveries` has a row for each claim and label, written in the transaction that delivers the rows.
A claim with a row is not delivered again: the table is the latch, and shows the outcome of each claim. Deliveries of a
publish run one after another, under an advisory lock with its name. Killing a claim first ends the connection that
still delivers it, since a suspended runner would keep the lock forever.

REPLACE   of a regular table replaces all rows of the destination with DELETE and COPY. Each reader sees the old rows or
          the new ones, never none. (After TRUNCATE, or with a new table under the name, transactions that started
          before see an empty table.)
MERGE     of a regular table deletes the rows of deleted keys, and replaces the rows whose keys are in the slice.
          Columns of the destination that the publish does not name keep their values.
APPEND    and anything from a partitioned table: the destination has a column `timelabel`, and the rows of a label
          replace the earlier rows of that label. A MERGE never changes a row with a newer label.

`destination` creates or alters the table first.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.connectors.delivering import Delivered, Delivery, DeliveryOutcome
from waterclock.connectors.postgres.database import PostgresDatabase, quote_identifier, table_of
from waterclock.connectors.postgres.destination import rows_in, settle_table
from waterclock.connectors.postgres.staging import has_filters, merge, put
from waterclock.connectors.postgres.stored_columns import PostgresDestinationColumn, columns_there
from waterclock.connectors.postgres.versioned_views import PostgresViewTables
from waterclock.connectors.sql.database_delivery import DeliversInOneTransaction
from waterclock.connectors.sql.delivery_record import DELIVERIES, INDEX, DeliveryRecord
from waterclock.flow.choices import Mode
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.postgres.database import Connection

_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {DELIVERIES} ("
    "project TEXT NOT NULL, claim BIGINT NOT NULL, publish TEXT NOT NULL, label TEXT NOT NULL, outcome TEXT NOT NULL,"
    " mode TEXT NOT NULL, row_count BIGINT NOT NULL, deleted_count BIGINT NOT NULL, note TEXT NOT NULL,"
    " delivered_at TIMESTAMPTZ NOT NULL DEFAULT now(), PRIMARY KEY (project, claim, label))"
)
_MAKE_LOCK = "SELECT pg_advisory_xact_lock(hashtext('waterclock_deliveries'))"
_TURN = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
_END = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
    " WHERE application_name = %s AND usename = current_user AND datname = current_database()"
)


@dataclass(frozen=True, slots=True)
class PostgresDeliverer(DeliversInOneTransaction["Connection", Mapping[str, PostgresDestinationColumn]]):
    """Delivers to a PostgreSQL database."""

    database: PostgresDatabase

    def kill(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered:
        """Record the claim without rows, unless it is recorded already. First end a connection that still delivers."""
        with self.database.open_connection(str(unit)) as connection:
            connection.execute(_END, (_format_application_name(project, claim),))
        return DeliversInOneTransaction.kill(self, unit, project, publish, claim)

    def _open_for_reading(self, where: str) -> AbstractContextManager[Connection]:
        return self.database.open_for_reading(where)

    def _open_for_writing(
        self, where: str, *, called: tuple[str, int] | None = None
    ) -> AbstractContextManager[Connection]:
        return (
            self.database.open_for_writing(where, called=_format_application_name(*called))
            if called
            else self.database.open_for_writing(where)
        )

    def _prepare(self, connection: Connection, project: str, publish: str) -> None:
        if not self._has_record(connection):
            connection.execute(_MAKE_LOCK)
            connection.execute(_CREATE)
            connection.execute(INDEX)
        connection.execute(_TURN, (f"waterclock {project} {publish}",))

    def _record(self, connection: Connection) -> DeliveryRecord:
        return DeliveryRecord(connection.execute, "%s")

    def _has_record(self, connection: Connection) -> bool:
        known = connection.execute("SELECT to_regclass(%s)", (DELIVERIES,)).fetchone()
        return known is not None and known[0] is not None

    def _tables(self, connection: Connection) -> PostgresViewTables:
        return PostgresViewTables(connection)

    def _table_of(self, unit: Unit) -> str:
        return table_of(unit)

    def _names_there(self, connection: Connection, unit: Unit) -> Mapping[str, str]:
        return {name: quote_identifier(column.name) for name, column in columns_there(connection, unit).items()}

    def _settle(
        self, connection: Connection, unit: Unit, delivery: Delivery, *, is_ours: bool
    ) -> Mapping[str, PostgresDestinationColumn]:
        return settle_table(connection, unit, delivery, is_ours=is_ours)

    def _bring(
        self, connection: Connection, unit: Unit, delivery: Delivery, there: Mapping[str, PostgresDestinationColumn]
    ) -> Delivered:
        return _bring(connection, unit, delivery, there)


def _format_application_name(project: str, claim: int) -> str:
    """Return the application_name of a delivering connection: claim and project, as claim numbers are per project."""
    return f"waterclock {claim} {project}"[:63]


def _bring(
    connection: Connection, unit: Unit, delivery: Delivery, there: Mapping[str, PostgresDestinationColumn]
) -> Delivered:
    is_filtered = has_filters(connection, unit)
    deleted = 0
    if delivery.is_by_label or delivery.mode is Mode.REPLACE:
        deleted = connection.execute(*rows_in("DELETE", unit, delivery, there)).rowcount
    if delivery.mode is Mode.MERGE:
        rows, gone = merge(connection, unit, delivery, there, is_filtered=is_filtered)
        deleted += gone
    else:
        rows = put(connection, unit, delivery, there, is_filtered=is_filtered)
    return Delivered(delivery.claim, DeliveryOutcome.DELIVERED, delivery.label_text, rows, deleted, delivery.note)
