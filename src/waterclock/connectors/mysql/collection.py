"""Collects from a MariaDB or MySQL database, in bounded memory and as of one moment.

A small result is passed to Spark directly. A big one is read by Spark's Python workers, in one part or as many as the
option `partitions` declares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from waterclock.connectors.mysql.database import MysqlDatabase, require_table
from waterclock.connectors.mysql.dialect import DIALECT, session_in
from waterclock.connectors.mysql.extract import (
    MysqlExtract,
    MysqlRequestedColumn,
    count_excluded_rows,
    digest_of,
    parts_of,
)
from waterclock.connectors.mysql.privileges import PRIVILEGES
from waterclock.connectors.mysql.rows import batches
from waterclock.connectors.mysql.statements import run_statement
from waterclock.connectors.mysql.types import MysqlColumn, columns_of
from waterclock.connectors.sql.collector import partitions_of
from waterclock.connectors.sql.database_errors import changed_database_error
from waterclock.connectors.sql.server_collector import ServerCollector, ServerReader
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.mysql.statements import Connection


def _parts(connection: Connection, unit: Unit, extract: MysqlExtract) -> list[MysqlExtract]:
    return parts_of(connection, unit, extract, partitions_of(unit) or 1)


def _require_unchanged(connection: Connection, part: MysqlExtract) -> None:
    if part.digest is not None and digest_of(connection, part) != part.digest:
        why = "rows of a part changed after the read began: the parts would have different states"
        raise changed_database_error(part.where, why)


# the zone of sign_time is UTC, as sessions read a TIMESTAMP in UTC
_READER = ServerReader(
    dialect=DIALECT,
    session=session_in,
    batches=batches,
    privileges=PRIVILEGES,
    times="a timestamp, a datetime, a date",
    sign_time="TIMESTAMP'{}'",
    sign_zone="UTC",
    extract=MysqlExtract,
    requested=MysqlRequestedColumn,
    parts=_parts,
    count_excluded=count_excluded_rows,
    check=_require_unchanged,
)


@dataclass(frozen=True, slots=True)
class MysqlCollector(ServerCollector["Connection", MysqlColumn]):
    """Collects from a MariaDB or MySQL database."""

    database: MysqlDatabase

    def clock(self, unit: Unit) -> datetime:
        """Return the current time of the server."""
        with self.database.open_connection(str(unit)) as connection:
            at: datetime = run_statement(connection, "SELECT SYSDATE(6)").fetchone()[0]
            return at.replace(tzinfo=UTC)

    @property
    def _source(self) -> MysqlDatabase:
        return self.database

    @property
    def _reader(self) -> ServerReader[Connection]:
        return _READER

    def _columns(self, connection: Connection, unit: Unit) -> Sequence[MysqlColumn]:
        require_table(connection, unit)
        return columns_of(connection, unit)
