"""Collects from a Firebird database, in bounded memory and as of one moment.

A small result is passed to Spark directly. A big one is read by one Python worker of Spark, in a separate transaction.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.connectors.firebird.columns import FirebirdColumn, columns_of
from waterclock.connectors.firebird.database import DIALECT, FirebirdConnection, FirebirdDatabase
from waterclock.connectors.firebird.privileges import PRIVILEGES
from waterclock.connectors.sql.row_batches import batches_of_rows, labels_of_counts
from waterclock.connectors.sql.server_collector import ServerCollector, ServerReader
from waterclock.connectors.sql.window_queries import PartialExtract
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    import pyarrow as pa


def batches(
    connection: FirebirdConnection, extract: PartialExtract[Any, Any], fetched: list[int]
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of an extract in batches, with labels if they are read by window.

    Raises E812 for type mismatches.
    """
    with connection.main.cursor() as cursor:
        cursor.stream_blob_threshold = -1
        cursor.execute(extract.query(DIALECT))
        try:
            yield from batches_of_rows(cursor.fetchmany, extract, labels_of_counts(extract), fetched)
        except UnicodeDecodeError as error:
            raise WaterclockError(
                "E812",
                "a text of a column without a character set is not UTF-8",
                where=extract.where,
                why=f"the column stores bytes, and {error.object[error.start : error.end]!r} are not UTF-8",
                fix="read it by a QUERY, as CAST(… AS VARCHAR(…) CHARACTER SET WIN1252), or as OCTETS and BINARY",
            ) from error


_READER = ServerReader(
    DIALECT,
    FirebirdConnection.in_session,
    batches,
    times="a timestamp, a date",
    sign_time=DIALECT.local,
    privileges=PRIVILEGES,
)


@dataclass(frozen=True, slots=True)
class FirebirdCollector(ServerCollector[FirebirdConnection, FirebirdColumn]):
    """Collects from a Firebird database."""

    database: FirebirdDatabase

    def clock(self, unit: Unit) -> None:
        """Return None: Firebird 3 reports its time only in the server's zone, and does not report that zone."""

    @property
    def _source(self) -> FirebirdDatabase:
        return self.database

    @property
    def _reader(self) -> ServerReader[FirebirdConnection]:
        return _READER

    def _columns(self, connection: FirebirdConnection, unit: Unit) -> Sequence[FirebirdColumn]:
        return columns_of(connection, unit)
