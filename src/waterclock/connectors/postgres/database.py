"""Opens connections to a PostgreSQL database and translates its errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from waterclock.connectors.interface import Setting
from waterclock.connectors.postgres.dialect import quote_identifier, table_of
from waterclock.connectors.sql import database_errors
from waterclock.connectors.sql.addresses import WRITTEN, has_separator_in_password
from waterclock.connectors.sql.database_errors import (
    lock_timeout_error,
    refused_statement_error,
    unreachable_server_error,
    unwritable_database_error,
)
from waterclock.connectors.sql.login_errors import login_error, missing_database_error
from waterclock.connectors.sql.logins import login_files, unreadable_url, url_of
from waterclock.database_clients.postgres_login import RefusalReason, connect, limit_first_statements, refusal_of
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

# these settings fix how values are written as text; the keepalives detect a server that is gone and sends no reply
_SET = (
    "SET TIME ZONE 'UTC'; SET datestyle = 'ISO, YMD'; SET intervalstyle = 'postgres';"
    " SET bytea_output = 'hex'; SET extra_float_digits = 1"
)
_MOST_BYTES = 256 << 20  # of a result that is not read row by row
_CATALOG_SECONDS = 60
_KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
_FIRST_NUMBER = re.compile(r"\A[0-9]+")  # in the detail of VACUUM's notice: rows that cannot be removed yet
_LOCKED = frozenset({"55P03", "40P01", "40001", "57014"})
_NO_PERMISSION = "42501"
_UNWRITABLE = (_NO_PERMISSION, "25006", "53")
_PERMISSION_FIX = "the database denies permission", "grant the permission to the connection's user"
_SPACE_FIX = "the database cannot be written", "free disk space there, or check that it is writable"
_NO_SCHEMA = "3F000"
_SCHEMA_FIX = "create the schema, or correct its name in the flow or below the connection in waterclock.toml"
_UNREACHABLE = ("08", "57P", "53300", "25P03")


@dataclass(frozen=True, slots=True)
class PostgresDatabase:
    """The address and login of a database. `name` is the address without a password, `connection` the declared name.

    `is_trusted`: the password may be sent to the server although the server is not verified. `longest_seconds` is the
    time limit of each answer; None is that of a long query.
    """

    conninfo: str = field(repr=False)
    name: str
    connection: str
    schema: str | None = None
    timeout: float = 30.0
    is_trusted: bool = False
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)
    longest_seconds: float | None = None

    @property
    def for_catalog(self) -> PostgresDatabase:
        """The same database with a short time limit, for queries of the catalog. They can only wait for a lock."""
        return replace(self, longest_seconds=_CATALOG_SECONDS + self.timeout)

    @contextmanager
    def open_for_reading(self, where: str, *, snapshot: str | None = None) -> Iterator[Connection]:
        """Open a read-only transaction. All reads see the same state of the database: that of `snapshot`, if given."""
        with self.open_connection(where) as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # it is idle while workers read
            if snapshot is not None:
                connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
            yield connection

    @contextmanager
    def open_for_writing(self, where: str, *, called: str = "waterclock") -> Iterator[Connection]:
        """Open a transaction for writing. It is committed only if the block ends without an error."""
        with self.open_connection(where, called=called) as connection:
            connection.execute("BEGIN")
            yield connection
            connection.commit()

    @contextmanager
    def open_connection(self, where: str, *, called: str = "waterclock") -> Iterator[Connection]:
        """Open a connection for the block, and translate the server's errors.

        After an error, changes are rolled back.
        """
        import psycopg

        try:
            with self.connect(called) as connection:
                try:
                    yield connection
                except BaseException:
                    if not connection.closed:
                        connection.rollback()
                    raise
        except psycopg.Error as error:
            raise translate_error(error, self, where) from error

    def compact(self, where: str, tables: Sequence[str]) -> None:
        """Write tables anew, without the older versions of their rows.

        Raises E811 (transient) if another transaction may still read these versions, or keeps a table locked.
        """
        kept: list[str] = []
        with self.open_connection(where) as connection:
            connection.add_notice_handler(
                lambda notice: kept.extend(_FIRST_NUMBER.findall(notice.message_detail or ""))
            )
            for table in tables:
                connection.execute(f"VACUUM (FULL, VERBOSE) {quote_identifier(table)}")
        if any(count != "0" for count in kept):
            raise lock_timeout_error(where, "an open transaction may read deleted rows", by="transaction")

    def connect(self, called: str = "waterclock") -> Connection:
        """Open a connection that the caller closes; `called` is its `application_name` on the server."""
        settings = {
            **_KEEPALIVE,
            "connect_timeout": 10,
            "client_encoding": "utf8",
            "application_name": called[:63],
            **self.more,
        }
        connection: Connection = connect(
            self.conninfo, is_trusted=self.is_trusted, most_bytes=_MOST_BYTES, autocommit=True, **settings
        )
        connection.longest_seconds = self.longest_seconds  # type: ignore[attr-defined]
        milliseconds = int(self.timeout * 1000)
        with limit_first_statements(connection):
            connection.execute(f"{_SET}; SET lock_timeout = {milliseconds}")
            if self.schema is not None:
                connection.execute(f"SET search_path = {quote_identifier(self.schema)}")
        return connection

    @contextmanager
    def connect_for_replication(self, where: str) -> Iterator[Connection]:
        """Open a replication connection, on which a replication slot can be created with a snapshot."""
        import psycopg

        settings = {**_KEEPALIVE, "connect_timeout": 10, "application_name": "waterclock", **self.more}
        try:
            connection: Connection = connect(
                self.conninfo,
                is_trusted=self.is_trusted,
                most_bytes=_MOST_BYTES,
                autocommit=True,
                replication="database",
                options="-c idle_in_transaction_session_timeout=0 -c statement_timeout=0",
                **settings,
            )
            with closing(connection):
                yield connection
        except psycopg.Error as error:
            raise translate_error(error, self, where) from error


def database_of(setting: Setting) -> PostgresDatabase:
    """Build the database of a connection from its options.

    Raises E803 for a missing or invalid url, or a certificate without its key.
    """
    url = url_of(setting, "postgres", "postgresql://user@host/database")
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = None if has_separator_in_password(url) else conninfo_to_dict(url)
    except ProgrammingError:  # its message may contain a part of a password
        parts = None
    if parts is None or "@" in str(parts.get("host")) or re.search(r"[^0-9,]", str(parts.get("port", ""))):
        why = f"it is not a PostgreSQL address; {WRITTEN}"
        raise unreadable_url(setting, why, "postgresql://user@host:5432/database")
    schema = setting.options.get("schema")
    return PostgresDatabase(
        conninfo=url,
        connection=setting.name,
        name=f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}",
        schema=None if schema is None else str(schema),
        timeout=float(str(setting.options.get("timeout", 30))),
        is_trusted=bool(setting.options.get("trust_server", False)),
        more=_login_of(setting),
    )


def _login_of(setting: Setting) -> dict[str, str]:
    """Return libpq's parameters for the login and for verifying the server."""
    password = setting.options.get("password")
    login = {} if password is None else {"password": str(password)}
    login |= login_files(setting, {"certificate": "sslcert", "key": "sslkey", "ca": "sslrootcert"})
    if "sslrootcert" in login:
        login["sslmode"] = "verify-full"
    return login


