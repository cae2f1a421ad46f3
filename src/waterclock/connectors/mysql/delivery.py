"""Delivers sealed slices to a MariaDB or MySQL database in one transaction, once per claim.

`sql/database_delivery` describes the modes, and `sql/delivery_after_ddl` the steps. Deliveries of a publish run one
after another, under a named lock of the server. Each delivery also takes a lock that is named after its claim. Killing
a claim first ends the connection that has this lock.

REPLACE uses DELETE and INSERT: each reader sees the old rows or the new ones, never none. MERGE uses a temporary table,
so that no other unique index decides which row is replaced.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from waterclock.connectors.mysql.database import MysqlDatabase, kind_at, split_table_name
from waterclock.connectors.mysql.destination import MysqlDestinationColumn, prepare_table, read_stored_columns
from waterclock.connectors.mysql.dialect import session_in
from waterclock.connectors.mysql.privileges import PRIVILEGES
from waterclock.connectors.mysql.row_merging import make_staged, merge, put
from waterclock.connectors.mysql.statements import run_statement, transaction
from waterclock.connectors.sql.delivery_after_ddl import AfterDdlDeliverer, DdlWriter
from waterclock.connectors.sql.delivery_record import DELIVERIES
from waterclock.connectors.sql.versioned_views import Columns
from waterclock.connectors.sql.view_tables import SqlViewTables, group_columns
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from waterclock.connectors.mysql.statements import Connection

_NAME = "VARCHAR({}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {DELIVERIES} (project {_NAME.format(190)}, claim BIGINT NOT NULL,"
    f" publish {_NAME.format(255)}, label {_NAME.format(64)}, outcome {_NAME.format(16)}, mode {_NAME.format(64)},"
    " row_count BIGINT NOT NULL, deleted_count BIGINT NOT NULL,"
    " note LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,"
    " delivered_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), PRIMARY KEY (project, claim, label),"
    f" KEY {DELIVERIES}_newest (project, publish, outcome, label)) ENGINE = InnoDB"
)
LONGEST_PAUSE = 60
"""Seconds after which the server ends a connection that has stopped while it delivers open windows."""
_NO_SUCH_THREAD = 1094


@dataclass(frozen=True, slots=True)
class MysqlViewTables(SqlViewTables):
    """The tables and views of a MariaDB or MySQL database."""

    connection: Connection

    def kind_at(self, unit: Unit) -> str:
        """Return `table` or `view`, the kind of object with the unit's name; empty if the name is free."""
        return kind_at(self.connection, unit)

    def columns(self, parts: Sequence[Unit]) -> dict[str, Columns]:
        """Map the path of each table that exists to its columns. Cost: one statement."""
        if not parts:
            return {}
        schema, _ = split_table_name(parts[0])
        paths = {split_table_name(part)[1].lower(): part.path for part in parts}
        rows = self.session.rows_of(
            "SELECT c.TABLE_NAME, COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS AS c"
            " JOIN information_schema.TABLES AS t USING (TABLE_SCHEMA, TABLE_NAME)"
            " WHERE c.TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_TYPE = 'BASE TABLE'"
            f" AND c.TABLE_NAME IN ({', '.join(['%s'] * len(parts))}) ORDER BY c.TABLE_NAME, ORDINAL_POSITION",
            (schema, *(split_table_name(part)[1] for part in parts)),
        )
        return group_columns(((str(table).lower(), *column) for table, *column in rows), paths)

    def comment_at(self, part: Unit) -> str:
        """Return the comment of a table."""
        row = self.session.first_of(
            "SELECT TABLE_COMMENT FROM information_schema.TABLES"
            " WHERE TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_NAME = %s",
            split_table_name(part),
        )
        return str(row[0]) if row else ""

    def _show(self, view: str, query: str) -> None:
        if query:
            self.session.execute(f"CREATE OR REPLACE VIEW {view} AS {query}")
        else:
            self.session.execute(f"DROP VIEW IF EXISTS {view}")

    def _instant(self, delivered_at: datetime) -> datetime:
        return delivered_at.replace(tzinfo=UTC)


