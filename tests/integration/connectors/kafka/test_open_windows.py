"""Open windows of topics (CONTINUOUS): a tick shows records that the batch of their window then takes, each once."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from tests.integration.engine.test_continuous import Stream, minute
from tests.kafka import Broker, broker, needs_broker
from tests.tiny import TOML, Tiny, described
from waterclock.connectors.kafka import collection
from waterclock.connectors.kafka.cluster import Cluster
from waterclock.engine.continuous import tick as ticks
from waterclock.engine.continuous.loop import OpenWindowTicks
from waterclock.engine.continuous.table_reads import Attempt
from waterclock.engine.continuous.tick import TickRows
from waterclock.engine.runner import Runner
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.operations.open_windows import windows_of_ticks
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, needs_broker]

SHOWN = "SELECT id, timelabel, is_closed FROM web.clicks_view ORDER BY ALL"
FIRST, SECOND = "20200101000000", "20200101010000"


def flow(topic: str, options: str = "", columns: str = "id BIGINT", delay: str = "") -> str:
    said = f"OPTIONS ({options})" if options else ""
    return f"""
CREATE CONNECTION bus TYPE kafka;
COLLECT web.clicks PARTITIONED ({columns}) FROM bus.`{topic}` {said} EVERY HOUR {delay} BY ARRIVAL TIME
  CONTINUOUS 10 SECONDS;
TRANSFORM web.total PARTITIONED CONTINUOUS AS SELECT count(*) AS n, sum(id) AS ids FROM web.clicks;
"""


@dataclass
class TopicStream(Stream):
    """A stream whose events are the records of a topic."""

    topic: str = ""
    bus: Broker = field(default_factory=broker)

    def send(self, *ids: int, partition: int = 0, commits: bool | None = None, at: datetime | None = None) -> None:
        records = [(None, json.dumps({"id": id_}).encode()) for id_ in ids]
        timestamp = 0 if at is None else int(at.timestamp() * 1000)
        self.bus.send(self.topic, records, partition=partition, commits=commits, timestamp=timestamp)

    def refused(self, now: datetime) -> WaterclockError:
        """Make a tick that cannot read the topic; return the error, which a run reports."""
        errors: list[WaterclockError] = []
        run = Attempt.run

        def note(attempt: Attempt[TickRows]) -> None:
            run(attempt)
            errors.extend([attempt.error] if attempt.error is not None else [])

        with patch.object(Attempt, "run", note):
            self.tick(now)
        [error] = errors
        return error

    def shown(self) -> list[tuple[object, ...]]:
        return self.rows(SHOWN)


def stream_of(folder: Path, spark: SparkSession, partitions: int = 1, timeout: str = "") -> TopicStream:
    bus = broker()
    toml = f'{TOML}connections.bus = {{{{ servers = "{bus.servers}"{timeout} }}}}\n'
    stream = TopicStream(Tiny(folder, spark, toml=toml), topic=bus.topic(partitions=partitions))
    stream.tiny.declare(flow(stream.topic))
    return stream


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count the tables whose rows ticks make."""
    made: Counter[str] = Counter()
    make: Callable[..., Any] = vars(ticks)["make"]

    def count(*args: object) -> object:
        made[args[2].name] += 1  # type: ignore[attr-defined]
        return make(*args)

    with patch.object(ticks, "make", count):
        yield made


