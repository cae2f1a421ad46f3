"""The HTTP server, tested with sockets: slow or oversized requests do not block other clients."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests import stocks
from tests.pages import TOKEN
from waterclock.ui.live_project import LiveProject
from waterclock.ui.serving import RunningServer, serve_pages

PATIENCE = 1.5
BEARER = f"Authorization: Bearer {TOKEN}".encode()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("served") / "shop"
    stocks.make(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WATERCLOCK_UI_TOKEN", TOKEN)
        live = LiveProject(Path(folder), now="2026-11-21T01:30Z")
        with serve_pages(live, "127.0.0.1", 0, patience=PATIENCE) as found:
            yield found


def until(is_so: Callable[[], bool], seconds: float = 10) -> bool:
    """Return whether a condition becomes true in time."""
    end = time.monotonic() + seconds
    while not (found := is_so()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def asked(served: RunningServer, sent: bytes) -> bytes:
    """Send bytes, and return all bytes received until the server closes the connection."""
    with closing(socket.create_connection((served.host, served.port), timeout=10)) as connection:
        try:
            connection.sendall(sent)
            return b"".join(iter(lambda: connection.recv(65536), b""))
        except (BrokenPipeError, ConnectionResetError):
            return b""


def is_ended(connection: socket.socket, sent: bytes) -> bool:
    """Send byte by byte, ten per second; return whether the server closes the connection before the last one."""
    try:
        for byte in sent:
            connection.sendall(bytes([byte]))
            time.sleep(0.1)
    except (BrokenPipeError, ConnectionResetError):
        return True
    return False


def request(path: str, *more: bytes) -> bytes:
    return b"\r\n".join(
        [f"GET {path} HTTP/1.1".encode(), b"Host: localhost", BEARER, b"Connection: close", *more, b"", b""]
    )


def test_fifty_unfinished_requests_block_no_other_client(served: RunningServer) -> None:
    with ExitStack() as stack:
        for _ in range(50):
            slow = stack.enter_context(closing(socket.create_connection((served.host, served.port), timeout=10)))
            slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        assert asked(served, request("/livez")).startswith(b"HTTP/1.1 200")
        assert asked(served, request("/")).startswith(b"HTTP/1.1 200")


def test_a_header_of_a_megabyte_is_refused(served: RunningServer) -> None:
    answer = asked(served, request("/", b"X-Large: " + b"x" * 1_000_000))
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert asked(served, request("/livez")).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 100 + b"\r\n\r\n"]
)
def test_an_invalid_request_is_refused(served: RunningServer, sent: bytes) -> None:
    with closing(socket.create_connection((served.host, served.port), timeout=10)) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(65536)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert asked(served, request("/livez")).startswith(b"HTTP/1.1 200")


def test_a_body_of_unknown_length_is_refused(served: RunningServer) -> None:
    sent = request("/plan", b"Origin: http://localhost", b"Transfer-Encoding: chunked").replace(b"GET", b"POST")
    assert asked(served, sent + b"5\r\nverb=\r\n0\r\n\r\n").startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("sent", [b"", b"GE", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
def test_three_hundred_stalled_connections_block_other_clients_only_briefly(served: RunningServer, sent: bytes) -> None:
    with ExitStack() as stack:
        for _ in range(300):
            slow = stack.enter_context(closing(socket.create_connection((served.host, served.port), timeout=10)))
            slow.sendall(sent)
        assert until(lambda: asked(served, request("/livez")).startswith(b"HTTP/1.1 200"))


def test_half_a_form_is_ended_and_is_no_defect_to_log(served: RunningServer, caplog: pytest.LogCaptureFixture) -> None:
    begun = time.monotonic()
    half = request("/plan", b"Origin: http://localhost", b"Content-Length: 9").replace(b"GET", b"POST")
    assert asked(served, half + b"verb") == b""
    assert PATIENCE <= time.monotonic() - begun < PATIENCE + 5
    assert not caplog.records


def test_a_request_sent_byte_by_byte_is_ended_after_a_time_limit(served: RunningServer) -> None:
    with closing(socket.create_connection((served.host, served.port), timeout=10)) as slow:
        slow.sendall(request("/livez").replace(b"Connection: close", b"Connection: keep-alive"))
        assert slow.recv(65536).startswith(b"HTTP/1.1 200")
        begun = time.monotonic()
        assert is_ended(slow, request("/livez", b"X-Slow: " + b"x" * 1000))
        assert PATIENCE <= time.monotonic() - begun < PATIENCE + 5


@pytest.mark.soak
def test_one_that_rests_between_two_requests_is_answered_still(served: RunningServer) -> None:
    with closing(socket.create_connection((served.host, served.port), timeout=10)) as connection:
        for _ in range(2):
            connection.sendall(request("/livez").replace(b"Connection: close", b"Connection: keep-alive"))
            answer = connection.recv(65536)
            while not answer.endswith(b"alive\n"):
                answer += connection.recv(65536)
            time.sleep(PATIENCE + 0.5)


def test_a_connection_that_never_reads_its_response_is_ended(served: RunningServer) -> None:
    asks = request("/static/htmx.min.js").replace(b"Connection: close", b"Connection: keep-alive")
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        deaf.settimeout(10)
        deaf.connect((served.host, served.port))
        deaf.sendall(asks * 400)  # more than all buffers between client and server
        assert is_ended(deaf, b"\r\n" * 100)
