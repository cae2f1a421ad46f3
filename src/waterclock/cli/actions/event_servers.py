"""HTTP servers for the event endpoint: uvicorn, or on request Granian, which takes half the CPU time."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from waterclock.errors import WaterclockError
from waterclock.extras import extra_install_command

if TYPE_CHECKING:
    from waterclock.connectors.receiver.endpoint import Endpoint
    from waterclock.http.listening import Listener
    from waterclock.http.server_certificate import Certificate

_PATIENCE = 60.0  # seconds within which a request must arrive completely
_SECONDS_TO_END = 30
_BACKLOG = 1024
_MOST_CONNECTIONS = 4000
_START_SECONDS = 0.2
_SERVER_VARIABLE = "WATERCLOCK_RECEIVER_SERVER"


def wait_until_reachable(address: tuple[str, int], is_over: Callable[[], bool]) -> None:
    """Wait until a server accepts connections at an address, or until `is_over` returns true."""
    while not is_over():
        with suppress(OSError), socket.create_connection(address, 1):
            # another process that shares the address may have accepted: Granian does not report when it listens
            time.sleep(_START_SECONDS)
            return
        time.sleep(_START_SECONDS / 10)


class EventServer(Protocol):
    """Serves an event endpoint at an address until it is stopped. Requests in flight are answered first.

    `leaves_threads` is true if threads of the server still run after its end. The process must then exit without a
    shutdown of the interpreter.
    """

    leaves_threads: bool

    async def serve(self) -> None:
        """Serve requests, and return once the server has ended."""
        ...

    def stop(self) -> None:
        """Accept no more connections. Must be called in the server's event loop."""
        ...


def server_of(endpoint: Endpoint, address: Listener, certificate: Certificate | None = None) -> EventServer:
    """Return the server of an event endpoint. `address` is bound, and no server listens there yet.

    With a certificate, which was checked, it serves by HTTPS.
    Granian's embedded server is new, so it is used only on request. Raises E909 for a server that is unknown or not
    installed.
    """
    name = os.environ.get(_SERVER_VARIABLE, "uvicorn")
    if name == "granian" and find_spec("granian") is not None:
        return _GranianServer(endpoint, address, certificate)
    if name != "uvicorn":
        raise WaterclockError(
            "E909",
            f"{name} cannot serve the endpoint",
            why="it is not installed" if name == "granian" else f"{_SERVER_VARIABLE} is uvicorn or granian",
            fix=extra_install_command("receiver")
            if name == "granian"
            else f"unset {_SERVER_VARIABLE}, or set it to one of these",
        )
    return _UvicornServer(endpoint, address, certificate)


class _UvicornServer:
    leaves_threads = False

    def __init__(self, endpoint: Endpoint, address: Listener, certificate: Certificate | None) -> None:
        from waterclock.ui.slow_clients import build_server

        self._server = build_server(
            endpoint,
            address,
            certificate,
            _PATIENCE,
            _MOST_CONNECTIONS,
            date_header=False,
            timeout_keep_alive=75,
            limit_concurrency=2 * _MOST_CONNECTIONS,
            timeout_graceful_shutdown=_SECONDS_TO_END,
        )
        self._address = address
        address.listen(_BACKLOG)

    async def serve(self) -> None:
        await self._server.serve(sockets=[self._address])

    def stop(self) -> None:
        self._server.should_exit = True


class _GranianServer:
    leaves_threads = True  # Rust threads: one that calls Python during its shutdown aborts the process

    def __init__(self, endpoint: Endpoint, address: socket.socket, certificate: Certificate | None) -> None:
        from granian.constants import HTTPModes, Interfaces, SSLProtocols
        from granian.server.embed import Server

        host, port, *_ = address.getsockname()
        self._server = Server(
            endpoint,
            address=host,
            port=port,  # bound by `address`; Granian listens on the same port with its own socket
            interface=Interfaces.RSGI,
            http=HTTPModes.http1,
            websockets=False,
            backlog=_BACKLOG,
            backpressure=_MOST_CONNECTIONS,
            log_enabled=False,
            ssl_cert=None if certificate is None else certificate.file,
            ssl_key=None if certificate is None else certificate.key,
            ssl_protocol_min=SSLProtocols.tls12,  # as uvicorn
        )

    async def serve(self) -> None:
        await self._server.serve()

    def stop(self) -> None:
        self._server.stop()  # type: ignore[no-untyped-call]  # Granian's