def test_a_tick_shows_the_records_so_far_and_the_batch_takes_them(tmp_path: Path, spark: SparkSession) -> None:
    stream = stream_of(tmp_path, spark, partitions=2)
    assert stream.tick(minute(5)) is None
    stream.send(1, 2, commits=True)
    stream.send(99, commits=False)
    with counted() as made:
        assert stream.tick(minute(7)) == 1
        assert stream.shown() == [(1, FIRST, False), (2, FIRST, False)]
        assert stream.tick(minute(8)) is None  # no new offsets: Spark has nothing to do
    assert made == {"web.clicks": 1, "web.total": 1}
    stream.send(3, partition=1)
    assert stream.tick(minute(59)) == 2
    opened = {name: stream.open_digests(name)[minute(0)] for name in ("web.clicks", "web.total")}
    assert stream.shown() == [(1, FIRST, False), (2, FIRST, False), (3, FIRST, False)]

    # the hour is over, and its batch has not been claimed: what comes now belongs to it, and is not shown yet
    stream.run(minute(60))
    assert {(name, FIRST): each for name, each in opened.items()} == stream.tiny.digests()
    stream.send(4)
    assert stream.tick(minute(61)) == 3
    assert stream.shown() == [(1, FIRST, True), (2, FIRST, True), (3, FIRST, True), (4, SECOND, False)]
    stream.send(5)
    assert stream.tick(minute(121)) is None
    stream.run(minute(190))  # two hours were missed: the oldest takes all records
    stream.send(6)
    stream.tick(minute(191))
    assert stream.shown()[3:] == [(4, SECOND, True), (5, SECOND, True), (6, "20200101030000", False)]
    assert stream.rows("SELECT timelabel, n, is_closed FROM web.total_view WHERE n > 0 ORDER BY ALL") == [
        (FIRST, 3, True), (SECOND, 2, True), ("20200101030000", 1, False)
    ]  # fmt: skip


def test_rows_are_shown_in_the_window_whose_batch_takes_them_while_that_batch_runs_or_fails(
    tmp_path: Path, spark: SparkSession
) -> None:
    stream = stream_of(tmp_path, spark)
    stream.send(1)
    stream.tick(minute(10))
    during: list[list[tuple[object, ...]]] = []

    def interleave(point: str) -> None:
        if point == "claimed" and not during:
            during.append([])
            stream.send(2)  # after the claim fixed the offsets
            stream.tick(minute(62))
            during.append(stream.shown())
            raise WaterclockError("E799", "the machine went away")

    stream.now = minute(61)
    with inject_faults(interleave), stream.opened() as work:
        Runner(work).run_once(stream.now)
    assert during[1] == [(1, FIRST, False), (2, SECOND, False)]
    assert stream.shown() == during[1]
    stream.send(3)
    stream.tick(minute(63))
    assert stream.shown() == [*during[1], (3, SECOND, False)]
    with stream.opened() as work:
        work.ledger.decisions.retry("web.clicks", [minute(0)], who="a test")
    stream.run(minute(64))
    assert stream.shown() == [(1, FIRST, True), (2, SECOND, False), (3, SECOND, False)]

    # a batch that another one has to wait for keeps what it took; without new records, it may take more later
    stream.tiny.declare(flow(stream.topic).replace("CONTINUOUS 10", "EXPECT count(*) = 99 ELSE HOLD CONTINUOUS 10"))
    stream.now = minute(121)
    with stream.opened() as work:
        outcome = Runner(work).run_once(stream.now)
    assert outcome.failed, described(outcome)
    stream.send(4)
    stream.tick(minute(122))
    assert stream.shown() == [(1, FIRST, True), (4, "20200101020000", False)]
    with stream.opened() as work:
        work.ledger.decisions.skip("web.clicks", [Window(minute(60), minute(120))], who="a test", why="not needed")
    stream.tick(minute(123))
    assert stream.shown() == [(1, FIRST, True), (4, "20200101020000", False)]


