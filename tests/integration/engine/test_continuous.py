"""Tables with CONTINUOUS: their open windows, computed by ticks, and the views over open and closed windows."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from tests.tiny import Tiny, day, described
from waterclock.connectors.files.connector import FilesCollector
from waterclock.connectors.interface import Collected, Listing
from waterclock.engine.continuous.loop import OpenWindowTicks
from waterclock.engine.continuous.table_reads import TableReads, record_checks
from waterclock.engine.continuous.tick import TickRows, run_tick
from waterclock.engine.maintenance.unused_open_windows import find_unused_open_windows, remove_unused_open_windows
from waterclock.engine.query.query import query
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_opening import apply_flow
from waterclock.engine.runner import Runner
from waterclock.faults import inject_faults
from waterclock.files.filesystem import entry_path, file_exists, is_folder
from waterclock.flow.declarations import Unit
from waterclock.flow.open_windows import continuous_tables, open_table_of
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
from waterclock.storage.slices.appended import newest_part
from waterclock.storage.slices.inventory import list_slice_folders
from waterclock.storage.slices.manifest import Manifest

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

    def newest_slice(self, table: str) -> tuple[str, Manifest]:
        with self.opened() as work:
            folder = work.lake.folder(table.replace(".", ".spd_"))
            found = read_slices(folder, read_state(folder))
            return folder, found[max(found)]

    def parts(self, table: str) -> list[int]:
        """Return the number of rows in each folder that has files of the newest open window."""
        rows: Counter[str] = Counter()
        for file in self.newest_slice(table)[1].files:
            rows[file.path.rpartition("/")[0]] += file.rows
        return list(rows.values())

    def newest_file(self, table: str) -> Path:
        folder, manifest = self.newest_slice(table)
        return Path(folder, manifest.files[-1].path)

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


PARTS = """
COLLECT web.clicks PARTITIONED (id BIGINT, user STRING NOT NULL ELSE QUARANTINE) FROM land.acme.clicks
  EVERY HOUR BY ARRIVAL TIME CONTINUOUS 10 SECONDS;
COLLECT web.users (user STRING KEY, name STRING) FROM shop.users EVERY HOUR;
TRANSFORM web.named PARTITIONED EVERY HOUR CONTINUOUS
  AS SELECT c.id, upper(u.name) AS name FROM web.clicks c LEFT JOIN web.users u USING (user) WHERE c.id <> 13;
