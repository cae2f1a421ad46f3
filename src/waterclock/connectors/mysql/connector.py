"""The connection type `mysql`: tables and queries of a MariaDB or MySQL database, and tables delivered to it.

Connection      `url`: mysql://user@host:3306/database; `password` as a secret.
Unit            a table or view by name, with its database if that differs from the connection's; or a query.
Clock           The server's.
Data time       `WHERE t >= s AND t < e`. The time is a timestamp, a datetime, a date, or a whole number since 1970.
Snapshot        All rows.
Publish         See `delivery`.
Types           The declared types; else those of the database's columns.

A batch reads InnoDB tables as of one moment. If it reads in parts and the rows of a part have changed meanwhile, it
fails and is retried.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC
from typing import TYPE_CHECKING

from waterclock.connectors.column_matching import map_column_types, match, no_time_column
from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.interface import ChangedWindows, Collected, LookRequest, Setting, WindowRequest
from waterclock.errors import WaterclockError
from waterclock.flow.awaits import Awaits
from waterclock.flow.capabilities import Capabilities, Driver, Option
from waterclock.flow.choices import Batching, Mode, Sign
from waterclock.flow.declarations import Columns, Unit
from waterclock.flow.lookbacks import Tells
from waterclock.timelabel.label import TIMELABEL
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

    from waterclock.connectors.mysql.database import MysqlDatabase
    from waterclock.connectors.mysql.types import MysqlColumn
    from waterclock.connectors.window_bounds import WindowFilter

CAPABILITIES = Capabilities(
    type="mysql",
    driver=Driver("pymysql", extra="mysql"),
    connection_options={
        "url": Option(is_required=True, is_address=True, help="the database, as mysql://user@host:3306/database"),
        "password": Option(is_secret=True, help="its user's password, as a secret"),
        "certificate": Option(help="the client's certificate in place of a password, a file below the project"),
        "key": Option(help="the certificate's key, a file that its owner alone may read"),
        "ca": Option(help="the authorities by which the server's certificate is signed; the server is then verified"),
        "timeout": Option("number", help="seconds to wait for a lock; 30"),
    },
    collect_options={
        "epoch": Option(choices=("seconds", "milliseconds", "microseconds"), help="what numeric times count; seconds"),
        "partitions": Option("number", help="in how many parts a big result is read side by side; 1"),
        "change_slack": Option("number", help="seconds by which a change may be seen later than it says; 3600"),
    },
    publish_options={
        "adopt": Option("flag", help="whether a table that holds rows already, not published by us, is taken; false"),
        "behind": Option(choices=("view",), help="a table for each version, or for each label, under a view"),
        "keep": Option(help="behind a view: how long a version that was replaced is kept; 1 DAY"),
    },
    collects=frozenset({Batching.DATA_TIME, Batching.SNAPSHOT}),
    publishes=frozenset({Mode.APPEND, Mode.REPLACE, Mode.MERGE}),
    takes_query=True,
    awaits=frozenset({Sign.QUERY}),
    changes=Tells.BY_COLUMN,
    replaces_some=True,
)


_VALUE = re.compile(r"(?<!:):(window_start|window_end|timelabel)\b")


@dataclass(frozen=True, slots=True)
class MysqlConnector:
    """Opens MariaDB and MySQL databases as sources and destinations."""

    capabilities: Capabilities = CAPABILITIES

    def collector(self, setting: Setting) -> MysqlCollector:
        """Open a database to read."""
        from waterclock.connectors.mysql.database import database_of

        return MysqlCollector(database_of(setting))

    def deliverer(self, setting: Setting) -> Deliverer:
        """Open a database to write."""
        from waterclock.connectors.mysql.database import database_of
        from waterclock.connectors.mysql.delivery import MysqlDeliverer

        return MysqlDeliverer(database_of(setting))


CONNECTOR = MysqlConnector()


@dataclass(frozen=True, slots=True)
class MysqlCollector:
    """Collects from a MariaDB or MySQL database."""

    database: MysqlDatabase

    def clock(self, unit: Unit) -> datetime:
        """Return the server's clock."""
        from waterclock.connectors.mysql.database import run_statement

        with self.database.open_connection(str(unit)) as connection:
            at: datetime = run_statement(connection, "SELECT SYSDATE(6)").fetchone()[0]
            return at.replace(tzinfo=UTC)

    def has_sign(self, unit: Unit, awaits: Awaits, window: Window, zone: str) -> bool:
        """Return whether the first value of the query's first row is TRUE, or a number other than 0; a BIT is a number.

        :window_start and :window_end are times in UTC, as the session shows a TIMESTAMP; :timelabel is the label.
        """
        del zone
        from waterclock.connectors.mysql.database import run_statement

        said = {
            "window_start": f"TIMESTAMP'{window.start.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}'",
            "window_end": f"TIMESTAMP'{window.end.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}'",
            TIMELABEL: f"'{window.label}'",
        }
        query = _VALUE.sub(lambda found: said[found[1]], awaits.text)
        with self.database.open_for_reading(str(unit)) as connection:
            row = run_statement(connection, query).fetchone()
        return row is not None and _is_true(row[0])

    def schema(self, unit: Unit) -> Mapping[str, str] | None:
        """Return the columns of the table or query with Spark types; STRING for those whose type must be declared."""
        from waterclock.connectors.mysql.database import require_table
        from waterclock.connectors.mysql.types import columns_of

        with self.database.open_for_reading(str(unit)) as connection:
            require_table(connection, unit)
            return {column.name: column.spark or "STRING" for column in columns_of(connection, unit)}

    def explain(self, unit: Unit, columns: Columns, error: BaseException) -> WaterclockError | None:
        """Return the original error that a Python worker of Spark raised."""
        from waterclock.connectors.worker_errors import decode_error

        del unit, columns
        return decode_error(error)

    def read_windows(
        self, spark: SparkSession, unit: Unit, request: WindowRequest, columns: Columns, zone: str
    ) -> Collected:
        """Read the rows of the windows; rows whose time is NULL or 0000-00-00 are counted."""
        return self._read(spark, unit, columns, zone, request)

    def look(
        self, spark: Callable[[], SparkSession], unit: Unit, request: LookRequest, columns: Columns, zone: str
    ) -> ChangedWindows:
        """Return the windows with changed rows, as of one moment."""
        from waterclock.connectors.changed_rows import look
        from waterclock.connectors.mysql.change_scans import build_tally_function, find_change_column
        from waterclock.connectors.mysql.database import require_table
        from waterclock.connectors.mysql.types import columns_of
        from waterclock.connectors.values import Times

        del spark, columns
        with self.database.open_for_reading(str(unit)) as connection:
            require_table(connection, unit)
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

    def _read(
        self, spark: SparkSession, unit: Unit, columns: Columns, zone: str, request: WindowRequest | None
    ) -> Collected:
        from waterclock.connectors.mysql.collection import collect_rows
        from waterclock.connectors.mysql.database import require_table, source_of
        from waterclock.connectors.mysql.extract import MysqlExtract, MysqlRequestedColumn
        from waterclock.connectors.mysql.types import columns_of, refuse_unsaid
        from waterclock.connectors.values import Times

        held = ExitStack()
        try:
            connection = held.enter_context(self.database.open_for_reading(str(unit)))
            require_table(connection, unit)
            there = columns_of(connection, unit)
            matched = match(columns, [column.source_column for column in there], where=str(unit))
            refuse_unsaid(matched, there, unit)
            by_name = {column.name: column for column in there}
            wanted = tuple(MysqlRequestedColumn(taken, by_name[taken.source]) for taken in matched.taken)
            times = Times(zone, str(unit.options.get("epoch", "seconds")))
            by_window = None if request is None else _window_filter(request, there, unit)
            extract = MysqlExtract(self.database, str(unit), source_of(unit), wanted, times, by_window)
            partitions = max(1, int(str(unit.options.get("partitions", 1))))
            read = collect_rows(spark, connection, held.close, unit, extract, matched.left_out, partitions=partitions)
            return replace(read, seen=map_column_types(column.source_column for column in there))
        except BaseException:
            held.__exit__(*sys.exc_info())
            raise


def _is_true(value: object) -> bool:
    """Return whether SQL treats a value as TRUE: a number other than 0, a text of one or `true`, or a BIT as bytes."""
    if isinstance(value, bytes):
        return any(value)
    if isinstance(value, str):
        try:
            return float(value) != 0
        except ValueError:
            return value.lower() == "true"
    return bool(value)


def _window_filter(request: WindowRequest, there: Sequence[MysqlColumn], unit: Unit) -> WindowFilter:
    from waterclock.connectors.mysql.extract import require_time
    from waterclock.connectors.window_bounds import WindowFilter

    for column in there:
        if column.name.lower() == request.time_column.lower():
            return WindowFilter(column.name, require_time(column, unit), tuple(request.windows))
    raise no_time_column(request.time_column, [column.name for column in there], where=str(unit))
