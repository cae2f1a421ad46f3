"""Manages the OAuth token of a client, which is cached in memory until it expires, and never written to disk."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

_EARLY = 30.0  # seconds: a token that expires during the request is refused
_LIFE = 3600.0


class Tokens:
    """The token of one client, shared by all threads: one thread requests it while the others wait."""

    def __init__(self, fetch: Callable[[], bytes]) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        self._token = ""
        self._until = 0.0

    def get(self) -> str:
        """Return a token that remains valid for some time; request a new one if necessary.

        Raises ValueError for a response without a token, and the errors of the function that requests it.
        """
        with self._lock:
            if not self._token or time.monotonic() >= self._until:
                self._token, seconds = _parse_token(self._fetch())
                self._until = time.monotonic() + max(seconds - _EARLY, seconds / 2)
            return self._token

    def drop(self, token: str) -> None:
        """Discard a token that was refused, unless another thread already has a new one."""
        with self._lock:
            if self._token == token:
                self._token = ""

    @property
    def current(self) -> str:
        """The current token, which must be hidden in messages."""
        return self._token


def _parse_token(content: bytes) -> tuple[str, float]:
    try:
        answer: Any = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("the response is not JSON") from None  # it may contain a token
    if not isinstance(answer, Mapping) or not isinstance(answer.get("access_token"), str) or not answer["access_token"]:
        raise ValueError("the response has no access_token")
    token: str = answer["access_token"]
    if not token.isascii() or not token.isprintable():
        raise ValueError("the access_token has characters that are not allowed in a header")
    return token, _parse_lifetime(answer.get("expires_in"))


def _parse_lifetime(expires_in: Any) -> float:
    try:
        seconds = float(expires_in)
    except (TypeError, ValueError, OverflowError):
        return _LIFE
    return seconds if math.isfinite(seconds) else _LIFE
