"""Opens connections to a Firebird database and translates its errors.

Source: https://github.com/FirebirdSQL/firebird/blob/master/src/include/firebird/impl/msg/jrd.h (numbers of errors)
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from waterclock.connectors.interface import Setting
from waterclock.connectors.sql.database_errors import (
    LONGEST_QUERY_SECONDS,
    lock_timeout_error,
    refused_statement_error,
    unreachable_server_error,
    unwritable_database_error,
)
from waterclock.connectors.sql.dialect import SqlDialect
from waterclock.connectors.sql.login_errors import login_error, missing_database_error
from waterclock.connectors.sql.logins import parse_address
from waterclock.connectors.sql.sessions import SqlResult, SqlSession
from waterclock.database_clients.time_limits import limit_query_time
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from firebird.driver import Connection, Cursor, DatabaseError, TransactionManager

DIALECT = SqlDialect(
    types={
        **dict.fromkeys(("timestamp", "timestamp_ntz"), "TIMESTAMP"),
        "tinyint": "SMALLINT",
        "double": "DOUBLE PRECISION",
        "binary": "BLOB SUB_TYPE BINARY",
    },
    nested="BLOB SUB_TYPE TEXT CHARACTER SET UTF8",
    other="BLOB SUB_TYPE TEXT CHARACTER SET UTF8",
    text="VARCHAR(64) CHARACTER SET UTF8",
    as_text="CAST({} AS VARCHAR(32765) CHARACTER SET OCTETS)",  # otherwise trailing blanks are not significant
    bind=lambda value: value.encode() if isinstance(value, str) else value,
    limit="ROWS {}",
    local="TIMESTAMP'{:.24}'",
    micros="CAST(DATEDIFF(MILLISECOND FROM TIMESTAMP'1970-01-01 00:00:00' TO CAST({} AS TIMESTAMP)) * 1000 AS BIGINT)",
    modulo="MOD({}, {})",
    fingerprint="SUM(MOD({}, 999999999989))",  # a sum of the times themselves would exceed 64 bits
    is_folded=True,
    decimal=lambda digits, scale: (
        f"NUMERIC({digits},{scale})" if digits <= 18 else "BLOB SUB_TYPE TEXT CHARACTER SET UTF8"
    ),
)
_NO_PERMISSION, _READ_ONLY, _NO_FILE = 335544352, 335544765, 335544344
_LOGINS = frozenset({335544472, 335545106})
_LOCKED = frozenset({335544345, 335544336, 335544510, 335544451, 335544453, 335544878})
_CONNECT_SECONDS = 10
_MOST_BYTES = 256 << 20  # of a result that is not read row by row
_PERMISSION_FIX = "the database denies permission", "grant the permission to the connection's user"
_WRITING_FIX = "the database cannot be written", "allow writing to it on the server"


@dataclass(frozen=True, slots=True)
class FirebirdConnection:
    """An open connection. Each statement is a separate transaction, unless the transaction `main` has begun.

    `turn` is a second transaction, by which deliveries of a publish wait for each other.
    """

    attachment: Connection
    main: TransactionManager
    turn: TransactionManager

    def run(self, sql: str, values: Sequence[Any] | None = None) -> SqlResult:
        """Run a statement and return its complete result."""
        is_alone = not self.main.is_active()
        try:
            with self.main.cursor() as cursor:
                cursor.stream_blob_threshold = -1
                cursor.execute(sql, values or None)
                result = SqlResult(_rows_of(cursor) if cursor.description else (), cursor.affected_rows)
            if is_alone:
                self.main.commit()
        finally:
            if is_alone and self.main.is_active():
                self.main.rollback()
        return result

    def describe(self, sql: str) -> Sequence[Any]:
        """Return the descriptions of a query's columns, without running it."""
        is_alone = not self.main.is_active()
        with self.main.cursor() as cursor, cursor.prepare(sql) as statement:
            columns: Sequence[Any] = statement._out_desc  # noqa: SLF001 - a cursor's own lacks charset and subtype
        if is_alone and self.main.is_active():
            self.main.commit()
        return columns

    def in_session(self) -> SqlSession:
        """Return an object that runs statements in this connection."""
        return SqlSession(DIALECT, self.run)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in a transaction, which is committed if the block succeeds.

        Otherwise it is rolled back when the connection closes.
        """
        self.main.begin()
        yield
        self.main.commit()


def _rows_of(cursor: Cursor) -> list[Any]:
    """Return all rows of a result. Raises DatabaseError if they are too large: a view may return rows without end."""
    from firebird.driver import DatabaseError

    rows: list[Any] = []
    size = 0
    for row in cursor:
        size += sum(sys.getsizeof(value) for value in row)
        if size > _MOST_BYTES:
            raise DatabaseError(f"it gave an answer of more than {_MOST_BYTES >> 20} MiB")
        rows.append(row)
    return rows


@dataclass(frozen=True, slots=True)
class FirebirdDatabase:
    """The address and login of a database. `name` is the address without a password, `connection` the declared name."""

    dsn: str
    name: str
    connection: str
    user: str | None
    password: str | None = field(repr=False)
    timeout: float = 30.0

    @contextmanager
    def open_for_reading(self, where: str) -> Iterator[FirebirdConnection]:
        """Open a transaction. All reads see the same state of the database."""
        with self.open_for_writing(where) as connection:
            connection.main.begin()
            yield connection

    @contextmanager
    def open_for_writing(self, where: str) -> Iterator[FirebirdConnection]:
        """Open a connection for the block, and translate the server's errors. Uncommitted changes are rolled back."""
        from firebird.driver import CancelType, DatabaseError, Isolation, connect, driver_config, tpb

        _require_client(self.connection)
        driver_config.db_defaults.timeout.value = _CONNECT_SECONDS
        seconds = max(1, math.ceil(self.timeout))
        try:
            attachment = connect(
                self.dsn,
                user=self.user,
                password=self.password,
                charset="UTF8",
                auth_plugin_list="Srp256,Srp",  # others would send a hash that is easily reversed
            )
            main = attachment.transaction_manager(tpb(Isolation.SNAPSHOT, lock_timeout=seconds))
            turn = attachment.transaction_manager(tpb(Isolation.READ_COMMITTED_RECORD_VERSION, lock_timeout=seconds))
            abort = attachment._att.cancel_operation  # noqa: SLF001 - the driver's own way to end a wait
            try:
                with limit_query_time(LONGEST_QUERY_SECONDS, lambda: abort(CancelType.ABORT)):
                    yield FirebirdConnection(attachment, main, turn)
            finally:
                open_ones = [each.rollback for each in (main, turn) if each.is_active()]
                for end in (*open_ones, attachment.close):
                    with suppress(DatabaseError):
                        end()
        except TimeoutError as error:
            raise refused_statement_error(where, f"{self.name}: {error}") from error
        except DatabaseError as error:
            raise translate_error(error, self, where) from error


