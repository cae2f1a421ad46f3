"""The sessions of browsers that opened a one-time link: identified by a random cookie, stored as its digest.

A session is only for the peer that opened the link (`peers`), because the cookie reaches all servers of a host.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

SECONDS = 7 * 24 * 3600  # without a request
MOST = 100


@dataclass(slots=True)
class BrowserSessions:
    """Sessions in memory. One ends a week after its last request, or as the least recently used of too many."""

    clock: Callable[[], float] = time.monotonic
    _used: dict[bytes, tuple[str, float]] = field(default_factory=dict)  # least recently used first

    def begin(self, peer: str) -> str:
        """Start a session for a peer, and return the value of its cookie."""
        value = secrets.token_urlsafe(32)
        self._used[_digest(value)] = (peer, self.clock())
        while len(self._used) > MOST:
            del self._used[next(iter(self._used))]
        return value

    def has_session(self, value: str, find_peer: Callable[[], str]) -> bool:
        """Return whether a cookie belongs to a session of this peer. This counts as a use of the session.

        The peer is only looked up for the cookie of a session.
        """
        digest = _digest(value)
        peer, used = self._used.get(digest, ("", -math.inf))
        if self.clock() - used > SECONDS:
            self._used.pop(digest, None)
            return False
        if find_peer() != peer:
            return False
        del self._used[digest]
        self._used[digest] = (peer, self.clock())
        return True


def _digest(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).digest()
