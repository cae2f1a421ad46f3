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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.interface import Collected, ConnectionType, Setting
from waterclock.connectors.sql.capabilities import database_capabilities, file_options
from waterclock.connectors.sql.collector import WINDOW_VALUE, SqlCollector, SqlReadRequest
from waterclock.flow.awaits import Awaits
from waterclock.flow.capabilities import Driver
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import SparkSession

    from waterclock.connectors.duckdb.database import DuckdbDatabase
    from waterclock.connectors.duckdb.types import DuckdbColumn

CAPABILITIES = database_capabilities(
    "duckdb",
    file_options("another process holds the file"),
    {},
    driver=Driver("duckdb", extra="duckdb"),
    changes=None,
)


def _open_source(setting: Setting) -> DuckdbCollector:
    from waterclock.connectors.duckdb.database import database_of

    return DuckdbCollector(database_of(setting))


def _open_destination(setting: Setting) -> Deliverer:
    from waterclock.connectors.duckdb.database import database_of
    from waterclock.connectors.duckdb.delivery import DuckdbDeliverer

    return DuckdbDeliverer(database_of(setting))


CONNECTOR = ConnectionType(CAPABILITIES, _open_source, _open_destination)


@dataclass(frozen=True, slots=True)
class DuckdbCollector(SqlCollector["duckdb.DuckDBPyConnection", "DuckdbColumn"]):
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
        used = {name: values[name] for name in WINDOW_VALUE.findall(awaits.text)}
        with self.database.open_for_reading(str(unit)) as connection:
            row = first_of(connection, WINDOW_VALUE.sub(r"$\1", awaits.text), used)
        return row is not None and bool(row[0])

    @property
    def _source(self) -> DuckdbDatabase:
        return self.database

    def _columns(self, connection: duckdb.DuckDBPyConnection, unit: Unit) -> Sequence[DuckdbColumn]:
        from waterclock.connectors.duckdb.types import columns_of

        return columns_of(connection, unit)

    def _time_kind(self, column: DuckdbColumn, unit: Unit) -> str:
        from waterclock.connectors.duckdb.collection import require_time
        from waterclock.connectors.duckdb.dialect import source_of

        return require_time(column, source_of(unit), str(unit))

    def _collect(
        self,
        spark: SparkSession,
        connection: duckdb.DuckDBPyConnection,
        close: Callable[[], None],
        request: SqlReadRequest[DuckdbColumn],
    ) -> Collected:
        from waterclock.connectors.duckdb.collection import DuckdbExtract, DuckdbRequestedColumn, collect_rows
        from waterclock.connectors.duckdb.dialect import source_of

        unit, columns = request.unit, tuple(DuckdbRequestedColumn(*each) for each in request.wanted)
        of_unit = (str(unit), source_of(unit), columns, request.times, request.by_window)
        return collect_rows(spark, connection, close, DuckdbExtract(self.database, *of_unit), request.left_out)
