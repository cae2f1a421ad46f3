"""The connection type `postgres`: tables and queries of a PostgreSQL database, and tables delivered to it.

Connection      `url`: postgresql://user@host:5432/database. `password` is a secret; without it libpq's defaults apply.
Unit            a table or view by name, with its schema if that differs from the connection's; or a query.
Clock           The server's.
Data time       `WHERE t >= s AND t < e`. The time is a timestamp, a date, or a number since 1970.
Snapshot        All rows.
Changes         Each collect has its own replication slot. The first batch reads all rows as of the slot's start, and
                later batches read the changes in the log. See `following`.
Publish         See `delivery`.
Types           The declared types; else those of the database's columns. Types without a counterpart are refused.

A batch reads everything as of one moment, even if it reads parts in parallel.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from waterclock.batches.kept_logs import RetainedLog
from waterclock.connectors.change_collector import ChangeRequest, ChangesRead
from waterclock.connectors.column_matching import map_column_types, match, no_time_column
from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.interface import ChangedWindows, Collected, LookRequest, Setting, WindowRequest
from waterclock.errors import WaterclockError
from waterclock.flow.awaits import Awaits
from waterclock.flow.capabilities import Capabilities, Driver, Option
from waterclock.flow.changes import LOG_LIMIT
from waterclock.flow.choices import Batching, Mode, Sign
from waterclock.flow.declarations import Columns, Unit
from waterclock.flow.lookbacks import Tells
from waterclock.timelabel.label import TIMELABEL
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

    from waterclock.connectors.postgres.database import Connection, PostgresDatabase
    from waterclock.connectors.postgres.types import PostgresColumn
    from waterclock.connectors.sql.window_bounds import WindowFilter

CAPABILITIES = Capabilities(
    type="postgres",
    driver=Driver("psycopg", extra="postgres"),
    connection_options={
        "url": Option(is_required=True, is_address=True, help="the database, as postgresql://user@host:5432/database"),
        "password": Option(is_secret=True, help="its user's password, as a secret; else libpq's places are looked at"),
        "certificate": Option(help="the client's certificate in place of a password, a file below the project"),
        "key": Option(help="the certificate's key, a file that its owner alone may read"),
        "ca": Option(help="the authorities by which the server's certificate is signed; the server is then verified"),
        "schema": Option(help="the schema of tables that name none; the user's own search path"),
        "timeout": Option("number", help="seconds to wait for a lock; 30"),
    },
    collect_options={
        "epoch": Option(choices=("seconds", "milliseconds", "microseconds"), help="what numeric times count; seconds"),
        "partitions": Option("number", help="in how many parts a big result is read side by side; by its size"),
        "change_slack": Option("number", help="seconds by which a change may be seen later than it says; 3600"),
        "decoder": Option(
            choices=("wal2json", "pgoutput"), help="BY CHANGES: the output plugin; pgoutput where it can be used"
        ),
        "snapshot": Option(help="BY CHANGES: a text; a new one has the next batch take the table whole once more"),
        LOG_LIMIT: Option(
            "number",
            help="BY CHANGES: how many GB of the log its slot may hold back before it is told; 10, or half of "
            "max_slot_wal_keep_size where that is less",
        ),
    },
    publish_options={
        "adopt": Option("flag", help="whether a table that holds rows already, not published by us, is taken; false"),
        "behind": Option(choices=("view",), help="a table for each version, or for each label, under a view"),
        "keep": Option(help="behind a view: how long a version that was replaced is kept; 1 DAY"),
    },
    collects=frozenset({Batching.DATA_TIME, Batching.SNAPSHOT, Batching.CHANGES}),
    publishes=frozenset({Mode.APPEND, Mode.REPLACE, Mode.MERGE}),
    takes_query=True,
    awaits=frozenset({Sign.QUERY}),
    changes=Tells.BY_COLUMN,
    replaces_some=True,
)


_VALUE = re.compile(r"(?<!:):(window_start|window_end|timelabel)\b")


@dataclass(frozen=True, slots=True)
class PostgresConnector:
    """Opens PostgreSQL databases as sources and destinations."""

    capabilities: Capabilities = CAPABILITIES

    def collector(self, setting: Setting) -> PostgresCollector:
        """Open a database to read."""
        from waterclock.connectors.postgres.database import database_of

        return PostgresCollector(database_of(setting))

    def deliverer(self, setting: Setting) -> Deliverer:
        """Open a database to write."""
        from waterclock.connectors.postgres.database import database_of
        from waterclock.connectors.postgres.delivery import PostgresDeliverer

        return PostgresDeliverer(database_of(setting))


CONNECTOR = PostgresConnector()


@dataclass(frozen=True, slots=True)
class PostgresCollector:
    """Collects from a PostgreSQL database."""

    database: PostgresDatabase

    def clock(self, unit: Unit) -> datetime:
        """Return the server's clock."""
        with self.database.open_connection(str(unit)) as connection:
            row = connection.execute("SELECT clock_timestamp()").fetchone()
            if row is None:
                raise AssertionError("a server without a clock")
            at: datetime = row[0]
            return at

    def has_sign(self, unit: Unit, awaits: Awaits, window: Window, zone: str) -> bool:
        """Return whether the first value of the query's first row is TRUE, or a number other than 0.

        :window_start and :window_end are instants (TIMESTAMPTZ); :timelabel is the label.
        """
        del zone
        values = {"window_start": window.start, "window_end": window.end, TIMELABEL: window.label}
        query = _VALUE.sub(r"%(\1)s", awaits.text.replace("%", "%%"))
        with self.database.open_for_reading(str(unit)) as connection:
            row = connection.execute(query, values).fetchone()
        return row is not None and bool(row[0])

    def schema(self, unit: Unit) -> Mapping[str, str] | None:
        """Return the columns of the table or query with Spark types; STRING for those whose type must be declared."""
        from waterclock.connectors.postgres.types import columns_of

        with self.database.open_for_reading(str(unit)) as connection:
            self._require(connection, unit)
            return {column.name: column.spark or "STRING" for column in columns_of(connection, unit)}

    def explain(self, unit: Unit, columns: Columns, error: BaseException) -> WaterclockError | None:
        """Return the original error that a Python worker of Spark raised."""
        from waterclock.connectors.worker_errors import decode_error

        del unit, columns
        return decode_error(error)

    def read_windows(
        self, spark: SparkSession, unit: Unit, request: WindowRequest, columns: Columns, zone: str
    ) -> Collected:
        """Read the rows of the windows; rows with a NULL time are counted."""
        return self._read(spark, unit, columns, zone, request)

    def look(
        self, spark: Callable[[], SparkSession], unit: Unit, request: LookRequest, columns: Columns, zone: str
    ) -> ChangedWindows:
        """Return the windows with changed rows, as of one moment."""
        from waterclock.connectors.postgres.change_scans import build_tally_function, find_change_column
        from waterclock.connectors.postgres.types import columns_of
        from waterclock.connectors.sql.changed_rows import look
        from waterclock.connectors.values import Times

        del spark, columns
        with self.database.open_for_reading(str(unit)) as connection:
            self._require(connection, unit)
            there = columns_of(connection, unit)
            by_window = _window_filter(WindowRequest(request.time_column, request.windows), there, unit)
            change = find_change_column(request.change_column or "", there, unit)
            times = Times(zone, str(unit.options.get("epoch", "seconds")))
            return look(request, unit, zone, build_tally_function(connection, unit, by_window, change, times))

    def read_snapshot(
        self,
        spark: SparkSession,
        unit: Unit,
        columns: Columns,
        zone: str,
        *,
        now: datetime | None = None,  # noqa: ARG002 - a live table has only its current content
    ) -> Collected:
        """Read all rows, as of one moment."""
        return self._read(spark, unit, columns, zone, None)

    def read_changes(
        self, spark: SparkSession, unit: Unit, request: ChangeRequest, columns: Columns, zone: str
    ) -> ChangesRead:
        """Read all rows and start to follow their changes; or read the changes since the last batch."""
        from waterclock.connectors.postgres.following import Following

        return Following(self.database, unit, columns, zone).read(spark, request)

    def confirm(self, unit: Unit, noted: Mapping[str, Any]) -> None:
        """Advance the slot past the committed changes."""
        from waterclock.connectors.postgres.following import confirm

        confirm(self.database, unit, noted)

    def let_go(self, unit: Unit, names: Sequence[str]) -> tuple[str, ...]:
        """Drop slots, except those that a running batch uses."""
        from waterclock.connectors.postgres.following import let_go

        return let_go(self.database, unit, names)

    def find_retained_logs(self, unit: Unit, names: Sequence[str]) -> Mapping[str, RetainedLog]:
        """Return how much of the log each slot retains."""
        from waterclock.connectors.postgres.slots import query_retained_logs

        with self.database.open_connection(str(unit)) as connection:
            return query_retained_logs(connection, names)

    def _read(
        self, spark: SparkSession, unit: Unit, columns: Columns, zone: str, request: WindowRequest | None
    ) -> Collected:
        from waterclock.connectors.postgres.collection import collect_rows
        from waterclock.connectors.postgres.database import source_of
        from waterclock.connectors.postgres.extract import PostgresExtract, PostgresRequestedColumn
        from waterclock.connectors.postgres.types import columns_of, refuse_unsaid
        from waterclock.connectors.values import Times

        held = ExitStack()
        try:
            connection = held.enter_context(self.database.open_for_reading(str(unit)))
            self._require(connection, unit)
            there = columns_of(connection, unit)
            matched = match(columns, [column.source_column for column in there], where=str(unit))
            refuse_unsaid(matched, there, unit)
            by_name = {column.name: column for column in there}
            wanted = tuple(
                PostgresRequestedColumn(taken, by_name[taken.source].kind, by_name[taken.source].is_array)
                for taken in matched.taken
            )
            times = Times(zone, str(unit.options.get("epoch", "seconds")))
            by_window = None if request is None else _window_filter(request, there, unit)
            extract = PostgresExtract(self.database, str(unit), source_of(unit), wanted, times, by_window)
            read = collect_rows(spark, connection, held.close, extract, matched.left_out, partitions=_partitions(unit))
            return replace(read, seen=map_column_types(column.source_column for column in there))
        except BaseException:
            held.__exit__(*sys.exc_info())
            raise

    @staticmethod
    def _require(connection: Connection, unit: Unit) -> None:
        from waterclock.connectors.postgres.database import no_table, table_of

        if unit.query is not None:
            return
        row = connection.execute("SELECT to_regclass(%s) IS NULL", (table_of(unit),)).fetchone()
        if row and row[0]:
            raise no_table(connection, unit)


def _window_filter(request: WindowRequest, there: Sequence[PostgresColumn], unit: Unit) -> WindowFilter:
    from waterclock.connectors.postgres.extract import require_time
    from waterclock.connectors.sql.window_bounds import WindowFilter

    for column in there:
        if column.name.lower() == request.time_column.lower():
            require_time(column.name, f"{column.kind}[]" if column.is_array else column.kind, unit)
            return WindowFilter(column.name, column.kind, tuple(request.windows))
    raise no_time_column(request.time_column, [column.name for column in there], where=str(unit))


def _partitions(unit: Unit) -> int | None:
    said = unit.options.get("partitions")
    return None if said is None else max(1, int(str(said)))
