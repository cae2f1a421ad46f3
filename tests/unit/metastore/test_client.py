"""A metastore that does not answer, or not as one, is left after a bounded time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.receiving import free_port
from waterclock.flow.metastore import Metastore
from waterclock.metastore import client
from waterclock.metastore.client import CatalogEntry, NotEnteredError, enter_table

ENTRY = CatalogEntry("a", "b", "file:/a/b", "shop", "prod")


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[Metastore]:
    """Return the address of a server that answers each connection so."""

    accepted: list[socket.socket] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                accepted.append(listener.accept()[0])
                threading.Thread(target=answer, args=(accepted[-1],), daemon=True).start()

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        threading.Thread(target=serve, daemon=True).start()
        yield Metastore("127.0.0.1", listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
    for each in accepted:
        each.close()


def drip(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.sendall(b"\x80\x01\x00\x02")  # an answer begins
        while True:
            connection.sendall(b"\x00")
            time.sleep(0.05)


def refused(metastore: Metastore) -> NotEnteredError:
    begun = time.monotonic()
    with pytest.raises(NotEnteredError) as raised:
        enter_table(metastore, ENTRY)
    assert time.monotonic() - begun < 20
    assert not raised.value.is_refused
    return raised.value


@pytest.mark.parametrize(
    "answer",
    [
        drip,
        lambda connection: connection.settimeout(60),
        lambda connection: connection.close(),
        lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        lambda connection: connection.sendall(b"\x80\x01\x00\x02\x7f\xff\xff\xff" + b"x" * 100),
    ],
    ids=["drips", "is silent", "hangs up", "is of the web", "announces 2 GB"],
)
def test_another_answer_ends_after_a_bounded_time(
    answer: Callable[[socket.socket], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "SECONDS", 0.5)
    with answering(answer) as metastore:
        refused(metastore)


def test_a_server_that_does_not_run_is_named() -> None:
    assert "refused" in str(refused(Metastore("127.0.0.1", free_port())))
