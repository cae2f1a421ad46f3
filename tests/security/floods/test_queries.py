"""Queries that would run forever or use all memory, in a real process: they end in time, and the next one runs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.tiny import Tiny
from waterclock.dpl.project import Project
from waterclock.errors import WaterclockError
from waterclock.operations.project_opening import open_project
from waterclock.ui.query_client import QueryClient
from waterclock.ui.query_queue import QueryQueue

pytestmark = pytest.mark.spark
ENDLESS = "SELECT count(*) AS n FROM range(10000000000) a CROSS JOIN range(10000000000) b WHERE a.id * 7 + b.id * 3 = 5"
LONG = "SELECT repeat('a', 1000000) AS x FROM range(200)"
LARGE = "SELECT repeat('x', 1000000000) AS a UNION ALL SELECT repeat('y', 1000000000)"
ONE = "SELECT 1 AS a"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Project:
    folder = tmp_path_factory.mktemp("endless")
    Tiny(folder, spark).declare("COLLECT shop.orders PARTITIONED FROM shop.orders EVERY DAY BY DATA TIME at;")
    return open_project(folder, None)


@pytest.fixture(scope="module")
def asker() -> Iterator[QueryQueue]:
    asker = QueryQueue(seconds=60)
    yield asker
    asker.close()


def pid_of(asker: QueryQueue) -> int:
    assert asker._process is not None
    return asker._process._process.pid


def test_the_time_limit_ends_a_query_and_the_same_process_answers_the_next(project: Project, asker: QueryQueue) -> None:
    assert asker.ask(project, ONE, 10, as_of=None).answer.rows == ((1,),)
    first, asker.seconds = pid_of(asker), 2
    with pytest.raises(WaterclockError, match="stopped after 2 seconds"):
        asker.ask(project, ENDLESS, 10, as_of=None)
    asker.seconds = 60
    assert asker.ask(project, ONE, 10, as_of=None).answer.rows == ((1,),)
    assert pid_of(asker) == first


def test_a_reader_that_leaves_ends_the_query(project: Project, asker: QueryQueue) -> None:
    reader = QueryClient("one")
    leaving = threading.Timer(3, reader.leave)
    leaving.start()
    begun = time.monotonic()
    with pytest.raises(WaterclockError, match="stopped"):
        asker.ask(project, ENDLESS, 10, as_of=None, reader=reader)
    assert time.monotonic() - begun < 20
    assert asker.ask(project, ONE, 10, as_of=None).answer.rows == ((1,),)


def test_a_query_without_memory_ends_and_the_next_is_answered(project: Project, asker: QueryQueue) -> None:
    with pytest.raises(WaterclockError):
        asker.ask(project, LARGE, 10, as_of=None)
    assert asker.ask(project, ONE, 10, as_of=None).answer.rows == ((1,),)


def test_an_answer_that_is_too_large_is_refused(project: Project, asker: QueryQueue) -> None:
    with pytest.raises(WaterclockError, match="its result has 190 MiB"):
        asker.ask(project, LONG, 1000, as_of=None)
    assert asker.ask(project, ONE, 10, as_of=None).answer.rows == ((1,),)


def test_a_killed_query_process_is_reported_and_replaced(project: Project, asker: QueryQueue) -> None:
    asker.ask(project, ONE, 10, as_of=None)
    first = pid_of(asker)
    killing = threading.Timer(2, os.kill, (first, signal.SIGKILL))
    killing.start()
    with pytest.raises(WaterclockError, match="SIGKILL"):
        asker.ask(project, ENDLESS, 10, as_of=None)
    assert asker.ask(project, ONE, 10, as_of=None).answer.rows == ((1,),)
    assert pid_of(asker) != first
    os.kill(pid_of(asker), signal.SIGKILL)  # a kill between two queries is not noticed
    time.sleep(0.5)
    assert asker.ask(project, ONE, 10, as_of=None).answer.rows == ((1,),)
