"""Reads rows of a SQLite database into a Spark frame, in bounded memory and as of one moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from waterclock.connectors.arrow_values import EPOCH_UNITS, Times, instant_of, instants
from waterclock.connectors.interface import Collected
from waterclock.connectors.spark_frames import DIRECT_ROWS, read_by_workers, read_if_few
from waterclock.connectors.sql.changed_windows import Bounds, Tallies
from waterclock.connectors.sql.collect_results import collect_in_driver
from waterclock.connectors.sql.collector import ChangedWindowsCollector, SqlReadRequest, is_true, partitions_of
from waterclock.connectors.sql.columns import SqlColumn, SqlExtract, SqlRequestedColumn, arrow_schema_of
from waterclock.connectors.sql.database_errors import changed_database_error
from waterclock.connectors.sql.row_batches import batches_of_rows
from waterclock.connectors.sql.window_bounds import WindowFilter, labels_of, local_bounds
from waterclock.connectors.sqlite.change_counter import state_of, state_seen_from_outside
from waterclock.connectors.sqlite.database import SqliteFile, describe
from waterclock.connectors.sqlite.dialect import quote_identifier, source_of
from waterclock.connectors.type_mismatch import FIRST_MICROS
from waterclock.connectors.windowing import NO_TIME, UNREADABLE_TIME
from waterclock.flow.awaits import Awaits
from waterclock.flow.declarations import Unit
from waterclock.timelabel.instant import EPOCH
from waterclock.timelabel.label import TIMELABEL
from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import nominal_zone

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_MOST_SCANNED = 1_000_000
_TIME = "%Y-%m-%d %H:%M:%S"
_ROWID_NAMES = ("rowid", "_rowid_", "oid")
_ANY_KIND = "any"  # a column of SQLite may hold times of all kinds

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class SqliteExtract(SqlExtract[SqliteFile, SqlRequestedColumn[SqlColumn]]):
    """A query for rows of a SQLite table or query.

    `rowids` selects a part, `low <= rowid < high`, by the name of the rowid and these bounds. `state` is the state of
    the database in which all parts must be read.
    """

    rowids: tuple[str, int, int] | None = None
    state: str | None = None


def collect_rows(
    spark: SparkSession,
    connection: sqlite3.Connection,
    extract: SqliteExtract,
    left_out: tuple[str, ...],
    *,
    partitions: int = 1,
) -> Collected:
    """Read the rows of `extract` in the open transaction if they are few; else let Spark's workers read them."""
    counts = count_excluded_rows(connection, extract)
    read = None if _has_many_rows(connection, extract) else read_if_few(batches(connection, extract))
    source = {"path": extract.database.path}
    if read is not None:
        return collect_in_driver(spark, read, arrow_schema_of(extract), counts, left_out, source)
    return Collected(_read_by_workers(spark, connection, extract, partitions), lambda: counts, left_out, source)


def _has_many_rows(connection: sqlite3.Connection, extract: SqliteExtract) -> bool:
    """Return whether a table seems to have too many rows to be read in this process.

    Rows of a query are not counted, as it would run twice. Times are compared as they are written, in the table's zone,
    which is accurate enough and takes a tenth of the time for parsing them.
    """
    if extract.source.startswith("("):
        return False
    within, values = "", {}
    if extract.by_window:
        within = " WHERE {t} >= :low_number AND {t} < :high_number OR {t} >= :low_local AND {t} < :high_local".format(
            t=quote_identifier(extract.by_window.time_column)
        )
        values = _bind_bounds(extract.by_window.windows, extract.times)
    sql = f"SELECT 1 FROM {extract.source}{within} LIMIT 1 OFFSET {DIRECT_ROWS}"
    return connection.execute(sql, values).fetchone() is not None


def _read_by_workers(
    spark: SparkSession, connection: sqlite3.Connection, extract: SqliteExtract, partitions: int
) -> DataFrame:
    state = state_seen_from_outside(extract.database.path) if partitions > 1 else None
    parts = [replace(extract, rowids=part, state=state) for part in _rowid_ranges(connection, extract, partitions)]
    return read_by_workers(spark, parts, _read_part, extract.fields)


def _read_part(extract: SqliteExtract) -> Iterator[pa.RecordBatch]:
    """Read a part in a Spark worker, which has no other connection to the database."""
    _require_same_state(extract)
    with extract.database.open_for_reading(extract.where) as connection:
        yield from batches(connection, extract)
    _require_same_state(extract)


