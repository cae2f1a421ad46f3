"""Streams without end at the pages: few are answered, pages stay reachable, and all end with the server."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.ticking import CLICKS, Ticking
from waterclock.ui.live_project import LiveProject
from waterclock.ui.serving import RunningServer, serve_pages
from waterclock.ui.slow_clients import MOST
from waterclock.ui.table_events import StreamLimits

PATIENCE = 2.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Ticking(tmp_path_factory.mktemp("streams") / "clicks").folder


@pytest.fixture
def served(folder: Path) -> Iterator[RunningServer]:
    with serve_pages(LiveProject(folder), "127.0.0.1", 0, patience=PATIENCE) as found:
        yield found


def stream(served: RunningServer, *headers: str, path: str = f"/events/{CLICKS}") -> socket.socket:
    """Request a stream, and do not wait for its response."""
    connection = socket.create_connection(("127.0.0.1", served.port), timeout=20)
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {served.guard.token}", *headers]
    connection.sendall("\r\n".join([*lines, "", ""]).encode())
    return connection


def status(connection: socket.socket) -> str:
    return connection.recv(65536).decode().partition("\r\n")[0]


def read_to_end(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))


def test_hundreds_of_streams_of_a_person_keep_no_page_from_being_answered(served: RunningServer) -> None:
    threads = threading.active_count()
    with ExitStack() as stack:
        opened = [stack.enter_context(closing(stream(served))) for _ in range(MOST - 20)]
        found = [status(each) for each in opened]
        assert found.count("HTTP/1.1 200 OK") == StreamLimits().most_of_one
        assert found.count("HTTP/1.1 503 Service Unavailable") == len(found) - StreamLimits().most_of_one
        with closing(stream(served, "Connection: close", path="/livez")) as page:
            assert read_to_end(page).endswith(b"alive\n")
        assert threading.active_count() - threads <= 45  # those of Starlette, for pages


def test_requests_sent_after_that_of_a_stream_open_no_other(served: RunningServer) -> None:
    with closing(stream(served)) as connection:
        assert status(connection) == "HTTP/1.1 200 OK"
        request = f"GET /events/{CLICKS} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        connection.sendall(request * 500)
        with closing(stream(served, "Connection: close", path="/livez")) as page:
            assert read_to_end(page).endswith(b"alive\n")


def test_streams_end_with_the_server(folder: Path) -> None:
    with ExitStack() as stack:
        with serve_pages(LiveProject(folder), "127.0.0.1", 0) as served:
            opened = [stack.enter_context(closing(stream(served))) for _ in range(3)]
            assert [status(each) for each in opened] == ["HTTP/1.1 200 OK"] * 3
            began = time.monotonic()
        assert [read_to_end(each).endswith(b"0\r\n\r\n") for each in opened] == [True] * 3  # ended, not cut
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("header", ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"])
def test_a_page_of_another_site_opens_no_stream(served: RunningServer, header: str) -> None:
    with closing(stream(served, header, "Origin: https://evil.example")) as connection:
        assert status(connection) == "HTTP/1.1 403 Forbidden"