TRANSFORM web.again PARTITIONED EVERY HOUR CONTINUOUS AS SELECT id, WINDOW_START() AS begins FROM web.named;
TRANSFORM web.totals PARTITIONED EVERY HOUR CONTINUOUS AS SELECT name, count(*) AS n FROM web.again GROUP BY name;
"""


def test_a_tick_reads_and_computes_only_new_rows_and_they_are_those_of_the_batch(
    tmp_path: Path, spark: SparkSession
) -> None:
    stream = Stream(Tiny(tmp_path, spark))
    stream.tiny.declare(PARTS.replace("SELECT name, count", "SELECT id AS name, count").replace("BY name", "BY id"))
    stream.tiny.source("users", "user TEXT, name TEXT", [("a", "anna"), ("b", "bert")])
    stream.click(minute(1), (0, "a"))
    stream.run(minute(61))
    read, taken = [], []
    read_items, newest = FilesCollector.read_items, newest_part

    def noted(self: FilesCollector, *asked: Any) -> Collected:
        read.append(sorted(item.name for items in asked[2].values() for item in items))
        return read_items(self, *asked)

    def newest_noted(manifest: Manifest) -> Manifest:
        taken.append(newest(manifest).rows)
        return newest(manifest)

    with (
        patch.object(FilesCollector, "read_items", noted),
        patch("waterclock.engine.continuous.appends.newest_part", newest_noted),
        patch("waterclock.storage.slices.appended.MOST_PARTS", 3),
        patch("waterclock.storage.slices.appended._LEAST_MERGED", 2),
    ):
        rows = [((10, "a"),), ((11, "b"), ("", "a"), (12, "")), ((13, "a"),), ((14, "c"), (15, "a")), ((16, "b"),)]
        for at, clicks in enumerate(rows):
            stream.click(minute(62 + at), *clicks)
            assert stream.tick(minute(62 + at, 30)) is not None
            assert [len(names) for names in read[-1:]] == [1]  # the new file alone
        assert len(read) == len(rows)
        assert taken == [2, 1, 1, 0, 2, 2, 1, 1]  # of clicks, then of named
        parts = stream.parts("web.clicks")
        assert len(parts) <= 4
        assert sum(parts) == 7
        # damage: all of the window is read and computed again
        damaged = stream.newest_file("web.clicks")
        damaged.write_bytes(damaged.read_bytes()[:-1])
        stream.click(minute(70), (17, "a"))
        assert stream.tick(minute(70, 30)) is not None
        assert len(read[-1]) == len(rows) + 1
        assert (stream.parts("web.clicks"), stream.parts("web.named")) == ([8], [6])
        assert len(taken) == 8
    opened = {name: stream.open_digests(name) for name in ("web.clicks", "web.named", "web.again", "web.totals")}
    stream.click(minute(120), (20, "c"))
    stream.run(minute(121))
    closed = stream.tiny.digests()
    assert {(name, "20200101010000"): each[minute(60)] for name, each in opened.items()}.items() <= closed.items()


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
    with (
        stream.opened() as work,
        patch("waterclock.storage.commit.speed_tables.TICKS_KEPT", 2),
        patch("waterclock.storage.slices.appended.MOST_PARTS", 2),
        patch("waterclock.storage.slices.appended._LEAST_MERGED", 2),
    ):
        folder = work.lake.folder("web.spd_clicks")
        for at in range(6):
            stream.click(minute(at), (at, "a"))
            stream.now = minute(at + 1)
            assert run_tick(work) == at + 1
        remove_old_slices(folder)
        assert len(list(list_slice_folders(folder))) == 6 + 2  # two of merged rows; queries may read them
        later = new_slice_number() + 11 * 60 * 1_000_000
        with patch("waterclock.storage.commit.speed_tables.new_slice_number", lambda: later):
            remove_old_slices(folder)
        kept = [each.path for each in list_slice_folders(folder)]
        states = list(iterate_states(folder))
        slices = [manifest for state in states for manifest in read_slices(folder, state).values()]
        files = {file.path for manifest in slices for file in manifest.files}
        assert sorted(kept) == sorted({path.rpartition("/")[0] for path in files})
        assert {path for it in states for path in it.slices.values()} <= {*kept}
        assert all(file_exists(entry_path(folder, path)) for path in files)
        assert len(kept) == 5
    assert len(stream.rows(IDS)) == 6


def test_a_slow_query_can_read_the_rows_of_an_older_tick_for_some_minutes(tmp_path: Path, spark: SparkSession) -> None:
    """They were written long before: the rows that later ticks add are in other files."""
    stream = Stream(Tiny(tmp_path, spark))
    stream.tiny.declare(FLOW)

    def number_of_an_hour_ago() -> int:
        return new_slice_number() - 60 * 60 * 1_000_000

    with (
        stream.opened() as work,
        patch("waterclock.storage.commit.speed_tables.TICKS_KEPT", 1),
        patch("waterclock.storage.slices.appended.MOST_PARTS", 2),
        patch("waterclock.storage.slices.appended._LEAST_MERGED", 2),
        patch("waterclock.engine.continuous.tick.new_slice_number", number_of_an_hour_ago),
        patch("waterclock.engine.continuous.appends.new_slice_number", number_of_an_hour_ago),
    ):
        folder, files = work.lake.folder("web.spd_clicks"), set[str]()
        for at in range(4):
            stream.click(minute(at), (at, "a"))
            stream.now = minute(at + 1)
            assert run_tick(work) == at + 1
            slices = read_slices(folder, read_state(folder)).values()
            files |= {file.path for manifest in slices for file in manifest.files}
        newest = {file.path for manifest in slices for file in manifest.files}
        assert len(files - newest) > 2  # rows that were merged, and that older ticks have
        remove_old_slices(folder)
        assert [path for path in sorted(files) if not file_exists(entry_path(folder, path))] == []
        later = new_slice_number() + 11 * 60 * 1_000_000
        with patch("waterclock.storage.commit.speed_tables.new_slice_number", lambda: later):
            remove_old_slices(folder)
        assert {path for path in files if file_exists(entry_path(folder, path))} == newest


def test_a_file_without_a_column_of_others_does_not_hide_an_open_window(tmp_path: Path, spark: SparkSession) -> None:
    """All files of the window together have the columns that ON SCHEMA CHANGE compares."""
    stream = Stream(Tiny(tmp_path, spark))
    stream.tiny.declare("""
    COLLECT web.clicks PARTITIONED (id BIGINT, user STRING) FROM land.acme.clicks
      EVERY HOUR BY ARRIVAL TIME CONTINUOUS 10 SECONDS ON SCHEMA CHANGE HOLD;
    """)
    stream.click(minute(6), (1, "a"))
    stream.click(minute(60), (2, "b"))
    stream.run(minute(61))
    stream.tick(minute(62))
    stream.tiny.land("clicks", minute(63), "id\n3\n")
    stream.tick(minute(64))
    assert stream.rows(IDS) == [(1, True), (2, False), (3, False)]


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


OUTAGE_FLOW = """
COLLECT web.clicks PARTITIONED (id BIGINT, user STRING) FROM land.acme.clicks
  EVERY HOUR BY ARRIVAL TIME CONTINUOUS 10 SECONDS;
