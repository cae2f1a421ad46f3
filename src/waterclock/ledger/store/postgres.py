"""The PostgreSQL backend: finds and locks a ledger's schema, and formats instants in SQL.

A ledger has a schema of its own, `waterclock` unless its URL names another (`?schema=team`). Each transaction sets it,
so that a connection pooler in between may use any connection. A reading transaction sees one moment. A writing one
waits at its first statement, on the row that every writer updates, and then sees all changes of the previous writer. A
runner that is stopped in the middle of a transaction would lock that row for ever, so the server ends its session.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from waterclock.database_clients.postgres_login import RefusalReason, connect, limit_first_statements, refusal_of
from waterclock.ledger import ledger_errors
from waterclock.ledger.store.failure import StatementFailure
from waterclock.ledger.store.pipelined_statements import render_statement, send
from waterclock.ledger.store.texts import written_json

NOW = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"
TRANSACTION = "txid_current()"
SCHEMA = "waterclock"
SCHEMES = ("postgresql", "postgresql+psycopg", "postgres")
# libpq options: a lost server is noticed within some two minutes, even without any packet
_CONNECT = {
    "connect_timeout": 10,
    "application_name": "waterclock",
    "client_encoding": "utf8",
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
_FAILURES = {RefusalReason.LOGIN: StatementFailure.NOT_LET_IN, RefusalReason.DATABASE: StatementFailure.NO_DATABASE}
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = (
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '60s';"
    " SET LOCAL idle_in_transaction_session_timeout = '60s'"
)
_MANY = 20  # for more sets of values than this, the driver's executemany is faster
_BUSY = frozenset({"55P03", "40P01", "57014"})  # lock_not_available, deadlock_detected, query_canceled
_DAMAGED = frozenset({"42P01", "42703"})  # undefined_table, undefined_column
# connection failures, shutdowns, too many connections, a transaction that was idle for too long, a recovering server
_AWAY = ("08", "57P", "53300", "25P03", "25P02")


def create_engine(url: sa.URL) -> sa.Engine:
    """Create the engine of a ledger in a PostgreSQL database. Raises E424 if the driver is not installed."""
    _require_options(url)
    try:
        engine = sa.create_engine(
            url.set(drivername="postgresql+psycopg").difference_update_query(["schema"]),
            isolation_level="AUTOCOMMIT",  # `begin` begins the transactions, the driver's commit ends them
            connect_args={key: value for key, value in _CONNECT.items() if key not in url.query},
            json_serializer=written_json,
            max_overflow=-1,
        )
        dialect: Any = engine.dialect
        dialect.connect = _connect
        return engine
    except ImportError as error:
        raise ledger_errors.no_driver(url, error) from error


def _connect(*address: str, **settings: Any) -> Any:
    """Connect to a server, and check that it answers after the login. Errors have their SQLSTATE."""
    connection = connect(*address, **settings, autocommit=True)
    with limit_first_statements(connection):
        connection.execute("SELECT 1")
    return connection


def _require_options(url: sa.URL) -> None:
    try:
        from psycopg.pq import Conninfo
    except ImportError:
        return  # reported where the engine is created
    known = {option.keyword.decode() for option in Conninfo.get_defaults()} | {"schema"}
    for name in url.query:
        if name not in known:
            raise ledger_errors.unknown_option(url, name, known)


def begin(connection: sa.Connection, url: sa.URL, *, writes: bool, first: tuple[sa.Executable, Any] | None) -> Any:
    """Begin a transaction in the ledger's schema and execute its first statement, in one message to the server."""
    texts = [_WRITE if writes else _READ, f"SET LOCAL search_path = {_quote_identifier(schema_of(url))}"]
    if first is not None:
        texts.append(render_statement(connection, *first))
    return send(connection, texts, answers=first is not None)


def execute_all(connection: sa.Connection, statements: Sequence[Any], *, commits: bool = False) -> None:
    """Execute statements without results, and commit if `commits`, in one message to the server."""
    texts: list[str] = []
    for statement, values in statements:
        rows = values if isinstance(values, list) else [values]
        if len(rows) > _MANY:
            send(connection, texts)
            texts = []
            connection.execute(statement, rows)
        else:
            texts += [render_statement(connection, statement, row) for row in rows]
    send(connection, [*texts, "COMMIT"] if commits else texts)


def schema_of(url: sa.URL) -> str:
    """Return the name of the ledger's schema."""
    schema = url.query.get("schema", SCHEMA)
    return schema if isinstance(schema, str) else schema[-1]


def set_schema(url: sa.URL, schema: str) -> sa.URL:
    """Return the URL of a ledger in another schema of the same database."""
    return url.update_query_dict({"schema": schema})


class ServerClock:
    """The server's clock. Between two readings it is extrapolated by this machine's monotonic clock."""

    def __init__(self) -> None:
        self._asked = (datetime.now(UTC), time.monotonic())

    def __call__(self) -> datetime:
        """Return the current instant at the server, aware UTC."""
        at, then = self._asked
        return at + timedelta(seconds=time.monotonic() - then)

    def set(self, at: datetime) -> datetime:
        """Set the server's current time, and return it."""
        self._asked = (at, time.monotonic())
        return at


def clock() -> ServerClock:
    """Return the clock of a ledger: the server's, which all its runners share."""
    return ServerClock()


def lock_of(_url: sa.URL) -> AbstractContextManager[Any]:
    """Return a context manager that does not lock, because each thread has its own connection."""
    return nullcontext()


def exists(engine: sa.Engine, url: sa.URL) -> bool:
    """Return whether the schema exists and is not empty."""
    with engine.connect() as connection:
        asked = sa.text("SELECT EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace(:name))")
        return bool(connection.execute(asked, {"name": _quote_identifier(schema_of(url))}).scalar())


