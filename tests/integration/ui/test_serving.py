"""The server itself, by sockets: what is slow or too large keeps nobody else out."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests import stocks
from waterclock.ui.live import LiveProject
from waterclock.ui.serving import Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served") / "shop"
    stocks.make(folder)
    with serving(LiveProject(Path(folder), now="2026-11-21T01:30Z"), "127.0.0.1", 0) as found:
        yield found


def asked(served: Served, sent: bytes) -> bytes:
    """Send bytes, and return all that comes back until the server ends it."""
    with closing(socket.create_connection((served.host, served.port), timeout=10)) as connection:
        try:
            connection.sendall(sent)
            return b"".join(iter(lambda: connection.recv(65536), b""))
        except (BrokenPipeError, ConnectionResetError):
            return b""


def request(path: str, *more: bytes) -> bytes:
    return b"\r\n".join([f"GET {path} HTTP/1.1".encode(), b"Host: localhost", b"Connection: close", *more, b"", b""])


def test_fifty_that_never_end_their_request_keep_nobody_out(served: Served) -> None:
    with ExitStack() as stack:
        for _ in range(50):
            slow = stack.enter_context(closing(socket.create_connection((served.host, served.port), timeout=10)))
            slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        assert asked(served, request("/livez")).startswith(b"HTTP/1.1 200")
        assert asked(served, request("/")).startswith(b"HTTP/1.1 200")


def test_a_header_of_a_megabyte_is_refused(served: Served) -> None:
    answer = asked(served, request("/", b"X-Large: " + b"x" * 1_000_000))
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert asked(served, request("/livez")).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 100 + b"\r\n\r\n"]
)
def test_what_is_no_request_is_refused(served: Served, sent: bytes) -> None:
    with closing(socket.create_connection((served.host, served.port), timeout=10)) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(65536)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert asked(served, request("/livez")).startswith(b"HTTP/1.1 200")


def test_a_body_of_unknown_length_is_refused(served: Served) -> None:
    sent = request("/plan", b"Origin: http://localhost", b"Transfer-Encoding: chunked").replace(b"GET", b"POST")
    assert asked(served, sent + b"5\r\nverb=\r\n0\r\n\r\n").startswith(b"HTTP/1.1 413")
