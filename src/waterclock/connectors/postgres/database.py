"""Opens connections to a PostgreSQL database and translates its errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from waterclock.connectors.interface import Setting
from waterclock.connectors.sql.addresses import WRITTEN, is_torn
from waterclock.connectors.sql.refused_logins import login_error, no_database
from waterclock.errors import WaterclockError, did_you_mean
from waterclock.flow.declarations import Unit
from waterclock.postgres_refusals import Refused, connect, refusal_of

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

# these settings fix how values are written as text; the keepalives detect a server that is gone and sends no reply
_SET = (
    "SET TIME ZONE 'UTC'; SET datestyle = 'ISO, YMD'; SET intervalstyle = 'postgres';"
    " SET bytea_output = 'hex'; SET extra_float_digits = 1"
)
_KEPT_ALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
_LOCKED = frozenset({"55P03", "40P01", "40001", "57014"})
_UNWRITABLE = ("42501", "25006", "53")
_NO_SCHEMA = "3F000"
_AWAY = ("08", "57P", "53300", "25P03")


@dataclass(frozen=True, slots=True)
class PostgresDatabase:
    """The address and login of a database. `name` is its address without a password, `connection` the declared name."""

    conninfo: str = field(repr=False)
    name: str
    connection: str
    schema: str | None = None
    timeout: float = 30.0
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @contextmanager
    def open_for_reading(self, where: str, *, snapshot: str | None = None) -> Iterator[Connection]:
        """Open a read-only transaction. All reads see one moment, which is that of `snapshot` if given."""
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
        """Open a connection and translate the server's errors; uncommitted work is rolled back."""
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

    def connect(self, called: str = "waterclock") -> Connection:
        """Open a connection that the caller closes; `called` is its application_name, which the server's views show."""
        settings = {
            **_KEPT_ALIVE,
            "connect_timeout": 10,
            "client_encoding": "utf8",
            "application_name": called[:63],
            **self.more,
        }
        connection: Connection = connect(self.conninfo, autocommit=True, **settings)
        milliseconds = int(self.timeout * 1000)
        connection.execute(f"{_SET}; SET lock_timeout = {milliseconds}")
        if self.schema is not None:
            connection.execute(f"SET search_path = {quote_identifier(self.schema)}")
        return connection

    @contextmanager
    def connect_for_replication(self, where: str) -> Iterator[Connection]:
        """Open a replication connection, on which a replication slot can be created with a snapshot."""
        import psycopg

        settings = {**_KEPT_ALIVE, "connect_timeout": 10, "application_name": "waterclock", **self.more}
        try:
            connection: Connection = connect(
                self.conninfo,
                autocommit=True,
                replication="database",
                options="-c idle_in_transaction_session_timeout=0 -c statement_timeout=0",
                **settings,
            )
        except psycopg.Error as error:
            raise translate_error(error, self, where) from error
        try:
            yield connection
        finally:
            connection.close()


def database_of(setting: Setting) -> PostgresDatabase:
    """Return the connection's database.

    Raises  E803 without a url, with an invalid one, or with a certificate or key alone
    """
    url = setting.options.get("url")
    if not url:
        raise WaterclockError(
            "E803",
            f"the connection {setting.name} has no url",
            where=setting.name,
            why="a connection of type postgres is a database of a server",
            fix=f"connections.{setting.name} = {{ url = 'postgresql://user@host/database' }} in waterclock.toml",
        )
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = None if is_torn(str(url)) else conninfo_to_dict(str(url))
    except ProgrammingError:  # its message may contain a part of a password
        parts = None
    if parts is None or "@" in str(parts.get("host")) or re.search(r"[^0-9,]", str(parts.get("port", ""))):
        raise WaterclockError(
            "E803",
            f"the url of the connection {setting.name} cannot be read",
            where=setting.name,
            why=f"it is no address of PostgreSQL's; {WRITTEN}",
            fix="write postgresql://user@host:5432/database, and a password as { secret = '...' }",
        )
    schema = setting.options.get("schema")
    return PostgresDatabase(
        conninfo=str(url),
        connection=setting.name,
        name=f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}",
        schema=None if schema is None else str(schema),
        timeout=float(str(setting.options.get("timeout", 30))),
        more=_login_of(setting),
    )


