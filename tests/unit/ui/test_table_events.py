"""The streams of pages that follow a table: when events are sent, how many streams there are, and when they end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.event_loops import run_in_new_loop
from tests.pages import TOKEN
from tests.ticking import CLICKS, PAGES, Ticking
from waterclock.errors import WaterclockError
from waterclock.ui.app import create_app
from waterclock.ui.live_project import LiveProject
from waterclock.ui.people import People
from waterclock.ui.request_guard import Guard
from waterclock.ui.table_events import StreamLimits, TableEvents

Message = dict[str, Any]
SOON = 20.0  # seconds, on a busy machine


class Served:
    """The application of a project, with clients that are not connected by a network."""

    def __init__(self, ticking: Ticking, limits: StreamLimits) -> None:
        self.ticking = ticking
        self.live = LiveProject(ticking.folder)
        self.people, self.guard = People(self.live), Guard(TOKEN)
        self.events = TableEvents(self.people, self.guard, limits)
        self.app = create_app(self.live, self.guard, people=self.people, events=self.events)

    def open(self, table: str = CLICKS, **headers: str) -> Client:
        return Client(self, table, headers)


class Client:
    """A client that requests the events of a table. `sent` are the messages that the application sends."""

    def __init__(self, served: Served, table: str, headers: dict[str, str]) -> None:
        given = {"host": "localhost", "authorization": f"Bearer {TOKEN}"} | headers
        self.scope = {
            "type": "http", "method": given.pop("method", "GET"), "path": f"/events/{table}", "raw_path": b"",
            "query_string": b"", "scheme": "http", "client": ("127.0.0.1", 1), "server": ("localhost", 80),
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()],
            "asgi": {"version": "3.0", "spec_version": "2.3"}, "state": {},
        }  # fmt: skip
        self.sent: list[Message] = []
        self.times: list[float] = []
        self.news, self.left, self.reads = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.reads.set()
        self.task = asyncio.create_task(served.app(self.scope, self._receive, self._send))

    async def _receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)
        self.times.append(time.monotonic())
        self.news.set()
        await self.reads.wait()

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def header(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    def ticks(self) -> list[str]:
        bodies = [each.get("body", b"").decode() for each in self.sent]
        return [body.splitlines()[0].removeprefix("id: ") for body in bodies if body.startswith("id: ")]

    def alive(self) -> int:
        return sum(b"event: alive" in each.get("body", b"") for each in self.sent)

    async def until(self, is_so: Callable[[], bool]) -> None:
        async def wait() -> None:
            while not is_so():
                self.news.clear()
                await self.news.wait()

        await asyncio.wait_for(wait(), SOON)

    async def ended(self) -> None:
        await asyncio.wait_for(asyncio.shield(self.task), SOON)

    async def leave(self) -> None:
        self.left.set()
        await self.ended()


@pytest.fixture
def ticking(tmp_path: Path) -> Ticking:
    return Ticking(tmp_path / "clicks")


@pytest.fixture
def story(ticking: Ticking) -> Callable[..., None]:
    """Return what runs a test with the application of the project, in an event loop."""

    def run(told: Callable[[Served], Awaitable[None]], **limits: Any) -> None:
        async def tell() -> None:
            served = Served(ticking, StreamLimits(**limits))
            try:
                await told(served)
            finally:
                served.live.close()

        run_in_new_loop(tell())

    return run


def test_each_tick_is_an_event_and_none_comes_sooner_than_the_tick(story: Callable[..., None]) -> None:
    async def told(served: Served) -> None:
        client = served.open()
        await client.until(lambda: len(client.ticks()) == 1)
        assert client.status == 200
        assert client.header["content-type"] == "text/event-stream; charset=utf-8"
        assert "access-control-allow-origin" not in client.header
        for number in (2, 3):
            await asyncio.to_thread(served.ticking.tick, [1, 2])
            await client.until(lambda number=number: len(client.ticks()) == number)  # type: ignore[misc]
        assert len(set(client.ticks())) == 3
        at = [when for when, each in zip(client.times, client.sent, strict=True) if b"id: " in each.get("body", b"")]
        assert all(later - earlier >= 0.99 for earlier, later in pairwise(at))
        await client.leave()
        assert (served.events.streams, served.events.checked_tables) == (0, 0)

    story(told)


def test_a_client_that_connects_again_hears_only_what_is_new(story: Callable[..., None]) -> None:
    async def told(served: Served) -> None:
        stays = served.open()
        await stays.until(lambda: len(stays.ticks()) == 1)
        again = served.open(last_event_id=stays.ticks()[0])
        await again.until(lambda: again.alive() > 1)
        assert again.ticks() == []
        await asyncio.to_thread(served.ticking.tick, [1])
        await again.until(lambda: len(again.ticks()) == 1)
        await stays.until(lambda: len(stays.ticks()) == 2)
        assert again.ticks() == stays.ticks()[1:]
        await again.leave()
        await stays.leave()

    story(told, alive=0.2)


def test_streams_of_a_person_and_in_all_are_limited_and_the_others_get_a_time_to_wait(
    story: Callable[..., None],
) -> None:
    async def told(served: Served) -> None:
        threads = threading.active_count()
        clients = [served.open() for _ in range(3)]
        for each in clients:
            await each.until(lambda each=each: bool(each.sent))  # type: ignore[misc]
        refused = served.open()
        await refused.ended()
        assert (refused.status, refused.header["retry-after"]) == (503, "60")
        assert b"too many of your pages" in refused.sent[1]["body"]
        await clients[0].leave()
        another = served.open()
        await another.until(lambda: bool(another.sent))
        assert another.status == 200
        assert served.events.streams == 3
        for each in (*clients[1:], another):
            await each.leave()
        assert served.events.streams == 0
        assert threading.active_count() - threads <= 8

    story(told, most_of_one=3)


def test_all_streams_together_are_limited(story: Callable[..., None]) -> None:
    async def told(served: Served) -> None:
        client = served.open()
        await client.until(lambda: bool(client.sent))
        refused = served.open(PAGES)
        await refused.ended()
        assert refused.status == 503
        assert b"too many pages follow" in refused.sent[1]["body"]
        await client.leave()

    story(told, most=1)


def test_one_task_checks_each_table_once_for_all_clients(
    story: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def told(served: Served) -> None:
        checks: list[list[str]] = []
        read = served.events._read_states

        def count(names: list[str]) -> Any:
            checks.append(names)
            return read(names)

        monkeypatch.setattr(served.events, "_read_states", count)
        clients = [served.open(table) for table in (CLICKS, CLICKS, CLICKS, PAGES)]
        for each in clients:
            await each.until(lambda each=each: len(each.ticks()) == 1)  # type: ignore[misc]
        assert served.events.checked_tables == 2
        assert all(len(names) == len(set(names)) <= 2 for names in checks)
        for each in clients:
            await each.leave()

    story(told)


def test_a_stream_ends_after_its_time(story: Callable[..., None]) -> None:
    async def told(served: Served) -> None:
        client = served.open()
        began = time.monotonic()
        await client.ended()
        assert 1 <= time.monotonic() - began < SOON
        assert client.sent[-1]["more_body"] is False
        assert served.events.streams == 0

    story(told, longest=1.0)


def test_a_client_that_does_not_read_delays_no_other_and_nothing_is_kept_for_it(story: Callable[..., None]) -> None:
    async def told(served: Served) -> None:
        deaf, other = served.open(), served.open()
        deaf.reads.clear()
        for number in range(1, 4):
            await other.until(lambda number=number: len(other.ticks()) == number)  # type: ignore[misc]
            await asyncio.to_thread(served.ticking.tick, [number])
        assert len(deaf.sent) <= 2
        deaf.reads.set()
        await deaf.until(lambda: bool(deaf.ticks()))
        assert deaf.ticks()[0] in other.ticks()[-2:] or deaf.ticks()[0] == other.ticks()[0]
        await deaf.leave()
        await other.leave()

    story(told)


def test_a_stream_ends_once_its_credential_is_no_longer_valid(story: Callable[..., None]) -> None:
    async def told(served: Served) -> None:
        client = served.open()
        await client.until(lambda: len(client.ticks()) == 1)
        served.guard.token = "another-token-of-the-server"
        await asyncio.to_thread(served.ticking.tick, [1])
        await client.ended()
        assert len(client.ticks()) == 1

    story(told)


def test_a_stream_ends_once_the_session_of_its_browser_is_ended(story: Callable[..., None]) -> None:
    async def told(served: Served) -> None:
        from waterclock.ui.browser_sessions import Credential

        value = served.guard.sessions.begin(Credential(), who="ann")
        client = served.open(cookie=f"{served.guard.cookie}={value}", authorization="Basic x")
        await client.until(lambda: len(client.ticks()) == 1)
        served.guard.sessions.revoke()
        await client.ended()  # at the next sign of life: no event is needed

    story(told, alive=0.5)


def test_a_stream_ends_once_its_person_may_no_longer_see_all_tables(
    story: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def told(served: Served) -> None:
        from dataclasses import replace

        from waterclock.permissions.users_and_roles import Right, SignIn

        served.people.owner = replace(served.people.owner, rights=frozenset({Right.LOOK}), sign_in=SignIn.TOKEN)
        client = served.open()
        await client.until(lambda: len(client.ticks()) == 1)

        def refuse(_: object, __: object) -> None:
            raise WaterclockError("E946", "not for anna", why="a test", fix="none")

        monkeypatch.setattr(People, "require_all_tables", refuse)
        await client.ended()

    story(told, alive=0.5)


def test_close_ends_all_streams_at_once_and_refuses_others(story: Callable[..., None]) -> None:
    async def told(served: Served) -> None:
        clients = [served.open(), served.open(PAGES)]
        for each in clients:
            await each.until(lambda each=each: len(each.ticks()) == 1)  # type: ignore[misc]
        began = time.monotonic()
        await asyncio.to_thread(served.events.close)
        for each in clients:
            await each.ended()
        assert time.monotonic() - began < 2
        refused = served.open()
        await refused.ended()
        assert refused.status == 503

    story(told)


def test_a_failed_check_ends_the_streams_so_that_pages_poll(
    story: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def told(served: Served) -> None:
        client = served.open()
        await client.until(lambda: len(client.ticks()) == 1)

        def fail(_: object) -> dict[str, str]:
            raise WaterclockError("E421", "the ledger is gone", why="a test", fix="none")

        monkeypatch.setattr(served.events, "_read_states", fail)
        await client.ended()
        assert (served.events.streams, served.events.checked_tables) == (0, 0)
        monkeypatch.undo()
        again = served.open()
        await again.until(lambda: len(again.ticks()) == 1)
        await again.leave()

    story(told)


def test_a_check_that_does_not_end_takes_one_thread_only(story: Callable[..., None]) -> None:
    async def told(served: Served) -> None:
        with served.events._reading, pytest.raises(OSError, match="has not ended"):
            served.events._read_states([CLICKS])
        assert served.events._read_states([CLICKS]).keys() == {CLICKS}

    story(told)


@pytest.mark.parametrize(
    ("table", "headers", "status"),
    [
        ("web.other", {}, 404),
        ("web.none", {}, 404),
        (CLICKS, {"sec_fetch_site": "cross-site"}, 403),
        (CLICKS, {"sec_fetch_site": "same-site"}, 403),
        (CLICKS, {"authorization": "Bearer wrong"}, 401),
        (CLICKS, {"host": "evil.example"}, 421),
        (CLICKS, {"method": "POST"}, 403),
        (CLICKS, {"method": "HEAD"}, 200),
    ],
)
def test_other_requests_open_no_stream(
    story: Callable[..., None], table: str, headers: dict[str, str], status: int
) -> None:
    async def told(served: Served) -> None:
        client = served.open(table, **headers)
        await client.ended()
        assert client.status == status
        assert served.events.streams == 0

    story(told)


def test_a_table_that_loses_continuous_is_no_longer_followed(story: Callable[..., None]) -> None:
    async def told(served: Served) -> None:
        client = served.open(PAGES)
        await client.until(lambda: len(client.ticks()) == 1)
        flow = served.ticking.folder / "flows" / "clicks.dpl"
        flow.write_text(flow.read_text().replace("CONTINUOUS AS", "AS"))
        await client.ended()

    story(told)