def open_view_tables(connection: Connection) -> MysqlViewTables:
    """Return an object that lists, creates and drops the tables and views of a connection's database."""
    return MysqlViewTables(session_in(connection), connection)


def _mark_at(connection: Connection, part: Unit) -> str:
    return open_view_tables(connection).comment_at(part)


_WRITER = DdlWriter(
    session=session_in,
    tables=open_view_tables,
    columns=read_stored_columns,
    transaction=transaction,
    prepare_table=prepare_table,
    stage=make_staged,
    put=put,
    merge=merge,
    mark_at=_mark_at,
    privileges=PRIVILEGES,
)


@dataclass(frozen=True, slots=True)
class MysqlDeliverer(AfterDdlDeliverer["Connection", MysqlDestinationColumn]):
    """Delivers to a MariaDB or MySQL database."""

    database: MysqlDatabase

    @property
    def _destination(self) -> MysqlDatabase:
        return self.database

    @property
    def _writer(self) -> DdlWriter[Connection, MysqlDestinationColumn]:
        return _WRITER

    def _take_claim(self, connection: Connection, project: str, claim: int, where: str) -> None:
        self._lock(connection, self._claim_lock(project, claim), where)

    def _end_other(self, where: str, project: str, claim: int) -> None:
        with self.database.open_connection(where) as connection:
            _end_lock_holder(connection, self._claim_lock(project, claim))

    def _limit_pauses(self, connection: Connection) -> None:
        run_statement(connection, f"SET SESSION wait_timeout = {LONGEST_PAUSE}, net_read_timeout = {LONGEST_PAUSE}")

    def _prepare(self, connection: Connection, project: str, publish: str) -> None:
        publish_lock = _lock_name("publish", self.database.address["database"], project, publish)
        self._lock(connection, publish_lock, f"{publish} of {project}")
        if not self._has_record(connection):
            run_statement(connection, _CREATE)

    def _has_record(self, connection: Connection) -> bool:
        sql = "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s"
        return run_statement(connection, sql, (DELIVERIES,)).fetchone() is not None

    def _claim_lock(self, project: str, claim: int) -> str:
        # lock names are shared by the whole server, which may have a database for each environment of a project
        return _lock_name("claim", self.database.address["database"], project, claim)

    def _lock(self, connection: Connection, name: str, where: str) -> None:
        """Take a named lock of the server until the connection ends. Raises E811 after the timeout."""
        row = run_statement(connection, "SELECT GET_LOCK(%s, %s)", (name, math.ceil(self.database.timeout))).fetchone()
        if row is None or row[0] != 1:
            raise WaterclockError(
                "E811",
                "another runner delivers to this database",
                where=where,
                why=f"{self.database.name}: waited {self.database.timeout:g} seconds for the lock; nothing was changed",
                fix="it is tried again; wait for the other runner, or give the connection a longer timeout",
                transient=True,
            )


def _lock_name(kind: str, *parts: object) -> str:
    """Return the name of a lock for these parts, with at most 64 characters."""
    joined = "\0".join(map(str, parts))
    return f"waterclock {kind} {hashlib.sha256(joined.encode()).hexdigest()[:32]}"


def _end_lock_holder(connection: Connection, lock: str) -> None:
    """End the connection that has a lock, if there is one. Its uncommitted changes are rolled back."""
    import pymysql

    row = run_statement(connection, "SELECT IS_USED_LOCK(%s)", (lock,)).fetchone()
    if row is None or row[0] is None:
        return
    try:
        run_statement(connection, f"KILL CONNECTION {int(row[0])}")
    except pymysql.Error as error:
        if error.args[0] != _NO_SUCH_THREAD:  # it ended by itself
            raise