def _login_of(setting: Setting) -> dict[str, str]:
    """Return libpq's parameters for the login and for the verification of the server."""
    said = {key: str(value) for key, value in setting.options.items()}
    if ("certificate" in said) != ("key" in said):
        missing = "key" if "certificate" in said else "certificate"
        raise WaterclockError(
            "E803",
            f"the connection {setting.name} has no {missing}",
            where=setting.name,
            why="a client's certificate and its key are two files",
            fix=f"connections.{setting.name}.{missing} = 'certificates/client.{'key' if missing == 'key' else 'crt'}'",
        )
    login = {"password": said["password"]} if "password" in said else {}
    for option, parameter in (("certificate", "sslcert"), ("key", "sslkey"), ("ca", "sslrootcert")):
        if option in said:
            login[parameter] = str(setting.folder / said[option])
    if "ca" in said:
        login["sslmode"] = "verify-full"
    return login


def quote_identifier(name: str) -> str:
    """Return a name as a quoted SQL identifier, whatever characters it contains."""
    return '"' + name.replace('"', '""') + '"'


def table_of(unit: Unit) -> str:
    """Return the unit's table as a quoted SQL identifier: `"orders"` or `"shop"."orders"`."""
    return ".".join(quote_identifier(part) for part in unit.path.split("."))


def source_of(unit: Unit) -> str:
    """Return the FROM item of the unit: its table, or its query in parentheses."""
    return (
        f"({(unit.query or '').strip().rstrip(';')}\n) AS waterclock_query"
        if unit.query is not None
        else table_of(unit)
    )


def translate_error(error: psycopg.Error, database: PostgresDatabase, where: str) -> WaterclockError:
    """Build the error for a refusal by the server; it is `transient` if waiting can help."""
    state, name = error.sqlstate or "", database.name
    said = (error.diag.message_primary or str(error)).strip()
    hint = f" ({error.diag.message_detail})" if error.diag.message_detail else ""
    if refused := refusal_of(error.sqlstate, said):
        why = f"{name}: {refused.text}"
        if refused.reason is Refused.DATABASE:
            return no_database(database.connection, where, why)
        return login_error(database.connection, where, why)
    if state.startswith(_AWAY) or (not state and type(error).__name__ in {"OperationalError", "ConnectionTimeout"}):
        return WaterclockError(
            "E810",
            "the database does not answer",
            where=where,
            why=f"{name}: {said}; nothing was changed",
            fix="it is tried again; see that the server runs, and that host and port are right",
            transient=True,
        )
    if state in _LOCKED:
        return WaterclockError(
            "E811",
            "the database is locked",
            where=where,
            why=f"{name}: {said}; nothing was changed",
            fix="it is tried again; end the other transaction, or give the connection a longer timeout",
            transient=True,
        )
    if state.startswith(_UNWRITABLE):
        is_of_rights = state == "42501"
        mend = (
            "give the connection's user the right"
            if is_of_rights
            else "free some space there, or see that it may be written"
        )
        return WaterclockError(
            "E821",
            "the database gives no right to it" if is_of_rights else "the database cannot be written",
            where=where,
            why=f"{name}: {said}; the transaction was undone",
            fix=f"{mend}; then run again",
        )
    return WaterclockError(
        "E813",
        "the database refuses",
        where=where,
        why=f"{name}: {said}{hint}",
        fix="create the schema, or mend its name in the flow or below the connection in waterclock.toml"
        if state == _NO_SCHEMA
        else "mend the query, or the table in the database",
    )


def no_table(connection: Connection, unit: Unit) -> WaterclockError:
    """Build the error for a table that does not exist, with the nearest names."""
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
    listed = f"{', '.join(known[:10])}{', …' if len(known) > 10 else ''}"
    return WaterclockError(
        "E804",
        f"there is no table {unit.path}",
        where=str(unit),
        why=f"the database holds {listed}" if known else "the database holds no tables",
        # compares names within the schema only: a long schema name would make all of them similar
        fix=did_you_mean(
            name if within else unit.path, within or known, otherwise="mend the name, or bring the table back"
        ),
    )
