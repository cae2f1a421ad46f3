"""Posts JSON to addresses of the web, and says when what was lost is tried again.

No address and no secret is in what is told of a failure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

LEASE = timedelta(minutes=2)
"""How long one sender has what waits to itself: where it dies, another sends it once more after that."""
_SECONDS = 5.0
_FIRST, _LONGEST = timedelta(seconds=30), timedelta(minutes=10)


_REFUSALS = frozenset({400, 413, 422})  # of what was sent, whoever sends it and whenever


class NotDelivered(Exception):
    """Why a message did not reach its target; never with an address or a secret in it.

    `is_refused`: the target answered, and does not take this message.
    """

    def __init__(self, why: str, *, is_refused: bool = False) -> None:
        super().__init__(why)
        self.is_refused = is_refused


def post(address: str, token: str | None, body: Mapping[str, Any]) -> None:
    """Post an object as JSON, with the token as a bearer's where there is one; a redirection is not followed.

    Raises  NotDelivered
    """
    headers = {"Content-Type": "application/json", "User-Agent": "waterclock"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    try:
        request = Request(address, json.dumps(body).encode(), headers, method="POST")  # noqa: S310
        with build_opener(_NoRedirects()).open(request, timeout=_SECONDS) as answer:
            answer.read(1024)
    except HTTPError as error:
        error.close()
        raise NotDelivered(f"it answered {error.code}", is_refused=error.code in _REFUSALS) from None
    except (OSError, HTTPException, ValueError) as error:
        raise NotDelivered(_reason(error)) from None


def wait_after(attempts: int) -> timedelta:
    """Return how long what did not answer after so many lost attempts is left alone: from half a minute to ten."""
    return min(_FIRST * int(2 ** min(attempts, 10)), _LONGEST)


class _NoRedirects(HTTPRedirectHandler):
    """Follows none: the token would go where nobody said."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow nothing; the answer is an error then."""
        return


def _reason(error: Exception) -> str:
    """Say in a few words why, without the address: it may hold a secret."""
    cause = getattr(error, "reason", error)
    if isinstance(cause, TimeoutError):
        return "it did not answer in time"
    text = getattr(cause, "strerror", None)
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__
