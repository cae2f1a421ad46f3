"""Attempts to sign in at a provider: state, nonce and PKCE verifier of each, derived from a cookie.

The server stores nothing for an attempt, so that strangers cannot fill its memory. All three values are signatures of
the cookie's value and of the peer that started. So the state of another browser, or of another user of this machine,
is refused. An attempt is accepted once, within ten minutes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

SECONDS = 600
_MOST_USED = 100_000
_COOKIE = re.compile(r"(?P<at>[0-9]{1,12})-[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Attempt:
    """The values of one attempt: `cookie` is for the browser alone, `verifier` for the provider's token endpoint."""

    cookie: str = field(repr=False)
    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)

    @property
    def challenge(self) -> str:
        """The S256 challenge of the verifier (RFC 7636)."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


@dataclass(slots=True)
class Attempts:
    """Starts sign-in attempts, and accepts each attempt once."""

    clock: Callable[[], float] = time.time
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _used: dict[str, float] = field(default_factory=dict, repr=False)

    def start(self, peer: str) -> Attempt:
        """Start an attempt to sign in for a peer."""
        return self._build_attempt(f"{int(self.clock())}-{secrets.token_hex(16)}", peer)

    def accept(self, cookie: str, state: str, peer: str) -> Attempt | None:
        """Return the attempt of a cookie, or None if it has another state, has expired or was accepted before."""
        found, now = _COOKIE.fullmatch(cookie), self.clock()
        if found is None or not int(found["at"]) <= now < int(found["at"]) + SECONDS:
            return None
        attempt = self._build_attempt(cookie, peer)
        if not hmac.compare_digest(state.encode("utf-8", "surrogateescape"), attempt.state.encode()):
            return None
        while self._used and next(iter(self._used.values())) < now - SECONDS:
            del self._used[next(iter(self._used))]
        if cookie in self._used or len(self._used) >= _MOST_USED:
            return None
        self._used[cookie] = now
        return attempt

    def _build_attempt(self, cookie: str, peer: str) -> Attempt:
        return Attempt(cookie, *(self._sign(kind, cookie, peer) for kind in ("state", "nonce", "verifier")))

    def _sign(self, kind: str, cookie: str, peer: str) -> str:
        signed = hmac.new(self._key, f"{kind}\n{cookie}\n{peer}".encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(signed).rstrip(b"=").decode()
