"""Many clients, slow clients and long queries at the pages: all others are answered."""

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
from waterclock.operations.opening import open_project
from waterclock.ui import asker as asker_module
from waterclock.ui.asker import MOST_WAITING, Asker
from waterclock.ui.live import LiveProject
from waterclock.ui.readers import Reader
from waterclock.ui.serving import Served, serving
from waterclock.ui.slow_clients import MOST

STALLED = 2 * MOST + 50  # as many as uvicorn would answer 503 to, and more


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stocks.make(tmp_path_factory.mktemp("floods") / "shop").folder


@dataclass
class Spark:
    """Stands for Spark: a query runs until it is cancelled, or for ever where it is `deaf`."""

    deaf: bool = False
    entered: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    ended: threading.Event = field(default_factory=threading.Event)
    cancelled: int = 0
    killed: int = 0

    def answer(self, *_: Any, **__: Any) -> Any:
        self.entered.release()
        self.ended.clear()
        self.ended.wait(60)
        raise RuntimeError("cancelled")

    def cancel(self, *_: Any) -> None:
        self.cancelled += 1
        if not self.deaf:
            self.ended.set()

    def kill(self) -> None:
        self.killed += 1
        self.ended.set()

    def root(self) -> None:
        return None

    def close(self) -> None:
        return None


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spark]:
    made = Spark()
    monkeypatch.setattr(asker_module, "asked", made.answer)
    monkeypatch.setattr(asker_module, "mark_jobs", lambda *_: None)
    monkeypatch.setattr(asker_module, "cancel_jobs", made.cancel)
    monkeypatch.setattr(asker_module, "_SECONDS_TO_CANCEL", 1.0)

    def sessions(asker: Asker, _: Project) -> Spark:
        asker._own = made  # type: ignore[assignment]
        return made

    monkeypatch.setattr(Asker, "_sessions", sessions)
    yield made
    made.ended.set()


@pytest.fixture
def served(folder: Path, spark: Spark) -> Iterator[Served]:
    assert not spark.deaf
    asker = Asker(seconds=30)
    with serving(LiveProject(folder, now="2026-11-21T01:30Z"), "127.0.0.1", 0, asker=asker) as found:
        yield found


def ask(served: Served, path: str, timeout: float = 10) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=timeout)) as connection:
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {served.guard.token}"})
            answer = connection.getresponse()
            answer.read()
        except TimeoutError:
            return 0
        return answer.status


def started(served: Served, path: str, cookie: str = "") -> socket.socket:
    """Ask, and wait for no answer."""
    connection = socket.create_connection(("127.0.0.1", served.port), timeout=10)
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.guard.token}\r\n"
    connection.sendall(f"{head}Cookie: x={cookie}\r\n\r\n".encode())
    return connection


def test_pages_are_answered_beside_forty_queries_and_a_query_ends_with_its_reader(served: Served, spark: Spark) -> None:
    with ExitStack() as stack:
        for at in range(41):
            stack.enter_context(closing(started(served, f"/query.json?q=SELECT+{at}", cookie=str(at))))
        assert spark.entered.acquire(timeout=10)
        begun = time.monotonic()
        assert [ask(served, path) for path in ("/", "/today", "/livez")] == [200, 200, 200]
        assert time.monotonic() - begun < 5
    # all have left: what ran is cancelled, what waited never runs
    assert until(lambda: spark.cancelled > 0)
    assert until(lambda: not any(each.name == "query" for each in threading.enumerate()))
    assert not spark.entered.acquire(timeout=0.5)


def until(is_so: Any, seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while not (found := is_so()) and time.monotonic() < end:
        time.sleep(0.05)
    return bool(found)


@pytest.fixture
def project(folder: Path) -> Project:
    return open_project(folder, None)


def refused(asker: Asker, project: Project, reader: Reader | None = None) -> WaterclockError:
    with pytest.raises(WaterclockError) as found:
        asker.ask(project, "SELECT 1", 10, as_of=None, reader=reader)
    return found.value


def test_a_query_ends_after_its_time_and_the_next_one_runs(project: Project, spark: Spark) -> None:
    asker = Asker(seconds=0.3)
    for turn in (1, 2):
        begun = time.monotonic()
        error = refused(asker, project)
        assert (error.code, "0.3 seconds" in error.what) == ("E731", True)
        assert time.monotonic() - begun < 2
        assert until(lambda turn=turn: spark.cancelled >= turn)
    assert spark.killed == 0
    asker.close()


def test_a_query_that_is_deaf_to_cancelling_ends_with_its_jvm(project: Project, spark: Spark) -> None:
    spark.deaf = True
    asker = Asker(seconds=0.2, is_alone=True)
    assert refused(asker, project).code == "E731"
    assert until(lambda: spark.killed == 1)
    asker.close()


def test_beside_a_run_a_deaf_query_ends_no_jvm_and_others_are_told_so(project: Project, spark: Spark) -> None:
    spark.deaf = True
    asker = Asker(seconds=0.2)
    assert refused(asker, project).code == "E731"
    assert refused(asker, project).code == "E732"
    assert spark.killed == 0


def test_few_queries_wait_and_fewer_of_one_reader(project: Project, spark: Spark) -> None:
    asker = Asker(seconds=5)
    readers = [Reader("greedy") for _ in range(5)] + [Reader(f"{at}") for at in range(MOST_WAITING + 3)]
    codes: list[str] = []
    threads = [
        threading.Thread(target=lambda reader=reader: codes.append(refused(asker, project, reader).code))
        for reader in readers
    ]
    for thread in threads:
        thread.start()
    assert spark.entered.acquire(timeout=5)
    assert until(lambda: len(codes) == len(readers) - MOST_WAITING - 1)
    assert set(codes) == {"E732"}
    begun = time.monotonic()
    asker.close()  # as at the end of the pages
    for thread in threads:
        thread.join(5)
    assert time.monotonic() - begun < 3
    assert len(codes) == len(readers)


def test_those_that_stall_leave_pages_answered_at_once(served: Served) -> None:
    with ExitStack() as stack:
        for _ in range(STALLED):
            stalled = stack.enter_context(closing(socket.create_connection(("127.0.0.1", served.port), timeout=10)))
            stalled.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        begun = time.monotonic()
        assert [ask(served, "/livez") for _ in range(5)] == [200] * 5
        assert time.monotonic() - begun < 3


def test_those_that_rest_after_an_answer_leave_pages_answered_at_once(served: Served) -> None:
    with ExitStack() as stack:
        for _ in range(STALLED):
            stack.enter_context(closing(started(served, "/livez")))
        assert [ask(served, "/livez") for _ in range(5)] == [200] * 5
