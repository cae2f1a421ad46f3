"""Base class of the collectors for database servers. They read columns by SQL expressions of a dialect."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from waterclock.connectors.interface import Collected
from waterclock.connectors.spark_frames import DIRECT_ROWS, read_by_workers, read_if_few
from waterclock.connectors.sql.changed_minutes import ChangedMinute, MinuteAggregation, MinuteChangeScan
from waterclock.connectors.sql.changed_windows import change_time_error
from waterclock.connectors.sql.collect_results import collect_in_driver, collect_while_open
from waterclock.connectors.sql.collector import ChangedMinutesCollector, SqlReadRequest, is_true
from waterclock.connectors.sql.columns import ExpressionColumn, count_missing_times, no_time_error
from waterclock.connectors.sql.dialect import SqlDialect
from waterclock.connectors.sql.privileges import PrivilegeReader, SourceLogin, check_source
from waterclock.connectors.sql.sessions import SqlSession
from waterclock.connectors.sql.window_bounds import WindowFilter
from waterclock.connectors.sql.window_queries import (
    PartialExtract,
    RequestedExpression,
    fill_sign_query,
    minutes_query,
)
from waterclock.flow.awaits import Awaits
from waterclock.flow.declarations import Unit
from waterclock.spark_sql import ddl_of
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_Connection = TypeVar("_Connection")
_Column = TypeVar("_Column", bound=ExpressionColumn)
_Extract = PartialExtract[Any, Any]


@dataclass(frozen=True, slots=True)
class ServerReader(Generic[_Connection]):
    """The functions and texts of a kind of server that a collect uses.

    - `session` returns a session in a connection, and `batches` yields the rows of an extract.
    - `times` lists the types of times, for messages.
    - `sign_time` is the literal of a time in an AWAIT. Its zone is `sign_zone`, or else that of the table.
    - `extract` is the class of its extracts. `parts` splits a big one; without it, one worker reads all rows.
    - `count_excluded` counts the rows that belong to no window. It is needed only if more than rows without a time do.
    - `check` raises an error for a part that changed since it was split off.
    - `privileges` reads the privileges of the login, if there are logins.
    - `place` is the key under which the manifest stores the name of the database.
    - `stays_open`: the transaction ends only after the workers have read.
    """

    dialect: SqlDialect
    session: Callable[[_Connection], SqlSession]
    batches: Callable[[_Connection, Any, list[int]], Generator[pa.RecordBatch, None, None]]
    times: str
    sign_time: str
    sign_zone: str | None = None
    extract: type[_Extract] = PartialExtract
    parts: Callable[[_Connection, Unit, Any], list[Any]] | None = None
    count_excluded: Callable[[_Connection, Any], Mapping[str, int]] | None = None
    check: Callable[[_Connection, Any], None] | None = None
    requested: type[RequestedExpression[Any]] = RequestedExpression
    privileges: PrivilegeReader | None = None
    place: str = "database"
    stays_open: bool = False

    def count_excluded_rows(self, connection: _Connection, extract: _Extract) -> Mapping[str, int]:
        """Count the rows that belong to no window, by reason."""
        if self.count_excluded is not None:
            return self.count_excluded(connection, extract)
        if extract.by_window is None:
            return {}
        name = self.dialect.quote_identifier(extract.by_window.time_column)
        sql = f"SELECT count(*) FROM {extract.source} WHERE {name} IS NULL"
        return count_missing_times(self.session(connection).first_of(sql))

    def read_part(self, extract: _Extract) -> Iterator[pa.RecordBatch]:
        """Read a part in a Spark worker, in a separate transaction."""
        with extract.database.open_for_reading(extract.where) as connection:
            if self.check is not None:
                self.check(connection, extract)
            yield from self.batches(connection, extract, [0])


class ServerCollector(ChangedMinutesCollector[_Connection, _Column]):
    """Collects from a database server."""

    __slots__ = ()

    @property
    @abstractmethod
    def _reader(self) -> ServerReader[_Connection]:
        """The functions and texts for this kind of server."""

    def has_sign(self, unit: Unit, awaits: Awaits, window: Window, zone: str) -> bool:
        """Return whether the query of AWAIT shows a complete window: its first value is TRUE or a number other than 0.

        In the query, :window_start and :window_end are times without a zone, and :timelabel is the label.
        """
        reader = self._reader
        query = fill_sign_query(awaits.text, window, reader.sign_zone or zone, reader.sign_time)
        with self._source.open_for_reading(str(unit)) as connection:
            row = reader.session(connection).first_of(query)
        return row is not None and is_true(row[0])

    def check_privileges(self, unit: Unit, *, has_changes: bool) -> SourceLogin | None:
        """Return the login's privileges; None if they are not known. Raises E821 if it may not read the table."""
        reader = self._reader
        if reader.privileges is None:
            return None
        return check_source(self._source, reader.session, reader.privileges, unit, has_changes=has_changes)

    def _time_kind(self, column: _Column, unit: Unit) -> str:
        reader, dialect = self._reader, self._reader.dialect
        if (kind := column.time_kind) is not None:
            return kind
        quote, name = dialect.quote_identifier, f"{column.name}_time"
        fix = (
            f"collect BY DATA TIME {name} FROM {unit.connection} QUERY"
            f" 'SELECT *, CAST({quote(column.name)} AS {dialect.types['timestamp']}) AS {quote(name)}"
            f" FROM {dialect.source_of(unit)}'"
        )
        why = f"{reader.times}, or an integer that counts from 1970, so that an index can find the rows"
        raise no_time_error(column.name, column.kind, str(unit), why, fix)

    def _collect(
        self,
        spark: SparkSession,
        connection: _Connection,
        close: Callable[[], None],
        request: SqlReadRequest[_Column],
    ) -> Collected:
        """Read the rows in the open transaction if they are few; else let Spark's workers read them in parts."""
        unit, reader = request.unit, self._reader
        columns = tuple(reader.requested(*each) for each in request.wanted)
        of_unit = (str(unit), reader.dialect.source_of(unit), columns, request.times, request.by_window)
        extract = reader.extract(self._source, *of_unit)
        counts = reader.count_excluded_rows(connection, extract)
        fetched = [0]  # also counts rows in gaps between windows, which the SQL bounds do not exclude
        few = replace(extract, most=DIRECT_ROWS + 1)
        read = read_if_few(reader.batches(connection, few, fetched), fetched)
        source: dict[str, Any] = {reader.place: extract.database.name}
        if read is not None:
            close()
            if read:  # with the schema of the batches, which may have nested types
                return collect_in_driver(spark, read, read[0].schema, counts, request.left_out, source)
            empty = spark.createDataFrame([], ddl_of(extract.fields))
            return Collected(empty, lambda: counts, request.left_out, {**source, "rows": 0}, is_empty=True)
        parts = [extract] if reader.parts is None else reader.parts(connection, unit, extract)
        if not reader.stays_open:
            close()  # the workers open separate transactions
        frame = read_by_workers(spark, parts, reader.read_part, extract.fields)
        description = {**source, "parts": len(parts)}
        if reader.stays_open:
            return collect_while_open(frame, close, counts, request.left_out, description)
        return Collected(frame, lambda: counts, request.left_out, description)

    def _change_filter(self, column: _Column, unit: Unit) -> WindowFilter:
        if column.time_kind is None:
            raise change_time_error(column.name, f"is of type {column.kind}", unit)
        return WindowFilter(column.name, column.time_kind, ())

    def _count_minutes(
        self, connection: _Connection, unit: Unit, scan: MinuteChangeScan, aggregation: MinuteAggregation
    ) -> Iterable[ChangedMinute]:
        return self._reader.session(connection).rows_of(minutes_query(unit, scan, aggregation, self._reader.dialect))