def translate_error(error: psycopg.Error, database: PostgresDatabase, where: str) -> WaterclockError:
    """Convert an error of the server to a Waterclock error, which is `transient` if waiting can help."""
    state, name = error.sqlstate or "", database.name
    message = (error.diag.message_primary or str(error)).strip()
    hint = f" ({error.diag.message_detail})" if error.diag.message_detail else ""
    if refused := refusal_of(error.sqlstate, message):
        why = f"{name}: {refused.text}"
        if refused.reason is RefusalReason.DATABASE:
            return missing_database_error(database.connection, where, why)
        return login_error(database.connection, where, why)
    if state.startswith(_UNREACHABLE) or (
        not state and type(error).__name__ in {"OperationalError", "ConnectionTimeout"}
    ):
        return unreachable_server_error(name, where, message)
    if state in _LOCKED:
        return lock_timeout_error(where, f"{name}: {message}", by="transaction")
    if state.startswith(_UNWRITABLE):
        what, fix = _PERMISSION_FIX if state == _NO_PERMISSION else _SPACE_FIX
        return unwritable_database_error(where, f"{name}: {message}", what, fix)
    fix = _SCHEMA_FIX if state == _NO_SCHEMA else "correct the query, or the table in the database"
    return refused_statement_error(where, f"{name}: {message}{hint}", fix)


def require_table(connection: Connection, unit: Unit) -> None:
    """Raise E804, with similar names, if the unit's table does not exist."""
    if unit.query is not None:
        return
    row = connection.execute("SELECT to_regclass(%s) IS NULL", (table_of(unit),)).fetchone()
    if row and row[0]:
        raise missing_table_error(connection, unit)


def missing_table_error(connection: Connection, unit: Unit) -> WaterclockError:
    """Build the error for a table that does not exist, with similar names."""
    rows = connection.execute(
        "SELECT CASE WHEN pg_table_is_visible(oid) AND %s THEN relname"
        " ELSE relnamespace::regnamespace || '.' || relname END FROM pg_class"
        " WHERE relkind IN ('r', 'v', 'm', 'p', 'f')"
        " AND relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema') ORDER BY 1 LIMIT 500",
        ("." not in unit.path,),
    )
    known = [str(row[0]) for row in rows if not str(row[0]).rpartition(".")[2].startswith("waterclock_")]
    schema, _, name = unit.path.rpartition(".")
    within = [each.rpartition(".")[2] for each in known if each.rpartition(".")[0] == schema]
    # names are compared without their schema, as a long common schema would make all of them similar
    return database_errors.missing_table_error(unit, known, (name, within) if within else (unit.path, known))
