"""Reads one HTTP response completely, within a limit of unpacked bytes and a limit of time."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from waterclock.connectors.rest.answers import Response

if TYPE_CHECKING:
    import httpx2

MOST_BYTES_OF_REFUSAL = 1 << 20
"""The limit of a response that is not 2xx: the part beyond it is not read, as only its first words are reported."""
_SLOW = 20  # the limit for a complete response, as a multiple of the timeout for one piece of it
_ENCODINGS = frozenset({"", "identity", "gzip", "x-gzip", "deflate"})
"""A piece packed by one of these is at most a thousand times as large unpacked; other encodings have no limit."""


class Passing(Exception):
    """A failed attempt that may succeed later: the reason, its code, and how long the server asks to wait."""

    def __init__(self, code: str, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.code = code
        self.why = why
        self.after = after


class TooBig(Exception):
    """The response exceeds its limit in memory: a retry would not make it smaller."""


def receive(
    stream: AbstractContextManager[httpx2.Response], *, most: int, timeout: float, hide: Callable[[str], str]
) -> Response:
    """Send a request and return its response. A long response to a refused request is truncated.

    `timeout` is the one of the client, in seconds, for one piece of the response.

    Raises  TooBig for more than `most` bytes; Passing if no complete response arrives in time
    """
    import httpx2

    seconds = timeout * _SLOW
    until = time.monotonic() + seconds
    try:
        with stream as response:
            encoding = response.headers.get("content-encoding", "").strip().lower()
            if encoding not in _ENCODINGS:
                raise Passing("E842", f"the response is encoded as {encoding[:40]!r}, which was not requested")
            bound = most if response.is_success else min(most, MOST_BYTES_OF_REFUSAL)
            content = bytearray()
            for piece in response.iter_bytes():
                content += piece
                if len(content) > bound:
                    if response.is_success:
                        raise TooBig
                    break
                if time.monotonic() > until:
                    raise Passing("E841", f"the response was incomplete after {seconds:.0f} seconds")
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Response(response.status_code, headers, bytes(content[:bound]))
    except httpx2.ConnectError as error:
        raise Passing("E840", hide(str(error)) or "no connection") from None
    except httpx2.TimeoutException:
        raise Passing("E841", f"no response within {timeout:g} seconds") from None
    except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError, httpx2.DecodingError) as error:
        raise Passing("E842", f"the connection ended before the response was complete: {hide(str(error))}") from None
    except httpx2.HTTPError as error:
        raise Passing("E840", hide(str(error)) or type(error).__name__) from None
