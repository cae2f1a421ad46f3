"""Opens DuckDB database files, runs statements, finds tables, and translates errors."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waterclock.connectors.interface import Setting
from waterclock.connectors.sql.delivery_record import DeliveryRecord
from waterclock.errors import WaterclockError, did_you_mean
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    import duckdb

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    # extensions are never downloaded implicitly
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_PAUSE = 0.05
_HELD = ("Could not set lock", "Conflicting lock", "different configuration", "already open")
_DAMAGED = ("not a valid DuckDB", "Corrupt", "checksum", "older version", "newer version")


@dataclass(frozen=True, slots=True)
class DuckdbDatabase:
    """The path of a database file and how to open it. While another process uses the file, opening it waits."""

    path: str
    timeout: float = 5.0
    may_create: bool = False

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
                _undo(connection)
                raise

    @contextmanager
    def _open_connection(self, where: str, *, writes: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        import duckdb

        if not Path(self.path).is_file() and not (writes and self.may_create):
            raise WaterclockError(
                "E810",
                "the database is not there",
                where=where,
                why=f"there is no file {self.path}",
                fix="mend the connection's path, or bring the file back; nothing was changed",
            )
        try:
            connection = self._connect_with_retry(writes=writes)
            try:
                yield connection
            finally:
                connection.close()
        except duckdb.Error as error:
            raise translate_error(error, self.path, where) from error

    def _connect_with_retry(self, *, writes: bool) -> duckdb.DuckDBPyConnection:
        """Open the file; if another process uses it, retry until the timeout."""
        import duckdb

        end = time.monotonic() + self.timeout
        while True:
            try:
                connection = duckdb.connect(self.path, read_only=not writes, config=_CONFIG)
            except (duckdb.IOException, duckdb.ConnectionException) as error:
                if not _is_held(error) or time.monotonic() >= end:
                    raise
                time.sleep(_PAUSE)
            else:
                connection.execute("SET TimeZone = 'UTC'")
                return connection


def database_of(setting: Setting) -> DuckdbDatabase:
    """Return the connection's database; a relative path is below the project's folder.

    Raises  E803 without a path
    """
    path = setting.options.get("path")
    if not path:
        raise WaterclockError(
            "E803",
            f"the connection {setting.name} has no path",
            where=setting.name,
            why="a connection of type duckdb is a database file",
            fix=f"connections.{setting.name} = {{ path = 'data/{setting.name}.duckdb' }} in waterclock.toml",
        )
    return DuckdbDatabase(
        path=str(setting.folder / str(path)),
        timeout=float(str(setting.options.get("timeout", 5))),
        may_create=bool(setting.options.get("create", False)),
    )


def rows_of(
    connection: duckdb.DuckDBPyConnection, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()
) -> list[Any]:
    """Run a statement and return its complete result; an unfinished result would block the next statement."""
    return connection.execute(sql, values or None).fetchall()


def first_of(
    connection: duckdb.DuckDBPyConnection, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()
) -> tuple[Any, ...] | None:
    """Run a statement and return the first row of its result, or None if there are no rows."""
    return next(iter(rows_of(connection, sql, values)), None)


@dataclass(frozen=True, slots=True)
class DuckdbResult:
    """The complete result of a statement."""

    rows: list[Any]

    def fetchone(self) -> Any:
        """Return the first row, or None if there are no rows."""
        return self.rows[0] if self.rows else None

    def fetchall(self) -> list[Any]:
        """Return all rows."""
        return self.rows


def record_in(connection: duckdb.DuckDBPyConnection) -> DeliveryRecord:
    """Return the record of deliveries of the database."""
    return DeliveryRecord(lambda sql, values: DuckdbResult(rows_of(connection, sql, values)), "?")


def quote_identifier(name: str) -> str:
    """Return a name as a quoted SQL identifier, whatever characters it contains."""
    return '"' + name.replace('"', '""') + '"'


def table_of(unit: Unit) -> str:
    """Return the unit's table as a quoted SQL identifier: `"planes"` or `"main"."planes"`."""
    return ".".join(quote_identifier(part) for part in unit.path.split("."))


def source_of(unit: Unit) -> str:
    """Return the FROM item of the unit: its table, or its query in parentheses."""
    if unit.query is None:
        return table_of(unit)
    return f"({unit.query.strip().rstrip(';')}\n) AS waterclock_query"


def require_table(connection: duckdb.DuckDBPyConnection, unit: Unit) -> None:
    """Refuse a table that does not exist. Raises  E804, with the nearest names."""
    if unit.query is not None or kind_at(connection, unit):
        return
    rows = rows_of(
        connection,
        "SELECT CASE WHEN table_schema = 'main' THEN table_name ELSE table_schema || '.' || table_name END"
        " FROM information_schema.tables WHERE table_catalog = current_database() ORDER BY 1",
    )
    known = [str(row[0]) for row in rows if not str(row[0]).startswith("waterclock_")]
    raise WaterclockError(
        "E804",
        f"there is no table {unit.path}",
        where=str(unit),
        why=f"the database holds {', '.join(known)}" if known else "the database holds no tables",
        fix=did_you_mean(unit.path, known, otherwise="mend the name, or bring the table back"),
    )


def kind_at(connection: duckdb.DuckDBPyConnection, unit: Unit) -> str:
    """Return `table` or `view`, or an empty text if the name is free."""
    schema, _, name = unit.path.rpartition(".")
    row = first_of(
        connection,
        "SELECT table_type FROM information_schema.tables WHERE table_catalog = current_database()"
        " AND lower(table_schema) = lower(?) AND lower(table_name) = lower(?)",
        (schema or "main", name),
    )
    return ("view" if row[0] == "VIEW" else "table") if row else ""


def translate_error(error: duckdb.Error, path: str, where: str) -> WaterclockError:
    """Build the error for a refusal by DuckDB; it is `transient` if waiting can help."""
    import duckdb

    text = " ".join(str(error).split())
    if _is_held(error) or isinstance(error, duckdb.TransactionException):
        return WaterclockError(
            "E811",
            "the database is locked",
            where=where,
            why=f"{path}: {text}; nothing was changed",
            fix="it is tried again; end the other process, or give the connection a longer timeout",
            transient=True,
        )
    if isinstance(error, duckdb.IOException) and any(word in text for word in _DAMAGED):
        return WaterclockError(
            "E810", "the database cannot be opened", where=where, why=f"{path}: {text}", fix="mend or restore the file"
        )
    if isinstance(error, duckdb.IOException | duckdb.PermissionException | duckdb.OutOfMemoryException):
        return WaterclockError(
            "E821",
            "the database cannot be read or written",
            where=where,
            why=f"{path}: {text}; the transaction was undone",
            fix="free some space, or give the right to the file and its folder; then run again",
        )
    return WaterclockError(
        "E813",
        "the database refuses",
        where=where,
        why=f"{path}: {text}",
        fix="mend the query, or the table in the database",
    )


def _is_held(error: Exception) -> bool:
    return any(word in str(error) for word in _HELD)


def _undo(connection: duckdb.DuckDBPyConnection) -> None:
    import duckdb

    try:
        connection.execute("ROLLBACK")
    except duckdb.Error:  # it was rolled back when the statement failed
        return