def schemas_of(engine: sa.Engine, project: str) -> list[str]:
    """Return the readable schemas that have a project's ledger which was not moved away."""
    asked = (
        "SELECT n.nspname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE c.relname = 'ledger' AND has_schema_privilege(n.oid, 'USAGE')"
        " AND has_table_privilege(c.oid, 'SELECT') AND EXISTS (SELECT FROM pg_class AS v"
        " WHERE v.relnamespace = n.oid AND v.relname = 'alembic_version') ORDER BY 1"
    )
    whose = "SELECT 1 FROM {}.ledger WHERE to_jsonb(ledger)->>'moved_to' IS NULL AND project = :project"
    with engine.connect() as connection:
        names = connection.execute(sa.text(asked)).scalars().all()
        parameters = {"project": project}
        return [
            name
            for name in names
            if connection.execute(sa.text(whose.format(_quote_identifier(name))), parameters).first()
        ]


def make_room(engine: sa.Engine, url: sa.URL) -> None:
    """Create the schema if it does not exist. It is checked first, as IF NOT EXISTS requires CREATE on the database."""
    schema = _quote_identifier(schema_of(url))
    with engine.connect() as connection:
        connection.execute(sa.text("SELECT pg_advisory_lock(hashtext('waterclock'))"))
        try:
            asked = sa.text("SELECT to_regnamespace(:name) IS NULL")
            if connection.execute(asked, {"name": schema}).scalar():
                connection.execute(sa.text(f"CREATE SCHEMA {schema}"))
        finally:
            connection.execute(sa.text("SELECT pg_advisory_unlock(hashtext('waterclock'))"))


def drop(engine: sa.Engine, schema: str) -> None:
    """Remove a schema with all of its contents."""
    with engine.connect() as connection:
        connection.execute(sa.text(f"DROP SCHEMA IF EXISTS {_quote_identifier(schema)} CASCADE"))


def install_draft(engine: sa.Engine, *, draft: str, schema: str, aside: str, replaces: bool) -> bool | None:
    """Rename the draft schema to `schema`, in one transaction. Return whether an existing one was renamed to `aside`.

    If a ledger exists and `replaces` is false, change nothing and return None.
    """
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN", execution_options={"no_parameters": True})
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext('waterclock'))"))
        asked = sa.text("SELECT to_regnamespace(:name) IS NOT NULL")
        is_there = bool(connection.execute(asked, {"name": _quote_identifier(schema)}).scalar())
        full = sa.text("SELECT EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace(:name))")
        if not replaces and connection.execute(full, {"name": _quote_identifier(schema)}).scalar():
            return None
        if is_there:
            connection.execute(
                sa.text(f"ALTER SCHEMA {_quote_identifier(schema)} RENAME TO {_quote_identifier(aside)}")
            )
        connection.execute(sa.text(f"ALTER SCHEMA {_quote_identifier(draft)} RENAME TO {_quote_identifier(schema)}"))
        connection.commit()
        return is_there


def lock_schema(connection: sa.Connection) -> None:
    """Lock the schema until the transaction ends, so that concurrent upgrades of one ledger take turns."""
    connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext('waterclock'))"))


def count_on(connection: sa.Connection) -> None:
    """Set the number of the next event above the numbers of the events that were loaded from an export."""
    connection.execute(
        sa.text("SELECT setval(pg_get_serial_sequence('events', 'id'), coalesce(max(id), 0) + 1, false) FROM events")
    )


def outcome_of(connection: sa.Connection, transaction: int) -> bool | None:
    """Return whether a transaction was committed; None while the server has not noticed the lost connection."""
    outcome = connection.execute(sa.text("SELECT txid_status(:id)"), {"id": transaction}).scalar()
    return None if outcome == "in progress" else outcome == "committed"


def failure_of(error: sa.exc.DBAPIError) -> StatementFailure:
    """Return why a statement failed."""
    state = getattr(error.orig, "sqlstate", None)
    if refused := refusal_of(state, str(error.orig)):
        return _FAILURES[refused.reason]
    if error.connection_invalidated or (state or "").startswith(_AWAY):
        return StatementFailure.AWAY
    if state is None:
        is_at_connecting = type(error.orig).__name__ in {"OperationalError", "ConnectionTimeout"}
        return StatementFailure.AWAY if is_at_connecting else StatementFailure.REFUSED
    if state in _BUSY:
        return StatementFailure.BUSY
    return StatementFailure.DAMAGED if state in _DAMAGED else StatementFailure.REFUSED


def label_text(column: str) -> str:
    """Return the SQL that formats an instant as a label, `YYYYMMDDHHmm00`."""
    return _text(column, "YYYYMMDDHH24MI00")


def time_text(column: str) -> str:
    """Return the SQL that formats an instant as `YYYY-MM-DD HH:MM:SS` in UTC."""
    return _text(column, "YYYY-MM-DD HH24:MI:SS")


def moment_text(column: str) -> str:
    """Return the SQL that formats an instant as `YYYY-MM-DD HH:MM:SS.SSS` in UTC."""
    return _text(column, "YYYY-MM-DD HH24:MI:SS.MS")


def json_text(column: str) -> str:
    """Return the SQL that returns a JSON column as its original text."""
    return f'CAST({column} AS TEXT) COLLATE "C"'


def flag(condition: str) -> str:
    """Return the SQL that converts a condition to 1 or 0."""
    return f"CAST({condition} AS INTEGER)"


def _text(column: str, form: str) -> str:
    # texts compare by their bytes, as they do in SQLite and in Spark
    return f"to_char(TIMESTAMP 'epoch' + {column} * INTERVAL '1 microsecond', '{form}') COLLATE \"C\""


def _quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
