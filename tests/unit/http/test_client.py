"""A response that never ends is stopped, even if the server sends a byte now and then."""

from __future__ import annotations

import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import httpx2
import pytest

from waterclock.http import client as http_client
from waterclock.http.client import HttpFailure, NoResponse, receive

Answer = Callable[[socket.socket], None]
TIMEOUT = 0.2
HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n"
OK = HEAD + b"Content-Length: 2\r\n\r\n[]"
_packer = zlib.compressobj(9, zlib.DEFLATED, 31)
PACKED = _packer.compress(b"[") + _packer.flush(zlib.Z_SYNC_FLUSH)


def drip(first: bytes, then: bytes) -> Answer:
    def answer(to: socket.socket) -> None:
        to.sendall(first)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            to.sendall(then)
            time.sleep(0.03)

    return answer


NEVER_ENDING = {
    "hints": drip(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "a header": drip(HEAD + b"X: ", b"a"),
    "a body": drip(CHUNKED + b"\r\n", b"1\r\na\r\n"),
    "an extension of a chunk": drip(CHUNKED + b"\r\n1\r\na\r\n1;", b"a"),
    "empty blocks": drip(
        CHUNKED + b"Content-Encoding: gzip\r\n\r\n%x\r\n%s\r\n" % (len(PACKED), PACKED),
        b"5\r\n\x00\x00\x00\xff\xff\r\n",
    ),
}


class Server:
    """Answers the requests of each connection in turn, and counts the connections."""

    def __init__(self, at: socket.socket) -> None:
        self.url = f"http://127.0.0.1:{at.getsockname()[1]}/"
        self.answers: list[Answer] = []
        self.connections = 0
        self._at = at
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                taken, _ = self._at.accept()
                self.connections += 1
                taken.settimeout(10)
                with closing(taken), suppress(OSError):
                    while taken.recv(65536):
                        self.answers.pop(0)(taken)


@pytest.fixture
def server() -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as at:
        yield Server(at)


@pytest.fixture
def client() -> Iterator[httpx2.Client]:
    with httpx2.Client(timeout=TIMEOUT, trust_env=False) as made:
        yield made


def get(client: httpx2.Client, server: Server) -> bytes:
    request = client.build_request("GET", server.url)
    return receive(client, request, most=1 << 20, timeout=TIMEOUT).content


@pytest.mark.parametrize("is_reused", [False, True], ids=["new connection", "reused connection"])
@pytest.mark.parametrize("part", NEVER_ENDING)
def test_the_time_limit_holds_for_each_part_of_a_response(
    server: Server, client: httpx2.Client, monkeypatch: pytest.MonkeyPatch, part: str, is_reused: bool
) -> None:
    monkeypatch.setattr(http_client, "_SLOW", 5)
    whole: Answer = lambda to: to.sendall(OK)  # noqa: E731 - like the other functions
    server.answers = [*([whole] if is_reused else []), NEVER_ENDING[part]]
    if is_reused:
        assert get(client, server) == b"[]"
    begun = time.monotonic()
    with pytest.raises(NoResponse, match="incomplete after 1 seconds") as late:
        get(client, server)
    assert late.value.kind is HttpFailure.LATE
    assert time.monotonic() - begun < 5
    assert server.connections == 1


def test_a_request_may_have_its_own_limit_for_the_complete_response(server: Server, client: httpx2.Client) -> None:
    server.answers = [NEVER_ENDING["a body"]]
    request = client.build_request("GET", server.url)
    begun = time.monotonic()
    with pytest.raises(NoResponse, match="incomplete after 1 seconds"):
        receive(client, request, most=1 << 20, timeout=TIMEOUT, seconds=1)
    assert time.monotonic() - begun < TIMEOUT * 20


def test_a_server_that_reads_too_slowly_is_not_written_to_without_an_end(
    server: Server, client: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "_SLOW", 5)

    def read_slowly(to: socket.socket) -> None:
        until = time.monotonic() + 20
        while time.monotonic() < until and to.recv(100_000):
            time.sleep(0.03)

    server.answers = [read_slowly]
    request = client.build_request("POST", server.url, content=bytes(64 << 20))
    begun = time.monotonic()
    with pytest.raises(NoResponse, match=r"incomplete|no response"):
        receive(client, request, most=1 << 20, timeout=TIMEOUT)
    assert time.monotonic() - begun < 5


def test_a_limit_ends_with_its_response(server: Server, client: httpx2.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "_SLOW", 2)
    server.answers = [lambda to: to.sendall(OK)] * 2
    assert get(client, server) == b"[]"
    time.sleep(TIMEOUT * 3)
    assert get(client, server) == b"[]"
    assert server.connections == 1
