"""Base classes of database collectors, which match columns, select windows and find changed windows."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from waterclock.connectors.column_matching import CollectedColumn, map_column_types, match, missing_time_column_error
from waterclock.connectors.interface import ChangedWindows, ChangeScanRequest, Collected, WindowRequest
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns, Unit
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

    from waterclock.connectors.arrow_values import Times
    from waterclock.connectors.sql.changed_minutes import ChangedMinute as MinuteRow
    from waterclock.connectors.sql.changed_minutes import MinuteAggregation, MinuteChangeScan
    from waterclock.connectors.sql.changed_windows import Bounds, Tallies
    from waterclock.connectors.sql.columns import SqlColumn
    from waterclock.connectors.sql.privileges import SourceLogin
    from waterclock.connectors.sql.sessions import ReadableDatabase
    from waterclock.connectors.sql.window_bounds import WindowFilter

WINDOW_VALUE = re.compile(r"(?<!:):(window_start|window_end|timelabel)\b")
"""The placeholders for values of a window in the query of an AWAIT."""

_Connection = TypeVar("_Connection")
_Column = TypeVar("_Column", bound="SqlColumn")


def is_true(value: object) -> bool:
    """Return whether a value counts as TRUE: a number other than 0, its text, the text `true`, or a BIT with a 1."""
    if isinstance(value, bytes):
        return any(value)
    if isinstance(value, str):
        try:
            return float(value) != 0
        except ValueError:
            return value.lower() == "true"
    return bool(value)


@dataclass(frozen=True, slots=True)
class SqlReadRequest(Generic[_Column]):
    """A request to read columns of a table or query. `by_window` selects the rows of windows; None reads all rows.

    `wanted` pairs each requested column with its description in the database. `left_out` are columns that are not read.
    """

    unit: Unit
    wanted: Sequence[tuple[CollectedColumn, _Column]]
    times: Times
    by_window: WindowFilter | None
    left_out: tuple[str, ...]


class SqlCollector(ABC, Generic[_Connection, _Column]):
    """Collects from a database; the abstract methods are specific to the kind of database."""

    __slots__ = ()

    @property
    @abstractmethod
    def _source(self) -> ReadableDatabase[_Connection]:
        """The database from which rows are collected."""

    @property
    def _catalog(self) -> ReadableDatabase[_Connection]:
        """The database for short queries of its catalog."""
        return self._source

    @abstractmethod
    def _columns(self, connection: _Connection, unit: Unit) -> Sequence[_Column]:
        """Return the columns of a table or query. Raises E804 for a table that does not exist."""

    @abstractmethod
    def _time_kind(self, column: _Column, unit: Unit) -> str:
        """Return the kind of time of a column, as `WindowFilter` uses it.

        Raises E815 for a column that is not a time.
        """

    @abstractmethod
    def _collect(
        self,
        spark: SparkSession,
        connection: _Connection,
        close: Callable[[], None],
        request: SqlReadRequest[_Column],
    ) -> Collected:
        """Read the wanted columns. `close` ends the transaction; the caller ends it if an error is raised."""

    def schema(self, unit: Unit) -> Mapping[str, str] | None:
        """Return the columns of the table or query with Spark types: STRING if a type must be declared."""
        with self._catalog.open_for_reading(str(unit)) as connection:
            return {column.name: column.spark or "STRING" for column in self._columns(connection, unit)}

    def check_privileges(self, unit: Unit, *, has_changes: bool) -> SourceLogin | None:
        """Return the login's privileges. A database file has no logins, so this is None."""
        del unit, has_changes
        return None

    def explain(self, unit: Unit, columns: Columns, error: BaseException) -> WaterclockError | None:
        """Return the Waterclock error that a Python worker of Spark raised; None if there is none."""
        from waterclock.connectors.worker_errors import decode_error

        del unit, columns
        return decode_error(error)

    def read_windows(
        self, spark: SparkSession, unit: Unit, request: WindowRequest, columns: Columns, zone: str
    ) -> Collected:
        """Read the rows of the windows. Rows whose time is NULL or invalid are only counted."""
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
        from waterclock.connectors.sql.columns import require_declared_types

        transaction = ExitStack()
        try:
            connection = transaction.enter_context(self._source.open_for_reading(str(unit)))
            there = self._columns(connection, unit)
            matched = match(columns, [column.source_column for column in there], where=str(unit))
            require_declared_types(matched, there, unit)
            by_name = {column.name: column for column in there}
            wanted = [(taken, by_name[taken.source]) for taken in matched.taken]
            by_window = None
            if request is not None:
                by_window = self._window_filter(request.time_column, request.windows, there, unit)
            read_request = SqlReadRequest(unit, wanted, times_of(unit, zone), by_window, matched.left_out)
            read = self._collect(spark, connection, transaction.close, read_request)
            return replace(read, source_columns=map_column_types(column.source_column for column in there))
        except BaseException:
            transaction.__exit__(*sys.exc_info())
            raise

    def _window_filter(
        self, time_column: str, windows: Sequence[Window], there: Sequence[_Column], unit: Unit
    ) -> WindowFilter:
        from waterclock.connectors.sql.window_bounds import WindowFilter

        for column in there:
            if column.name.lower() == time_column.lower():
                return WindowFilter(column.name, self._time_kind(column, unit), tuple(windows))
        raise missing_time_column_error(time_column, [column.name for column in there], where=str(unit))