def _require_client(connection: str) -> None:
    """Load Firebird's client library. Raises E825 if it is not installed."""
    from firebird.driver import get_api

    try:
        get_api()
    except Exception as error:  # the driver raises no narrower one
        raise WaterclockError(
            "E825",
            f"the connection {connection} needs a library that is not installed",
            where=connection,
            why=f"the driver uses Firebird's client library: {error}",
            fix="install it, as libfbclient2 in Debian and libfbclient in Fedora",
        ) from error


def database_of(setting: Setting) -> FirebirdDatabase:
    """Build the database of a connection. Raises E803 for a missing or invalid url."""
    at = parse_address(setting, ("firebird",), 3050)
    password = setting.options.get("password", at.password)
    return FirebirdDatabase(
        dsn=f"inet://{at.host}:{at.port}/{at.database}",
        name=f"{at.host}:{at.port}/{at.database}",
        connection=setting.name,
        user=at.user,
        password=None if password is None else str(password),
        timeout=float(str(setting.options.get("timeout", 30))),
    )


def translate_error(error: DatabaseError, database: FirebirdDatabase, where: str) -> WaterclockError:
    """Convert an error of the server to a Waterclock error, which is `transient` if waiting can help."""
    codes, state = set(error.gds_codes or ()), error.sqlstate or ""
    why = f"{database.name}: {' '.join(str(error).split())}"
    if codes & _LOGINS:
        return login_error(database.connection, where, why)
    if _NO_FILE in codes and state.startswith("08"):
        return missing_database_error(database.connection, where, why)
    if state.startswith("08"):
        return unreachable_server_error(database.name, where, why.removeprefix(f"{database.name}: "))
    if codes & _LOCKED:
        return lock_timeout_error(where, why, by="transaction")
    if codes & {_NO_PERMISSION, _READ_ONLY, _NO_FILE}:
        return unwritable_database_error(where, why, *(_PERMISSION_FIX if _NO_PERMISSION in codes else _WRITING_FIX))
    return refused_statement_error(where, why)