def test_the_lag_of_partitions_is_that_of_the_newest_tick_and_is_shown_without_a_request(
    tmp_path: Path, spark: SparkSession
) -> None:
    stream = stream_of(tmp_path, spark, partitions=2)

    def lag() -> list[tuple[object, ...]]:
        with patch.object(Cluster, "_client", side_effect=AssertionError), stream.opened() as work:
            facts = work.ledger.reads.snapshot(work.flow).of("web.clicks")
            found = windows_of_ticks(work.lake, work.flow.tables["web.clicks"], facts, stream.now).log
        assert found is not None
        assert found.offsets == sum(each.offsets for each in found.worst)
        return [(each.partition, each.committed, each.end, each.newest) for each in found.worst]

    stream.send(1, 2, at=minute(3))
    stream.tick(minute(5))
    assert lag() == [("0", 0, 2, minute(3)), ("1", 0, 0, None)]
    stream.send(3, 4, 5, partition=1, at=minute(4))
    assert lag()[0] == ("0", 0, 2, minute(3))  # as of the tick
    stream.tick(minute(6))
    assert lag() == [("1", 0, 3, minute(4)), ("0", 0, 2, minute(3))]
    stream.run(minute(61))
    stream.tick(minute(62))
    assert lag() == [("0", 2, 2, minute(3)), ("1", 3, 3, minute(4))]
    with patch.object(Cluster, "newest_times", side_effect=AssertionError):
        stream.tick(minute(63))  # nothing is new

    def fail(point: str) -> None:
        if point == "claimed":
            raise WaterclockError("E799", "the machine went away")

    stream.send(6, at=minute(4))
    stream.now = minute(121)
    with inject_faults(fail), stream.opened() as work:
        Runner(work).run_once(stream.now)
    stream.send(7, at=minute(5))
    stream.tick(minute(122))
    assert lag()[0] == ("0", 2, 4, minute(5))  # the failed batch owns the first of them


def test_a_delay_gives_all_records_to_the_older_window(tmp_path: Path, spark: SparkSession) -> None:
    stream = stream_of(tmp_path, spark)
    stream.tiny.declare(flow(stream.topic, delay="DELAY 10 MINUTES"))
    stream.send(1)
    stream.tick(minute(65))
    stream.send(2)
    stream.tick(minute(66))
    assert stream.shown() == [(1, FIRST, False), (2, FIRST, False)]
    stream.run(minute(70))
    stream.send(3)
    stream.tick(minute(71))
    assert stream.shown() == [(1, FIRST, True), (2, FIRST, True), (3, SECOND, False)]


def test_errors_of_the_topic_are_reported_once_and_keep_the_rows(tmp_path: Path, spark: SparkSession) -> None:
    stream = stream_of(tmp_path, spark, timeout=", timeout = 3")
    stream.send(1)
    stream.run(minute(60))
    stream.send(2)
    stream.tick(minute(61))
    shown = [(1, FIRST, True), (2, SECOND, False)]
    assert stream.shown() == shown
    stream.tiny.declare(flow(stream.topic).replace("10 SECONDS", "1 SECOND"))
    stream.bus.kill()
    try:
        said = _ticked(stream, 2)
    finally:
        stream.bus.start()
    assert [each for each in said if each.startswith("open windows of web.clicks are not up to date: ")] == said
    assert len(said) == 1
    assert stream.shown() == shown

    stream.send(3, 4)
    stream.bus.delete_before(stream.topic, 0, 3)  # 4 is left
    assert stream.refused(minute(62)).code == "E852"
    assert stream.shown() == shown
    stream.tiny.declare(flow(stream.topic, "without '0:1-3'"))
    stream.tick(minute(63))
    assert stream.shown() == [(1, FIRST, True), (4, SECOND, False)]

    read = collection._read_records

    def replace_topic(*asked: Any) -> Any:
        stream.bus.delete_topic(stream.topic)
        stream.bus.topic(stream.topic)
        stream.send(5, 5, 5, 5, 5)  # they have the offsets of those before
        return read(*asked)

    stream.send(5)
    with patch.object(collection, "_read_records", replace_topic):
        assert stream.refused(minute(64)).code == "E853"  # it was replaced during the read
    assert stream.shown() == [(1, FIRST, True), (4, SECOND, False)]
    stream.bus.delete_topic(stream.topic)
    stream.bus.topic(stream.topic)
    stream.send(5)
    refusal = stream.refused(minute(64))
    assert refusal.code == "E853"
    without = str(refusal.fix).partition("without '")[2].partition("'")[0]
    assert stream.shown() == [(1, FIRST, True), (4, SECOND, False)]
    stream.tiny.declare(flow(stream.topic, f"without '{without}'"))
    stream.tick(minute(65))
    assert stream.shown() == [(1, FIRST, True), (5, SECOND, False)]
    stream.run(minute(120))
    assert stream.shown() == [(1, FIRST, True), (5, SECOND, True)]


