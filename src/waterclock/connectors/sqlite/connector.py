"""The connection type `sqlite`: tables and queries of a SQLite database, and tables delivered to it.

Connection      `path`: the database file.
Unit            a table or view by name, or a query.
Data time       `WHERE t >= s AND t < e`, in one read transaction. Times may be ISO 8601 texts (`2013-01-01 05:00:00`,
                with `T`, `Z`, an offset or a fraction, or a date alone) or numbers since 1970, in any mixture.
Snapshot        All rows, in one read transaction.
Publish         See `delivery`.
Types           The declared types; else those of the database's columns by SQLite's affinity rules; else text.

A result of up to 50,000 rows and 64 MB is passed to Spark directly. A bigger one is read in batches by a Python worker
of Spark, also in one transaction. `partitions n` reads a table in n parts in parallel, by ranges of its rowid. If the
parts have not seen the same state of the database, the batch is retried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from waterclock.connectors.column_matching import SourceColumn, map_column_types, match, no_time_column
from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.interface import ChangedWindows, Collected, LookRequest, Setting, WindowRequest
from waterclock.connectors.sqlite.database import (
    SqliteFile,
    database_of,
    describe,
    source_of,
)
from waterclock.errors import WaterclockError
from waterclock.flow.awaits import Awaits
from waterclock.flow.capabilities import Capabilities, Option
from waterclock.flow.choices import Batching, Mode, Sign
from waterclock.flow.declarations import Columns, Unit
from waterclock.flow.lookbacks import Tells
from waterclock.timelabel.label import TIMELABEL
from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import nominal_zone

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

    from waterclock.connectors.values import Times

_TIME = "%Y-%m-%d %H:%M:%S"
CAPABILITIES = Capabilities(
    type="sqlite",
    connection_options={
        "path": Option(is_required=True, help="the database file"),
        "timeout": Option("number", help="seconds to wait while the database is locked; 5"),
        "create": Option("flag", help="whether publishing makes the database file where there is none; false"),
    },
    collect_options={
        "epoch": Option(choices=("seconds", "milliseconds", "microseconds"), help="what numeric times count; seconds"),
        "partitions": Option("number", help="in how many parts a big table is read side by side; 1"),
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


@dataclass(frozen=True, slots=True)
class SqliteConnector:
    """Opens SQLite database files as sources and destinations."""

    capabilities: Capabilities = CAPABILITIES

    def collector(self, setting: Setting) -> SqliteCollector:
        """Open a database to read."""
        return SqliteCollector(database_of(setting))

    def deliverer(self, setting: Setting) -> Deliverer:
        """Open a database to write."""
        from waterclock.connectors.sqlite.delivery import SqliteDeliverer

        return SqliteDeliverer(database_of(setting))


CONNECTOR = SqliteConnector()


@dataclass(frozen=True, slots=True)
class SqliteCollector:
    """Collects from a SQLite database file."""

    database: SqliteFile

    def clock(self, unit: Unit) -> None:
        """Return None: a database file has no clock of its own."""

    def has_sign(self, unit: Unit, awaits: Awaits, window: Window, zone: str) -> bool:
        """Return whether the first value of the query's first row is TRUE, which is a number other than 0.

        :window_start and :window_end are texts in the table's zone, `2013-01-01 05:00:00`; :timelabel is the label.
        """
        local = nominal_zone(zone)
        values = {
            "window_start": window.start.astimezone(local).strftime(_TIME),
            "window_end": window.end.astimezone(local).strftime(_TIME),
            TIMELABEL: window.label,
        }
        with self.database.open_for_reading(str(unit)) as connection:
            row = connection.execute(awaits.text, values).fetchone()
        return row is not None and row[0] not in {None, 0, "", "0"}

    def schema(self, unit: Unit) -> Mapping[str, str] | None:
        """Return the columns of the table or query, with Spark types by SQLite's affinity rules."""
        with self.database.open_for_reading(str(unit)) as connection:
            return {found.name: found.type or "STRING" for found in describe(connection, unit)}

    def explain(self, unit: Unit, columns: Columns, error: BaseException) -> WaterclockError | None:
        """Return the original error that a Python worker of Spark raised."""
        from waterclock.connectors.worker_errors import decode_error

        del unit, columns
        return decode_error(error)

    def read_windows(
        self, spark: SparkSession, unit: Unit, request: WindowRequest, columns: Columns, zone: str
    ) -> Collected:
        """Read the rows of the windows; rows whose time is NULL or unreadable are counted."""
        from waterclock.connectors.sqlite.collection import SqliteExtract, SqliteWindowFilter, collect_rows

        with self.database.open_for_reading(str(unit)) as connection:
            found = describe(connection, unit)
            matched = match(columns, found, where=str(unit))
            by_window = SqliteWindowFilter(_find_time_column(request.time_column, found, unit), tuple(request.windows))
            extract = SqliteExtract(
                self.database, str(unit), source_of(unit), matched.taken, _times(unit, zone), by_window
            )
            read = collect_rows(spark, connection, extract, matched.left_out, partitions=_partitions(unit))
            return replace(read, seen=map_column_types(found))

    def look(
        self, spark: Callable[[], SparkSession], unit: Unit, request: LookRequest, columns: Columns, zone: str
    ) -> ChangedWindows:
        """Return the windows with changed rows, in one read transaction."""
        from waterclock.connectors.sql.changed_rows import change_column_of, look
        from waterclock.connectors.sqlite.change_scans import SqliteChangeScan

        del spark, columns
        with self.database.open_for_reading(str(unit)) as connection:
            found = describe(connection, unit)
            time_column = _find_time_column(request.time_column, found, unit)
            change_column = change_column_of(request.change_column or "", [each.name for each in found], unit)
            place = (source_of(unit), time_column, change_column)
            there = SqliteChangeScan(unit, *place, tuple(request.windows), _times(unit, zone))
            return look(request, unit, zone, partial(there.tally, connection))

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
        from waterclock.connectors.sqlite.collection import SqliteExtract, collect_rows

        with self.database.open_for_reading(str(unit)) as connection:
            found = describe(connection, unit)
            matched = match(columns, found, where=str(unit))
            extract = SqliteExtract(self.database, str(unit), source_of(unit), matched.taken, _times(unit, zone))
            read = collect_rows(spark, connection, extract, matched.left_out, partitions=_partitions(unit))
            return replace(read, seen=map_column_types(found))


def _find_time_column(time_column: str, found: list[SourceColumn], unit: Unit) -> str:
    for column in found:
        if column.name.lower() == time_column.lower():
            return column.name
    raise no_time_column(time_column, [column.name for column in found], where=str(unit))


def _times(unit: Unit, zone: str) -> Times:
    from waterclock.connectors.values import Times

    return Times(zone, str(unit.options.get("epoch", "seconds")))


def _partitions(unit: Unit) -> int:
    return max(1, int(str(unit.options.get("partitions", 1))))
