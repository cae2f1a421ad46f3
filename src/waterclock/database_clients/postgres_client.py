"""Limits the time and the size of each answer on psycopg connections, as libpq has no such limits.

The limits apply to each wait of psycopg: for the whole result of a statement, or for one row of a COPY.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Generator
from contextlib import closing
from functools import cache
from os import dup
from typing import TYPE_CHECKING, Any

from waterclock.database_clients.time_limits import limit_connection_time

if TYPE_CHECKING:
    import psycopg

_LONGEST_SECONDS = 6 * 3600  # a server sends nothing while it sorts
_RECEIVED = struct.Struct("=128xQ")  # tcpi_bytes_received in Linux's struct tcp_info


@cache
def client_type() -> Any:
    """Return the class of the connections. It is defined in a function because psycopg may not be installed."""
    from psycopg import Connection

    class Client(Connection[Any]):
        """A psycopg connection that is closed with an OperationalError if an answer exceeds a limit."""

        most_bytes: int | None = None
        """The maximum size of an answer with its notices and notifications. Applies only to TCP on Linux."""
        longest_seconds: float | None = None
        """The maximum time of an answer; None for six hours."""

        def wait(self, gen: Generator[Any, Any, Any], *args: Any, **settings: Any) -> Any:
            """Wait for an answer that has not arrived yet."""
            try:
                wanted = next(gen)
            except StopIteration as done:  # most rows of a COPY
                return done.value
            return super().wait(_limit_answer(self, gen, wanted), *args, **settings)

    return Client


def execute_replication(connection: psycopg.Connection[Any], statement: str) -> Any:
    """Execute a statement on a replication connection, and return libpq's result.

    Raises OperationalError, as for a server that is gone, if there is no answer in time.
    """
    from psycopg import OperationalError

    try:
        with limit_connection_time(_LONGEST_SECONDS, connection.pgconn.socket):
            return connection.pgconn.exec_(statement.encode())
    except TimeoutError as error:
        raise OperationalError(f"it gave {error}") from error


def _limit_answer(connection: Any, answer: Generator[Any, Any, Any], wanted: Any) -> Generator[Any, Any, Any]:
    """Wrap psycopg's generator `answer` so that it fails beyond the limits. psycopg resumes it every 0.1 seconds."""
    from psycopg import OperationalError

    seconds = connection.longest_seconds or _LONGEST_SECONDS
    end = time.monotonic() + seconds
    most = connection.most_bytes and connection.most_bytes + _received_bytes(connection)
    try:
        while True:
            ready = yield wanted
            why = None
            if time.monotonic() > end:
                limit = f"{seconds / 3600:g} hours" if seconds >= 3600 else f"{seconds:g} seconds"
                why = f"no complete answer within {limit}"
            elif most and _received_bytes(connection) > most:
                why = f"an answer of more than {connection.most_bytes >> 20:,} MiB"
            if why is not None:
                connection.pgconn.finish()  # else psycopg waits for the rest of the answer
                raise OperationalError(f"it gave {why}")
            wanted = answer.send(ready)
    except StopIteration as done:
        return done.value


def _received_bytes(connection: psycopg.Connection[Any]) -> int:
    """Return the number of bytes received on a connection; 0 where it is not known."""
    if not hasattr(socket, "TCP_INFO"):
        return 0
    with closing(socket.socket(fileno=dup(connection.pgconn.socket))) as own:
        if own.family not in {socket.AF_INET, socket.AF_INET6}:
            return 0
        info = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED.size)
    return int(_RECEIVED.unpack(info)[0]) if len(info) == _RECEIVED.size else 0
