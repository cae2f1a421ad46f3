"""Readers query views in a loop, in the lake and at a destination, while ticks and batches are killed.

No row is shown twice, and no row that a reader saw is lost.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.faults.killing import gateway_of
from tests.integration.engine.test_continuous import FLOW, Stream, minute
from tests.live_destinations import LiveDestination, live_destination
from tests.tiny import Tiny
from waterclock.engine.continuous.destinations import deliver_open_windows, publishes_of_open_windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PUBLISH = "PUBLISH web.clicks TO live.clicks OPTIONS (speed true);"
REPOSITORY = Path(__file__).parents[2]
TICKS = (
    ("speed.pinned", 1), ("written", 1), ("speed.made", 1), ("speed.looked", 1), ("speed.committed", 1),
    ("speed.looked", 2), ("speed.committed", 2), ("open.pinned", 1), ("open.written", 1), ("open.shown", 1),
)  # fmt: skip
RUNS = (
    ("audited", 1), ("speed.ended", 1), ("committed", 1), ("recorded", 1), ("committed", 2), ("recorded", 2),
    ("deliver.rows", 1), ("deliver.done", 1),
)  # fmt: skip
KILLS = (
    *(("tick", *TICKS[at]) for at in (2, 4, 5, 8, 9)),
    *(("run", *RUNS[at]) for at in (0, 2, 5, 6, 7)),
)
_PAUSE = 1.5  # seconds between two reads, which compete for cores with the killed process
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


def kill(stream: Stream, form: str, point: str, times: int, reader: Reader) -> bool:
    """Start ticks or batches in a process that is killed at a point, and read until it ends.

    Return whether it was killed.
    """
    root, now = str(stream.tiny.root), stream.now.isoformat()
    words = [sys.executable, "-m", "tests.faults.killing_a_speed_layer", root, form, point, str(times), now]
    at = os.environ | gateway_of(stream.tiny.spark)
    with subprocess.Popen(words, cwd=REPOSITORY, env=at, stderr=subprocess.PIPE, text=True) as child:
        while child.poll() is None:
            reader.read()
            with suppress(subprocess.TimeoutExpired):
                child.wait(_PAUSE)
        said = child.stderr.read() if child.stderr is not None else ""
    assert child.returncode in {3, -signal.SIGKILL}, said
    reader.read()
    reader.compare()
    return child.returncode == -signal.SIGKILL


def tick(stream: Stream) -> None:
    """Make and deliver a tick, as another runner does."""
    stream.tick(stream.now)
    with stream.opened() as work:
        for table in publishes_of_open_windows(work.flow):
            deliver_open_windows(work, table)


def live(tmp_path: Path, spark: SparkSession, kind: str, kills: list[tuple[str, str, int]]) -> None:
    destination = live_destination(kind, tmp_path)
    stream = Stream(Tiny(tmp_path, spark, toml=destination.toml))
    stream.tiny.declare(destination.declared + FLOW + PUBLISH)
    stream.now = minute(1)
    stream.click(minute(0, 9), (0, "a"))
    tick(stream)  # from here on, the tables have columns
    reader, killed, sent = Reader(stream, destination), 0, 1
    for form, point, times in kills:
        if form == "run":  # the hour is over
            stream.now += timedelta(hours=1) - (stream.now - minute(0)) % timedelta(hours=1)
        stream.now += timedelta(minutes=2)
        stream.click(stream.now - timedelta(seconds=9), *((sent + each, "abc"[each]) for each in range(3)))
        sent += 3
        killed += kill(stream, form, point, times, reader)
        if form == "tick":
            tick(stream)  # another runner continues
            reader.read()
    assert killed >= len(kills) - 1 > 0
    stream.now += timedelta(hours=1) - (stream.now - minute(0)) % timedelta(hours=1)
    stream.click(stream.now, (sent, "c"))
    stream.run(stream.now + timedelta(minutes=1))
    tick(stream)
    reader.read()
    reader.compare()
    assert reader.seen == reader.seen_there == set(range(sent + 1))
    assert reader.reads > len(kills)


def test_no_row_is_lost_or_doubled_while_ticks_and_batches_are_killed(tmp_path: Path, spark: SparkSession) -> None:
    live(tmp_path, spark, "sqlite", list(KILLS))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_no_row_is_lost_or_doubled_at_random_kills(tmp_path: Path, spark: SparkSession, seed: int) -> None:
    random = Random(seed)
    forms = random.choices((("tick", TICKS), ("run", RUNS)), (2, 1), k=30)
    kind = ("sqlite", "postgres", "mysql")[seed % 3]
    live(tmp_path, spark, kind, [(form, *random.choice(points)) for form, points in forms])
