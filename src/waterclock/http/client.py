"""Sends HTTP requests, and reads each response completely, with a limit of time and of uncompressed bytes.

Redirects are not followed, because they would pass the credentials to another address. A client's timeout applies to
each read from the connection, so a server that sends single bytes could delay a response without end. So each read and
write gets no more than the time that remains for the complete response.
"""

from __future__ import annotations

import logging
import math
import ssl
import time
from collections.abc import Mapping
from contextlib import closing
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from typing import TYPE_CHECKING, Any

from waterclock.database_clients.time_limits import call_in_time

if TYPE_CHECKING:
    import httpx2

MOST_BYTES_OF_REFUSAL = 1 << 20
"""The limit of a response that is not 2xx. The remainder is not read, since only its first words are reported."""
_SLOW = 20  # the limit for a complete response, as a multiple of the timeout for one piece of it
_ENCODINGS = frozenset({"", "identity", "gzip", "x-gzip", "deflate"})
"""These encodings expand data at most a thousandfold; other encodings have no limit."""

_OPENED = ("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")
_WRITTEN_AT_ONCE = 64 * 1024
_deadline: ContextVar[float] = ContextVar("_deadline", default=math.inf)
"""The deadline of the response that this thread reads, on the monotonic clock."""


class HttpFailure(Enum):
    """The kinds of failure to get a complete response."""

    NO_CONNECTION = auto()
    LATE = auto()
    CUT_OFF = auto()


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A complete response; the names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class NoResponse(Exception):
    """Raised if no complete response arrives.

    `certificate` is the reason why the server's certificate was refused, if that is the cause.
    """

    def __init__(self, kind: HttpFailure, why: str, certificate: str = "") -> None:
        super().__init__(why)
        self.kind = kind
        self.why = why
        self.certificate = certificate


class ResponseTooLargeError(Exception):
    """Raised if a response body exceeds its byte limit. A retry would not make it smaller."""


class _ResponseTooLate(Exception):
    """Raised if the response was not complete in time."""


def client_of(
    *, timeout: float, headers: Mapping[str, str] | None = None, trusted: ssl.SSLContext | None = None
) -> httpx2.Client:
    """Create a client for `receive`. `timeout` (seconds) limits one read; `trusted` replaces the system's CAs."""
    import httpx2

    # the libraries log complete addresses, which may contain keys
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    logging.getLogger("httpcore2").setLevel(logging.WARNING)
    all_headers = httpx2.Headers({"User-Agent": "waterclock", **(headers or {})})
    all_headers["Accept-Encoding"] = "gzip, deflate"  # others have no known limit
    return httpx2.Client(
        timeout=timeout,
        headers=all_headers,
        verify=_system_certificates() if trusted is None else trusted,
        follow_redirects=False,
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=32),
    )


@cache
def _system_certificates() -> ssl.SSLContext:
    import httpx2

    return httpx2.create_ssl_context()  # takes 25 ms


def send_once(  # noqa: PLR0913 - two by place, the others by name
    method: str,
    address: str,
    *,
    most: int,
    timeout: float,
    seconds: float | None = None,
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
    trusted: ssl.SSLContext | None = None,
) -> HttpResponse:
    """Send one request over a new connection, and return the response. Raises ResponseTooLargeError or NoResponse.

    The limits are those of `receive`. Here `seconds` also limits the connection, which resolves the name of the host
    and tries all its addresses.
    """
    import httpx2

    seconds = timeout * _SLOW if seconds is None else seconds
    try:
        client = client_of(timeout=timeout, headers=headers, trusted=trusted)
        request = client.build_request(method, address, content=content)
    except (httpx2.InvalidURL, ValueError) as error:  # its text may quote a secret in the address or in a header
        why = f"the address or a header is invalid: {type(error).__name__}"
        raise NoResponse(HttpFailure.NO_CONNECTION, why) from None

    def send() -> HttpResponse:
        with client:
            return receive(client, request, most=most, timeout=timeout, seconds=seconds)

    try:
        return call_in_time(seconds, send)
    except TimeoutError:  # if the connection is opened later, `receive` writes nothing to it
        raise _late_response(seconds) from None


