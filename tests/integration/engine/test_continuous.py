"""Tables with CONTINUOUS: their open windows, computed by ticks, and the views over open and closed windows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from tests.tiny import Tiny, day, described
from waterclock.engine.continuous.loop import OpenWindowTicks
from waterclock.engine.continuous.tick import run_tick
from waterclock.engine.maintenance.unused_open_windows import find_unused_open_windows, remove_unused_open_windows
from waterclock.engine.query.query import query
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_opening import apply_flow
from waterclock.engine.runner import Runner
from waterclock.faults import inject_faults
from waterclock.files.filesystem import entry_path, is_folder
from waterclock.operations.open_windows import windows_of_ticks
from waterclock.storage.commit.speed_tables import (
    iterate_states,
    new_slice_number,
    read_check,
    read_hidden_labels,
    read_slices,
    read_state,
    remove_old_slices,
)
from waterclock.storage.slices.inventory import list_slice_folders

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
    """A project with CONTINUOUS tables, at a time that the test sets."""

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
    assert stream.tick(minute(8)) is None  # no new rows
    with stream.opened() as work:
        facts = work.ledger.reads.snapshot(work.flow).of("web.clicks")
        seen = windows_of_ticks(work.lake, work.flow.tables["web.clicks"], facts, minute(8))
    assert (seen.windows, seen.first, seen.tick, seen.rows) == (1, day(1), 1, 2)
    assert seen.waits == "ends at 2020-01-01 01:00Z"
    stream.click(minute(50), (3, "b"))
    assert stream.tick(minute(51)) == 2
    assert stream.rows(USERS) == [("a", 2, False), ("b", 1, False)]

    opened = {name: stream.open_digests(name) for name in ("web.clicks", "web.per_user")}
    stream.click(minute(60), (4, "c"))  # the folder's clock passes the end of the hour
    stream.run(minute(61))
    assert stream.rows(IDS) == [(1, True), (2, True), (3, True)]
    closed = stream.tiny.digests()
    assert {(name, "20200101000000"): each[day(1)] for name, each in opened.items()} == closed
    assert stream.tick(minute(61)) == 3
    assert stream.rows(IDS) == [(1, True), (2, True), (3, True), (4, False)]
    assert stream.rows(USERS) == [("a", 2, True), ("b", 1, True), ("c", 1, False)]
    assert [*stream.open_digests("web.per_user")] == [minute(60)]


def test_rows_of_a_database_are_read_by_their_time_and_joined_with_the_newest_state(
    tmp_path: Path, spark: SparkSession
) -> None:
    stream = Stream(Tiny(tmp_path, spark))
    stream.tiny.declare("""
COLLECT shop.orders PARTITIONED (id BIGINT, land STRING, cents BIGINT, at TIMESTAMP) FROM shop.orders
  EVERY HOUR BY DATA TIME at CONTINUOUS 10 SECONDS;
