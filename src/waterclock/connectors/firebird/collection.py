"""Reads rows of a Firebird database into a Spark frame, in bounded memory and as of one moment.

A small result is passed to Spark directly. A big one is read by one Python worker of Spark, in a transaction of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from waterclock.connectors.firebird.columns import FirebirdColumn, columns_of
from waterclock.connectors.firebird.database import DIALECT, FirebirdConnection, FirebirdDatabase
from waterclock.connectors.interface import Collected
from waterclock.connectors.sql.changed_minutes import ChangedIn, MinuteAggregation, Row
from waterclock.connectors.sql.collector import CollectsChangedMinutes, SqlReadRequest
from waterclock.connectors.sql.columns import count_missing_times
from waterclock.connectors.sql.row_batches import batches_of_rows, collect_few_or_parts
from waterclock.connectors.sql.window_bounds import WindowFilter, instants_of_counts, labels_of
from waterclock.connectors.sql.window_queries import (
    PartialExtract,
    RequestedExpression,
    change_filter,
    fill_sign_query,
    is_true,
    local_literal,
    minutes_query,
    require_time,
)
from waterclock.errors import WaterclockError
from waterclock.flow.awaits import Awaits
from waterclock.flow.declarations import Unit
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

FirebirdExtract = PartialExtract[FirebirdDatabase, RequestedExpression[FirebirdColumn]]


@dataclass(frozen=True, slots=True)
class FirebirdCollector(CollectsChangedMinutes[FirebirdConnection, FirebirdColumn]):
    """Collects from a Firebird database."""

    database: FirebirdDatabase

    def clock(self, unit: Unit) -> None:
        """Return None: a server of version 3 reports its time only in its own zone, which it does not name."""

    def has_sign(self, unit: Unit, awaits: Awaits, window: Window, zone: str) -> bool:
        """Return whether the first value of AWAIT's query is TRUE or a number other than 0: the window is complete.

        :window_start and :window_end are times in the table's zone; :timelabel is the label.
        """
        query = fill_sign_query(awaits.text, window, zone, partial(local_literal, dialect=DIALECT))
        with self.database.open_for_reading(str(unit)) as connection:
            row = connection.session.first_of(query)
        return row is not None and is_true(row[0])

    @property
    def _source(self) -> FirebirdDatabase:
        return self.database

    def _columns(self, connection: FirebirdConnection, unit: Unit) -> Sequence[FirebirdColumn]:
        return columns_of(connection, unit)

    def _time_kind(self, column: FirebirdColumn, unit: Unit) -> str:
        return require_time(column, unit, DIALECT, "a timestamp, a date")

    def _collect(
        self,
        spark: SparkSession,
        connection: FirebirdConnection,
        close: Callable[[], None],
        request: SqlReadRequest[FirebirdColumn],
    ) -> Collected:
        unit, columns = request.unit, tuple(RequestedExpression(*each) for each in request.wanted)
        of_unit = (str(unit), DIALECT.source_of(unit), columns, request.times, request.by_window)
        extract: FirebirdExtract = PartialExtract(self.database, *of_unit)
        counts, read = _set_aside(connection, extract), partial(batches, connection)
        return collect_few_or_parts(spark, close, extract, request.left_out, counts, read, lambda: [extract], _of_part)

    def _change_filter(self, column: FirebirdColumn, unit: Unit) -> WindowFilter:
        return change_filter(column, unit)

    def _count_minutes(
        self, connection: FirebirdConnection, unit: Unit, scan: ChangedIn, asked: MinuteAggregation
    ) -> Iterable[Row]:
        return connection.session.rows_of(minutes_query(unit, scan, asked, DIALECT))


def _set_aside(connection: FirebirdConnection, extract: FirebirdExtract) -> Mapping[str, int]:
    if extract.by_window is None:
        return {}
    name = DIALECT.quote_identifier(extract.by_window.time_column)
    return count_missing_times(
        connection.session.first_of(f"SELECT count(*) FROM {extract.source} WHERE {name} IS NULL")
    )


def _of_part(extract: FirebirdExtract) -> Iterator[pa.RecordBatch]:
    with extract.database.open_for_reading(extract.where) as connection:
        yield from batches(connection, extract)


def batches(
    connection: FirebirdConnection, extract: FirebirdExtract, came: list[int] | None = None
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the wanted rows in batches, by window with labels. Raises  E812 for misfits."""

    def label(counts: Sequence[Any]) -> tuple[pa.Array, pa.Array]:
        import numpy as np

        by_window = extract.by_window
        if by_window is None:
            raise AssertionError("rows are labelled by windows")
        instants = instants_of_counts(np.array(counts, dtype="int64"), by_window, extract.times)
        return labels_of(instants, by_window.windows)

    with connection.main.cursor() as cursor:
        cursor.stream_blob_threshold = -1
        cursor.execute(extract.query(DIALECT))
        try:
            yield from batches_of_rows(cursor.fetchmany, extract, label, came)
        except UnicodeDecodeError as error:
            raise WaterclockError(
                "E812",
                "a text of a column without a character set is not UTF-8",
                where=extract.where,
                why=f"the column stores bytes, and {error.object[error.start : error.end]!r} are not UTF-8",
                fix="read it by a QUERY, as CAST(… AS VARCHAR(…) CHARACTER SET WIN1252), or as OCTETS and BINARY",
            ) from error
