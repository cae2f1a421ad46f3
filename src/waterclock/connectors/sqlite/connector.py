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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.interface import Collected, ConnectionType, Setting
from waterclock.connectors.sql.capabilities import CHANGE_SLACK, database_capabilities, file_options
from waterclock.connectors.sql.collector import CollectsChangedWindows, SqlReadRequest, partitions_of
from waterclock.flow.awaits import Awaits
from waterclock.flow.capabilities import Option
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL
from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import nominal_zone

if TYPE_CHECKING:
    import sqlite3

    from pyspark.sql import SparkSession

    from waterclock.connectors.arrow_values import Times
    from waterclock.connectors.sql.changed_windows import Bounds, Tallies
    from waterclock.connectors.sql.columns import SqlColumn
    from waterclock.connectors.sql.window_bounds import WindowFilter
    from waterclock.connectors.sqlite.database import SqliteFile

_TIME = "%Y-%m-%d %H:%M:%S"
_ANY_KIND = "any"  # a column of SQLite may contain times of all kinds
CAPABILITIES = database_capabilities(
    "sqlite",
    file_options("the database is locked"),
    {
        "partitions": Option("number", help="in how many parallel parts a large table is read; default 1"),
        **CHANGE_SLACK,
    },
)


def _open_source(setting: Setting) -> SqliteCollector:
    from waterclock.connectors.sqlite.database import database_of

    return SqliteCollector(database_of(setting))


def _open_destination(setting: Setting) -> Deliverer:
    from waterclock.connectors.sqlite.database import database_of
    from waterclock.connectors.sqlite.delivery import SqliteDeliverer

    return SqliteDeliverer(database_of(setting))


CONNECTOR = ConnectionType(CAPABILITIES, _open_source, _open_destination)


@dataclass(frozen=True, slots=True)
class SqliteCollector(CollectsChangedWindows["sqlite3.Connection", "SqlColumn"]):
    """Collects from a SQLite database file."""

    database: SqliteFile

    def clock(self, unit: Unit) -> None:
        """Return None: a database file has no clock of its own."""

    def has_sign(self, unit: Unit, awaits: Awaits, window: Window, zone: str) -> bool:
        """Return whether the first value of the query's first row is TRUE, which is a number other than 0.

        NULL, an empty text and the text 0 are not. :window_start and :window_end are texts in the table's zone,
        `2013-01-01 05:00:00`; :timelabel is the label.
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

    @property
    def _source(self) -> SqliteFile:
        return self.database

    def _columns(self, connection: sqlite3.Connection, unit: Unit) -> Sequence[SqlColumn]:
        from waterclock.connectors.sqlite.database import describe

        return describe(connection, unit)

    def _time_kind(self, column: SqlColumn, unit: Unit) -> str:
        del column, unit
        return _ANY_KIND

    def _collect(
        self,
        spark: SparkSession,
        connection: sqlite3.Connection,
        close: Callable[[], None],
        request: SqlReadRequest[SqlColumn],
    ) -> Collected:
        from waterclock.connectors.sql.columns import SqlRequestedColumn
        from waterclock.connectors.sqlite.collection import SqliteExtract, collect_rows
        from waterclock.connectors.sqlite.dialect import source_of

        unit, columns = request.unit, tuple(SqlRequestedColumn(*each) for each in request.wanted)
        of_unit = (str(unit), source_of(unit), columns, request.times, request.by_window)
        extract = SqliteExtract(self.database, *of_unit)
        read = collect_rows(spark, connection, extract, request.left_out, partitions=partitions_of(unit) or 1)
        close()
        return read

    def _change_filter(self, column: SqlColumn, unit: Unit) -> WindowFilter:
        from waterclock.connectors.sql.window_bounds import WindowFilter

        del unit
        return WindowFilter(column.name, _ANY_KIND, ())

    def _tally(
        self, connection: sqlite3.Connection, unit: Unit, by_window: WindowFilter, change: WindowFilter, times: Times
    ) -> Callable[[Bounds], Tallies]:
        from waterclock.connectors.sqlite.change_scans import SqliteChangeScan
        from waterclock.connectors.sqlite.dialect import source_of

        columns = (by_window.time_column, change.time_column)
        scan = SqliteChangeScan(unit, source_of(unit), *columns, by_window.windows, times)
        return partial(scan.tally, connection)
