from __future__ import annotations

import sqlite3
import threading
import time
from bisect import bisect_left
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.connectors.rest.option_definitions import rate_of
from waterclock.connectors.rest.rate_limit import SharedRateLimiter


def most_in(times: list[float], period: float) -> int:
    """Return the maximum number of times within any period."""
    times = sorted(times)
    return max(bisect_left(times, time + period - 1e-6) - at for at, time in enumerate(times))


@given(st.lists(st.floats(0, 0.7), min_size=1, max_size=15), st.integers(1, 4))
def test_no_period_has_more_requests_than_the_rate(tmp_path_factory: object, steps: list[float], count: int) -> None:
    folder: Path = tmp_path_factory.mktemp("pace")  # type: ignore[attr-defined]
    now = [1000.0]
    pace = SharedRateLimiter(folder / "rate.db", count, 1.0, clock=lambda: now[0])
    went = []
    for step in steps:
        now[0] += step
        went.append(now[0] + pace.reserve())
    assert most_in(went, 1.0) <= count
    assert went == sorted(went)


class Told:
    """The time, and the last time that this thread saw: waits count from there, however long the file was locked."""

    def __init__(self) -> None:
        self.last = threading.local()

    def __call__(self) -> float:
        self.last.at = time.time()
        return float(self.last.at)


def granted(file: Path, count: int) -> list[float]:
    """Reserve places in turn, wait for each, and return the times at which they were granted."""
    told = Told()
    pace = SharedRateLimiter(file, 5, 0.4, clock=told)
    times = []
    for _ in range(count):
        wait = pace.reserve()
        times.append(told.last.at + wait)
        time.sleep(wait)
    return times


def test_threads_and_processes_share_a_rate(tmp_path: Path) -> None:
    file = tmp_path / "rate.db"
    with ProcessPoolExecutor(2, get_context("spawn")) as processes, ThreadPoolExecutor(4) as threads:
        asked = [processes.submit(granted, file, 8) for _ in range(2)]
        own = list(threads.map(granted, [file] * 4, [2] * 4))
        times = [time for part in (*own, *(each.result(timeout=60) for each in asked)) for time in part]
    assert len(times) == 24
    assert most_in(times, 0.4) <= 5


def test_a_pause_holds_all(tmp_path: Path) -> None:
    now = [1000.0]
    one = SharedRateLimiter(tmp_path / "rate.db", 10, 1.0, clock=lambda: now[0])
    other = SharedRateLimiter(tmp_path / "rate.db", 10, 1.0, clock=lambda: now[0])
    one.pause(30)
    assert other.reserve() == 30.0
    now[0] += 31
    assert other.reserve() == 0.0


def test_a_file_that_is_no_database_leaves_no_connection_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rate.db").write_text("no database " * 100, encoding="utf-8")
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def keep(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        opened.append(connect(*args, **kwargs))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", keep)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        SharedRateLimiter(tmp_path / "rate.db", 10, 1.0).pause(1.0)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].execute("SELECT 1")


def test_rates_are_read() -> None:
    assert rate_of("10 PER SECOND") == (10, 1.0)
    assert rate_of("600 per minute") == (600, 60.0)
    assert rate_of("100 PER 15 MINUTES") == (100, 900.0)
    assert [rate_of(text) for text in ("10", "0 PER SECOND", "1 PER 0 HOURS", "ten PER DAY")] == [None] * 4
