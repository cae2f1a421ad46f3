"""The connections that are closed if too many clients do not complete their TLS handshake."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from tests.event_loops import run_in_new_loop
from waterclock.http.listening import bind_port
from waterclock.ui.slow_clients import build_limited_protocol


def test_the_oldest_handshake_of_the_address_with_most_makes_room() -> None:
    async def connect() -> list[bool]:
        with ExitStack() as stack:
            listener = stack.enter_context(bind_port("127.0.0.1", 0))
            build_limited_protocol(60, most=6, tls=listener)  # three handshakes
            clients = []
            for host in ("127.0.0.2", "127.0.0.1", "127.0.0.1", "127.0.0.1"):
                at = listener.getsockname()
                clients.append(stack.enter_context(socket.create_connection(at, source_address=(host, 0))))
                stack.enter_context(listener.accept()[0])
            return [_has_ended(client) for client in clients]

    assert run_in_new_loop(connect()) == [False, True, False, False]


def _has_ended(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