def _require_same_state(extract: SqliteExtract) -> None:
    if extract.state is not None and state_of(extract.database.path) != extract.state:
        raise changed_database_error(extract.where, "the parts would have different states")


def _rowid_ranges(
    connection: sqlite3.Connection, extract: SqliteExtract, partitions: int
) -> list[tuple[str, int, int] | None]:
    """Split a table into ranges of its rowid. Return one part, None, if no name of the rowid is free of a column."""
    if partitions == 1 or extract.source.startswith("("):
        return [None]
    described = connection.execute(f"SELECT * FROM {extract.source} LIMIT 0").description
    taken = {str(column[0]).lower() for column in described}
    name = next((name for name in _ROWID_NAMES if name not in taken), None)
    if name is None:
        return [None]
    try:
        low, high = connection.execute(f"SELECT min({name}), max({name}) FROM {extract.source}").fetchone()
    except sqlite3.OperationalError:  # a view, or a table WITHOUT ROWID
        return [None]
    if not isinstance(low, int) or not isinstance(high, int):
        return [None]
    step = max(1, -(-(high - low + 1) // partitions))
    return [(name, at, at + step) for at in range(low, high + 1, step)]


def batches(connection: sqlite3.Connection, extract: SqliteExtract) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of an extract in batches, with labels if they are read by window.

    Raises E812 for type mismatches.
    """
    names = [one.taken.source for one in extract.wanted]
    names += [extract.by_window.time_column] if extract.by_window else []
    conditions, bound = _conditions(extract)
    selected = ", ".join(map(quote_identifier, names)) or "1"
    cursor = connection.execute(f"SELECT {selected} FROM {extract.source}{conditions}", bound)
    windows = extract.by_window.windows if extract.by_window else ()
    return batches_of_rows(cursor.fetchmany, extract, lambda times: _labels_of_rows(times, windows, extract.times))


def _labels_of_rows(values: Sequence[Any], windows: Sequence[Window], times: Times) -> tuple[pa.Array, pa.Array]:
    """Return the label of each row by its data time, and whether the row is in any window."""
    import pyarrow as pa

    micros = instants(values, times).cast(pa.int64()).fill_null(FIRST_MICROS - 1)
    return labels_of(micros.to_numpy(), windows)


def _conditions(extract: SqliteExtract) -> tuple[str, Mapping[str, Any]]:
    conditions: list[str] = []
    bound: dict[str, Any] = {}
    if extract.rowids:
        name, low, high = extract.rowids
        conditions.append(f"{name} >= :low_rowid AND {name} < :high_rowid")
        bound |= {"low_rowid": low, "high_rowid": high}
    if extract.by_window:
        within, values = window_conditions(extract.by_window.time_column, extract.by_window.windows, extract.times)
        conditions.append(within)
        bound |= values
    return (" WHERE " + " AND ".join(conditions) if conditions else ""), bound


def window_conditions(time_column: str, windows: Sequence[Window], times: Times) -> tuple[str, Mapping[str, Any]]:
    """Return an SQL condition that matches all rows of the windows, and maybe more, and its values."""
    return f"({_NUMBERS} OR {_TEXTS})".format(t=quote_identifier(time_column)), _bind_bounds(windows, times)


# These conditions leave out only rows that are certainly outside of the windows. This process then compares the exact
# instants, row by row. Plain comparisons can use an index. The dates bound all notations of an instant, in any zone.
_NUMBERS = "(typeof({t}) IN ('integer', 'real') AND {t} >= :low_number AND {t} < :high_number)"
_TEXTS = (
    "(typeof({t}) = 'text' AND {t} >= :low_text AND {t} < :high_text AND"
    " coalesce(CASE WHEN {t} GLOB '*:[0-9][0-9]*[Zz+-]*'"
    " THEN julianday({t}) BETWEEN julianday(:low) AND julianday(:high)"
    " ELSE julianday({t}) BETWEEN julianday(:low_local) AND julianday(:high_local) END, 1))"
)
# SQLite accepts 2013-02-30 and 24:00, as times of the next days
_IN_DOUBT = (
    "(typeof({t}) = 'text' AND (julianday({t}) IS NULL OR ((substr({t}, 9, 2) > '28' OR substr({t}, 12, 2) = '24')"
    " AND date(substr({t}, 1, 19), '+0 days') IS NOT substr({t}, 1, 10))))"
)
_NO_DATE = "(typeof({t}) = 'text' AND {t} NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*')"


def _bind_bounds(windows: Sequence[Window], times: Times) -> dict[str, Any]:
    start, end = windows[0].start - _SECOND, windows[-1].end + _SECOND
    unit = EPOCH_UNITS[times.epoch]
    low, high = local_bounds(start, end, times.zone)
    return {
        "low_number": (start - EPOCH) / unit,
        "high_number": (end - EPOCH) / unit,
        "low_text": f"{start - _DAY:%Y-%m-%d}",
        "high_text": f"{end + 2 * _DAY:%Y-%m-%d}",
        "low": f"{start:%Y-%m-%d %H:%M:%S}",
        "high": f"{end:%Y-%m-%d %H:%M:%S}",
        "low_local": f"{low:%Y-%m-%d %H:%M:%S}",
        "high_local": f"{high:%Y-%m-%d %H:%M:%S}",
    }


def count_excluded_rows(connection: sqlite3.Connection, extract: SqliteExtract) -> Mapping[str, int]:
    """Count the rows that belong to no window. Invalid times are counted only in tables of up to a million rows.

    Cost: a count of the rows without a data time, with an index, and one scan of up to a million rows (0.2 s).
    """
    if extract.by_window is None:
        return {}
    name = quote_identifier(extract.by_window.time_column)
    (missing,) = connection.execute(f"SELECT count(*) FROM {extract.source} WHERE {name} IS NULL").fetchone()
    bounded = f"SELECT count(*) FROM (SELECT 1 FROM {extract.source} LIMIT {_MOST_SCANNED + 1})"
    odd = 0
    if connection.execute(bounded).fetchone()[0] <= _MOST_SCANNED:
        never = f"(typeof({name}) = 'blob' OR {_NO_DATE.format(t=name)})"
        doubtful = connection.execute(
            f"SELECT {name}, {never} FROM {extract.source} WHERE {never} OR {_IN_DOUBT.format(t=name)}"
        )
        odd = sum(bool(is_odd) or instant_of(value, extract.times) is None for value, is_odd in doubtful)
    return {key: count for key, count in ((NO_TIME, missing), (UNREADABLE_TIME, odd)) if count}


@dataclass(frozen=True, slots=True)
class SqliteCollector(ChangedWindowsCollector["sqlite3.Connection", "SqlColumn"]):
    """Collects from a SQLite database file."""

    database: SqliteFile

    def clock(self, unit: Unit) -> None:
        """Return None: a database file has no clock."""

    def has_sign(self, unit: Unit, awaits: Awaits, window: Window, zone: str) -> bool:
        """Return whether the query of AWAIT shows a complete window: its first value is a number other than 0.

        In the query, :window_start and :window_end are texts in the table's zone (`2013-01-01 05:00:00`), and
        :timelabel is the label.
        """
        local = nominal_zone(zone)
        values = {
            "window_start": window.start.astimezone(local).strftime(_TIME),
            "window_end": window.end.astimezone(local).strftime(_TIME),
            TIMELABEL: window.label,
        }
        with self.database.open_for_reading(str(unit)) as connection:
            row = connection.execute(awaits.text, values).fetchone()
        return row is not None and is_true(row[0])

    @property
    def _source(self) -> SqliteFile:
        return self.database

    def _columns(self, connection: sqlite3.Connection, unit: Unit) -> Sequence[SqlColumn]:
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
        unit, columns = request.unit, tuple(SqlRequestedColumn(*each) for each in request.wanted)
        of_unit = (str(unit), source_of(unit), columns, request.times, request.by_window)
        extract = SqliteExtract(self.database, *of_unit)
        read = collect_rows(spark, connection, extract, request.left_out, partitions=partitions_of(unit) or 1)
        close()
        return read

    def _change_filter(self, column: SqlColumn, unit: Unit) -> WindowFilter:
        del unit
        return WindowFilter(column.name, _ANY_KIND, ())

    def _tally(
        self,
        connection: sqlite3.Connection,
        unit: Unit,
        by_window: WindowFilter,
        change: WindowFilter,
        times: Times,
    ) -> Callable[[Bounds], Tallies]:
        from waterclock.connectors.sqlite.change_scans import SqliteChangeScan

        columns = (by_window.time_column, change.time_column)
        scan = SqliteChangeScan(unit, source_of(unit), *columns, by_window.windows, times)
        return partial(scan.tally, connection)
