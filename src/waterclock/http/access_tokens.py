"""Checks the tokens of callers: their minimum length, a comparison in constant time, and a delay for wrong ones."""

from __future__ import annotations

import asyncio
import hmac
import os
from dataclasses import dataclass

from waterclock.errors import WaterclockError

MIN_LENGTH = 20
METRICS_TOKEN = "WATERCLOCK_METRICS_TOKEN"  # noqa: S105 - the name of the variable
_SECONDS = 1.0
_MOST_SLOWED = 32


def require_length(token: str, named: str, *, where: str | None = None) -> str:
    """Return the token if it has at least 20 characters. Raises E923 for a shorter one."""
    if len(token) >= MIN_LENGTH:
        return token
    raise WaterclockError(
        "E923",
        f"{named} has {len(token)} characters",
        where=where,
        why=f"a token has {MIN_LENGTH} or more, so that no caller can guess it",
        fix="make one: python3 -c 'import secrets; print(secrets.token_urlsafe(24))'",
    )


def token_of_environment(name: str) -> str | None:
    """Return the token in an environment variable; None if it is not set. Raises E923 for a short one."""
    token = os.environ.get(name)
    return require_length(token, name) if token else None


def is_same(sent: str, token: str) -> bool:
    """Compare two tokens in constant time."""
    return hmac.compare_digest(sent.encode("utf-8", "surrogateescape"), token.encode())


def bearer_of(authorization: str) -> str | None:
    """Return the token of an `Authorization: Bearer` header; None for any other header."""
    kind, _, sent = authorization.partition(" ")
    return sent.strip() if kind.lower() == "bearer" else None


@dataclass(slots=True)
class WrongTokens:
    """Counts wrong tokens, and delays the responses to them. Right tokens are never delayed.

    At most `most` responses are delayed at the same time, so that guesses cannot exhaust the server. Further ones are
    answered immediately with 429.
    """

    seconds: float = _SECONDS
    most: int = _MOST_SLOWED
    count: int = 0
    _slowed: int = 0

    async def delay(self) -> bool:
        """Count a wrong token and delay its response; return False at once if too many are delayed already."""
        self.count += 1
        if self._slowed >= self.most:
            return False
        self._slowed += 1
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self._slowed -= 1
        return True