class ChangedWindowsCollector(SqlCollector[_Connection, _Column]):
    """Collects from a database, and finds changed windows by a column with the time of each row's last change."""

    __slots__ = ()

    @abstractmethod
    def _change_filter(self, column: _Column, unit: Unit) -> WindowFilter:
        """Return the column of CHANGED BY with its type. Raises E827 if it is not a time."""

    @abstractmethod
    def _tally(
        self, connection: _Connection, unit: Unit, by_window: WindowFilter, change: WindowFilter, times: Times
    ) -> Callable[[Bounds], Tallies]:
        """Return a function that counts the rows of each window that changed at or after the window's bound."""

    def scan_changes(
        self, spark: Callable[[], SparkSession], unit: Unit, request: ChangeScanRequest, columns: Columns, zone: str
    ) -> ChangedWindows:
        """Return the windows with changed rows, as of one moment."""
        from waterclock.connectors.sql.changed_windows import change_column_of, find_changed_windows

        del spark, columns
        with self._source.open_for_reading(str(unit)) as connection:
            there = self._columns(connection, unit)
            by_window = self._window_filter(request.time_column, request.windows, there, unit)
            spelt = change_column_of(request.change_column or "", [column.name for column in there], unit)
            change = self._change_filter(next(column for column in there if column.name == spelt), unit)
            tally = self._tally(connection, unit, by_window, change, times_of(unit, zone))
            return find_changed_windows(request, unit, zone, tally)


class ChangedMinutesCollector(ChangedWindowsCollector[_Connection, _Column]):
    """Collects from a database server, and has the server count changed rows by the minute of their data time."""

    __slots__ = ()

    @abstractmethod
    def _count_minutes(
        self, connection: _Connection, unit: Unit, scan: MinuteChangeScan, aggregation: MinuteAggregation
    ) -> Iterable[MinuteRow]:
        """Run the query that counts changed rows by minute on the server, and return its rows."""

    def _tally(
        self, connection: _Connection, unit: Unit, by_window: WindowFilter, change: WindowFilter, times: Times
    ) -> Callable[[Bounds], Tallies]:
        """Return a function that counts the rows of each window that changed at or after the window's bound."""
        from waterclock.connectors.sql.changed_minutes import MinuteChangeScan

        return MinuteChangeScan(by_window, change, times, partial(self._count_minutes, connection, unit)).tally


def times_of(unit: Unit, zone: str) -> Times:
    """Return the rules for parsing a unit's times: the zone of times without one, and the unit of numeric times."""
    from waterclock.connectors.arrow_values import Times

    return Times(zone, str(unit.options.get("epoch", "seconds")))


def partitions_of(unit: Unit) -> int | None:
    """Return the option `partitions`, the number of parts in which a big result is read; None if it is not set."""
    partitions: Any = unit.options.get("partitions")
    return None if partitions is None else max(1, int(str(partitions)))
