"""Posts JSON to web addresses, and computes the delays before retries.

Error messages contain no address and no secret.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from waterclock.http.client import HttpFailure, NoResponse, ResponseTooLargeError, send_once

LEASE = timedelta(minutes=2)
"""The time for which one sender owns the pending messages. If it dies, another one sends them after that time."""
_SECONDS, _SECONDS_IN_TOTAL = 5.0, 10.0
_MOST_BYTES = 1 << 20
_FIRST, _LONGEST = timedelta(seconds=30), timedelta(minutes=10)


_REFUSALS = frozenset({400, 413, 422})  # rejections of the content, which a retry cannot change


class NotDelivered(Exception):
    """Raised if a message did not arrive. Its text contains no secrets.

    `is_refused`: the receiver rejects the content of this message, so a retry is useless.
    """

    def __init__(self, why: str, *, is_refused: bool = False) -> None:
        super().__init__(why)
        self.is_refused = is_refused


def post(address: str, token: str | None, body: Mapping[str, Any]) -> None:
    """Post an object as JSON, with the token if there is one. Redirects are not followed. Raises NotDelivered."""
    headers = {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    content = json.dumps(body).encode()
    try:
        answer = send_once(
            "POST",
            address,
            most=_MOST_BYTES,
            timeout=_SECONDS,
            seconds=_SECONDS_IN_TOTAL,
            headers=headers,
            content=content,
        )
    except ResponseTooLargeError:
        return  # a success, whatever it contains
    except NoResponse as error:
        raise NotDelivered("it did not answer in time" if error.kind is HttpFailure.LATE else error.why) from None
    if not 200 <= answer.status < 300:
        raise NotDelivered(f"it answered {answer.status}", is_refused=answer.status in _REFUSALS)


def retry_delay(attempts: int) -> timedelta:
    """Return the delay before the next attempt after `attempts` failures: half a minute to ten minutes."""
    return min(_FIRST * int(2 ** min(attempts, 10)), _LONGEST)
