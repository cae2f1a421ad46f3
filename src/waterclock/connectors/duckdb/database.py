"""Opens DuckDB database files, runs statements, finds tables, and translates errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waterclock.connectors.interface import Setting
from waterclock.connectors.sql.database_errors import (
    LONGEST_QUERY_SECONDS,
    damaged_database_file_error,
    lock_timeout_error,
    missing_database_file_error,
    missing_table_error,
    refused_statement_error,
    unwritable_database_error,
)
from waterclock.connectors.sql.logins import file_of
from waterclock.database_clients.time_limits import limit_query_time
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    import duckdb

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    # extensions are never downloaded implicitly
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # a view in a file of unknown origin could read any file of this machine, such as /proc/self/environ
    "enable_external_access": "false",
}
_PAUSE = 0.05
_IN_USE = ("Could not set lock", "Conflicting lock", "different configuration", "already open")
_DAMAGED = ("not a valid DuckDB", "Corrupt", "checksum", "older version", "newer version")


@dataclass(frozen=True, slots=True)
class DuckdbDatabase:
    """The path of a database file, and how to open it.

    While another process uses the file, opening it is retried for up to `timeout` seconds.
    """

    path: str
    timeout: float = 5.0
    may_create: bool = False

    @property
    def name(self) -> str:
        """The path, which identifies the database in messages."""
        return self.path

    @contextmanager
    def open_for_reading(self, where: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a read-only transaction. While it is open, no other process can write to the file."""
        with self._open_connection(where, writes=False) as connection:
            connection.execute("BEGIN")
            yield connection

    @contextmanager
    def open_for_writing(self, where: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a transaction for writing. It is committed only if the block ends without an error."""
        with self._open_connection(where, writes=True) as connection:
            connection.execute("BEGIN")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                _roll_back(connection)
                raise

    @contextmanager
    def _open_connection(self, where: str, *, writes: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        import duckdb

        if not Path(self.path).is_file() and not (writes and self.may_create):
            raise missing_database_file_error(self.path, where)
        try:
            connection = self._connect_with_retry(writes=writes)
            limit = nullcontext() if writes else limit_query_time(LONGEST_QUERY_SECONDS, connection.interrupt)
            with closing(connection), limit:
                yield connection
        except TimeoutError as error:
            raise refused_statement_error(where, f"{self.path}: {error}") from error
        except duckdb.Error as error:
            raise translate_error(error, self.path, where) from error

    def _connect_with_retry(self, *, writes: bool) -> duckdb.DuckDBPyConnection:
        """Open the file; if another process uses it, retry until the timeout."""
        import duckdb
        from tenacity import Retrying, retry_if_exception, retry_if_exception_type, stop_after_delay, wait_fixed

        waiting = Retrying(
            retry=retry_if_exception_type((duckdb.IOException, duckdb.ConnectionException))
            & retry_if_exception(_is_file_in_use),
            wait=wait_fixed(_PAUSE),
            stop=stop_after_delay(self.timeout),
            reraise=True,
        )
        connection = waiting(duckdb.connect, self.path, read_only=not writes, config=_CONFIG)
        connection.execute("SET TimeZone = 'UTC'")
        return connection


def database_of(setting: Setting) -> DuckdbDatabase:
    """Build the database of a connection. A relative path is below the project's folder. Raises E803 without a path."""
    path, timeout, may_create = file_of(setting, "duckdb")
    return DuckdbDatabase(path, timeout, may_create)


def rows_of(
    connection: duckdb.DuckDBPyConnection, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()
) -> list[Any]:
    """Run a statement and return its complete result, as an unfinished result would block the next statement."""
    return connection.execute(sql, values or None).fetchall()


def first_of(
    connection: duckdb.DuckDBPyConnection, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()
) -> tuple[Any, ...] | None:
    """Run a statement and return the first row of its result, or None if there are no rows."""
    return next(iter(rows_of(connection, sql, values)), None)


def require_table(connection: duckdb.DuckDBPyConnection, unit: Unit) -> None:
    """Raise E804, with similar names, if the unit's table does not exist."""
    if unit.query is not None or kind_at(connection, unit):
        return
    rows = rows_of(
        connection,
        "SELECT CASE WHEN table_schema = 'main' THEN table_name ELSE table_schema || '.' || table_name END"
        " FROM information_schema.tables WHERE table_catalog = current_database() ORDER BY 1",
    )
    known = [str(row[0]) for row in rows if not str(row[0]).startswith("waterclock_")]
    raise missing_table_error(unit, known)


def kind_at(connection: duckdb.DuckDBPyConnection, unit: Unit) -> str:
    """Return `table` or `view`, the kind of object with the unit's name; empty if the name is free."""
    schema, _, name = unit.path.rpartition(".")
    row = first_of(
        connection,
        "SELECT table_type FROM information_schema.tables WHERE table_catalog = current_database()"
        " AND lower(table_schema) = lower(?) AND lower(table_name) = lower(?)",
        (schema or "main", name),
    )
    return ("view" if row[0] == "VIEW" else "table") if row else ""


def translate_error(error: duckdb.Error, path: str, where: str) -> WaterclockError:
    """Convert an error of DuckDB to a Waterclock error, which is `transient` if waiting can help."""
    import duckdb

    text = " ".join(str(error).split())
    if _is_file_in_use(error) or isinstance(error, duckdb.TransactionException):
        return lock_timeout_error(where, f"{path}: {text}", by="process")
    if isinstance(error, duckdb.IOException) and any(word in text for word in _DAMAGED):
        return damaged_database_file_error(path, where, text)
    if "disabled by configuration" in text:
        fix = "collect that file by a connection of TYPE files, or store its rows in a table of the database"
        return refused_statement_error(where, f"{path}: a view or a query reads another file or database: {text}", fix)
    if isinstance(error, duckdb.IOException | duckdb.PermissionException | duckdb.OutOfMemoryException):
        fix = "free disk space, or allow writing to the file and its folder"
        return unwritable_database_error(where, f"{path}: {text}", "the database cannot be read or written", fix)
    return refused_statement_error(where, f"{path}: {text}")


def _is_file_in_use(error: BaseException) -> bool:
    return any(word in str(error) for word in _IN_USE)


def _roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    import duckdb

    try:
        connection.execute("ROLLBACK")
    except duckdb.Error:  # it was rolled back when the statement failed
        return
