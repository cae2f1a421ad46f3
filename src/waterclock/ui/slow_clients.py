"""Ends the connections of slow clients. If there are too many connections, it ends the longest-waiting one.

uvicorn itself only limits the idle time between two requests. If it limits the number of connections, it rejects new
ones. Here the connection that has waited longest for its client is ended instead.
"""

from __future__ import annotations

import asyncio
import resource

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 10.0
MOST = 200  # connections
_IS_SENDING = frozenset({h11.IDLE, h11.SEND_BODY})


class _LimitedConnection(H11Protocol):
    """A connection whose requests must arrive, and whose responses must be read, within some seconds.

    If there are `most` connections, the next one replaces the oldest that waits for its client. It is chosen from those
    that never sent a request or from those between two requests, whichever group is larger.
    """

    seconds = SECONDS
    most = MOST
    new: dict[_LimitedConnection, None]
    resting: dict[_LimitedConnection, None]
    _request: asyncio.TimerHandle | None = None
    _answer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Wait for the first request. If there are too many connections, abort the oldest that waits."""
        if len(self.connections) >= self.most and (most := max(self.new, self.resting, key=len)):
            oldest = next(iter(most))
            del most[oldest]
            oldest.transport.abort()
        super().connection_made(transport)
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


def build_limited_protocol(seconds: float, most: int = MOST) -> type[asyncio.Protocol]:
    """Return a protocol class for at most `most` connections, each ended after `seconds` of waiting for the client.

    The number is also limited to half of the files that this process may open.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    bounds = {"seconds": seconds, "most": min(most, max(files // 2, 1)), "new": {}, "resting": {}}
    return type("Bounded", (_LimitedConnection,), bounds)
