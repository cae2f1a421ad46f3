"""The SQLite backend: opens and locks a ledger's file, and formats instants in SQL.

WAL lets readers continue while one writer writes. With `synchronous=NORMAL` a power cut may lose the newest
transactions, but never the file; the lost data is recovered from the commit records. A writing transaction begins
IMMEDIATE, so that it waits for its turn at its start and never fails half-way.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from waterclock.ledger.store.failure import StatementFailure
from waterclock.ledger.store.texts import written_json
from waterclock.permissions.ownership import create_private_file, make_private_folder

NOW = TRANSACTION = "NULL"
_BUSY_MILLISECONDS = 60_000
_DAMAGED = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT})
_DAMAGED_WORDS = ("no such table", "no such column", "malformed", "Could not decode")


def create_engine(url: sa.URL) -> sa.Engine:
    """Create the engine of a ledger in a SQLite file. In memory, it uses a single connection."""
    arguments: dict[str, Any] = {"json_serializer": written_json}
    if is_in_memory(url):
        arguments |= {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
    else:
        arguments |= {"max_overflow": -1}
    engine = sa.create_engine(url, **arguments)
    sa.event.listen(engine, "connect", _prepare)
    return engine


def begin(connection: sa.Connection, _url: sa.URL, *, writes: bool, first: tuple[sa.Executable, Any] | None) -> Any:
    """Begin a transaction, which the driver does not do by itself. A writing one waits here for its turn."""
    statement = "BEGIN IMMEDIATE" if writes else "BEGIN"
    driver: Any = connection.connection.dbapi_connection
    try:
        # called on the driver directly: a listener of SQLAlchemy would slow down every statement
        driver.execute(statement)
    except sqlite3.Error as error:
        raise sa.exc.OperationalError(statement, None, error) from error
    return None if first is None else connection.execute(*first).first()


def execute_all(connection: sa.Connection, statements: Sequence[Any], *, commits: bool = False) -> None:
    """Execute statements one after the other; a file needs no batching."""
    del commits
    for statement, values in statements:
        connection.execute(statement, values)


def lock_of(url: sa.URL) -> AbstractContextManager[Any]:
    """Return the lock by which threads take turns. Only a ledger in memory needs it: it has a single connection."""
    return threading.RLock() if is_in_memory(url) else nullcontext()


def clock() -> Callable[[], datetime]:
    """Return the clock of this machine, on which all runners of the ledger run."""
    return _system_clock


def _system_clock() -> datetime:
    return datetime.now(UTC)


def exists(_engine: sa.Engine, url: sa.URL) -> bool:
    """Return whether the file exists and is not empty; False for a ledger in memory."""
    if is_in_memory(url):
        return False
    path = Path(str(url.database))
    return path.exists() and path.stat().st_size > 0


def make_room(_engine: sa.Engine, url: sa.URL) -> None:
    """Create a new ledger's file and folder, unreadable for other users. SQLite's other files get the same mode."""
    if is_in_memory(url):
        return
    path = Path(str(url.database))
    make_private_folder(path.parent)
    with suppress(FileExistsError):
        os.close(create_private_file(path))


def is_in_memory(url: sa.URL) -> bool:
    """Return whether the ledger is in memory, and is lost when its engine is closed."""
    return url.database in {None, "", ":memory:"}


def lock_schema(_connection: sa.Connection) -> None:
    """Do nothing: concurrent upgrades of one ledger take turns, as all writers do."""


def count_on(_connection: sa.Connection) -> None:
    """Do nothing: SQLite already gives a new event a number above all existing ones."""


def outcome_of(_connection: sa.Connection, _transaction: int) -> bool | None:
    """Return False; never called, since a file's connection does not break during a commit."""
    return False


def failure_of(error: sa.exc.DBAPIError) -> StatementFailure:
    """Return why a statement failed."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return StatementFailure.BUSY
    is_short = code == sqlite3.SQLITE_IOERR_SHORT_READ
    if is_short or primary in _DAMAGED or any(word in str(error.orig) for word in _DAMAGED_WORDS):
        return StatementFailure.DAMAGED
    return StatementFailure.REFUSED


def label_text(column: str) -> str:
    """Return the SQL that formats an instant as a label, `YYYYMMDDHHmm00`."""
    return f"strftime('%Y%m%d%H%M00', {column} / 1000000, 'unixepoch')"


def time_text(column: str) -> str:
    """Return the SQL that formats an instant as `YYYY-MM-DD HH:MM:SS` in UTC."""
    return f"strftime('%Y-%m-%d %H:%M:%S', {column} / 1000000, 'unixepoch')"


def moment_text(column: str) -> str:
    """Return the SQL that formats an instant as `YYYY-MM-DD HH:MM:SS.SSS` in UTC."""
    return f"strftime('%Y-%m-%d %H:%M:%f', {column} / 1000000.0, 'unixepoch')"


def json_text(column: str) -> str:
    """Return the SQL that returns a JSON column as its original text."""
    return f"CAST({column} AS TEXT)"


def flag(condition: str) -> str:
    """Return the SQL that converts a condition to 1 or 0."""
    return condition


def _prepare(connection: Any, _record: object) -> None:
    # Python's driver would begin transactions by itself, and not around every statement; `begin` does.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
    _begin_wal(cursor)
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.close()


def _begin_wal(cursor: sqlite3.Cursor) -> None:
    """Set the file's journal mode to WAL, with retries: SQLite does not wait here if others open a new ledger too."""
    statement = "PRAGMA journal_mode = WAL"
    try:
        cursor.execute(statement)
    except sqlite3.OperationalError as error:
        if not _is_locked(error):
            raise
        from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random

        waiting = Retrying(
            retry=retry_if_exception(_is_locked),
            wait=wait_random(0.02, 0.1),
            stop=stop_after_delay(_BUSY_MILLISECONDS / 1000),
            reraise=True,
        )
        waiting(cursor.execute, statement)


def _is_locked(error: BaseException) -> bool:
    """Return whether another process has a lock. All extended error codes for this have the same low byte."""
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
