"""Many clients, slow clients and long queries at the pages: all other requests get a response."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import stocks
from waterclock.dpl.project import Project
from waterclock.errors import WaterclockError
from waterclock.operations.project_opening import open_project
from waterclock.operations.query_process import BEGUN, QueryRequest
from waterclock.ui import query_queue as asker_module
from waterclock.ui.live_project import LiveProject
from waterclock.ui.query_client import QueryClient
from waterclock.ui.query_queue import MOST_WAITING, QueryQueue
from waterclock.ui.serving import RunningServer, serve_pages
from waterclock.ui.slow_clients import MOST

STALLED = 2 * MOST + 50  # more than uvicorn would accept before it answers 503


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stocks.make(tmp_path_factory.mktemp("floods") / "shop").folder


@dataclass
class Answering:
    """A fake of the query process: a query runs until it is cancelled, or forever if it is `deaf`."""

    deaf: bool = False
    asked: list[str] = field(default_factory=list)
    entered: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    ended: threading.Event = field(default_factory=threading.Event)
    cancelled: int = 0
    killed: int = 0
    begins: bool = False

    @property
    def has_ended(self) -> bool:
        return self.killed > 0

    def ask(self, request: QueryRequest) -> None:
        self.asked.append(request.sql)
        self.ended.clear()
        self.begins = True
        self.entered.release()

    def answer(self, seconds: float) -> str:
        if self.ended.wait(min(seconds, 0.01)):
            raise RuntimeError("cancelled")
        self.begins, begins = False, self.begins
        return BEGUN if begins else ""

    def cancel(self) -> None:
        self.cancelled += 1
        if not self.deaf:
            self.ended.set()

    def kill(self) -> None:
        self.killed += 1
        self.ended.set()

    def close(self) -> None:
        self.ended.set()


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answering]:
    made = Answering()
    monkeypatch.setattr(asker_module, "_SECONDS_TO_CANCEL", 1.0)
    yield made
    made.ended.set()


def asker_of(process: Answering, seconds: float) -> QueryQueue:
    return QueryQueue(seconds, lambda: process)  # type: ignore[arg-type, return-value]


@pytest.fixture
def asker(process: Answering) -> QueryQueue:
    return asker_of(process, 30)


@pytest.fixture
def served(folder: Path, asker: QueryQueue) -> Iterator[RunningServer]:
    with serve_pages(LiveProject(folder, now="2026-11-21T01:30Z"), "127.0.0.1", 0, asker=asker) as found:
        yield found


def ask(served: RunningServer, path: str, timeout: float = 10) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=timeout)) as connection:
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {served.guard.token}"})
            answer = connection.getresponse()
            answer.read()
        except TimeoutError:
            return 0
        return answer.status


def started(served: RunningServer, path: str, cookie: str = "") -> socket.socket:
    """Send a request without waiting for the response."""
    connection = socket.create_connection(("127.0.0.1", served.port), timeout=10)
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.guard.token}\r\n"
    connection.sendall(f"{head}Cookie: x={cookie}\r\n\r\n".encode())
    return connection


def test_pages_are_answered_beside_forty_queries_and_a_query_ends_with_its_reader(
    served: RunningServer, asker: QueryQueue, process: Answering
) -> None:
    with ExitStack() as stack:
        readers = {
            f"SELECT {at}": stack.enter_context(closing(started(served, f"/query.json?q=SELECT+{at}", cookie=str(at))))
            for at in range(41)
        }
        assert process.entered.acquire(timeout=10)
        begun = time.monotonic()
        assert [ask(served, path) for path in ("/", "/today", "/livez")] == [200, 200, 200]
        assert time.monotonic() - begun < 5
        runs = list(process.asked)
        for sql, reader in readers.items():
            if sql not in runs:
                reader.close()
        assert until(lambda: queries_of(asker) == 1)
        assert process.cancelled == 0
        readers[runs[0]].close()
        assert until(lambda: process.cancelled > 0)
    assert until(lambda: queries_of(asker) == 0)
    assert process.asked == runs, "a waiting query whose reader left never runs"
    assert len(runs) == 1


def queries_of(asker: QueryQueue) -> int:
    """Return how many queries run or wait."""
    return len(asker._queries)


def until(is_so: Any, seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while not (found := is_so()) and time.monotonic() < end:
        time.sleep(0.05)
    return bool(found)


@pytest.fixture
def project(folder: Path) -> Project:
    return open_project(folder, None)


def refused(asker: QueryQueue, project: Project, reader: QueryClient | None = None) -> WaterclockError:
    with pytest.raises(WaterclockError) as found:
        asker.ask(project, "SELECT 1", 10, as_of=None, reader=reader)
    return found.value


def test_a_query_ends_after_its_time_and_the_next_one_runs(project: Project, process: Answering) -> None:
    asker = asker_of(process, 0.3)
    for turn in (1, 2):
        begun = time.monotonic()
        error = refused(asker, project)
        assert (error.code, "0.3 seconds" in error.what) == ("E731", True)
        assert time.monotonic() - begun < 2
        assert until(lambda turn=turn: process.cancelled >= turn)
    assert process.killed == 0
    asker.close()


def test_a_query_that_is_deaf_to_cancelling_ends_with_its_process(project: Project, process: Answering) -> None:
    process.deaf = True
    asker = asker_of(process, 0.2)
    assert refused(asker, project).code == "E731"
    assert until(lambda: process.killed == 1)
    asker.close()


def test_few_queries_wait_and_fewer_of_one_reader(project: Project, process: Answering) -> None:
    asker = asker_of(process, 5)
    readers = [QueryClient("greedy") for _ in range(5)] + [QueryClient(f"{at}") for at in range(MOST_WAITING + 3)]
    codes: list[str] = []
    threads = [
        threading.Thread(target=lambda reader=reader: codes.append(refused(asker, project, reader).code))
        for reader in readers
    ]
    for thread in threads:
        thread.start()
    assert process.entered.acquire(timeout=5)
    assert until(lambda: len(codes) == len(readers) - MOST_WAITING - 1)
    assert set(codes) == {"E732"}
    begun = time.monotonic()
    asker.close()  # as when the server stops
    for thread in threads:
        thread.join(5)
    assert time.monotonic() - begun < 3
    assert len(codes) == len(readers)


def test_those_that_stall_leave_pages_answered_at_once(served: RunningServer) -> None:
    with ExitStack() as stack:
        for _ in range(STALLED):
            stalled = stack.enter_context(closing(socket.create_connection(("127.0.0.1", served.port), timeout=10)))
            stalled.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        begun = time.monotonic()
        assert [ask(served, "/livez") for _ in range(5)] == [200] * 5
        assert time.monotonic() - begun < 3


def test_those_that_rest_after_an_answer_leave_pages_answered_at_once(served: RunningServer) -> None:
    with ExitStack() as stack:
        for _ in range(STALLED):
            stack.enter_context(closing(started(served, "/livez")))
        assert [ask(served, "/livez") for _ in range(5)] == [200] * 5
