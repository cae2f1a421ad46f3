"""The connection type `duckdb`: tables and queries of a DuckDB database file, and tables delivered to it.

Connection      `path`, below the project unless absolute. One process can write a file, or several can read it.
Unit            a table or view by name, with its schema if that is not `main`; or a query.
Clock           The machine's only.
Data time       `WHERE t >= s AND t < e`. The time is a timestamp, a date, or a whole number since 1970.
Snapshot        All rows.
Publish         See `delivery`.
Types           The declared types; else those of the database's columns.
"""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from waterclock.connectors.column_matching import map_column_types, match, no_time_column
from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.interface import Collected, Setting, WindowRequest
from waterclock.errors import WaterclockError
from waterclock.flow.awaits import Awaits
from waterclock.flow.capabilities import Capabilities, Driver, Option
from waterclock.flow.choices import Batching, Mode, Sign
from waterclock.flow.declarations import Columns, Unit
from waterclock.timelabel.label import TIMELABEL
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import SparkSession

    from waterclock.connectors.duckdb.database import DuckdbDatabase
    from waterclock.connectors.duckdb.types import DuckdbColumn
    from waterclock.connectors.sql.window_bounds import WindowFilter

CAPABILITIES = Capabilities(
    type="duckdb",
    driver=Driver("duckdb", extra="duckdb"),
    connection_options={
        "path": Option(is_required=True, help="the database file"),
        "timeout": Option("number", help="seconds to wait while another process holds the file; 5"),
        "create": Option("flag", help="whether publishing makes the database file where there is none; false"),
    },
    collect_options={
        "epoch": Option(choices=("seconds", "milliseconds", "microseconds"), help="what numeric times count; seconds"),
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
    replaces_some=True,
)
_VALUE = re.compile(r"(?<!:):(window_start|window_end|timelabel)\b")


@dataclass(frozen=True, slots=True)
class DuckdbConnector:
    """Opens DuckDB database files as sources and destinations."""

    capabilities: Capabilities = CAPABILITIES

    def collector(self, setting: Setting) -> DuckdbCollector:
        """Open a database to read."""
        from waterclock.connectors.duckdb.database import database_of

        return DuckdbCollector(database_of(setting))

    def deliverer(self, setting: Setting) -> Deliverer:
        """Open a database to write."""
        from waterclock.connectors.duckdb.database import database_of
        from waterclock.connectors.duckdb.delivery import DuckdbDeliverer

        return DuckdbDeliverer(database_of(setting))


CONNECTOR = DuckdbConnector()


@dataclass(frozen=True, slots=True)
class DuckdbCollector:
    """Collects from a DuckDB database file."""

    database: DuckdbDatabase

    def clock(self, unit: Unit) -> None:
        """Return None: a database file has no clock of its own."""

    def has_sign(self, unit: Unit, awaits: Awaits, window: Window, zone: str) -> bool:
        """Return whether the first value of the query's first row is TRUE, or a number other than 0.

        :window_start and :window_end are instants (TIMESTAMPTZ); :timelabel is the label.
        """
        from waterclock.connectors.duckdb.database import first_of

        del zone
        values = {"window_start": window.start, "window_end": window.end, TIMELABEL: window.label}
        used = {name: values[name] for name in _VALUE.findall(awaits.text)}
        with self.database.open_for_reading(str(unit)) as connection:
            row = first_of(connection, _VALUE.sub(r"$\1", awaits.text), used)
        return row is not None and bool(row[0])

    def schema(self, unit: Unit) -> Mapping[str, str] | None:
        """Return the columns of the table or query with Spark types; STRING for those whose type must be declared."""
        from waterclock.connectors.duckdb.types import columns_of

        with self.database.open_for_reading(str(unit)) as connection:
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
        from waterclock.connectors.duckdb.collection import DuckdbExtract, DuckdbRequestedColumn, collect_rows
        from waterclock.connectors.duckdb.database import source_of
        from waterclock.connectors.duckdb.types import columns_of, refuse_unsaid
        from waterclock.connectors.values import Times

        held = ExitStack()
        try:
            connection = held.enter_context(self.database.open_for_reading(str(unit)))
            there = columns_of(connection, unit)
            matched = match(columns, [column.source_column for column in there], where=str(unit))
            refuse_unsaid(matched, there, unit)
            by_name = {column.name: column for column in there}
            wanted = tuple(DuckdbRequestedColumn(taken, by_name[taken.source]) for taken in matched.taken)
            times = Times(zone, str(unit.options.get("epoch", "seconds")))
            by_window = None if request is None else _window_filter(request, there, unit)
            extract = DuckdbExtract(self.database, str(unit), source_of(unit), wanted, times, by_window)
            read = collect_rows(spark, connection, held.close, extract, matched.left_out)
            return replace(read, seen=map_column_types(column.source_column for column in there))
        except BaseException:
            held.__exit__(*sys.exc_info())
            raise


def _window_filter(request: WindowRequest, there: Sequence[DuckdbColumn], unit: Unit) -> WindowFilter:
    from waterclock.connectors.duckdb.collection import require_time
    from waterclock.connectors.duckdb.database import source_of
    from waterclock.connectors.sql.window_bounds import WindowFilter

    for column in there:
        if column.name.lower() == request.time_column.lower():
            kind = require_time(column, source_of(unit), str(unit))
            return WindowFilter(column.name, kind, tuple(request.windows))
    raise no_time_column(request.time_column, [column.name for column in there], where=str(unit))
