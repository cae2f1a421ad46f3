"""Keeps requests within the rate that an API allows, over all threads and processes of a machine.

A SQLite file keeps when each of the last requests was let go, and one waits until the request as many before it as the
rate allows is older than its period. So in no period, wherever it begins, are there more requests than the rate says:
guaranteed for all that share the file, which is on this machine's disk (SQLite's locks hold between its processes);
runners on other machines count for themselves. A pause that the server asked for holds all of them.

pyrate-limiter (4.5) has buckets in SQLite, and was tried. There a place is asked for again and again and not drawn
once, so nobody is in turn; between processes it needs a lock file beside, which its own source calls fit for one thread
each; it has no pause that is shared, and a clock that was put back holds all until it has caught up.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from waterclock.ownership import cache_folder, make_private_folder, require_private_folder

_LONGEST_LOCK = 60.0
_CREATE = """
CREATE TABLE IF NOT EXISTS granted (at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS granted_at ON granted (at);
CREATE TABLE IF NOT EXISTS paused (until REAL NOT NULL);
"""


class Pace(Protocol):
    """When a request may go."""

    def reserve(self) -> float:
        """Take a place for one request; gives the seconds to wait before it goes."""
        ...

    def pause(self, seconds: float) -> None:
        """Let nothing go for so long, because the server asked for it."""
        ...


class NoPace:
    """No rate is known: requests go at once."""

    def reserve(self) -> float:
        """No wait."""
        return 0.0

    def pause(self, seconds: float) -> None:
        """Whoever was asked to wait does so itself."""


@dataclass(frozen=True, slots=True)
class SharedPace:
    """`count` requests in any `period` seconds, of all that name the same file."""

    file: Path
    count: int
    period: float
    clock: Callable[[], float] = time.time

    def reserve(self) -> float:
        """Take a place, in one transaction; a place that is not used is lost."""
        with closing(self._open()) as database, database:
            database.execute("BEGIN IMMEDIATE")
            now = self.clock()
            # a clock that was put back would hold everybody until it has caught up
            database.execute("DELETE FROM granted WHERE at > ?", (now + 100 * self.period,))
            (until,) = database.execute("SELECT coalesce(max(until), 0) FROM paused WHERE until > ?", (now,)).fetchone()
            found = database.execute(
                "SELECT at FROM granted ORDER BY at DESC LIMIT 1 OFFSET ?", (self.count - 1,)
            ).fetchone()
            newest = database.execute("SELECT coalesce(max(at), 0) FROM granted").fetchone()[0]
            at = max(now, until, found[0] + self.period if found else 0.0, min(newest, now + 100 * self.period))
            database.execute("INSERT INTO granted VALUES (?)", (at,))
            database.execute("DELETE FROM granted WHERE at < ?", (now - 2 * self.period,))
            database.execute("DELETE FROM paused WHERE until <= ?", (now,))
        return float(max(0.0, at - now))

    def pause(self, seconds: float) -> None:
        """Hold all requests that have no place yet."""
        with closing(self._open()) as database, database:
            database.execute("INSERT INTO paused VALUES (?)", (self.clock() + seconds,))

    def _open(self) -> sqlite3.Connection:
        make_private_folder(self.file.parent)
        database = sqlite3.connect(self.file, timeout=_LONGEST_LOCK, isolation_level=None)
        database.execute("PRAGMA synchronous = OFF")  # after a loss of power nobody knows of requests before it
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'paused'").fetchone():
            database.executescript(_CREATE)
        return database


def pace_of(url: str, credential: str, rate: tuple[int, float] | None) -> Pace:
    """Return the pace of an API, kept for each user of this machine by its url and who asks there."""
    if rate is None:
        return NoPace()
    name = hashlib.sha256(f"{url}\n{credential}".encode()).hexdigest()[:24]
    return SharedPace(_folder() / f"{name}.db", *rate)


def _folder() -> Path:
    """Return the folder of the user's rates: in their cache, or in that for passing files where the cache is read-only.

    Raises  E931 where another user has taken its name
    """
    why = "it holds when requests were sent, and another user could exchange its files"
    try:
        return require_private_folder(cache_folder() / "rates", why=why, fix="remove it")
    except (OSError, RuntimeError):  # a read-only home, or none
        folder = Path(tempfile.gettempdir()) / f"waterclock-rates-{os.geteuid()}"
        return require_private_folder(folder, why=why, fix="have its owner remove it, or set XDG_CACHE_HOME")
