"""Tables with CONTINUOUS: their open windows, computed by ticks, and the views over open and closed windows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from tests.tiny import Tiny, day, described
from waterclock.engine.continuous.tick import run_tick
from waterclock.engine.query.query import query
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_opening import apply_flow
from waterclock.engine.runner import Runner
from waterclock.storage.commit.speed_tables import read_slices, read_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT web.clicks PARTITIONED (id BIGINT NOT NULL ELSE DROP, user STRING) FROM land.acme.clicks
  EVERY HOUR BY ARRIVAL TIME CONTINUOUS 10 SECONDS;
TRANSFORM web.per_user PARTITIONED CONTINUOUS AS SELECT user, count(*) AS clicks FROM web.clicks GROUP BY user;
"""
IDS = "SELECT id, is_closed FROM web.clicks_view ORDER BY ALL"
USERS = "SELECT user, clicks, is_closed FROM web.per_user_view ORDER BY ALL"


@dataclass
class Stream:
    """A project with tables that are CONTINUOUS, at a time that the test sets."""

    tiny: Tiny
    now: datetime = field(default_factory=lambda: day(1))

    @contextmanager
    def opened(self) -> Iterator[RunContext]:
        with patch.object(RunContext, "real_now", lambda _: self.now), self.tiny.opened() as work:
            apply_flow(work, self.now)
            yield work

    def tick(self, now: datetime) -> int | None:
        self.now = now
        with self.opened() as work:
            return run_tick(work)

    def run(self, now: datetime) -> None:
        self.now = now
        with self.opened() as work:
            outcome = Runner(work).run_once(now)
        assert not outcome.failed, described(outcome)

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        with self.opened() as work:
            return list(query(work, sql, limit=10_000).rows)

    def click(self, at: datetime, *clicks: tuple[object, str]) -> None:
        self.tiny.land("clicks", at, "id,user\n" + "".join(f"{id_},{user}\n" for id_, user in clicks))

    def open_digests(self, table: str) -> dict[datetime, str | None]:
        with self.opened() as work:
            folder = work.lake.folder(table.replace(".", ".spd_"))
            return {label: each.digest for label, each in read_slices(folder, read_state(folder)).items()}


def minute(at: int, second: int = 0) -> datetime:
    return day(1) + timedelta(minutes=at, seconds=second)


def test_open_windows_are_read_at_each_tick_and_shown_once(tmp_path: Path, spark: SparkSession) -> None:
    stream = Stream(Tiny(tmp_path, spark))
    stream.tiny.declare(FLOW)
    (tmp_path / "landing" / "new").mkdir(parents=True)
    assert stream.tick(minute(5)) is None
    assert stream.rows(IDS) == []
    stream.click(minute(6), (1, "a"), ("", "b"), (2, "a"))
    assert stream.tick(minute(7)) == 1
    assert stream.rows(IDS) == [(1, False), (2, False)]
    assert stream.rows(USERS) == [("a", 2, False)]
    assert stream.tick(minute(8)) is None  # nothing has come
    stream.click(minute(50), (3, "b"))
    assert stream.tick(minute(51)) == 2
    assert stream.rows(USERS) == [("a", 2, False), ("b", 1, False)]

    opened = {name: stream.open_digests(name) for name in ("web.clicks", "web.per_user")}
    stream.click(minute(60), (4, "c"))  # the clock of the folder passes the end of the hour
    stream.run(minute(61))
    assert stream.rows(IDS) == [(1, True), (2, True), (3, True)]
    closed = stream.tiny.digests()
    assert {(name, "20200101000000"): each[day(1)] for name, each in opened.items()} == closed
    assert stream.tick(minute(61)) == 3
    assert stream.rows(IDS) == [(1, True), (2, True), (3, True), (4, False)]
    assert stream.rows(USERS) == [("a", 2, True), ("b", 1, True), ("c", 1, False)]
    assert [*stream.open_digests("web.per_user")] == [minute(60)]
