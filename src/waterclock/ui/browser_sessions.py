"""Stores the sessions of browsers. A random cookie identifies a session; only the digest of the cookie is stored.

Sessions are in the memory of the server and not in the ledger, so they work before the first run. A restart ends all of
them. A session is valid only for the peer that began it (see `peers`), because a browser sends the cookie to all
servers of a host.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from waterclock.permissions.users_and_roles import AttributeClaim, AttributeValue, SignIn

SECONDS = 7 * 24 * 3600  # without a request, after which a session ends
LONGEST_SECONDS = 30 * 24 * 3600
MOST, MOST_OF_ONE = 1000, 20


@dataclass(frozen=True, slots=True)
class Credential:
    """The sign-in of a browser: as the owner, with an access token (`digest`), or at a provider.

    `issuer` names the provider, `user`, `groups` and `claims` are from its ID token at that time.
    """

    sign_in: SignIn = SignIn.OWNER
    digest: str = ""
    issuer: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()
    claims: tuple[tuple[AttributeClaim, AttributeValue], ...] = field(default=(), repr=False)

    @property
    def identity(self) -> tuple[SignIn, str, str, str]:
        """The person who signed in, without groups and claims, which may be others at the next sign-in."""
        return self.sign_in, self.digest, self.issuer, self.user


@dataclass(slots=True)
class Session:
    """One session. `begun` and `used` are the start and the last request in seconds of a monotonic clock."""

    number: int
    credential: Credential
    begun: float
    used: float
    began_at: datetime
    who: str = ""
    address: str = ""
    agent: str = ""
    peer: str = ""


@dataclass(slots=True)
class BrowserSessions:
    """The current sessions of browsers.

    A session ends a week after its last request, or 30 days after its start. The least recently used one ends if there
    are more than MOST in all, or more than MOST_OF_ONE of the same owner, token or user, who can thus end no other's.
    """

    clock: Callable[[], float] = time.monotonic
    _sessions: dict[bytes, Session] = field(default_factory=dict)  # least recently used first
    _last: int = 0

    def begin(
        self, credential: Credential, *, who: str = "", address: str = "", agent: str = "", peer: str = ""
    ) -> str:
        """Start a session for a peer, and return the value of its cookie."""
        value, now = secrets.token_urlsafe(32), self.clock()
        self._last += 1
        self._sessions[_digest(value)] = Session(
            self._last, credential, now, now, datetime.now(UTC), who, address, agent, peer
        )
        own = [digest for digest, each in self._sessions.items() if each.credential.identity == credential.identity]
        for ended in own[:-MOST_OF_ONE]:
            del self._sessions[ended]
        while len(self._sessions) > MOST:
            del self._sessions[next(iter(self._sessions))]
        return value

    def find(self, value: str, find_peer: Callable[[], str]) -> Session | None:
        """Return the session of a cookie if the same peer began it, or None. This counts as a request of the session.

        `find_peer` is called only if the cookie belongs to a session.
        """
        digest = _digest(value)
        found = self._sessions.get(digest)
        if found is None:
            return None
        if self._has_ended(found):
            del self._sessions[digest]
            return None
        if find_peer() != found.peer:
            return None
        del self._sessions[digest]
        found.used = self.clock()
        self._sessions[digest] = found
        return found

    def end(self, value: str) -> None:
        """End the session of a cookie, if there is one."""
        self._sessions.pop(_digest(value), None)

    def current(self) -> tuple[Session, ...]:
        """Return the sessions that have not ended, the least recently used first."""
        return tuple(each for each in self._sessions.values() if not self._has_ended(each))

    def idle_seconds(self, session: Session) -> float:
        """Return the time since the last request of a session."""
        return round(self.clock() - session.used, 1)

    def revoke(self, numbers: set[int] | None = None) -> int:
        """End the sessions with these numbers, or all; return how many ended."""
        ended = [key for key, each in self._sessions.items() if numbers is None or each.number in numbers]
        for key in ended:
            del self._sessions[key]
        return len(ended)

    def _has_ended(self, session: Session) -> bool:
        now = self.clock()
        return now - session.used > SECONDS or now - session.begun > LONGEST_SECONDS


def _digest(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).digest()