def _ticked(stream: TopicStream, times: int) -> list[str]:
    """Let a watching run make ticks by itself; return its messages."""
    stream.tiny.heard.said_.clear()
    tried: list[None] = []
    enough = threading.Event()
    run_tick = ticks.run_tick

    def tick(*args: object) -> int | None:
        try:
            return run_tick(*args)  # type: ignore[arg-type]
        finally:
            tried.append(None)
            if len(tried) == times:
                enough.set()

    with patch.object(ticks, "run_tick", tick), stream.opened() as work, OpenWindowTicks(work):
        assert enough.wait(120)
    return list(stream.tiny.heard.said_)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_ticks_and_batches_shows_each_record_once(tmp_path: Path, spark: SparkSession, seed: int) -> None:
    random, stream = Random(seed), stream_of(tmp_path, spark, partitions=2)
    history, points = History(stream), ("claimed", "sealed", "committed")
    stream.tick(minute(1))
    for _ in range(25):
        action = random.choice(("send", "send", "tick", "tick", "wait", "run", "fail", "seal"))
        if action == "send":
            history.send(random)
        elif action == "tick":
            stream.tick(stream.now)
        elif action == "wait":
            stream.now += timedelta(minutes=random.choice((1, 20, 70)))
        elif action == "run":
            stream.run(stream.now)
        elif action == "fail":
            history.fail(random.choice(points))
        else:
            history.seal()
        history.check()
    stream.run(stream.now + timedelta(hours=2))
    history.check()
    assert history.labels.keys() == history.committed
    assert history.sealed > 0


@dataclass
class History:
    """The records that were sent, and the label in which each was shown."""

    stream: TopicStream
    committed: set[int] = field(default_factory=set)
    labels: dict[int, str] = field(default_factory=dict)
    sent: int = 0
    sealed: int = 0

    def send(self, random: Random) -> None:
        ids = range(self.sent, self.sent + random.randint(1, 3))
        commits = random.choice((None, True, False))
        self.stream.send(*ids, partition=random.randrange(2), commits=commits)
        self.committed |= set(ids) if commits is not False else set()
        self.sent = ids.stop

    def fail(self, point: str) -> None:
        """Run batches that end at a point, while records and a tick come; another run may finish them later."""
        shown: list[list[tuple[object, ...]]] = []

        def strike(at: str) -> None:
            if at == point and not shown:
                self.stream.send(self.sent)
                self.committed.add(self.sent)
                self.sent += 1
                self.stream.tick(self.stream.now)
                shown.append(self.stream.shown())
                raise WaterclockError("E799", "the machine went away", transient=True)

        with inject_faults(strike), self.stream.opened() as work:
            Runner(work).run_once(self.stream.now)
        for rows in shown:
            self.compare(rows)

    def seal(self) -> None:
        """Make the last tick of an hour, and compare it with the batch if no other window is missing."""
        stream = self.stream
        end = minute(0) + timedelta(hours=int((stream.now - minute(0)) / timedelta(hours=1)) + 1)
        label = end - timedelta(hours=1)
        stream.run(stream.now)
        stream.tick(end - timedelta(seconds=1))
        opened = stream.open_digests("web.clicks").get(label)
        stream.run(end)
        if opened is not None:
            assert stream.tiny.digests()["web.clicks", f"{label:%Y%m%d%H%M%S}"] == opened
            self.sealed += 1

    def check(self) -> None:
        self.compare(self.stream.shown())

    def compare(self, rows: list[tuple[object, ...]]) -> None:
        ids = [int(str(row[0])) for row in rows]
        assert len(ids) == len(set(ids))
        assert set(ids) <= self.committed
        labels = {int(str(row[0])): str(row[1]) for row in rows}
        assert {id_: labels.get(id_) for id_ in self.labels} == self.labels
        self.labels = labels