COLLECT web.users PARTITIONED (user STRING, land STRING) FROM land.acme.users
  EVERY HOUR BY ARRIVAL TIME CONTINUOUS 10 SECONDS;
TRANSFORM web.per_land PARTITIONED CONTINUOUS AS SELECT land, count(*) AS users FROM web.users GROUP BY land;
TRANSFORM web.joined PARTITIONED CONTINUOUS
AS SELECT id, land FROM web.clicks AS c LEFT JOIN web.users AS u ON c.user = u.user;
"""


@dataclass
class Watched:
    """Ticks of one run, whose reads in the background have ended before the next tick."""

    stream: Stream
    reads: TableReads[TickRows]
    clock: list[float]

    def tick(self, now: datetime) -> int | None:
        """Make a tick as `run --watch` does."""
        self.stream.now = now
        self.clock[0] += 60
        with self.stream.opened() as work:
            tick = run_tick(work, None, self.reads)
            record_checks(work, self.reads, now)
        self.reads.close()
        return tick

    def checks(self) -> dict[str, tuple[datetime | None, list[tuple[str, datetime]]]]:
        with self.stream.opened() as work:
            found = {
                each.name: read_check(work.lake.folder(open_table_of(each.name)))
                for each in continuous_tables(work.flow)
            }
        return {name: (each.at, [(it.table, it.since) for it in each.outages]) for name, each in found.items()}


def watched(stream: Stream) -> Watched:
    clock = [0.0]
    reads: TableReads[TickRows] = TableReads(stream.tiny.heard.on_message, most_seconds=120, clock=lambda: clock[0])
    return Watched(stream, reads, clock)


@contextmanager
def unreadable(name: str) -> Iterator[None]:
    """Make the folder of a landing unit unreadable."""
    arrivals = FilesCollector.arrivals

    def refuse(collector: FilesCollector, unit: Unit, taken: Collection[str] = ()) -> Listing:
        if name in str(unit):
            raise PermissionError(13, "Permission denied", f"landing/new/acme/{name}")
        return arrivals(collector, unit, taken)

    with patch.object(FilesCollector, "arrivals", refuse):
        yield


def test_a_source_that_cannot_be_read_keeps_its_rows_and_the_other_tables_tick(
    tmp_path: Path, spark: SparkSession
) -> None:
    stream = Stream(Tiny(tmp_path, spark))
    stream.tiny.declare(OUTAGE_FLOW)
    ticks = watched(stream)
    stream.click(minute(5), (1, "a"), (2, "b"))
    stream.tiny.land("users", minute(5), "user,land\na,DE\n")
    assert ticks.tick(minute(6)) == 1
    joined = "SELECT id, land FROM web.joined_view ORDER BY ALL"
    lands = "SELECT land, users, is_closed FROM web.per_land_view ORDER BY ALL"
    stream.tiny.land("users", minute(7), "user,land\nb,FR\n")
    stream.click(minute(7), (3, "a"))
    with unreadable("users"):
        assert ticks.tick(minute(8)) == 2
        assert stream.rows(joined) == [(1, "DE"), (2, None), (3, "DE")]  # the last good rows of users
        assert stream.rows(lands) == [("DE", 1, False)]
        behind = minute(6), [("web.users", minute(8))]
        assert ticks.checks() == {
            "web.clicks": (minute(8), []), "web.users": behind, "web.per_land": behind, "web.joined": behind
        }  # fmt: skip
        with stream.opened() as work:
            facts = work.ledger.reads.snapshot(work.flow).of("web.per_land")
            seen = windows_of_ticks(work.lake, work.flow.tables["web.per_land"], facts, minute(9))
        assert seen.age == timedelta(minutes=3)  # although tick 2 has these rows, too
        assert "; web.users has no new rows since 2020-01-01 00:08Z: " in seen.words()
        # the batch at the end of the window reads the source as always, and fails; the next window is open meanwhile
        stream.click(minute(60), (60, "a"))
        stream.now = minute(61)
        with stream.opened() as work:
            Runner(work).run_once(stream.now)
        ticks.tick(minute(62))
        assert stream.rows(lands) == [("DE", 1, False)]
        assert stream.rows(joined) == [(1, "DE"), (2, None), (3, "DE"), (60, None)]
        assert len(_reported(stream)) == 1
    for at in (63, 64, 65):  # it finds that a read in the background has failed, another one succeeds, and it reads
        ticks.tick(minute(at))
    assert ticks.checks() == dict.fromkeys(ticks.checks(), (minute(65), []))
    assert _reported(stream)[1:] == ["open windows of web.users are up to date again"]


def test_a_value_that_does_not_fit_is_reported_with_its_file_and_line(tmp_path: Path, spark: SparkSession) -> None:
    stream = Stream(Tiny(tmp_path, spark))
    stream.tiny.declare(FLOW)
    ticks = watched(stream)
    stream.click(minute(5), (1, "a"))
    ticks.tick(minute(6))
    stream.click(minute(7), (2, "b"), ("12,5x", "c"))
    ticks.tick(minute(8))
    [said] = _reported(stream)
    assert "acme_clicks_2020_01_01_00_07_00.csv.gz has a broken row in line 3 (" in said
    assert "); fix the file" in said
    assert stream.rows(IDS) == [(1, False)]
    stream.click(minute(7), (2, "b"), (12, "c"))  # the file is corrected
    for at in (9, 10, 11):
        ticks.tick(minute(at))
    assert stream.rows(IDS) == [(1, False), (2, False), (12, False)]


def test_a_query_that_fails_keeps_its_rows_and_the_other_tables_tick(tmp_path: Path, spark: SparkSession) -> None:
    stream = Stream(Tiny(tmp_path, spark))
    stream.tiny.declare(
        FLOW + "TRANSFORM web.shares PARTITIONED CONTINUOUS AS SELECT id, 10 / (id - 3) AS share FROM web.clicks;\n"
        "TRANSFORM web.total PARTITIONED CONTINUOUS AS SELECT count(*) AS n FROM web.shares;\n"
    )
    ticks, total = watched(stream), "SELECT n FROM web.total_view"
    stream.click(minute(5), (1, "a"), (2, "b"))
    assert ticks.tick(minute(6)) == 1
    stream.click(minute(7), (3, "a"))
    for at in (8, 9):
        ticks.tick(minute(at))
        assert stream.rows(USERS) == [("a", 2, False), ("b", 1, False)]
        assert stream.rows("SELECT id FROM web.shares_view ORDER BY id") == [(1,), (2,)]
        assert stream.rows(total) == [(2,)]
    behind = minute(6), [("web.shares", minute(8))]
    assert ticks.checks() == {
        "web.clicks": (minute(9), []), "web.per_user": (minute(9), []), "web.shares": behind, "web.total": behind
    }  # fmt: skip
    [said] = _reported(stream)
    assert said.startswith("open windows of web.shares are not up to date: ")
    assert "Division by zero" in said
    # the batch fails as always; the query is right for the next window
    stream.click(minute(60), (60, "a"))
    stream.now = minute(61)
    with stream.opened() as work:
        assert [each.group.table for each in Runner(work).run_once(stream.now).failed] == ["web.shares"]
    for at in (62, 63, 64, 65):
        ticks.tick(minute(at))
    assert stream.rows(USERS) == [("a", 1, False), ("a", 2, True), ("b", 1, True)]


def _reported(stream: Stream) -> list[str]:
    return [each for each in stream.tiny.heard.said_ if "open windows of" in each]


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
