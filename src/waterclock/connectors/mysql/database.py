"""Opens connections to a MariaDB or MySQL database and translates its errors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from waterclock.connectors.interface import Setting
from waterclock.connectors.mysql.statements import run_statement
from waterclock.connectors.sql.database_errors import (
    lock_timeout_error,
    missing_table_error,
    refused_statement_error,
    unreachable_server_error,
    unwritable_database_error,
)
from waterclock.connectors.sql.login_errors import login_error, missing_database_error
from waterclock.connectors.sql.logins import login_files, parse_address, unreadable_url
from waterclock.database_clients.local_sockets import is_protected
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    import pymysql

    from waterclock.connectors.mysql.statements import Connection

# The server returns a TIMESTAMP in the session's zone. An unbuffered reader may be slow, and other connections
# wait meanwhile. A server may be configured to limit the rows of a result, or to refuse statements without a key.
_SET = (
    "SET SESSION time_zone = '+00:00', net_write_timeout = 3600, net_read_timeout = 600, wait_timeout = 86400,"
    " sql_select_limit = 18446744073709551615, sql_safe_updates = 0,"
    " innodb_lock_wait_timeout = {seconds}, lock_wait_timeout = {seconds}"
)
_SET_AT_MARIADB = (
    "/*M!100300 SET SESSION idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0,"
    " idle_write_transaction_timeout = 0 */"
)
# the server refuses values that do not fit, rather than truncating them, and stores 0 in an AUTO_INCREMENT column
_STRICT = (
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,"
    "NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO'"
)
_LOGIN_REFUSED = frozenset({1045, 1129, 1130, 1251, 1698, 1820, 1862, 2059, 2061, 3118, 3159, 4151})
_UNREACHABLE = frozenset(
    {1040, 1053, 1077, 1135, 1152, 1158, 1159, 1160, 1161, 1184, 1203, 1226, 1927, 2002, 2003, 2005, 2006, 2012, 2013}
)
# 1020: another transaction changed rows that this one writes, since it began (MariaDB 11.6 and later)
_LOCKED = frozenset({1020, 1205, 1206, 1213, 1317, 1614, 3024, 3572, 1969})
_ALTERED = 1412
_UNWRITABLE = frozenset({1021, 1036, 1114, 1290, 1792, 1836, 3100})
_NO_PERMISSION = frozenset({1044, 1142, 1143, 1227, 1370})
# without privileges, no server reports that a database does not exist
_PERMISSION_FIX = (
    "the database denies permission",
    "check that url names the right database, or grant the permission to its user",
)
_SPACE_FIX = "the database cannot be written", "free disk space, or check that the server is writable"
_NO_DATABASE = frozenset({1046, 1049})


@dataclass(frozen=True, slots=True)
class MysqlDatabase:
    """The address and login of a database. `name` is the address without a password, `connection` the declared name.

    `is_trusted`: the password may be sent to the server although the server is not verified.
    """

    address: Mapping[str, Any]
    name: str
    connection: str
    timeout: float = 30.0
    is_trusted: bool = False
    login: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @contextmanager
    def open_for_reading(self, where: str) -> Iterator[Connection]:
        """Open a read-only transaction. All reads of InnoDB tables see the same state."""
        with self.open_connection(where) as connection:
            run_statement(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            run_statement(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            yield connection

    @contextmanager
    def open_for_writing(self, where: str) -> Iterator[Connection]:
        """Open for writing, without a transaction, as a statement that creates or alters a table would commit it."""
        with self.open_connection(where) as connection:
            run_statement(connection, _STRICT)
            run_statement(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield connection

    @contextmanager
    def open_connection(self, where: str) -> Iterator[Connection]:
        """Open a connection for the block, and translate the server's errors. Uncommitted changes are rolled back."""
        import pymysql

        from waterclock.connectors.mysql.client import LACKS_PACKAGE

        try:
            connection = self.connect()
            try:
                yield connection
            finally:
                # closes without COM_QUIT, which would first read an unfinished result to its end
                connection._force_close()  # noqa: SLF001 - the only way that reads no further
        except pymysql.Error as error:
            raise translate_error(error, self, where) from error
        except RuntimeError as error:
            if LACKS_PACKAGE not in str(error):
                raise
            raise login_error(self.connection, where, f"{self.name}: {error}") from error

    def connect(self) -> Connection:
        """Open a connection that the caller closes."""
        from waterclock.connectors.mysql.client import connect

        connection = connect(
            self.address,
            is_trusted=self.is_trusted or "ssl_ca" in self.login or is_protected(self.address.get("unix_socket", "")),
            **self.login,
            charset="utf8mb4",
            autocommit=True,
            program_name="waterclock",
            binary_prefix=True,
        )
        try:
            run_statement(connection, _SET.format(seconds=max(1, math.ceil(self.timeout))))
            run_statement(connection, _SET_AT_MARIADB)
        except BaseException:
            connection._force_close()  # noqa: SLF001 - as above
            raise
        return connection


