"""A token of OAuth client credentials: had when it is needed, kept until it runs out, never written anywhere."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

_EARLY = 30.0  # seconds: a token that runs out on the way is refused
_LIFE = 3600.0


class Tokens:
    """The token of one client, shared by all threads: one of them asks, the others wait for its answer."""

    def __init__(self, fetch: Callable[[], bytes]) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        self._token = ""
        self._until = 0.0

    def get(self) -> str:
        """Return a token that is still good for a while.

        Raises  ValueError for an answer without a token; what `fetch` raises
        """
        with self._lock:
            if not self._token or time.monotonic() >= self._until:
                self._token, seconds = _token_in(self._fetch())
                self._until = time.monotonic() + max(seconds - _EARLY, seconds / 2)
            return self._token

    def drop(self, token: str) -> None:
        """Forget a token that was refused, unless another thread has a new one already."""
        with self._lock:
            if self._token == token:
                self._token = ""

    @property
    def current(self) -> str:
        """The token that is held now, to be kept out of what is told."""
        return self._token


def _token_in(content: bytes) -> tuple[str, float]:
    try:
        told: Any = json.loads(content)
    except ValueError:
        raise ValueError("the answer is no JSON") from None  # it may hold a token
    if not isinstance(told, Mapping) or not isinstance(told.get("access_token"), str) or not told["access_token"]:
        raise ValueError("the answer has no access_token")
    seconds = told.get("expires_in")
    try:
        return told["access_token"], float(seconds) if seconds is not None else _LIFE
    except (TypeError, ValueError):
        return told["access_token"], _LIFE
