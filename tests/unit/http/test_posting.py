"""A message is delivered or not, within a time limit, and the reason contains no secret."""

from __future__ import annotations

import socket
import threading
import time
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.http.test_client import HEAD, OK, Server, drip, server
from waterclock.http import posting
from waterclock.http.posting import NotDelivered, post, retry_delay

__all__ = ["server"]
SECRET = "s3cret"


def test_the_wait_after_failures_grows_up_to_ten_minutes() -> None:
    waits = [retry_delay(attempts) for attempts in range(7)]
    assert waits[0] == timedelta(seconds=30)
    assert waits == sorted(waits)
    assert retry_delay(5) == retry_delay(10_000) == timedelta(minutes=10)


@pytest.mark.parametrize(
    ("address", "token"),
    [
        (f"http://host:{SECRET}/", None),
        (f"ftp://host/{SECRET}", None),
        (f"{SECRET}", None),
        (f"http://127.0.0.1:1/{SECRET}", SECRET),
        ("http://127.0.0.1:1/", f"{SECRET}\nX: y"),
        ("http://127.0.0.1:1/", f"{SECRET}\N{EURO SIGN}"),
    ],
    ids=["no port", "no scheme of the web", "no address", "no server", "a line break", "a sign that no header has"],
)
def test_a_reason_contains_neither_address_nor_token(address: str, token: str | None) -> None:
    with pytest.raises(NotDelivered) as caught:
        post(address, token, {})
    assert str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_server_that_adds_a_byte_now_and_then_is_not_waited_for(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posting, "_SECONDS", 0.2)
    monkeypatch.setattr(posting, "_SECONDS_IN_TOTAL", 1.0)
    server.answers = [drip(HEAD + b"X: ", b"a")]
    begun = time.monotonic()
    with pytest.raises(NotDelivered, match="did not answer in time"):
        post(server.url, SECRET, {})
    assert time.monotonic() - begun < 5


def test_the_resolution_of_a_name_counts_and_nothing_is_sent_after_the_limit(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posting, "_SECONDS_IN_TOTAL", 0.3)
    server.answers = [lambda to: to.sendall(OK)]
    resolve = socket.getaddrinfo

    def resolve_slowly(*name: Any, **settings: Any) -> Any:
        time.sleep(1)
        return resolve(*name, **settings)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_slowly)
    begun = time.monotonic()
    with pytest.raises(NotDelivered, match="did not answer in time"):
        post(server.url, SECRET, {})
    assert time.monotonic() - begun < 0.9
    for thread in threading.enumerate():
        if thread.name == "call in time":
            thread.join(5)
    assert len(server.answers) == 1
