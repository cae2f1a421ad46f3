"""Open windows at destinations: PUBLISH ... OPTIONS (speed true) shows each label once, from the first tick on."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.engine.test_continuous import Stream, minute
from tests.live_destinations import LiveDestination, live_destination
from tests.tiny import Tiny, day, described
from waterclock.engine.continuous.destinations import deliver_open_windows, publishes_of_open_windows
from waterclock.engine.continuous.loop import OpenWindowTicks
from waterclock.engine.runner import Runner
from waterclock.faults import inject_faults
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KINDS = ["sqlite", "duckdb", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("postgres", "mysql"))]
FLOW = """
COLLECT web.clicks PARTITIONED (id BIGINT NOT NULL ELSE DROP, user STRING, file AS (_source.file) HIDDEN)
  FROM land.acme.clicks EVERY HOUR BY ARRIVAL TIME CONTINUOUS 10 SECONDS;
TRANSFORM web.per_user PARTITIONED CONTINUOUS EXPECT sum(clicks) < 10 ELSE HOLD
AS SELECT user, count(*) AS clicks FROM web.clicks GROUP BY user;
PUBLISH web.clicks TO live.clicks OPTIONS (speed true);
PUBLISH web.per_user (user, clicks) TO live.users OPTIONS (speed true);
"""
CLICKS = "SELECT id, is_closed FROM clicks ORDER BY 1"
USERS = "SELECT timelabel, users.user, clicks, is_closed FROM users ORDER BY 1, 2"


def stream_of(folder: Path, spark: SparkSession, destination: LiveDestination, flow: str = FLOW) -> Stream:
    stream = Stream(Tiny(folder, spark, toml=destination.toml))
    stream.tiny.declare(destination.declared + flow)
    return stream


def tick(stream: Stream, at: int) -> int:
    """Make a tick and deliver it; return the number of labels that changed at the destination."""
    stream.tick(minute(at))
    with stream.opened() as work:
        return sum(deliver_open_windows(work, table) for table in publishes_of_open_windows(work.flow))


def run(stream: Stream, at: int, *tables: str) -> None:
    """Run the batches of some tables; by default of all."""
    stream.now = minute(at)
    with stream.opened() as work:
        outcome = Runner(work, only=frozenset(tables) if tables else None).run_once(stream.now)
    assert not outcome.failed, described(outcome)


def shown(destination: LiveDestination, sql: str) -> list[tuple[Any, ...]]:
    return [(*row[:-1], bool(row[-1])) for row in destination.read(sql)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_dashboard_sees_each_window_once_from_the_first_tick_on(
    tmp_path: Path, spark: SparkSession, kind: str
) -> None:
    destination = live_destination(kind, tmp_path)
    stream = stream_of(tmp_path, spark, destination)
    stream.click(minute(6), (1, "a"), ("", "b"), (2, "a"))
    assert tick(stream, 7) == 2
    assert shown(destination, CLICKS) == [(1, False), (2, False)]
    stream.click(minute(50), (3, "b"))
    assert tick(stream, 51) == 2
    assert tick(stream, 52) == 0
    assert [row[1:] for row in shown(destination, USERS)] == [("a", 2, False), ("b", 1, False)]

    stream.click(minute(60), (4, "c"))
    run(stream, 61, "web.clicks", "web.per_user")
    tick(stream, 61)  # the first hour is not in the tick any more, and its PUBLISH is not done
    assert shown(destination, CLICKS) == [(1, False), (2, False), (3, False), (4, False)]
    run(stream, 61)
    assert shown(destination, CLICKS) == [(1, True), (2, True), (3, True), (4, False)]
    assert [row[1:] for row in shown(destination, USERS)] == [("a", 2, True), ("b", 1, True), ("c", 1, False)]
    assert tick(stream, 62) == 0

    stream.click(minute(125), (5, "d"))
    run(stream, 126)
    tick(stream, 126)
    assert [row[1] for row in shown(destination, CLICKS)] == [True, True, True, True, False]
    assert {row[0] for row in shown(destination, USERS)} == {f"202001010{hour}0000" for hour in range(3)}


def test_labels_that_a_rule_holds_or_a_user_skips_are_withdrawn(tmp_path: Path, spark: SparkSession) -> None:
    destination = live_destination("sqlite", tmp_path)
    stream = stream_of(tmp_path, spark, destination)
    stream.click(minute(6), *((each, "a") for each in range(9)))
    tick(stream, 7)
    assert [row[2] for row in shown(destination, USERS)] == [9]
    stream.click(minute(60), *((each, "a") for each in range(100, 109)))
    stream.click(minute(59), (9, "a"))  # one too many, after the last tick
    stream.now = minute(61)
    with stream.opened() as work:
        outcome = Runner(work).run_once(stream.now)
    assert [report.group.table for report in outcome.failed] == ["web.per_user"]
    tick(stream, 61)
    assert [row[:3] for row in shown(destination, USERS)] == [("20200101010000", "a", 9)]
    assert len(shown(destination, CLICKS)) == 19

    stream.click(minute(120), (200, "b"))
    run_of_tables = ("web.clicks", "web.per_user")
    stream.now = minute(121)
    with stream.opened() as work:
        Runner(work, only=frozenset(run_of_tables)).run_once(stream.now)
        work.ledger.decisions.skip("live.users", [Window(minute(60), minute(120))], who="test", why="not needed")
    tick(stream, 121)
    assert [row[:3] for row in shown(destination, USERS)] == [("20200101020000", "b", 1)]


def test_ticks_of_a_slow_destination_are_left_out_and_errors_are_reported_once(
    tmp_path: Path, spark: SparkSession
) -> None:
    destination = live_destination("sqlite", tmp_path)
    flow = FLOW.replace("CONTINUOUS 10 SECONDS", "CONTINUOUS 1 SECOND")
    stream = stream_of(tmp_path, spark, destination, flow)
    stream.click(minute(6), (1, "a"))
    stream.now = minute(7)
    failed, delivered = threading.Event(), threading.Event()
    waits = threading.Event()
    ticks: list[str] = []

    def strike(point: str) -> None:
        ticks.append(point)
        if point == "open.written" and not failed.is_set():
            failed.set()
            assert waits.wait(120)
            raise OSError("the disk is full")
        if point == "open.shown":
            delivered.set()

    with inject_faults(strike), stream.opened() as work, OpenWindowTicks(work):
        assert failed.wait(120)
        stream.click(minute(6, 30), (2, "b"))
        while ticks.count("speed.pinned") < 3:  # ticks continue meanwhile
            assert not delivered.wait(0.1) or ticks
        waits.set()
        assert delivered.wait(120)
    assert [message for message in stream.tiny.heard.said_ if "live." in message]
    with stream.opened() as work:
        for table in publishes_of_open_windows(work.flow):
            deliver_open_windows(work, table)
    assert shown(destination, CLICKS) == [(1, False), (2, False)]


def test_nothing_is_sent_where_the_environment_does_not_publish(tmp_path: Path, spark: SparkSession) -> None:
    destination = live_destination("sqlite", tmp_path)
    stream = stream_of(tmp_path, spark, destination)
    toml = tmp_path / "waterclock.toml"
    toml.write_text(toml.read_text().replace("publish = true", "publish = false"))
    stream.click(day(1), (1, "a"))
    assert tick(stream, 7) == 0
    assert not (tmp_path / "live.sqlite").exists()
