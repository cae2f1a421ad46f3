"""Reads one HTTP response completely, within a limit of unpacked bytes and a limit of time.

A timeout of the client applies to each read from the connection, and a server can send a byte before each one ends. So
each read and write also gets no more than the time that remains for the complete response.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from waterclock.connectors.rest.answers import Response

if TYPE_CHECKING:
    import httpx2

MOST_BYTES_OF_REFUSAL = 1 << 20
"""The limit of a response that is not 2xx: the part beyond it is not read, as only its first words are reported."""
_SLOW = 20  # the limit for a complete response, as a multiple of the timeout for one piece of it
_ENCODINGS = frozenset({"", "identity", "gzip", "x-gzip", "deflate"})
"""A piece packed by one of these is at most a thousand times as large unpacked; other encodings have no limit."""

_OPENED = ("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")
_WRITTEN_AT_ONCE = 64 * 1024
_until: ContextVar[float] = ContextVar("_until", default=math.inf)
"""When the time is over for the response that this thread reads, on the monotonic clock."""


class Passing(Exception):
    """A failed attempt that may succeed later: the reason, its code, and how long the server asks to wait."""

    def __init__(self, code: str, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.code = code
        self.why = why
        self.after = after


class TooBig(Exception):
    """The response exceeds its limit in memory: a retry would not make it smaller."""


class _Late(Exception):
    """The response was not complete in time."""


def receive(
    client: httpx2.Client, request: httpx2.Request, *, most: int, timeout: float, hide: Callable[[str], str]
) -> Response:
    """Send a request and return its response. A long response to a refused request is truncated.

    `timeout` is the one of the client, in seconds, for one piece of the response.

    Raises  TooBig for more than `most` bytes; Passing if no complete response arrives in time
    """
    import httpx2

    seconds = timeout * _SLOW
    until = time.monotonic() + seconds
    request.extensions["trace"] = _limit_connection
    token = _until.set(until)
    try:
        with closing(client.send(request, stream=True)) as response:
            return _read(response, most, until)
    except _Late:
        raise Passing("E841", f"the response was incomplete after {seconds:.0f} seconds") from None
    except httpx2.ConnectError as error:
        raise Passing("E840", hide(str(error)) or "no connection") from None
    except httpx2.TimeoutException:
        if time.monotonic() >= until:
            raise Passing("E841", f"the response was incomplete after {seconds:.0f} seconds") from None
        raise Passing("E841", f"no response within {timeout:g} seconds") from None
    except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError, httpx2.DecodingError) as error:
        raise Passing("E842", f"the connection ended before the response was complete: {hide(str(error))}") from None
    except httpx2.HTTPError as error:
        raise Passing("E840", hide(str(error)) or type(error).__name__) from None
    finally:
        _until.reset(token)


def _read(response: httpx2.Response, most: int, until: float) -> Response:
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
            raise _Late
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Response(response.status_code, headers, bytes(content[:bound]))


def _limit_connection(event: str, facts: Mapping[str, Any]) -> None:
    """Limit the reads and writes of a connection that httpx2 has just opened, for all requests that will use it.

    httpx2 calls it at each event of a request. A request that reuses a connection has no event that names it.
    """
    if not event.endswith(_OPENED):
        return
    import httpcore2

    stream = facts["return_value"]
    read, write = stream.read, stream.write

    def read_in_time(size: int, timeout: float | None = None) -> Any:
        return read(size, timeout=_shorten(timeout, httpcore2.ReadTimeout))

    def write_in_time(content: bytes, timeout: float | None = None) -> None:
        view = memoryview(content)
        for begin in range(0, len(view), _WRITTEN_AT_ONCE):
            write(view[begin : begin + _WRITTEN_AT_ONCE], timeout=_shorten(timeout, httpcore2.WriteTimeout))

    stream.read, stream.write = read_in_time, write_in_time


def _shorten(timeout: float | None, late: type[Exception]) -> float | None:
    remaining = _until.get() - time.monotonic()
    if remaining <= 0:
        raise late("the time for the response is over")
    return timeout if remaining == math.inf else min(remaining, math.inf if timeout is None else timeout)
