"""Looks up access tokens in the ledger, and caches valid ones for some seconds."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from waterclock.batches.access import AccessToken
from waterclock.ledger.ledger import Ledger

SECONDS = 5.0
"""For how long a token is cached: a revocation takes effect within this time."""
_MOST_TOKENS = 1000


@dataclass(slots=True)
class AccessTokenCache:
    """A cache of the valid access tokens in a ledger. May be used by many threads."""

    ledger: Callable[[], Ledger | None]
    _tokens: OrderedDict[str, tuple[AccessToken, float]] = field(default_factory=OrderedDict)

    def find(self, digest: str) -> AccessToken | None:
        """Return the valid token with a digest, or None. Raises E415 to E425 if the ledger does not answer."""
        known = self._tokens.get(digest)
        if known is not None and time.monotonic() < known[1]:
            return known[0]
        self._tokens.pop(digest, None)
        ledger = self.ledger()
        token = None if ledger is None else ledger.access.find_token(digest)
        if token is not None:
            self._tokens[digest] = token, time.monotonic() + SECONDS
            while len(self._tokens) > _MOST_TOKENS:
                with suppress(KeyError):
                    self._tokens.popitem(last=False)
        return token
