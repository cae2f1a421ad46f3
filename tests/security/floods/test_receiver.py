"""Senders that stall, and events that are too wide, at the receiver: all other streams and senders continue."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.receiving import Receiver, free_port, project_with_door
from tests.unit.connectors.receiver.test_endpoint import Disk, ask
from waterclock.connectors.receiver.endpoint import Endpoint, RequestLimits, Stream
from waterclock.connectors.receiver.events import MOST_KEYS, RefusedError, events_of

HEAD = [(b"host", b"localhost"), (b"content-length", b"1048576")]


def played(story: Callable[[Endpoint], Awaitable[Any]], max_waiting: int) -> Any:
    async def all_of_it() -> Any:
        streams = {name: Stream(RequestLimits(), Disk()) for name in ("door/events", "door/others")}
        with ThreadPoolExecutor(2) as threads:
            writing = [asyncio.create_task(stream.run(threads)) for stream in streams.values()]
            try:
                return await asyncio.wait_for(story(Endpoint(streams, max_waiting)), 10)
            finally:
                for stream in streams.values():
                    stream.finish()
                await asyncio.gather(*writing)

    with ThreadPoolExecutor(1) as beside:
        return beside.submit(asyncio.run, all_of_it()).result()


async def stalling(door: Endpoint, sent: bytes, answers: list[int]) -> None:
    """Announce a megabyte, send some of it, and wait."""
    parts = [sent]

    async def receive() -> dict[str, Any]:
        if not parts:
            await asyncio.sleep(60)
        return {"type": "http.request", "body": parts.pop(), "more_body": True}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            answers.append(message["status"])

    await door({"type": "http", "method": "POST", "path": "/door/events", "headers": HEAD}, receive, send)


@pytest.mark.parametrize("sent", [1, 900_000])
def test_70_that_announce_a_megabyte_and_stall_stop_no_stream(sent: int) -> None:
    answers: list[int] = []
    most = 8 << 20

    async def story(door: Endpoint) -> list[int]:
        stalled = [asyncio.create_task(stalling(door, b"x" * sent, answers)) for _ in range(70)]
        await asyncio.sleep(0.1)
        assert door.pending_bytes <= most
        body = b'{"a":"' + b"x" * 500_000 + b'"}'
        found = [(await ask(door, body, path=path))[0] for path in ("/door/events", "/door/others") for _ in range(5)]
        for each in stalled:
            each.cancel()
        await asyncio.gather(*stalled, return_exceptions=True)
        assert door.pending_bytes == 0
        return found

    assert played(story, most) == [202] * 10
    assert set(answers) <= {503}  # the oldest were dropped, and have to be sent again


def test_a_full_stream_does_not_affect_another_stream() -> None:
    async def story(door: Endpoint) -> int:
        door.streams["door/events"].held = door.max_waiting  # complete requests that wait for a slow disk
        status = (await ask(door, b'{"a":"' + b"x" * 500 + b'"}', path="/door/others"))[0]
        assert (await ask(door, b'{"a":1}'))[0] == 503
        door.streams["door/events"].held = 0
        return status

    assert played(story, 4096) == 202


def test_70_stalled_senders_and_a_thousand_heads_stop_no_sender_of_a_process(tmp_path: Path) -> None:
    receiver = Receiver(project_with_door(tmp_path / "shop"), free_port())
    try:
        assert receiver.is_ready()
        with ExitStack() as stack:
            for at in range(370):
                stalled = socket.create_connection(("127.0.0.1", receiver.port), timeout=10)
                stack.enter_context(closing(stalled))
                head = b"POST /door/events HTTP/1.1\r\nHost: localhost\r\n"
                stalled.sendall(head + b"Content-Length: 1048576\r\n\r\n{" if at < 70 else head)
            begun = time.monotonic()
            with closing(HTTPConnection("127.0.0.1", receiver.port, timeout=10)) as connection:
                connection.request("POST", "/door/events", b'{"id": 1}')
                assert connection.getresponse().status == 202
            assert time.monotonic() - begun < 5
    finally:
        receiver.kill()


def wide(keys: int) -> bytes:
    return json.dumps({f"key_{at}": at for at in range(keys)}).encode()


def test_an_event_with_too_many_keys_is_refused_in_a_time_that_grows_with_it_alone() -> None:
    assert len(events_of(wide(MOST_KEYS)).events) == 1
    took = []
    for keys in (20_000, 60_000):
        begun = time.process_time()
        with pytest.raises(RefusedError, match=f"event 1 has more than {MOST_KEYS} keys"):
            events_of(wide(keys))
        took.append(time.process_time() - begun)
    assert max(took) < 1.5


@pytest.mark.parametrize(
    "event",
    [
        {"a": {"b": {f"k{at}": 1 for at in range(MOST_KEYS)}}},
        {f"k{at}": {f"k{inner}": 1 for inner in range(40)} for at in range(40)},
        {"a": [{f"k{at}": 1} for at in range(MOST_KEYS + 1)]},
    ],
)
def test_keys_of_all_levels_count(event: dict[str, Any]) -> None:
    with pytest.raises(RefusedError, match="keys"):
        events_of(json.dumps([event]).encode())


def test_many_objects_with_the_same_keys_are_few_columns() -> None:
    event = {"items": [{"sku": "a:b", "qty": at, "price": 1} for at in range(5_000)]}
    assert len(events_of(json.dumps(event).encode()).events) == 1
