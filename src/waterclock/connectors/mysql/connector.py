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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING

from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.interface import Collected, ConnectionType, Setting
from waterclock.connectors.sql.capabilities import CHANGE_SLACK, LOCK_TIMEOUT, LOGIN, database_capabilities
from waterclock.connectors.sql.collector import CollectsChangedMinutes, SqlReadRequest, partitions_of
from waterclock.flow.awaits import Awaits
from waterclock.flow.capabilities import Driver, Option
from waterclock.flow.declarations import Unit
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

    from waterclock.connectors.mysql.database import MysqlDatabase
    from waterclock.connectors.mysql.statements import Connection
    from waterclock.connectors.mysql.types import MysqlColumn
    from waterclock.connectors.sql.changed_minutes import ChangedIn, MinuteAggregation, Row
    from waterclock.connectors.sql.window_bounds import WindowFilter

CAPABILITIES = database_capabilities(
    "mysql",
    {
        "url": Option(is_required=True, is_address=True, help="the database, as mysql://user@host:3306/database"),
        "password": Option(is_secret=True, help="its user's password, as a secret"),
        **LOGIN,
        **LOCK_TIMEOUT,
    },
    {
        "partitions": Option("number", help="in how many parallel parts a large result is read; default 1"),
        **CHANGE_SLACK,
    },
    driver=Driver("pymysql", extra="mysql"),
)


def _open_source(setting: Setting) -> MysqlCollector:
    from waterclock.connectors.mysql.database import database_of

    return MysqlCollector(database_of(setting))


def _open_destination(setting: Setting) -> Deliverer:
    from waterclock.connectors.mysql.database import database_of
    from waterclock.connectors.mysql.delivery import MysqlDeliverer

    return MysqlDeliverer(database_of(setting))


CONNECTOR = ConnectionType(CAPABILITIES, _open_source, _open_destination)


@dataclass(frozen=True, slots=True)
class MysqlCollector(CollectsChangedMinutes["Connection", "MysqlColumn"]):
    """Collects from a MariaDB or MySQL database."""

    database: MysqlDatabase

    def clock(self, unit: Unit) -> datetime:
        """Return the server's clock."""
        from waterclock.connectors.mysql.statements import run_statement

        with self.database.open_connection(str(unit)) as connection:
            at: datetime = run_statement(connection, "SELECT SYSDATE(6)").fetchone()[0]
            return at.replace(tzinfo=UTC)

    def has_sign(self, unit: Unit, awaits: Awaits, window: Window, zone: str) -> bool:
        """Return whether the first value of the query's first row is TRUE, or a number other than 0; a BIT is a number.

        :window_start and :window_end are times in UTC, as the session shows a TIMESTAMP; :timelabel is the label.
        """
        from waterclock.connectors.mysql.dialect import DIALECT
        from waterclock.connectors.mysql.statements import run_statement
        from waterclock.connectors.sql.window_queries import fill_sign_query, is_true, local_literal

        del zone
        query = fill_sign_query(awaits.text, window, "UTC", lambda at: f"TIMESTAMP{local_literal(at, DIALECT)}")
        with self.database.open_for_reading(str(unit)) as connection:
            row = run_statement(connection, query).fetchone()
        return row is not None and is_true(row[0])

    @property
    def _source(self) -> MysqlDatabase:
        return self.database

    def _columns(self, connection: Connection, unit: Unit) -> Sequence[MysqlColumn]:
        from waterclock.connectors.mysql.database import require_table
        from waterclock.connectors.mysql.types import columns_of

        require_table(connection, unit)
        return columns_of(connection, unit)

    def _time_kind(self, column: MysqlColumn, unit: Unit) -> str:
        from waterclock.connectors.mysql.dialect import DIALECT
        from waterclock.connectors.sql.window_queries import require_time

        return require_time(column, unit, DIALECT, "a timestamp, a datetime, a date")

    def _collect(
        self,
        spark: SparkSession,
        connection: Connection,
        close: Callable[[], None],
        request: SqlReadRequest[MysqlColumn],
    ) -> Collected:
        from waterclock.connectors.mysql.collection import collect_rows
        from waterclock.connectors.mysql.dialect import source_of
        from waterclock.connectors.mysql.extract import MysqlExtract, MysqlRequestedColumn

        unit, columns = request.unit, tuple(MysqlRequestedColumn(*each) for each in request.wanted)
        of_unit = (str(unit), source_of(unit), columns, request.times, request.by_window)
        extract, partitions = MysqlExtract(self.database, *of_unit), partitions_of(unit) or 1
        return collect_rows(spark, connection, close, unit, extract, request.left_out, partitions=partitions)

    def _change_filter(self, column: MysqlColumn, unit: Unit) -> WindowFilter:
        from waterclock.connectors.sql.window_queries import change_filter

        return change_filter(column, unit)

    def _count_minutes(
        self, connection: Connection, unit: Unit, scan: ChangedIn, asked: MinuteAggregation
    ) -> Iterable[Row]:
        from waterclock.connectors.mysql.dialect import DIALECT
        from waterclock.connectors.mysql.statements import run_statement
        from waterclock.connectors.sql.window_queries import minutes_query

        return run_statement(connection, minutes_query(unit, scan, asked, DIALECT)).rows
