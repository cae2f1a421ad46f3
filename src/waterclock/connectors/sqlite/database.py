"""Opens SQLite database files, describes columns, and translates errors."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from waterclock.connectors.column_matching import SourceColumn
from waterclock.connectors.interface import Setting
from waterclock.errors import WaterclockError, did_you_mean
from waterclock.flow.declarations import Unit


@dataclass(frozen=True, slots=True)
class SqliteFile:
    """The path of a database file and how to open it."""

    path: str
    timeout: float = 5.0
    may_create: bool = False

    @contextmanager
    def open_for_reading(self, where: str) -> Iterator[sqlite3.Connection]:
        """Open a read transaction. All reads see one moment."""
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

    @contextmanager
    def _open_connection(self, mode: str, where: str) -> Iterator[sqlite3.Connection]:
        if not Path(self.path).is_file() and mode != "rwc":
            raise WaterclockError(
                "E810",
                "the database is not there",
                where=where,
                why=f"there is no file {self.path}",
                fix="mend the connection's path, or bring the file back; nothing was changed",
            )
        with self._translate_errors(where):
            uri = f"{Path(self.path).absolute().as_uri()}?mode={mode}"
            connection = sqlite3.connect(uri, uri=True, timeout=self.timeout, isolation_level=None)
            try:
                yield connection
            finally:
                connection.close()

    @contextmanager
    def _translate_errors(self, where: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise translate_error(error, self.path, where) from error


def database_of(setting: Setting) -> SqliteFile:
    """Return the connection's database; a relative path is below the project's folder.

    Raises  E803 without a path
    """
    path = setting.options.get("path")
    if not path:
        raise WaterclockError(
            "E803",
            f"the connection {setting.name} has no path",
            where=setting.name,
            why="a connection of type sqlite is a database file",
            fix=f"connections.{setting.name} = {{ path = 'data/{setting.name}.sqlite' }} in waterclock.toml",
        )
    return SqliteFile(
        path=str(setting.folder / str(path)),
        timeout=float(str(setting.options.get("timeout", 5))),
        may_create=bool(setting.options.get("create", False)),
    )


def quote_identifier(name: str) -> str:
    """Return a name as a quoted SQL identifier, whatever characters it contains."""
    return '"' + name.replace('"', '""') + '"'


def table_of(unit: Unit) -> str:
    """Return the unit's table as a quoted SQL identifier: `"planes"` or `"main"."planes"`."""
    return ".".join(quote_identifier(part) for part in unit.path.split("."))


def source_of(unit: Unit) -> str:
    """Return the FROM item of the unit: its table, or its query in parentheses."""
    return f"({_query(unit)})" if unit.query is not None else table_of(unit)


def describe(connection: sqlite3.Connection, unit: Unit) -> list[SourceColumn]:
    """Return the columns of a table or query with their Spark types.

    Raises  E804 for a table that does not exist, with the nearest names
    """
    if unit.query is not None:
        name = "_waterclock_query"
        connection.execute(f"CREATE TEMP VIEW {name} AS {_query(unit)}")
        rows = connection.execute(f"PRAGMA temp.table_xinfo({name})").fetchall()
        connection.execute(f"DROP VIEW temp.{name}")
    else:
        *schema, table = unit.path.split(".")
        prefix = f"{quote_identifier(schema[0])}." if schema else ""
        rows = connection.execute(f"PRAGMA {prefix}table_xinfo({quote_identifier(table)})").fetchall()
        if not rows:
            raise _no_table(connection, unit)
    return [SourceColumn(row[1], spark_type(row[2])) for row in rows if row[6] != 1]


def spark_type(declared: str) -> str | None:
    """Return the Spark type for a column's declared type, by SQLite's affinity rules; None if no type is declared.

    SQLite has no types for dates, times, booleans and decimals. They are recognized by their usual names.
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
    """Build the error for a refusal by SQLite; it is `transient` if waiting can help."""
    name = getattr(error, "sqlite_errorname", "") or ""
    text = str(error)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return WaterclockError(
            "E811",
            "the database is locked",
            where=where,
            why=f"another process holds {path} ({text}); nothing was changed",
            fix="it is tried again; end the other process, or give the connection a longer timeout",
            transient=True,
        )
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return WaterclockError(
            "E810", "the database cannot be opened", where=where, why=f"{path}: {text}", fix="mend or restore the file"
        )
    if name.startswith(("SQLITE_FULL", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_IOERR")):
        return WaterclockError(
            "E821",
            "the database cannot be written",
            where=where,
            why=f"{path}: {text}; the transaction was undone",
            fix="free some space, or give the right to write to the file and its folder; then run again",
        )
    return WaterclockError(
        "E813",
        "the database refuses",
        where=where,
        why=f"{path}: {text}",
        fix="mend the query, or the table in the database",
    )


def _query(unit: Unit) -> str:
    return (unit.query or "").strip().rstrip(";")


def _no_table(connection: sqlite3.Connection, unit: Unit) -> WaterclockError:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
    known = sorted(str(row[0]) for row in rows if not str(row[0]).startswith(("sqlite_", "waterclock_")))
    return WaterclockError(
        "E804",
        f"there is no table {unit.path}",
        where=str(unit),
        why=f"the database holds {', '.join(known)}" if known else "the database holds no tables",
        fix=did_you_mean(unit.path, known, otherwise="mend the name, or bring the table back"),
    )