COLLECT shop.lands (code STRING KEY, name STRING) FROM shop.lands EVERY HOUR;
TRANSFORM shop.sums PARTITIONED EVERY HOUR CONTINUOUS EXPECT sum(cents) < 100 ELSE HOLD
AS SELECT name, sum(cents) AS cents FROM shop.orders JOIN shop.lands ON land = code GROUP BY name;
TRANSFORM shop.two_hours PARTITIONED EVERY HOUR CONTINUOUS
AS SELECT count(*) AS orders, WINDOW_START() AS begins FROM PAST(shop.orders, '2 hours');
""")
    stream.tiny.source("lands", "code TEXT, name TEXT", [("DE", "Germany")])
    stream.tiny.source("orders", "id INT, land TEXT, cents INT, at TEXT", [(1, "DE", 5, "2020-01-01 00:10:00")])
    stream.run(minute(61))
    order = "INSERT INTO orders VALUES ({}, 'DE', {}, '2020-01-01 01:{}:00')"
    for id_, cents, at in ((2, 7, 5), (3, 8, 10), (4, 90, 50)):
        stream.tiny.shop(order.format(id_, cents, f"{at:02}"))
    assert stream.tick(minute(75)) == 1
    sums = "SELECT timelabel, name, cents, is_closed FROM shop.sums_view ORDER BY ALL"
    first = ("20200101000000", "Germany", 5, True)
    assert stream.rows(sums) == [first, ("20200101010000", "Germany", 105, False)]
    orders = "SELECT orders, is_closed FROM shop.two_hours_view ORDER BY ALL"
    assert stream.rows(orders) == [(1, True), (4, False)]
    assert stream.tick(minute(76)) is None  # the rows are the same
    opened = {name: stream.open_digests(name) for name in ("shop.orders", "shop.two_hours")}

    stream.now = minute(121)
    with stream.opened() as work:
        outcome = Runner(work).run_once(stream.now)  # the batch is held: its sum exceeds 100 cents
    assert [report.group.table for report in outcome.failed] == ["shop.sums"]
    assert stream.rows(sums) == [first]
    assert stream.rows(orders) == [(1, True), (4, True)]
    closed = stream.tiny.digests()
    assert {(name, "20200101010000"): each[minute(60)] for name, each in opened.items()}.items() <= closed.items()
    stream.tick(minute(122))
    assert minute(60) not in stream.open_digests("shop.sums")  # it is withdrawn


def test_rows_that_would_hold_or_fail_the_batch_are_not_shown_nor_computed_from(
    tmp_path: Path, spark: SparkSession
) -> None:
    stream = Stream(Tiny(tmp_path, spark))
    stream.tiny.declare("""
COLLECT web.clicks PARTITIONED (id BIGINT KEY, user STRING NOT NULL) FROM land.acme.clicks
  EVERY HOUR BY ARRIVAL TIME CONTINUOUS 10 SECONDS EXPECT id > 0 ELSE HOLD;
