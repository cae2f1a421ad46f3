"""Readers query views in a loop, in the lake and at a destination, while ticks, batches and brokers are killed.

They are killed, or stopped for a while. No row is shown twice, and no row that a reader saw is lost.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.faults.killing import gateway_of, wait_for_leases
from tests.faults.live_sources import LiveSource, TopicSource, end_of_hour
from tests.integration.engine.test_continuous import Stream, minute
from tests.kafka import needs_broker
from tests.live_destinations import LiveDestination, live_destination
from tests.tiny import Tiny
from waterclock.engine.continuous.destinations import deliver_open_windows, publishes_of_open_windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PUBLISH = "PUBLISH web.clicks TO live.clicks OPTIONS (speed true);"
REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Strike:
    """A signal to a process that makes a tick or batches (`form`), or to the broker, when the process passes a point.

    `times`: how often it passes the point until then.
    """

    form: str
    point: str
    times: int = 1
    how: signal.Signals = signal.SIGKILL
    is_of_broker: bool = False


def strikes(form: str, *points: tuple[str, int], how: signal.Signals = signal.SIGKILL) -> tuple[Strike, ...]:
    return tuple(Strike(form, point, times, how) for point, times in points)


# a process that is stopped while it delivers keeps the lock of the destination (docs/limits.md)
WHILE_DELIVERED = {"open.pinned", "open.written", "open.shown", "deliver.rows", "deliver.done"}
TICKS = strikes(
    "tick", ("speed.pinned", 1), ("written", 1), ("speed.made", 1), ("speed.looked", 1), ("speed.committed", 1),
    ("speed.looked", 2), ("speed.committed", 2), ("open.pinned", 1), ("open.written", 1), ("open.shown", 1),
)  # fmt: skip
RUNS = strikes(
    "run", ("audited", 1), ("speed.ended", 1), ("committed", 1), ("recorded", 1), ("committed", 2), ("recorded", 2),
    ("deliver.rows", 1), ("deliver.done", 1), ("claimed", 1), ("sealed", 1), ("claimed", 2),
)  # fmt: skip
KILLS = (TICKS[4], RUNS[0], TICKS[8], RUNS[2], RUNS[7])
OF_TOPICS = (
    Strike("tick", "speed.made", how=signal.SIGSTOP),
    Strike("run", "claimed"),
    Strike("run", "claimed", is_of_broker=True),
    Strike("tick", "speed.pinned", how=signal.SIGSTOP, is_of_broker=True),
)
_PAUSE = 1.5  # seconds between two reads, which compete for cores with the killed process
_PATIENCE = 180
DISAGREE = """
SELECT timelabel, s.n, c.n FROM (SELECT timelabel, sum(clicks) AS n FROM web.per_user_view GROUP BY timelabel) AS s
LEFT JOIN (SELECT timelabel, count(*) AS n FROM web.clicks_view GROUP BY timelabel) AS c USING (timelabel)
WHERE c.n IS DISTINCT FROM s.n
"""


@dataclass
class Reader:
    """Reads the views repeatedly, and records their rows."""

    stream: Stream
    destination: LiveDestination
    seen: set[object] = field(default_factory=set)
    seen_there: set[int] = field(default_factory=set)
    reads: int = 0

    def read(self) -> None:
        there = self.destination.ids()
        assert len(there) == len(set(there))
        assert self.seen_there - set(there) == set()
        self.seen_there = set(there)
        ids = Counter(row[0] for row in self.stream.rows("SELECT id FROM web.clicks_view"))
        assert [id_ for id_, count in ids.items() if count > 1] == []
        assert self.seen - ids.keys() == set()
        self.seen = set(ids)
        self.reads += 1

    def compare(self) -> None:
        """Read both views in one query; assert that each window of the sums has the rows that they sum."""
        assert self.stream.rows(DISAGREE) == []


def strike(stream: Stream, source: LiveSource, what: Strike, reader: Reader) -> bool:
    """Start ticks or batches in a process, strike at a point, and read until the process ends.

    Return whether the process passed the point.
    """
    root, now = str(stream.tiny.root), stream.now.isoformat()
    how = signal.SIGSTOP if what.is_of_broker else what.how
    module = "tests.faults.killing_a_speed_layer"
    words = [sys.executable, "-m", module, root, what.form, what.point, str(what.times), how.name, now]
    at = os.environ | gateway_of(stream.tiny.spark)
    with subprocess.Popen(words, cwd=REPOSITORY, env=at, stderr=subprocess.PIPE, text=True) as child:
        try:
            is_stopped = how is signal.SIGSTOP and read_while(reader, child, lambda: not has_stopped(child))
            if is_stopped and what.is_of_broker:
                assert isinstance(source, TopicSource)
                with struck_broker(source, what.how):
                    child.send_signal(signal.SIGCONT)
                    read_while(reader, child)
                    tick(stream)  # of another runner
                    reader.read()
            elif is_stopped:
                tick(stream)
                reader.read()
                if what.form == "run":
                    wait_for_leases(stream.tiny)
                    stream.run(stream.now)  # another runner takes over
                    reader.read()
                child.send_signal(signal.SIGCONT)
            read_while(reader, child)
        finally:
            child.kill()
        said = child.stderr.read() if child.stderr is not None else ""
    assert child.returncode in {3, -how if how is signal.SIGKILL else 3}, said
    reader.read()
    reader.compare()
    return is_stopped or child.returncode == -signal.SIGKILL


def read_while(reader: Reader, child: subprocess.Popen[str], goes_on: Callable[[], bool] = lambda: True) -> bool:
    """Read until the process ends, or `goes_on` is false; return whether the process has not ended."""
    end = time.monotonic() + _PATIENCE
    while child.poll() is None and goes_on():
        assert time.monotonic() < end, child.args
        reader.read()
        with suppress(subprocess.TimeoutExpired):
            child.wait(_PAUSE)
    return child.poll() is None


def has_stopped(child: subprocess.Popen[str]) -> bool:
    return os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None


@contextmanager
def struck_broker(source: TopicSource, how: signal.Signals) -> Iterator[None]:
    """Kill or stop the broker for the block."""
    process = source.broker.process
    assert process is not None
    if how is signal.SIGSTOP:
        process.send_signal(how)
    else:
        source.broker.kill(how)
    try:
        yield
    finally:
        if how is signal.SIGSTOP:
            process.send_signal(signal.SIGCONT)
        else:
            source.broker.start()


def tick(stream: Stream) -> None:
    """Make and deliver a tick, as another runner does."""
    stream.tick(stream.now)
    with stream.opened() as work:
        for table in publishes_of_open_windows(work.flow):
            deliver_open_windows(work, table)


def live(tmp_path: Path, spark: SparkSession, kind: str, source: LiveSource, planned: Sequence[Strike]) -> None:
    destination = live_destination(kind, tmp_path)
    stream = Stream(Tiny(tmp_path, spark, toml=destination.toml + source.toml))
    stream.tiny.declare(destination.declared + source.declared + PUBLISH)
    stream.now = minute(1)
    with source.opened(stream):
        source.send(stream)
        tick(stream)  # from here on, the tables have columns
        reader, struck = Reader(stream, destination), 0
        for what in planned:
            if what.form == "run":  # the hour is over
                stream.now = end_of_hour(stream.now)
            stream.now += timedelta(minutes=2)
            source.send(stream)
            struck += strike(stream, source, what, reader)
            if what.form == "tick":
                tick(stream)  # another runner continues
                reader.read()
    assert struck >= len(planned) - 1 > 0
    stream.now = end_of_hour(stream.now)
    source.end_window(stream)
    stream.run(stream.now + timedelta(minutes=1))
    tick(stream)
    reader.read()
    reader.compare()
    assert source.acknowledged <= reader.seen == reader.seen_there <= source.sent
    ids = Counter(row[0] for row in stream.rows("SELECT id FROM web.clicks"))
    assert set(ids.values()) == {1}
    assert source.acknowledged <= ids.keys() <= source.sent
    assert reader.reads > len(planned)


def test_no_row_is_lost_or_doubled_while_ticks_and_batches_are_killed(tmp_path: Path, spark: SparkSession) -> None:
    live(tmp_path, spark, "sqlite", LiveSource(), KILLS)


@needs_broker
def test_no_record_of_a_topic_is_lost_or_doubled_while_ticks_batches_and_the_broker_are_killed_or_stopped(
    tmp_path: Path, spark: SparkSession
) -> None:
    live(tmp_path, spark, "sqlite", TopicSource(tmp_path), OF_TOPICS)


def random_strikes(random: Random, count: int, *, has_broker: bool = False) -> Iterator[Strike]:
    for form in random.choices((TICKS, RUNS), (2, 1), k=count):
        what = random.choice(form)
        hows = (signal.SIGKILL, signal.SIGSTOP)
        is_of_broker = has_broker and what.point not in WHILE_DELIVERED and random.random() < 0.3
        how = random.choice(hows if is_of_broker or what.point not in WHILE_DELIVERED else hows[:1])
        yield Strike(what.form, what.point, what.times, how, is_of_broker)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_no_row_is_lost_or_doubled_at_random_kills(tmp_path: Path, spark: SparkSession, seed: int) -> None:
    random = Random(seed)
    kind = ("sqlite", "postgres", "mysql")[seed % 3]
    live(tmp_path, spark, kind, LiveSource(), list(random_strikes(random, 15)))


@needs_broker
@pytest.mark.soak
@pytest.mark.parametrize("seed", range(12))
def test_no_record_of_a_topic_is_lost_or_doubled_at_random_kills(
    tmp_path: Path, spark: SparkSession, seed: int
) -> None:
    random = Random(seed)
    kind = ("sqlite", "postgres", "mysql")[seed % 3]
    live(tmp_path, spark, kind, TopicSource(tmp_path), list(random_strikes(random, 10, has_broker=True)))
