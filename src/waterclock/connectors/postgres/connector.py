"""The connection type `postgres`: tables and queries of a PostgreSQL database, and tables delivered to it.

Connection      `url`: postgresql://user@host:5432/database. `password` is a secret; without it libpq's defaults apply.
Unit            a table or view by name, with its schema if that differs from the connection's; or a query.
Clock           The server's.
Data time       `WHERE t >= s AND t < e`. The time is a timestamp, a date, or a number since 1970.
Snapshot        All rows.
Changes         Each collect has its own replication slot. The first batch reads all rows as of the slot's start, and
                later batches read the changes in the log. See `change_collection`.
Publish         See `delivery`.
Types           The declared types; else those of the database's columns. Types without a counterpart are refused.

A batch reads everything as of one moment, even if it reads parts in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.batches.log_retention import RetainedLog
from waterclock.connectors.change_collector import ChangeRequest, ChangesRead
from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.interface import Collected, ConnectionType, Setting
from waterclock.connectors.sql.addresses import full_database, user_in
from waterclock.connectors.sql.capabilities import CHANGE_SLACK, LOCK_TIMEOUT, LOGIN, database_capabilities
from waterclock.connectors.sql.collector import (
    WINDOW_VALUE,
    ChangedMinutesCollector,
    SqlReadRequest,
    is_true,
    partitions_of,
)
from waterclock.flow.awaits import Awaits
from waterclock.flow.capabilities import DestinationNames, Driver, Option
from waterclock.flow.changes import LOG_LIMIT
from waterclock.flow.declarations import Columns, Unit
from waterclock.flow.enums import Batching
from waterclock.timelabel.label import TIMELABEL
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

    from waterclock.connectors.postgres.database import Connection, PostgresDatabase
    from waterclock.connectors.postgres.types import PostgresColumn
    from waterclock.connectors.sql.changed_minutes import ChangedMinute, MinuteAggregation, MinuteChangeScan
    from waterclock.connectors.sql.privileges import SourceLogin
    from waterclock.connectors.sql.window_bounds import WindowFilter


def _own_path(options: Mapping[str, Any]) -> str:
    return f"{user_in(options)}@"


CAPABILITIES = database_capabilities(
    "postgres",
    {
        "url": Option(
            is_required=True,
            is_address=True,
            schemes=("postgresql", "postgres", ""),
            help="the database, as postgresql://user@host:5432/database",
        ),
        "password": Option(is_secret=True, help="its user's password, as a secret; default where libpq finds it"),
        **LOGIN,
        "schema": Option(help="the schema of tables named without one; default the user's search path"),
        **LOCK_TIMEOUT,
    },
    {
        "partitions": Option("number", help="in how many parallel parts a large result is read; default by its size"),
        **CHANGE_SLACK,
        "decoder": Option(
            choices=("wal2json", "pgoutput"), help="BY CHANGES: the output plugin; default pgoutput if it can be used"
        ),
        "snapshot": Option(
            help="BY CHANGES: any text; a new one makes the next batch take a new snapshot of the table"
        ),
        LOG_LIMIT: Option(
            "number",
            help="BY CHANGES: how many GB of the log its slot may hold back before a warning; default 10, or half of "
            "max_slot_wal_keep_size if that is less",
        ),
    },
    driver=Driver("psycopg", extra="postgres"),
    more=frozenset({Batching.CHANGES}),
    names=DestinationNames(
        {r"(pg_[^.]*|information_schema)\..*": "the schema is a part of PostgreSQL"},
        # the user's search path determines the schema of a table that is named without one
        spelling=lambda path, options: path if "." in path else f"{options.get('schema') or _own_path(options)}.{path}",
        server=lambda options: full_database(options, 5432),
    ),
)


def _open_source(setting: Setting) -> PostgresCollector:
    from waterclock.connectors.postgres.database import database_of

    return PostgresCollector(database_of(setting))


def _open_destination(setting: Setting) -> Deliverer:
    from waterclock.connectors.postgres.database import database_of
    from waterclock.connectors.postgres.delivery import PostgresDeliverer

    return PostgresDeliverer(database_of(setting))


CONNECTOR = ConnectionType(CAPABILITIES, _open_source, _open_destination)


@dataclass(frozen=True, slots=True)
class PostgresCollector(ChangedMinutesCollector["Connection", "PostgresColumn"]):
    """Collects from a PostgreSQL database."""

    database: PostgresDatabase

    def clock(self, unit: Unit) -> datetime:
        """Return the current time of the server."""
        from waterclock.connectors.postgres.slots import read_clock

        with self.database.for_catalog.open_connection(str(unit)) as connection:
            return read_clock(connection)

    def has_sign(self, unit: Unit, awaits: Awaits, window: Window, zone: str) -> bool:
        """Return whether the query of AWAIT shows a complete window: its first value is TRUE or a number other than 0.

        In the query, :window_start and :window_end are instants (TIMESTAMPTZ), and :timelabel is the label.
        """
        del zone
        values = {"window_start": window.start, "window_end": window.end, TIMELABEL: window.label}
        query = WINDOW_VALUE.sub(r"%(\1)s", awaits.text.replace("%", "%%"))
        with self.database.open_for_reading(str(unit)) as connection:
            row = connection.execute(query, values).fetchone()
        return row is not None and is_true(row[0])

    def check_privileges(self, unit: Unit, *, has_changes: bool) -> SourceLogin | None:
        """Return the login's privileges; None if they are not known. Raises E821 or E861 if one is missing."""
        from waterclock.connectors.postgres.dialect import session_in
        from waterclock.connectors.postgres.privileges import PRIVILEGES
        from waterclock.connectors.sql.privileges import check_source

        return check_source(self.database.for_catalog, session_in, PRIVILEGES, unit, has_changes=has_changes)

    def read_changes(
        self, spark: SparkSession, unit: Unit, request: ChangeRequest, columns: Columns, zone: str
    ) -> ChangesRead:
        """Read the changes since the last batch. For the first batch, create a slot and read all rows."""
        from waterclock.connectors.postgres.change_collection import TableFollower

        return TableFollower(self.database, unit, columns, zone).read(spark, request)

    def confirm(self, unit: Unit, noted: Mapping[str, Any]) -> None:
        """Advance the slot past the changes that a batch has committed, so that the server may remove them.

        `noted` is the `ChangesRead.noted` of that batch.
        """
        from waterclock.connectors.postgres.change_collection import confirm

        confirm(self.database, unit, noted)

    def release_resources(self, unit: Unit, names: Sequence[str]) -> tuple[str, ...]:
        """Drop slots, except those that a running batch uses. Return the names of those that no longer exist."""
        from waterclock.connectors.postgres.change_collection import drop_slots

        return drop_slots(self.database, unit, names)

    def find_retained_logs(self, unit: Unit, names: Sequence[str]) -> Mapping[str, RetainedLog]:
        """Return the state of each slot, and how much of the log the server retains for it."""
        from waterclock.connectors.postgres.slots import query_retained_logs

        with self.database.open_connection(str(unit)) as connection:
            return query_retained_logs(connection, names)

    @property
    def _source(self) -> PostgresDatabase:
        return self.database

    @property
    def _catalog(self) -> PostgresDatabase:
        return self.database.for_catalog

    def _columns(self, connection: Connection, unit: Unit) -> Sequence[PostgresColumn]:
        from waterclock.connectors.postgres.database import require_table
        from waterclock.connectors.postgres.types import columns_of

        require_table(connection, unit)
        return columns_of(connection, unit)

    def _time_kind(self, column: PostgresColumn, unit: Unit) -> str:
        from waterclock.connectors.postgres.extract import require_time

        return require_time(column, unit)

    def _collect(
        self,
        spark: SparkSession,
        connection: Connection,
        close: Callable[[], None],
        request: SqlReadRequest[PostgresColumn],
    ) -> Collected:
        from waterclock.connectors.postgres.collection import collect_rows
        from waterclock.connectors.postgres.dialect import source_of
        from waterclock.connectors.postgres.extract import PostgresExtract, PostgresRequestedColumn

        unit, columns = request.unit, tuple(PostgresRequestedColumn(*each) for each in request.wanted)
        of_unit = (str(unit), source_of(unit), columns, request.times, request.by_window)
        extract = PostgresExtract(self.database, *of_unit)
        return collect_rows(spark, connection, close, extract, request.left_out, partitions=partitions_of(unit))

    def _change_filter(self, column: PostgresColumn, unit: Unit) -> WindowFilter:
        from waterclock.connectors.postgres.change_scans import change_filter

        return change_filter(column, unit)

    def _count_minutes(
        self, connection: Connection, unit: Unit, scan: MinuteChangeScan, aggregation: MinuteAggregation
    ) -> Iterable[ChangedMinute]:
        from waterclock.connectors.postgres.change_scans import count_minutes

        return count_minutes(connection, unit, scan, aggregation)
