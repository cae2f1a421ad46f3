"""Open windows of receivers (CONTINUOUS): a tick shows stored events before they are sealed, each once."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from tests.integration.engine.test_continuous import Stream, minute
from tests.tiny import TOML, Tiny
from waterclock.connectors.receiver import unsealed_events
from waterclock.connectors.receiver.events import events_of
from waterclock.connectors.receiver.segment_names import Segment
from waterclock.connectors.receiver.segment_sealing import seal
from waterclock.connectors.receiver.segment_writing import SegmentWriter
from waterclock.engine.continuous import tick as ticks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
CREATE CONNECTION door TYPE receiver;
COLLECT web.clicks PARTITIONED (id BIGINT, _received TIMESTAMP, _request, _event INT) FROM door.events
  EVERY HOUR BY ARRIVAL TIME CONTINUOUS 10 SECONDS;
TRANSFORM web.total PARTITIONED CONTINUOUS AS SELECT count(*) AS n, sum(id) AS ids FROM web.clicks;
"""
SHOWN = "SELECT id, timelabel, is_closed FROM web.clicks_view ORDER BY ALL"
FIRST, SECOND = "20200101000000", "20200101010000"


def end_of(at: datetime) -> datetime:
    return minute(0) + timedelta(hours=int((at - minute(0)) / timedelta(hours=1)) + 1)


def send(writer: SegmentWriter, *ids: int) -> None:
    body = "\n".join(json.dumps({"id": id_}) for id_ in ids).encode()
    writer.append([events_of(body).body(None, None, has_raw=False)])


def test_a_tick_shows_the_events_so_far_and_the_batch_takes_them(tmp_path: Path, spark: SparkSession) -> None:
    stream = Stream(Tiny(tmp_path, spark, toml=TOML + 'connections.door = {{ path = "door" }}\n'))
    stream.tiny.declare(FLOW)
    folder = tmp_path / "door" / "events"
    writer, dying = (SegmentWriter(folder, end_of, lambda: stream.now) for _ in range(2))
    assert stream.tick(minute(5)) is None
    send(writer, 1, 2)
    assert stream.tick(minute(6)) == 1
    assert stream.rows(SHOWN) == [(1, FIRST, False), (2, FIRST, False)]
    with patch.object(ticks, "make", side_effect=AssertionError("nothing is read again")):
        assert stream.tick(minute(7)) is None
    send(writer, 0)
    copied: list[int] = []

    def count(path: Path, segment: Segment, least: int, most: int, target: Path) -> int:
        copied.append(copy_events(path, segment, least, most, target))
        return copied[-1]

    copy_events = unsealed_events._copy_events
    with patch.object(unsealed_events, "_copy_events", count):
        assert stream.tick(minute(8)) == 2
        send(writer, -2, -1)
        assert stream.tick(minute(9)) == 3
    assert copied[1] == pytest.approx(2 * copied[0], abs=10)  # the new events alone
    assert [row[0] for row in stream.rows(SHOWN)] == [-2, -1, 0, 1, 2]
    send(dying, 3)
    assert dying._open is not None
    os.close(dying._open.descriptor)  # as if its process was killed
    writer.end()  # its segment is full
    seal(folder, stream.now)  # another table is collected
    send(writer, 4)
    stream.tick(minute(59))
    assert [row[:2] for row in stream.rows(SHOWN)] == [(each, FIRST) for each in range(-2, 5)]
    assert list(folder.glob("open-windows-*")) == []
    opened = {name: stream.open_digests(name)[minute(0)] for name in ("web.clicks", "web.total")}

    stream.now = minute(60, 30)
    writer.end_if_over()
    send(writer, 5)
    stream.run(minute(61))
    assert {(name, FIRST): each for name, each in opened.items()} == stream.tiny.digests()
    assert stream.tick(minute(61)) is not None
    assert stream.rows(SHOWN) == [*((each, FIRST, True) for each in range(-2, 5)), (5, SECOND, False)]

    send(writer, 6)
    stream.tick(minute(121))  # the hour is over, and its writer may still write: the rows stay as they are
    stream.run(minute(121))
    assert stream.rows(SHOWN)[7:] == [(5, SECOND, False)]
    stream.now = minute(122)
    writer.end_if_over()
    stream.run(minute(122))
    assert stream.rows(SHOWN)[7:] == [(5, SECOND, True), (6, SECOND, True)]


def test_rows_of_a_growing_file_have_the_numbers_that_the_batch_gives_them(tmp_path: Path, spark: SparkSession) -> None:
    stream = Stream(Tiny(tmp_path, spark, toml=TOML + 'connections.door = {{ path = "door" }}\n'))
    stream.tiny.declare("""
    CREATE CONNECTION door TYPE receiver;
    COLLECT web.clicks PARTITIONED (id BIGINT, number AS (_source.row)) FROM door.events
      EVERY HOUR BY ARRIVAL TIME CONTINUOUS 10 SECONDS;
    """)
    writer = SegmentWriter(tmp_path / "door" / "events", end_of, lambda: stream.now)
    for tick, ids in enumerate([(1, 2), (3,)], 1):
        send(writer, *ids)
        assert stream.tick(minute(tick)) == tick
    assert stream.rows("SELECT id, number FROM web.clicks_view ORDER BY id") == [(1, 1), (2, 2), (3, 3)]
