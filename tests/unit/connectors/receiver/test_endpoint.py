"""The receiver's endpoint as an ASGI application, with fake writers."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.event_loops import run_in_new_loop
from waterclock.connectors.receiver import endpoint
from waterclock.connectors.receiver.endpoint import Endpoint, RequestLimits, SendPermission, Stream
from waterclock.connectors.receiver.segment_writing import SyncFailedError
from waterclock.http.access_tokens import WrongTokens
from waterclock.permissions.access_tokens import PREFIX

METRICS = "t0ken-of-the-metrics"


class Disk:
    """A writer that stores bodies in memory, one group after the other."""

    def __init__(self, *errors: OSError | None) -> None:
        self.groups: list[list[bytes]] = []
        self.errors = list(errors)
        self.may_write = threading.Event()
        self.may_write.set()
        self.ended = 0

    def append(self, bodies: Sequence[bytes]) -> None:
        self.may_write.wait(10)
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        self.groups.append(list(bodies))

    def seconds_to_window_end(self) -> float | None:
        return None

    def end_if_over(self) -> None:
        pass

    def end(self) -> None:
        self.ended += 1


Answer = tuple[int, dict[str, Any], dict[str, str]]


async def ask(
    door: Endpoint,
    body: bytes | Sequence[bytes] = b"{}",
    path: str = "/door/events",
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    parts = [body] if isinstance(body, bytes) else list(body)
    said = {"content-length": str(len(body))} if isinstance(body, bytes) else {}
    named = {"host": "localhost:8877", **said, **(headers or {})}
    encoded = [(name.encode(), value.encode()) for name, value in named.items()]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: Any) -> None:
        sent.append(message)

    await door({"type": "http", "method": method, "path": path, "headers": encoded}, receive, send)
    head = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], json.loads(sent[1]["body"]), head


def answers(disk: Disk, story: Callable[[Endpoint], Awaitable[Any]], max_waiting: int = 1 << 20, **limits: Any) -> Any:
    async def played() -> Any:
        stream = Stream(RequestLimits(**limits), disk)
        door = Endpoint({"door/events": stream}, max_waiting, metrics_token=METRICS, wrong=WrongTokens(seconds=0))
        with ThreadPoolExecutor(1) as thread:
            writing = asyncio.create_task(stream.run(thread))
            try:
                return await asyncio.wait_for(story(door), 10)
            finally:
                disk.may_write.set()
                stream.finish()
                await asyncio.gather(writing, return_exceptions=True)

    return run_in_new_loop(played())


def one(disk: Disk | None = None, body: bytes | Sequence[bytes] = b'{"a":1}', **more: Any) -> Answer:
    limits: dict[str, Any] = {name: more.pop(name) for name in ("token", "max_body", "has_raw") if name in more}
    limits["headers"] = more.pop("headers_kept", ())
    answered: Answer = answers(disk or Disk(), lambda door: ask(door, body, **more), **limits)
    return answered


def test_a_request_is_answered_when_it_is_on_disk() -> None:
    disk = Disk()
    status, said, _ = one(disk, b'{"a":1}\n{"a":2}\n', headers={"idempotency-key": "k"})
    assert (status, said) == (202, {"accepted": 2})
    assert disk.groups == [[b'{"request":"k","headers":null,"raw":false}\n{"a":1}\n{"a":2}']]
    assert disk.ended == 1


def test_headers_that_are_to_be_kept_are() -> None:
    disk = Disk()
    one(disk, headers={"user-agent": "curl", "cookie": "secret"}, headers_kept=("user-agent", "x-device"), has_raw=True)
    assert disk.groups[0][0].startswith(b'{"request":null,"headers":{"user-agent":"curl"},"raw":true}\n')


def test_headers_are_bounded_by_the_events_they_are_stored_with() -> None:
    disk = Disk()
    headers = {"user-agent": "x" * 8_000}
    assert one(disk, b"{}" * 10_000, headers=headers, headers_kept=("user-agent",))[0] == 413
    assert disk.groups == []
    assert one(disk, b"{}" * 2_000, headers=headers, headers_kept=("user-agent",))[0] == 202


def test_a_small_packed_body_is_not_parsed_in_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def encode(*_: object) -> tuple[int, bytes]:
        threads.append(threading.get_ident())
        return 1, b"{}"

    async def story(door: Endpoint) -> int:
        await ask(door, gzip.compress(b'{"a":1}' * 9_000), headers={"content-encoding": "gzip"})
        await ask(door, b'{"a":1}')
        return threading.get_ident()

    monkeypatch.setattr(endpoint, "_encode_events", encode)
    loop = answers(Disk(), story)
    assert [thread == loop for thread in threads] == [False, True]


def test_requests_that_wait_share_a_write() -> None:
    disk = Disk()

    async def story(door: Endpoint) -> list[Answer]:
        disk.may_write.clear()
        asked = [asyncio.create_task(ask(door, b'{"n":%d}' % at)) for at in range(20)]
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in asked)
        disk.may_write.set()
        return await asyncio.gather(*asked)

    assert {status for status, _, _ in answers(disk, story)} == {202}
    assert [len(group) for group in disk.groups] == [20]


def test_a_failed_disk_write_returns_503_and_the_next_request_succeeds() -> None:
    disk = Disk(OSError(28, "No space left on device"))

    async def story(door: Endpoint) -> list[Answer]:
        return [await ask(door, b'{"a":1}'), await ask(door, b'{"a":2}')]

    (first, said, head), (second, _, _) = answers(disk, story)
    assert (first, second) == (503, 202)
    assert "No space left on device" in said["error"]
    assert head["retry-after"] == "1"


def test_after_a_failed_sync_nothing_is_taken() -> None:
    disk = Disk(SyncFailedError(5, "Input/output error"))

    async def story(door: Endpoint) -> list[Answer]:
        return [await ask(door), await ask(door)]

    assert [status for status, _, _ in answers(disk, story)] == [503, 503]
    assert disk.groups == []
    assert disk.ended == 0


def test_an_internal_error_while_writing_returns_503() -> None:
    class Defect(Disk):
        def append(self, bodies: Sequence[bytes]) -> None:
            raise ValueError(bodies)

    assert one(Defect())[0] == 503


def test_too_much_that_waits_is_refused_and_let_in_again() -> None:
    disk = Disk()

    async def story(door: Endpoint) -> tuple[list[Answer], Answer]:
        disk.may_write.clear()
        asked = [asyncio.create_task(ask(door, b'{"a":"%s"}' % (b"x" * 400))) for _ in range(10)]
        await asyncio.sleep(0.05)
        disk.may_write.set()
        return await asyncio.gather(*asked), await ask(door)

    first, after = answers(disk, story, max_waiting=3000)
    statuses = [status for status, _, _ in first]
    assert statuses.count(202) == sum(len(group) for group in disk.groups[:-1]) == 3
    assert statuses.count(503) == 7
    assert after[0] == 202, "the reserved bytes are released"


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b'{"a":"%s"}' % (b"x" * 100), {}),
        ([b'{"a":"', b"x" * 60, b"x" * 60, b'"}'], {}),
        (gzip.compress(b'{"a":"%s"}' % (b"x" * 1000)), {"content-encoding": "gzip"}),
    ],
    ids=["said", "chunked", "packed"],
)
def test_a_too_large_body_is_refused_with_413(body: Any, headers: Mapping[str, str]) -> None:
    disk = Disk()
    assert one(disk, body, headers=headers, max_body=100)[0] == 413
    assert disk.groups == []


def test_nothing_is_taken_of_a_request_of_which_an_event_is_wrong() -> None:
    disk = Disk()
    status, said, _ = one(disk, b'{"a":1}\n{"a":}')
    assert (status, said["error"][:21]) == (400, "event 2 is not JSON: ")
    assert disk.groups == []


@pytest.mark.parametrize(
    ("headers", "path", "status"),
    [
        ({}, "/door/events", 401),
        ({}, "/door/other", 401),
        ({"authorization": "Bearer wrong"}, "/door/events", 403),
        ({"authorization": "Bearer s3cret-of-a-good-length"}, "/door/events", 202),
        ({"authorization": "Bearer s3cret-of-a-good-length", "origin": "https://example.com"}, "/door/events", 202),
        ({"authorization": "Bearer s3cret-of-a-good-length"}, "/door/other", 404),
        ({"authorization": "Bearer s3cret-of-a-good-length"}, "/other/events", 404),
    ],
)
def test_a_valid_token_is_required(headers: Mapping[str, str], path: str, status: int) -> None:
    answered, said, _ = one(headers=headers, path=path, token="s3cret-of-a-good-length")
    assert answered == status
    assert "s3cret-of-a-good-length" not in str(said)


def test_pages_of_a_browser_send_nothing_to_a_door_without_a_token() -> None:
    assert one(headers={"origin": "http://localhost:8877"})[0] == 403


def test_a_key_that_is_no_key_is_refused() -> None:
    assert one(headers={"idempotency-key": ""})[0] == 400
    assert one(headers={"idempotency-key": "k" * 201})[0] == 400


def test_a_monitor_is_answered() -> None:
    async def story(door: Endpoint) -> list[Answer]:
        await ask(door, b'{"a":1}')
        await ask(door, b"[")
        token = {"authorization": f"Bearer {METRICS}"}
        found = [
            await ask(door, path=path, method="GET", headers=token) for path in ("/livez", "/readyz", "/metrics", "/x")
        ]
        door.is_ready = False
        return [*found, await ask(door, path="/readyz", method="GET"), await ask(door, method="PUT")]

    told = answers(Disk(), story)
    assert [status for status, _, _ in told] == [200, 200, 200, 404, 503, 405]
    counted = {"events": 1, "requests": 2, "refused": 1, "syncs": 1}
    assert told[2][1] == {"streams": {"door/events": counted}, "waiting_bytes": 0, "wrong_tokens": 0}


def test_wrong_tokens_are_counted_whether_or_not_their_answers_are_slowed() -> None:
    streams = {"door/events": Stream(RequestLimits(token="t0ken-of-the-stream"), Disk())}
    door = Endpoint(streams, metrics_token=METRICS, wrong=WrongTokens(seconds=0, most=0))
    door.senders = lambda *_: asyncio.sleep(0, SendPermission.WRONG)

    async def story() -> list[Answer]:
        for path, token in (("/door/events", "wrong"), ("/door/none", "wrong"), ("/door/events", f"{PREFIX}wrong")):
            await ask(door, path=path, headers={"authorization": f"Bearer {token}"})
        await ask(door, path="/metrics", method="GET")
        return [await ask(door, path="/metrics", method="GET", headers={"authorization": f"Bearer {METRICS}"})]

    assert run_in_new_loop(story())[0][1]["wrong_tokens"] == 3


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def story(door: Endpoint) -> Answer:
        door.patience = 0.05
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(5)
            return {}

        async def send(message: Any) -> None:
            sent.append(message)

        head = [(b"host", b"localhost"), (b"content-length", b"8")]
        await door({"type": "http", "method": "POST", "path": "/door/events", "headers": head}, receive, send)
        return sent[0]["status"], {"held": door.pending_bytes}, {}

    assert answers(Disk(), story)[:2] == (408, {"held": 0})


def test_a_disconnected_sender_leaves_no_data() -> None:
    disk = Disk()

    async def story(door: Endpoint) -> int:
        async def gone() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        async def send(_: Any) -> None:
            raise AssertionError("no client is connected")

        head = [(b"host", b"localhost")]
        await door({"type": "http", "method": "POST", "path": "/door/events", "headers": head}, gone, send)
        return door.pending_bytes

    assert answers(disk, story) == 0
    assert disk.groups == []


class CountedStreams(dict[str, Stream]):
    """The streams of an endpoint; counts how often all of them are listed."""

    listed = 0

    def values(self) -> Any:
        self.listed += 1
        return super().values()


def test_a_request_does_not_list_the_tokens_of_all_streams() -> None:
    tokens = {f"door/{number}": f"t0ken-of-the-stream-{number}" for number in range(20)}
    streams = CountedStreams({path: Stream(RequestLimits(token=token), Disk()) for path, token in tokens.items()})
    door = Endpoint(streams, wrong=WrongTokens(seconds=0.0))
    listed = streams.listed

    async def story() -> list[int]:
        sent = [("/door/nowhere", "t0ken-of-the-stream-7"), ("/door/nowhere", "wrong"), ("/door/7", "wrong")]
        return [(await ask(door, path=path, headers={"authorization": f"Bearer {token}"}))[0] for path, token in sent]

    assert run_in_new_loop(story()) == [404, 403, 403]
    assert streams.listed == listed
