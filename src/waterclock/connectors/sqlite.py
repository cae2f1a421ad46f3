"""The connection type `sqlite`: tables and queries of a SQLite database.

Connection      `path`: the database file.
Unit            a table or view by name, or a query.
Data time       `WHERE t >= s AND t < e`, in one read transaction. Times may be text of ISO 8601 (`2013-01-01 05:00:00`,
                with `T`, `Z`, an offset or a fraction, or a date alone) or numbers since 1970, in any mixture.
Snapshot        All rows, in one read transaction.
Publish         See `sqlite_delivery`.
Types           Those that are declared; else those of the database's columns by its rules of affinity; else text.

A result of up to 50,000 rows is handed to Spark as it is; a bigger one is read by a Python worker of Spark in batches,
in one transaction too. `partitions n` reads a table in n parts by ranges of its rowid, side by side; they agree that
they saw one state of the database, or the batch is tried again.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.connectors.columns import Found, match
from waterclock.connectors.interface import Collected, Deliverer, Setting, WindowRequest
from waterclock.errors import WaterclockError, did_you_mean
from waterclock.flow.capabilities import Capabilities, Option
from waterclock.flow.choices import Batching, Mode
from waterclock.flow.declarations import Columns, Unit

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

    from waterclock.connectors.values import Times

CAPABILITIES = Capabilities(
    type="sqlite",
    connection_options={
        "path": Option(is_required=True, help="the database file"),
        "timeout": Option("number", help="seconds to wait while the database is locked; 5"),
        "create": Option("flag", help="whether publishing makes the database file where there is none; false"),
    },
    collect_options={
        "epoch": Option(choices=("seconds", "milliseconds", "microseconds"), help="what numeric times count; seconds"),
        "partitions": Option("number", help="in how many parts a big table is read side by side; 1"),
    },
    publish_options={
        "adopt": Option("flag", help="whether a table that holds rows already, not published by us, is taken; false"),
    },
    collects=frozenset({Batching.DATA_TIME, Batching.SNAPSHOT}),
    publishes=frozenset({Mode.APPEND, Mode.REPLACE, Mode.MERGE}),
    takes_query=True,
)


@dataclass(frozen=True, slots=True)
class SqliteConnector:
    """Opens database files."""

    capabilities: Capabilities = CAPABILITIES

    def collector(self, setting: Setting) -> SqliteCollector:
        """Open a database to read."""
        return SqliteCollector(database_of(setting))

    def deliverer(self, setting: Setting) -> Deliverer:
        """Open a database to write."""
        from waterclock.connectors.sqlite_delivery import SqliteDeliverer

        return SqliteDeliverer(database_of(setting))


CONNECTOR = SqliteConnector()


@dataclass(frozen=True, slots=True)
class Database:
    """A database file and how to open it."""

    path: str
    timeout: float = 5.0
    may_create: bool = False

    @contextmanager
    def reading(self, where: str) -> Iterator[sqlite3.Connection]:
        """Open for reading, in one read transaction: all that is read is of one moment."""
        with self._opened("ro", where) as connection:
            connection.execute("BEGIN")
            yield connection

    @contextmanager
    def writing(self, where: str) -> Iterator[sqlite3.Connection]:
        """Open for writing, in one transaction that is kept only if the block ends well."""
        with self._opened("rwc" if self.may_create else "rw", where) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _opened(self, mode: str, where: str) -> Iterator[sqlite3.Connection]:
        if not Path(self.path).is_file() and mode != "rwc":
            raise WaterclockError(
                "E810",
                "the database is not there",
                where=where,
                why=f"there is no file {self.path}",
                fix="mend the connection's path, or bring the file back; nothing was changed",
            )
        with self._telling(where):
            uri = f"{Path(self.path).absolute().as_uri()}?mode={mode}"
            connection = sqlite3.connect(uri, uri=True, timeout=self.timeout, isolation_level=None)
            try:
                yield connection
            finally:
                connection.close()

    @contextmanager
    def _telling(self, where: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise told(error, self.path, where) from error


@dataclass(frozen=True, slots=True)
class SqliteCollector:
    """Collects from a database file."""

    database: Database

    def clock(self, unit: Unit) -> None:
        """A database file has no clock but the machine's."""

    def schema(self, unit: Unit) -> Mapping[str, str] | None:
        """Columns of the table or query, with Spark types by SQLite's rules of affinity."""
        with self.database.reading(str(unit)) as connection:
            return {found.name: found.type or "STRING" for found in describe(connection, unit)}

    def explain(self, unit: Unit, columns: Columns, error: BaseException) -> WaterclockError | None:
        """Bring back the error that a Python worker of Spark met."""
        from waterclock.connectors.extract import carried

        del unit, columns
        return carried(error)

    def read_windows(
        self, spark: SparkSession, unit: Unit, request: WindowRequest, columns: Columns, zone: str
    ) -> Collected:
        """Read the rows of the windows; those whose time is NULL or cannot be read are counted."""
        from waterclock.connectors.extract import Extract, WindowFilter, collected

        with self.database.reading(str(unit)) as connection:
            found = describe(connection, unit)
            matched = match(columns, found, where=str(unit))
            by_window = WindowFilter(_spelled(request.time_column, found, unit), tuple(request.windows))
            extract = Extract(self.database, str(unit), source_of(unit), matched.taken, _times(unit, zone), by_window)
            return collected(spark, connection, extract, matched.left_out, partitions=_partitions(unit))

    def read_snapshot(
        self,
        spark: SparkSession,
        unit: Unit,
        columns: Columns,
        zone: str,
        *,
        now: datetime | None = None,  # noqa: ARG002 - a live table only says what it holds
    ) -> Collected:
        """Read all rows, as of one moment."""
        from waterclock.connectors.extract import Extract, collected

        with self.database.reading(str(unit)) as connection:
            matched = match(columns, describe(connection, unit), where=str(unit))
            extract = Extract(self.database, str(unit), source_of(unit), matched.taken, _times(unit, zone))
            return collected(spark, connection, extract, matched.left_out, partitions=_partitions(unit))


