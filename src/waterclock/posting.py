"""Posts JSON to web addresses, and computes the delays before retries.

Error messages contain no address and no secret.
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
"""How long one sender owns the pending messages. If it dies, another sends them again after that time."""
_SECONDS = 5.0
_FIRST, _LONGEST = timedelta(seconds=30), timedelta(minutes=10)


_REFUSALS = frozenset({400, 413, 422})  # rejections of the content itself, whichever client sends it and whenever


class NotDelivered(Exception):
    """The reason why a message did not reach its target, without addresses or secrets.

    `is_refused`: the target answered, and rejects this message.
    """

    def __init__(self, why: str, *, is_refused: bool = False) -> None:
        super().__init__(why)
        self.is_refused = is_refused


def post(address: str, token: str | None, body: Mapping[str, Any]) -> None:
    """Post an object as JSON, with the token as a bearer token if there is one. Redirects are not followed.

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
    """Return the delay before the next attempt after `attempts` failures: from half a minute to ten minutes."""
    return min(_FIRST * int(2 ** min(attempts, 10)), _LONGEST)


class _NoRedirects(HTTPRedirectHandler):
    """Rejects redirects, which could send the token to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return None, so that the response is treated as an error."""
        return


def _reason(error: Exception) -> str:
    """Return a short reason without the address, which may contain a secret."""
    cause = getattr(error, "reason", error)
    if isinstance(cause, TimeoutError):
        return "it did not answer in time"
    text = getattr(cause, "strerror", None)
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__
