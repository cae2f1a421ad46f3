"""Ends the connections of slow clients. If there are too many connections, it ends the longest-waiting one.

uvicorn limits only how long a connection may rest between two requests. If it limits the number of connections, it
rejects the next one. Here the connection that has waited longest for its client ends instead.

With TLS, a connection reaches uvicorn only after its handshake, for which asyncio waits a minute. The same limits apply
to that time, at the listening socket.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from waterclock.http.listening import Listener
from waterclock.http.server_certificate import Certificate
from waterclock.ui.peers import KEPT, network_of

SECONDS = 10.0
MOST = 200  # connections
_IS_SENDING = frozenset({h11.IDLE, h11.SEND_BODY})


@dataclass(slots=True)
class _Handshakes:
    """The accepted connections whose TLS handshake is not complete, by file descriptor, the oldest first.

    Each is shut down after some seconds. If there are more than `most`, the oldest of the address with most of them is
    shut down at once, so that clients at other addresses can finish their handshakes.
    """

    seconds: float
    most: int
    _pending: dict[int, tuple[socket.socket, str]] = field(default_factory=dict)

    def begin(self, accepted: socket.socket) -> None:
        """Wait for the handshake of a connection that the running event loop has accepted."""
        descriptor = accepted.fileno()
        self._pending.pop(descriptor, None)  # of a connection that has ended
        if len(self._pending) >= self.most:
            self._end_oldest_of_largest_address()
        self._pending[descriptor] = accepted, _client_network(accepted)
        asyncio.get_running_loop().call_later(self.seconds, self._end, descriptor, accepted)

    def complete(self, descriptor: int) -> None:
        """Wait no longer: the connection is counted and timed by its protocol from now on."""
        self._pending.pop(descriptor, None)

    def _end_oldest_of_largest_address(self) -> None:
        (largest, _), *_ = Counter(network for _, network in self._pending.values()).most_common(1)
        oldest = next(descriptor for descriptor, (_, network) in self._pending.items() if network == largest)
        self._end(oldest, self._pending[oldest][0])

    def _end(self, descriptor: int, accepted: socket.socket) -> None:
        if self._pending.get(descriptor, (None,))[0] is accepted:
            del self._pending[descriptor]
            with suppress(OSError):  # it has ended already
                accepted.shutdown(socket.SHUT_RDWR)


def _client_network(accepted: socket.socket) -> str:
    """Return the address of a client, its network for IPv6, or "" if the client has left already."""
    try:
        return network_of(accepted.getpeername()[0])
    except OSError:
        return ""


class _LimitedConnection(H11Protocol):
    """A connection whose requests must arrive, and whose responses must be read, within some seconds.

    If there are `most` connections, the next one replaces the oldest that waits for its client. It is chosen from those
    that never sent a request or from those between two requests, whichever group is larger.
    """

    seconds = SECONDS
    most = MOST
    new: dict[_LimitedConnection, None]
    resting: dict[_LimitedConnection, None]
    handshakes: _Handshakes
    _request: asyncio.TimerHandle | None = None
    _answer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Wait for the first request. If there are too many connections, abort the oldest that waits."""
        if len(self.connections) >= self.most and (most := max(self.new, self.resting, key=len)):
            oldest = next(iter(most))
            del most[oldest]
            oldest.transport.abort()
        super().connection_made(transport)
        self.app_state = {**self.app_state, KEPT: {}}  # each request has the same dictionary in its state
        self.handshakes.complete(transport.get_extra_info("socket").fileno())
        self.new[self] = None
        # so that all unread data counts as waiting; with 0, asyncio would never resume a transport of TLS
        transport.set_write_buffer_limits(high=1, low=0)
        self._request = self.loop.call_later(self.seconds, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request. The time limit runs from the first to the last byte of the whole request."""
        if self._request is None:
            self._request = self.loop.call_later(self.seconds, self.transport.abort)
        super().data_received(data)
        if self.conn.their_state not in _IS_SENDING:
            _cancel_timer(self._request)
            self._request = None
            self._mark_busy()

    def on_response_complete(self) -> None:
        """Mark the connection as waiting for the next request."""
        super().on_response_complete()
        if not self.transport.is_closing() and self.cycle.response_complete:
            self.resting[self] = None

    def _mark_busy(self) -> None:
        self.new.pop(self, None)
        self.resting.pop(self, None)

    def pause_writing(self) -> None:
        """Start the time limit for the client to read more of the response."""
        super().pause_writing()
        self._check_later(self.transport.get_write_buffer_size())

    def _check_later(self, left: int) -> None:
        self._answer = self.loop.call_later(self.seconds, self._check_progress, left)

    def _check_progress(self, left: int) -> None:
        """End a connection whose client has read nothing since the last check. A slow client may continue."""
        now = self.transport.get_write_buffer_size()
        if now >= left:
            self.transport.abort()
        else:
            self._check_later(now)

    def resume_writing(self) -> None:
        """Continue writing, and end the time limit."""
        _cancel_timer(self._answer)
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection, and end its time limits."""
        self._mark_busy()
        _cancel_timer(self._request)
        _cancel_timer(self._answer)
        super().connection_lost(exc)


def _cancel_timer(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def build_server(
    app: Any, listener: Listener, certificate: Certificate | None, seconds: float, most: int = MOST, **others: Any
) -> uvicorn.Server:
    """Return a server of an application that listens at `listener`, by HTTPS if there is a certificate.

    `seconds` and `most` are those of `build_limited_protocol`; `others` are settings of uvicorn.
    """
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        http=build_limited_protocol(seconds, most, tls=None if certificate is None else listener),
        ws="none",
        ssl_certfile=None if certificate is None else certificate.file,
        ssl_keyfile=None if certificate is None else certificate.key,
        lifespan="off",
        **others,
    )
    return uvicorn.Server(config)


def build_limited_protocol(seconds: float, most: int = MOST, *, tls: Listener | None = None) -> type[asyncio.Protocol]:
    """Return a protocol class for at most `most` connections, each ended after `seconds` of waiting for the client.

    The number is also limited to half of the files that this process may open. `tls` is the listener of a server with
    TLS: half as many handshakes as connections can be incomplete there, for as many seconds.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(most, max(files // 2, 1))
    handshakes = _Handshakes(seconds, max(most // 2, 1))
    if tls is not None:
        tls.on_accept = handshakes.begin
    bounds = {"seconds": seconds, "most": most, "new": {}, "resting": {}, "handshakes": handshakes}
    return type("Bounded", (_LimitedConnection,), bounds)
