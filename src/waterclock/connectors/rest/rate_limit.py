"""Keeps requests within the rate limit of an API, across all threads and processes of a machine.

A SQLite file stores the times of recent requests. With a limit of `count` requests per period, a request waits until
the `count`-th request before it is older than the period. So no period exceeds the limit, wherever it begins. All
processes that use the file share the limit. The file is on a local disk, as SQLite's locks need one, so each machine
has a limit of its own. A pause that the server requests applies to all processes.

pyrate-limiter (4.5) has buckets in SQLite, and was tried. It polls instead of reserving a time, so requests are in no
order. Between processes it needs a separate lock file, which its own source describes as fit for one thread each. It
has no shared pause, and if the clock is set back, all requests wait until the old time is reached again.
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

from waterclock.permissions.ownership import cache_folder, make_private_folder, require_private_folder

_LONGEST_LOCK = 60.0
_CREATE = """
CREATE TABLE IF NOT EXISTS granted (at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS granted_at ON granted (at);
CREATE TABLE IF NOT EXISTS paused (until REAL NOT NULL);
"""


class RateLimiter:
    """Determines when a request may be sent. This base class has no rate limit: a request is sent at once."""

    __slots__ = ()

    def reserve(self) -> float:
        """Reserve a time for one request. Return the seconds to wait before it is sent."""
        return 0.0

    def pause(self, seconds: float) -> None:
        """Do nothing: without a rate limit, a wait that the server requests applies to one request only."""


@dataclass(frozen=True, slots=True)
class SharedRateLimiter(RateLimiter):
    """A limit of `count` requests in any `period` seconds, for all processes that use the same file."""

    file: Path
    count: int
    period: float
    clock: Callable[[], float] = time.time

    def reserve(self) -> float:
        """Reserve a time for one request, in one transaction. Return the seconds to wait before it is sent.

        A reservation that is not used still counts.
        """
        with closing(self._open()) as database, database:
            database.execute("BEGIN IMMEDIATE")
            now = self.clock()
            # otherwise, after the clock was set back, all requests would wait until the old time is reached again
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
        """Delay all requests that have no reserved time yet."""
        with closing(self._open()) as database, database:
            database.execute("INSERT INTO paused VALUES (?)", (self.clock() + seconds,))

    def _open(self) -> sqlite3.Connection:
        make_private_folder(self.file.parent)
        database = sqlite3.connect(self.file, timeout=_LONGEST_LOCK, isolation_level=None)
        try:
            database.execute("PRAGMA synchronous = OFF")  # after a power loss, earlier requests may be forgotten
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'paused'").fetchone():
                database.executescript(_CREATE)
        except BaseException:
            database.close()
            raise
        return database


def rate_limiter_of(url: str, credential: str, rate: tuple[int, float] | None) -> RateLimiter:
    """Return the rate limiter of an API.

    Its file is shared by this user's processes with the same url and credential.
    """
    if rate is None:
        return RateLimiter()
    name = hashlib.sha256(f"{url}\n{credential}".encode()).hexdigest()[:24]
    return SharedRateLimiter(_rates_folder() / f"{name}.db", *rate)


def _rates_folder() -> Path:
    """Return the folder of the rate limiters' files: in the user's cache, or else in the temporary folder.

    Raises E931 if the folder is not private to this user.
    """
    why = "it stores the times of requests, and another user could replace its files"
    try:
        return require_private_folder(cache_folder() / "rates", why=why, fix="remove it")
    except (OSError, RuntimeError):  # the home folder is read-only or missing
        folder = Path(tempfile.gettempdir()) / f"waterclock-rates-{os.geteuid()}"
        return require_private_folder(folder, why=why, fix="ask its owner to remove it, or set XDG_CACHE_HOME")