TRANSFORM web.total PARTITIONED CONTINUOUS AS SELECT count(*) AS clicks FROM web.clicks;
TRANSFORM web.double PARTITIONED CONTINUOUS AS SELECT sum(clicks) * 2 AS clicks FROM web.total;
""")
    stream.click(minute(6), (1, "a"))
    for at, row in ((10, (-1, "a")), (12, (2, "")), (14, (1, "b"))):  # a rule, NOT NULL and KEY
        stream.tick(minute(at - 1))
        assert all([*stream.open_digests(f"web.{name}")] == [day(1)] for name in ("clicks", "total", "double"))
        landed = stream.tiny.land("clicks", minute(at), f"id,user\n{row[0]},{row[1]}\n")
        stream.tick(minute(at + 1))
        assert [stream.open_digests(f"web.{name}") for name in ("clicks", "total", "double")] == [{}, {}, {}], row
        with stream.opened() as work:
            names = [f"web.spd_{name}" for name in ("clicks", "total", "double")]
            reasons = [read_hidden_labels(work.lake.folder(name)).get(day(1), "") for name in names]
            assert run_tick(work, set()) is None  # no source is read: the rule hides the window still
            assert read_hidden_labels(work.lake.folder(names[2])) == {day(1): reasons[2]}
        assert reasons[0]
        assert reasons[1:] == ["it reads a window that a rule holds"] * 2
        landed.unlink()


def test_a_tick_that_was_overtaken_is_not_committed(tmp_path: Path, spark: SparkSession) -> None:
    stream = Stream(Tiny(tmp_path, spark))
    stream.tiny.declare(FLOW)
    stream.click(minute(6), (1, "a"))
    others: list[int | None] = []

    def overtake(point: str) -> None:
        if point == "speed.made" and not others:
            others.append(None)
            stream.click(minute(7), (2, "a"))
            others[0] = stream.tick(minute(8))

    with inject_faults(overtake):
        assert stream.tick(minute(8)) is None
    assert others == [1]
    assert stream.rows(IDS) == [(1, False), (2, False)]

    def finish_batches(point: str) -> None:
        if point == "speed.made" and len(others) == 1:
            others.append(None)
            stream.click(minute(60), (4, "a"))
            stream.run(minute(61))

    stream.click(minute(50), (3, "a"))
    with inject_faults(finish_batches):  # a tick that is stopped while the hour is closed
        assert stream.tick(minute(51)) is None
    assert stream.rows(IDS) == [(1, True), (2, True), (3, True)]
    assert stream.rows(USERS) == [("a", 3, True)]
    stream.click(minute(55), (5, "b"))  # it is late
    assert stream.tick(minute(62)) == 2
    assert stream.rows(IDS)[3:] == [(4, False), (5, False)]


def test_slices_of_older_ticks_are_removed_after_some_minutes(tmp_path: Path, spark: SparkSession) -> None:
    stream = Stream(Tiny(tmp_path, spark))
    stream.tiny.declare(FLOW)
    with stream.opened() as work, patch("waterclock.storage.commit.speed_tables.TICKS_KEPT", 2):
        folder = work.lake.folder("web.spd_clicks")
        for at in range(4):
            stream.click(minute(at), (at, "a"))
            stream.now = minute(at + 1)
            assert run_tick(work) == at + 1
        remove_old_slices(folder)
        assert len(list(list_slice_folders(folder))) == 4  # queries may read them
        later = new_slice_number() + 11 * 60 * 1_000_000
        with patch("waterclock.storage.commit.speed_tables.new_slice_number", lambda: later):
            remove_old_slices(folder)
        kept = [each.path for each in list_slice_folders(folder)]
        assert sorted(kept) == sorted(path for it in iterate_states(folder) for path in it.slices.values())
        assert len(kept) == 2
    assert len(stream.rows(IDS)) == 4


def test_open_windows_of_renamed_tables_and_of_those_without_ticks_are_removed(
    tmp_path: Path, spark: SparkSession
) -> None:
    stream = Stream(Tiny(tmp_path, spark))
    stream.tiny.declare(FLOW)
    stream.click(minute(6), (1, "a"))
    stream.tick(minute(7))
    renamed = FLOW.replace("web.per_user PARTITIONED CONTINUOUS", "web.users PARTITIONED WAS web.per_user CONTINUOUS")
    stream.tiny.declare(renamed)
    with stream.tiny.opened() as work:
        assert find_unused_open_windows(work) == []  # the flow is not applied yet
    stream.tick(minute(8))
    assert stream.rows(USERS.replace("per_user", "users")) == [("a", 1, False)]
    with stream.opened() as work:
        found = find_unused_open_windows(work)
        assert [each.table for each in found] == ["web.spd_per_user"]
        assert found[0].freed_bytes > 0
        remove_unused_open_windows(work, found[0])
        assert find_unused_open_windows(work) == []
        assert not is_folder(entry_path(work.lake.root, "tables", "web", "spd_per_user"))
    assert stream.rows(IDS) == [(1, False)]
    stream.tiny.declare(renamed.replace("CONTINUOUS 10 SECONDS", "").replace("CONTINUOUS", ""))
    with stream.opened() as work:
        assert [each.table for each in find_unused_open_windows(work)] == ["web.spd_clicks", "web.spd_users"]


def test_a_watching_run_makes_ticks_by_itself(tmp_path: Path, spark: SparkSession) -> None:
    stream = Stream(Tiny(tmp_path, spark))
    stream.tiny.declare(FLOW.replace("CONTINUOUS 10 SECONDS", "CONTINUOUS 1 SECOND"))
    stream.click(minute(6), (1, "a"))
    stream.now = minute(7)
    ticked = threading.Event()

    def note(point: str) -> None:
        if point == "speed.committed":
            ticked.set()

    with inject_faults(note), stream.opened() as work:
        with OpenWindowTicks(work, ["web.clicks"]):
            pass  # a run without some of the tables makes no ticks
        assert not ticked.is_set()
        with OpenWindowTicks(work):
            assert ticked.wait(120)
        assert read_check(work.lake.folder("web.spd_clicks")).at == stream.now
    assert stream.rows(IDS) == [(1, False)]