def receive(
    client: httpx2.Client, request: httpx2.Request, *, most: int, timeout: float, seconds: float | None = None
) -> HttpResponse:
    """Send a request and return its response. A long response whose status is not 2xx is truncated.

    `timeout` is the client's timeout in seconds for one piece of the response. `seconds` is the limit for the complete
    response, by default twenty times as long. Raises ResponseTooLargeError for more than `most`
    bytes, and NoResponse if no complete response arrives in time.
    """
    import httpx2

    seconds = timeout * _SLOW if seconds is None else seconds
    until = time.monotonic() + seconds
    request.extensions["trace"] = _limit_connection
    token = _deadline.set(until)
    try:
        with closing(client.send(request, stream=True)) as response:
            return _read(response, most, until)
    except _ResponseTooLate:
        raise _late_response(seconds) from None
    except httpx2.ConnectError as error:
        raise NoResponse(
            HttpFailure.NO_CONNECTION, str(error) or "no connection", _certificate_problem(error)
        ) from None
    except httpx2.TimeoutException:
        if time.monotonic() >= until:
            raise _late_response(seconds) from None
        raise NoResponse(HttpFailure.LATE, f"no response within {timeout:g} seconds") from None
    except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError, httpx2.DecodingError) as error:
        why = f"the connection ended before the response was complete: {error}"
        raise NoResponse(HttpFailure.CUT_OFF, why) from None
    except httpx2.LocalProtocolError:  # its text quotes the header
        raise NoResponse(HttpFailure.NO_CONNECTION, "a header of the request cannot be sent") from None
    except httpx2.HTTPError as error:
        raise NoResponse(HttpFailure.NO_CONNECTION, str(error) or type(error).__name__) from None
    finally:
        _deadline.reset(token)


def _late_response(seconds: float) -> NoResponse:
    return NoResponse(HttpFailure.LATE, f"the response was incomplete after {seconds:.0f} seconds")


def _certificate_problem(error: BaseException | None) -> str:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message
        error = error.__cause__ or error.__context__
    return ""


def _read(response: httpx2.Response, most: int, until: float) -> HttpResponse:
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in _ENCODINGS:
        why = f"the response is encoded as {encoding[:40]!r}, which was not requested"
        raise NoResponse(HttpFailure.CUT_OFF, why)
    bound = most if response.is_success else min(most, MOST_BYTES_OF_REFUSAL)
    content = bytearray()
    for piece in response.iter_bytes():
        content += piece
        if len(content) > bound:
            if response.is_success:
                raise ResponseTooLargeError
            break
        if time.monotonic() > until:
            raise _ResponseTooLate
    headers = {name.lower(): value for name, value in response.headers.items()}
    return HttpResponse(response.status_code, headers, bytes(content[:bound]))


def _limit_connection(event: str, facts: Mapping[str, Any]) -> None:
    """Limit the reads and writes of a new connection to the remaining time of the request that uses it.

    httpx2 calls this function at each event of a request. Only the event that opens a connection gives access to it, so
    the limit is installed then, for all later requests too.
    """
    if not event.endswith(_OPENED):
        return
    import httpcore2

    stream = facts["return_value"]
    read, write = stream.read, stream.write

    def read_in_time(size: int, timeout: float | None = None) -> Any:
        return read(size, timeout=_limit_timeout(timeout, httpcore2.ReadTimeout))

    def write_in_time(content: bytes, timeout: float | None = None) -> None:
        view = memoryview(content)
        for begin in range(0, len(view), _WRITTEN_AT_ONCE):
            write(view[begin : begin + _WRITTEN_AT_ONCE], timeout=_limit_timeout(timeout, httpcore2.WriteTimeout))

    stream.read, stream.write = read_in_time, write_in_time


def _limit_timeout(timeout: float | None, late: type[Exception]) -> float | None:
    remaining = _deadline.get() - time.monotonic()
    if remaining <= 0:
        raise late("the time for the response is over")
    return timeout if remaining == math.inf else min(remaining, math.inf if timeout is None else timeout)