def database_of(setting: Setting) -> MysqlDatabase:
    """Build the database of a connection. Raises E803 for an invalid url, or a certificate without its key."""
    at = parse_address(setting, ("mysql", "mariadb"), 3306, frozenset({"unix_socket"}))
    if "/" in at.database:
        raise unreadable_url(setting, "it names no database", "mysql://user@host:3306/database")
    login = _login_of(setting)
    if at.password and "password" not in login:
        login["password"] = at.password.encode()
    user = {"user": at.user} if at.user else {}
    return MysqlDatabase(
        address={"host": at.host, "port": at.port, "database": at.database, **user, **at.more},
        connection=setting.name,
        name=f"{at.more.get('unix_socket') or f'{at.host}:{at.port}'}/{at.database}",
        timeout=float(str(setting.options.get("timeout", 30))),
        is_trusted=bool(setting.options.get("trust_server", False)),
        login=login,
    )


def _login_of(setting: Setting) -> dict[str, Any]:
    """Return PyMySQL's parameters for the login and for verifying the server."""
    password = setting.options.get("password")
    login: dict[str, Any] = {} if password is None else {"password": str(password).encode()}
    login |= login_files(setting, {"certificate": "ssl_cert", "key": "ssl_key", "ca": "ssl_ca"})
    if "ssl_ca" in login:
        login["ssl_verify_cert"] = login["ssl_verify_identity"] = True
    return login


def split_table_name(unit: Unit) -> tuple[str | None, str]:
    """Return the database that the unit's path names (None for the connection's) and the table."""
    schema, _, name = unit.path.rpartition(".")
    return schema or None, name


def kind_at(connection: Connection, unit: Unit) -> str:
    """Return `table` or `view`, the kind of object with the unit's name; empty if the name is free."""
    row = run_statement(
        connection,
        "SELECT TABLE_TYPE FROM information_schema.TABLES"
        " WHERE TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_NAME = %s",
        split_table_name(unit),
    ).fetchone()
    return ("view" if "VIEW" in str(row[0]) else "table") if row else ""


def require_table(connection: Connection, unit: Unit) -> None:
    """Raise E804, with similar names, if the unit's table does not exist."""
    if unit.query is not None or kind_at(connection, unit):
        return
    schema, name = split_table_name(unit)
    rows = run_statement(
        connection,
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = COALESCE(%s, DATABASE())"
        " ORDER BY 1 LIMIT 500",
        (schema,),
    ).fetchall()
    known = [str(row[0]) for row in rows if not str(row[0]).startswith("waterclock_")]
    raise missing_table_error(unit, known, (name, known))


def translate_error(error: pymysql.Error, database: MysqlDatabase, where: str) -> WaterclockError:
    """Convert an error of the server to a Waterclock error, which is `transient` if waiting can help."""
    import pymysql

    name = database.name
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    message = str(error.args[1] if len(error.args) > 1 else error).strip()
    if code in _LOGIN_REFUSED | _NO_DATABASE:
        refused = login_error if code in _LOGIN_REFUSED else missing_database_error
        return refused(database.connection, where, f"{name}: {message}")
    if code in _UNREACHABLE or (
        code == 0 and isinstance(error, pymysql.err.InterfaceError | pymysql.err.OperationalError)
    ):
        return unreachable_server_error(name, where, message or "the connection was closed")
    if code in _LOCKED:
        return lock_timeout_error(where, f"{name}: {message}", by="transaction")
    if code == _ALTERED:
        return WaterclockError(
            "E814",
            "the database changed while it was read",
            where=where,
            why=f"{name}: {message}",
            fix="Waterclock retries by itself: a table was altered since the transaction began",
            transient=True,
        )
    if code in _UNWRITABLE | _NO_PERMISSION:
        what, fix = _PERMISSION_FIX if code in _NO_PERMISSION else _SPACE_FIX
        return unwritable_database_error(where, f"{name}: {message}", what, fix)
    return refused_statement_error(where, f"{name}: {message}")
