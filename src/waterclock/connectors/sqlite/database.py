"""Opens SQLite database files, describes columns, and translates errors."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from waterclock.connectors.interface import Setting
from waterclock.connectors.sql.columns import SqlColumn
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
from waterclock.connectors.sqlite.dialect import quote_identifier
from waterclock.database_clients.time_limits import limit_query_time
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit


@dataclass(frozen=True, slots=True)
class SqliteFile:
    """The path of a database file, and how to open it."""

    path: str
    timeout: float = 5.0
    may_create: bool = False

    @contextmanager
    def open_for_reading(self, where: str) -> Iterator[sqlite3.Connection]:
        """Open a read transaction. All reads see the same state of the database."""
        with self._open_connection("ro", where) as connection:
            connection.execute("BEGIN")
            yield connection

    @contextmanager
    def open_for_writing(self, where: str) -> Iterator[sqlite3.Connection]:
        """Open a transaction for writing. It is committed only if the block ends without an error."""
        with self._open_connection("rwc" if self.may_create else "rw", where) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def compact(self, where: str) -> None:
        """Write the file anew, without its free pages, in which deleted rows stay.

        Raises E811 (transient) if another process uses the file for longer than the timeout.
        """
        with self._open_connection("rw", where) as connection:
            connection.execute("VACUUM")
            is_busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if is_busy:
            raise lock_timeout_error(where, f"another process reads {self.path}", by="process")

    @contextmanager
    def _open_connection(self, mode: str, where: str) -> Iterator[sqlite3.Connection]:
        if not Path(self.path).is_file() and mode != "rwc":
            raise missing_database_file_error(self.path, where)
        with self._translate_errors(where):
            uri = f"{Path(self.path).absolute().as_uri()}?mode={mode}"
            connection = sqlite3.connect(uri, uri=True, timeout=self.timeout, isolation_level=None)
            limit = limit_query_time(LONGEST_QUERY_SECONDS, connection.interrupt) if mode == "ro" else nullcontext()
            with closing(connection), limit:
                yield connection

    @contextmanager
    def _translate_errors(self, where: str) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise refused_statement_error(where, f"{self.path}: {error}") from error
        except sqlite3.Error as error:
            raise translate_error(error, self.path, where) from error


def database_of(setting: Setting) -> SqliteFile:
    """Build the database of a connection. A relative path is below the project's folder. Raises E803 without a path."""
    path, timeout, may_create = file_of(setting, "sqlite")
    return SqliteFile(path, timeout, may_create)


def describe(connection: sqlite3.Connection, unit: Unit) -> list[SqlColumn]:
    """Return the columns of a table or query with their Spark types. Raises E804 for a table that does not exist."""
    if unit.query is not None:
        name = "_waterclock_query"
        connection.execute(f"CREATE TEMP VIEW {name} AS {unit.query.strip().rstrip(';')}")
        rows = connection.execute(f"PRAGMA temp.table_xinfo({name})").fetchall()
        connection.execute(f"DROP VIEW temp.{name}")
    else:
        prefix, table = split_table_name(unit)
        rows = connection.execute(f"PRAGMA {prefix}table_xinfo({quote_identifier(table)})").fetchall()
        if not rows:
            raise missing_table_error(unit, _tables_in(connection))
    return [SqlColumn(row[1], row[2], spark_type(row[2])) for row in rows if row[6] != 1]


def split_table_name(unit: Unit) -> tuple[str, str]:
    """Return the unit's schema as an SQL prefix, which is empty if there is none, and the table's name."""
    *schema, name = unit.path.split(".")
    return (f"{quote_identifier(schema[0])}." if schema else "", name)


def spark_type(declared: str) -> str | None:
    """Return the Spark type for a declared column type, by SQLite's affinity rules; None if no type is declared.

    SQLite has no types for dates, times, booleans and decimals, so these are recognized by their usual names.
    """
    text = declared.upper()
    if decimal := re.search(r"(?:DECIMAL|NUMERIC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", text):
        return f"DECIMAL({min(int(decimal[1]), 38)},{int(decimal[2] or 0)})"
    for words, found in _AFFINITIES:
        if any(word in text for word in words):
            return found
    return "DOUBLE" if text else None


_AFFINITIES = (
    (("BOOL",), "BOOLEAN"),
    (("TIMESTAMP", "DATETIME"), "TIMESTAMP"),
    (("DATE",), "DATE"),
    (("INT",), "BIGINT"),
    (("CHAR", "CLOB", "TEXT", "STRING", "JSON", "UUID", "TIME"), "STRING"),
    (("BLOB",), "BINARY"),
)


def translate_error(error: sqlite3.Error, path: str, where: str) -> WaterclockError:
    """Convert an error of SQLite to a Waterclock error, which is `transient` if waiting can help."""
    name = getattr(error, "sqlite_errorname", "") or ""
    text = str(error)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return lock_timeout_error(where, f"another process holds {path} ({text})", by="process")
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return damaged_database_file_error(path, where, text)
    if name.startswith(("SQLITE_FULL", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_IOERR")):
        fix = "free disk space, or allow writing to the file and its folder"
        return unwritable_database_error(where, f"{path}: {text}", "the database cannot be written", fix)
    return refused_statement_error(where, f"{path}: {text}")


def _tables_in(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
    return sorted(str(row[0]) for row in rows if not str(row[0]).startswith(("sqlite_", "waterclock_")))