def database_of(setting: Setting) -> Database:
    """Give the connection's database; a relative path is below the project's folder. E803 without a path."""
    path = setting.options.get("path")
    if not path:
        raise WaterclockError(
            "E803",
            f"the connection {setting.name} has no path",
            where=setting.name,
            why="a connection of type sqlite is a database file",
            fix=f"connections.{setting.name} = {{ path = 'data/{setting.name}.sqlite' }} in waterclock.toml",
        )
    return Database(
        path=str(setting.folder / str(path)),
        timeout=float(str(setting.options.get("timeout", 5))),
        may_create=bool(setting.options.get("create", False)),
    )


def quoted(name: str) -> str:
    """Give a name as SQL takes it, whatever signs it holds."""
    return '"' + name.replace('"', '""') + '"'


def table_of(unit: Unit) -> str:
    """Give the unit's table as SQL takes it: `"planes"` or `"main"."planes"`."""
    return ".".join(quoted(part) for part in unit.path.split("."))


def source_of(unit: Unit) -> str:
    """Give what stands after FROM."""
    return f"({_query(unit)})" if unit.query is not None else table_of(unit)


def describe(connection: sqlite3.Connection, unit: Unit) -> list[Found]:
    """List the columns of a table or query with their Spark types.

    Raises  E804 for a table that is not there, with the nearest names
    """
    if unit.query is not None:
        name = "_waterclock_query"
        connection.execute(f"CREATE TEMP VIEW {name} AS {_query(unit)}")
        rows = connection.execute(f"PRAGMA temp.table_xinfo({name})").fetchall()
        connection.execute(f"DROP VIEW temp.{name}")
    else:
        *schema, table = unit.path.split(".")
        prefix = f"{quoted(schema[0])}." if schema else ""
        rows = connection.execute(f"PRAGMA {prefix}table_xinfo({quoted(table)})").fetchall()
        if not rows:
            raise _no_table(connection, unit)
    return [Found(row[1], spark_type(row[2])) for row in rows if row[6] != 1]


def spark_type(declared: str) -> str | None:
    """Give the Spark type for a column's declared type, by SQLite's rules of affinity; None where none is declared.

    Dates and times, booleans and decimals, which SQLite has no types for, are taken by their usual names.
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


def told(error: sqlite3.Error, path: str, where: str) -> WaterclockError:
    """Say in our words what SQLite refuses; `transient` where waiting can help."""
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


def _spelled(time_column: str, found: list[Found], unit: Unit) -> str:
    for column in found:
        if column.name.lower() == time_column.lower():
            return column.name
    known = [column.name for column in found]
    raise WaterclockError(
        "E805",
        f"{unit} has no column {time_column}",
        where=str(unit),
        why=f"BY DATA TIME {time_column} decides the window of each row; it has {', '.join(known)}",
        fix=did_you_mean(time_column, known, otherwise="name the column that holds the rows' own time"),
    )


def _times(unit: Unit, zone: str) -> Times:
    from waterclock.connectors.values import Times

    return Times(zone, str(unit.options.get("epoch", "seconds")))


def _partitions(unit: Unit) -> int:
    return max(1, int(str(unit.options.get("partitions", 1))))
