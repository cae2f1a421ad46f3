"""Opens the ledger of another project for reading: nothing is written to it, and no file is created next to it.

A file without a writer is opened as immutable. Otherwise SQLite would create files next to it, owned by the reading
user. Each call opens the file again; if it changed during the read, the read is repeated.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from waterclock.ledger.store.backend import parse_url, translate_database_errors
from waterclock.ledger.store.database import NEWEST_SCHEMA, LedgerDatabase

R = TypeVar("R")
_MOST_TRIES = 50
_BUSY_SECONDS = 60.0
_MOST_SECONDS = 300.0  # for all statements of a connection
_STEPS = 1_000_000  # of SQLite's virtual machine, between two checks of the clock
VIEWS = ("batches", "inputs", "events", "measures", "measured_spans")


@dataclass(frozen=True, slots=True)
class OlderSchema(Exception):
    """A ledger last written by older code, which only its own project may upgrade."""

    found: str | None
    known: str = NEWEST_SCHEMA


def read_ledger(url: str, ask: Callable[[LedgerDatabase], R]) -> R | None:
    """Open a ledger read-only, call `ask` with it and return the result; None if there is no ledger.

    `ask` is called again if a writer changed the file meanwhile. Raises OlderSchema, E402 for a newer schema, E415.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() != "sqlite":
        return _query_and_close(LedgerDatabase(parsed), ask)
    path = Path(str(parsed.database))
    for _ in range(_MOST_TRIES):
        try:
            before = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not before.st_size:
            return None
        is_still = not _has_writer(path)
        answer = _query_and_close(_open_read_only(parsed, path, is_still=is_still), ask)
        after = path.stat()
        if not is_still or (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size):
            return answer
    return _query_and_close(_open_read_only(parsed, path, is_still=False), ask)


def _has_writer(path: Path) -> bool:
    """Return whether a process has the file open, or was stopped during a write and left its log behind."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size > 0
    except FileNotFoundError:
        return False


def _open_read_only(url: sa.URL, path: Path, *, is_still: bool) -> LedgerDatabase:
    database = LedgerDatabase(url)
    at = f"file:{quote(str(path))}?mode=ro{'&immutable=1' if is_still else ''}"

    def connect() -> sqlite3.Connection:
        # as in `sqlite.create_engine`: this code begins the transactions
        made = sqlite3.connect(at, uri=True, isolation_level=None, timeout=_BUSY_SECONDS, check_same_thread=False)
        end = time.monotonic() + _MOST_SECONDS
        made.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
        try:
            require_no_code(made)
        except BaseException:
            made.close()
            raise
        return made

    database.use(sa.create_engine("sqlite://", creator=connect, poolclass=NullPool))
    return database


def require_no_code(connection: sqlite3.Connection) -> None:
    """Raise an error for a file with triggers or unknown views, whose code queries would execute."""
    found = connection.execute(
        "SELECT type, name FROM sqlite_schema WHERE type = 'trigger'"
        f" OR (type = 'view' AND name NOT IN ({', '.join('?' * len(VIEWS))}))",
        [f"waterclock_{name}" for name in VIEWS],
    ).fetchone()
    if found is not None:
        raise sqlite3.DatabaseError(f"{found[0]} {found[1]} is not part of a ledger")


def _query_and_close(database: LedgerDatabase, ask: Callable[[LedgerDatabase], R]) -> R | None:
    try:
        with translate_database_errors(database.url):
            if not database.exists():
                return None
            found = database.read_schema_version()
        if found != NEWEST_SCHEMA:
            raise OlderSchema(found)
        return ask(database)
    finally:
        database.close()
