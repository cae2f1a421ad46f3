"""Writers and sealers of one stream, with each step of one between any two steps of the others."""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.systems import setting_of, unit_of
from waterclock.connectors.files.file_schemas import shapes_of
from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.connectors.interface import Item
from waterclock.connectors.receiver import segment_names, segment_writing
from waterclock.connectors.receiver.connector import CONNECTOR, ReceiverCollector
from waterclock.connectors.receiver.events import events_of
from waterclock.connectors.receiver.segment_sealing import seal
from waterclock.connectors.receiver.segment_writing import SegmentWriter, SyncFailedError
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.testing.connectors import declared
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.label import label_of
from waterclock.timelabel.period import Period, TimeUnit

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
CADENCE = Cadence(Period(TimeUnit.MINUTE, 5))


def body(*ids: int) -> bytes:
    return events_of(json.dumps([{"id": each} for each in ids]).encode()).body(None, None, has_raw=False)


def collector_of(folder: Path) -> ReceiverCollector:
    return CONNECTOR.collector(setting_of("door", folder, path="door"))


UNIT = unit_of("door", "events")


class Clock:
    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


def writer_of(folder: Path, clock: Callable[[], datetime], **more: Any) -> SegmentWriter:
    return SegmentWriter(folder / "door" / "events", CADENCE.next, clock, **more)


def names(folder: Path) -> list[str]:
    return sorted(path.name.split("-")[0] for path in (folder / "door" / "events").iterdir() if path.name[0] != ".")


def rows_of(item: Item) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(Path(item.path).read_bytes()).splitlines()]


def test_an_idle_door_closes_its_windows(tmp_path: Path) -> None:
    collector = collector_of(tmp_path)
    assert collector.seal(UNIT, NOON + 7 * SECOND) == NOON
    assert collector.arrivals(UNIT).items == ()
    assert collector.clock(UNIT) == NOON


def test_a_writer_holds_its_window_open_until_it_ends_it(tmp_path: Path) -> None:
    clock, collector = Clock(NOON + 61 * SECOND), collector_of(tmp_path)
    writer = writer_of(tmp_path, clock)
    assert writer.seconds_to_window_end() is None
    writer.append([body(1), body(2, 3)])
    assert writer.seconds_to_window_end() == 4 * 60 - 1
    waiting = collector.find_pending(UNIT)
    assert (waiting.files, waiting.since, waiting.is_open) == (1, NOON + MINUTE, True)
    assert collector.seal(UNIT, NOON + 6 * MINUTE) == NOON + MINUTE, "its segment begins there"
    clock.now = NOON + 5 * MINUTE
    writer.end_if_over()
    assert collector.seal(UNIT, NOON + 6 * MINUTE) == NOON + 6 * MINUTE
    (item,) = collector.arrivals(UNIT).items
    assert (item.stamp, item.is_archived) == (NOON + MINUTE, False)
    assert [row["id"] for row in rows_of(item)] == [1, 2, 3]
    assert {row["_received"] for row in rows_of(item)} == {"2026-11-23T12:01:01Z"}
    assert len({(row["_request"], row["_event"]) for row in rows_of(item)}) == 3
    assert collector.find_pending(UNIT).is_open is False


def test_the_segment_of_a_killed_writer_is_sealed_without_its_torn_tail(tmp_path: Path) -> None:
    writer = writer_of(tmp_path, Clock())
    writer.append([body(1)])
    assert writer._open is not None
    os.write(writer._open.descriptor, b"\x20\x00\x00\x00torn")
    os.close(writer._open.descriptor)  # releases its lock, as a kill does
    assert seal(tmp_path / "door" / "events", NOON + 9 * MINUTE) == NOON + 9 * MINUTE
    (item,) = collector_of(tmp_path).arrivals(UNIT).items
    assert [row["id"] for row in rows_of(item)] == [1]


def test_a_segment_never_starts_in_a_sealed_time_range(tmp_path: Path) -> None:
    seal(tmp_path / "door" / "events", NOON + 10 * MINUTE)
    clock = Clock(NOON)  # ten minutes behind
    writer = writer_of(tmp_path, clock)
    writer.append([body(1)])
    clock.now = NOON + MINUTE
    writer.append([body(2)])
    writer.end()
    collector = collector_of(tmp_path)
    assert collector.seal(UNIT, NOON + 15 * MINUTE) == NOON + 15 * MINUTE
    (item,) = collector.arrivals(UNIT).items
    assert item.stamp == NOON + 10 * MINUTE
    assert {row["_received"] for row in rows_of(item)} == {"2026-11-23T12:10:00Z"}


def test_a_clock_that_is_set_back_does_not_move_events_back(tmp_path: Path) -> None:
    clock = Clock(NOON + 6 * MINUTE)
    writer = writer_of(tmp_path, clock)
    writer.append([body(1)])
    clock.now = NOON
    writer.append([body(2)])
    writer.end()
    seal(tmp_path / "door" / "events", NOON + 10 * MINUTE)
    (item,) = collector_of(tmp_path).arrivals(UNIT).items
    assert [(row["id"], row["_received"][11:19]) for row in rows_of(item)] == [(1, "12:06:00"), (2, "12:06:00")]


def test_a_segment_ends_at_its_window_and_at_its_size(tmp_path: Path) -> None:
    clock = Clock()
    writer = writer_of(tmp_path, clock, full=100)
    writer.append([body(1)])
    clock.now += 5 * MINUTE
    writer.append([body(2)])
    writer.append([body(*range(3, 20))])
    writer.append([body(20)])
    assert names(tmp_path) == ["closed", "closed", "open"]


def test_a_sealer_that_was_stopped_is_not_waited_for_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_names, "_LOCK_SECONDS", 0.05)
    collector, folder = collector_of(tmp_path), tmp_path / "door" / "events"
    collector.seal(UNIT, NOON)
    with segment_names.lock_sealing(folder), pytest.raises(WaterclockError) as caught:
        collector.seal(UNIT, NOON + MINUTE)
    assert (caught.value.code, caught.value.transient) == ("E811", True)
    assert f"fuser {folder / '.sealer'}" in str(caught.value.fix)
    assert collector.seal(UNIT, NOON + MINUTE) == NOON + MINUTE


def test_a_damaged_segment_is_kept_and_reported(tmp_path: Path) -> None:
    writer = writer_of(tmp_path, Clock())
    writer.append([body(1)])
    writer.append([body(2)])
    writer.end()
    (path,) = (tmp_path / "door" / "events").glob("closed-*")
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    collector = collector_of(tmp_path)
    collector.seal(UNIT, NOON + 5 * MINUTE)
    listing = collector.arrivals(UNIT)
    assert [row["id"] for item in listing.items for row in rows_of(item)] == [1]
    assert [(report.problem, "E871" in report.detail) for report in listing.reports] == [("damaged", True)]


def test_a_segment_of_the_dead_that_is_damaged_within_is_not_cut_off_there(tmp_path: Path) -> None:
    writer = writer_of(tmp_path, Clock())
    for number in (1, 2, 3):
        writer.append([body(number)])
    assert writer._open is not None
    os.close(writer._open.descriptor)  # releases its lock, as a kill does
    (path,) = (tmp_path / "door" / "events").glob("open-*")
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"id": 2', b'"id": 7'))
    collector = collector_of(tmp_path)
    collector.seal(UNIT, NOON + 5 * MINUTE)
    listing = collector.arrivals(UNIT)
    assert [row["id"] for item in listing.items for row in rows_of(item)] == [1]
    assert [report.problem for report in listing.reports] == ["damaged"]
    (kept,) = (tmp_path / "door" / "events").glob("damaged-*")
    assert len(kept.read_bytes()) == len(data)  # the third, acknowledged event is still there


def test_taken_files_are_archived_and_found_there(tmp_path: Path) -> None:
    writer, collector = writer_of(tmp_path, Clock()), collector_of(tmp_path)
    writer.append([body(1)])
    writer.end()
    collector.seal(UNIT, NOON + 5 * MINUTE)
    (item,) = collector.arrivals(UNIT).items
    assert collector.archive(UNIT, [item]) == ()
    (found,) = collector.find(UNIT, [item.name])
    assert (found.is_archived, rows_of(found)[0]["id"]) == (True, 1)
    assert collector.find_pending(UNIT).files == 0


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_refuses_and_keeps_nothing_by_halves(tmp_path: Path) -> None:
    writer = writer_of(tmp_path, Clock())
    writer.append([body(1)])
    with largest_file(120), pytest.raises(OSError, match="too large") as raised:
        writer.append([body(2), body(3)])
    assert not isinstance(raised.value, SyncFailedError)
    writer.append([body(4)])
    writer.end()
    seal(tmp_path / "door" / "events", NOON + 5 * MINUTE)
    (item,) = collector_of(tmp_path).arrivals(UNIT).items
    assert [row["id"] for row in rows_of(item)] == [1, 4]


def test_a_failed_sync_raises_its_own_error_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    writer = writer_of(tmp_path, Clock())
    monkeypatch.setattr(os, "fdatasync", fails)
    with pytest.raises(SyncFailedError):
        writer.append([body(1)])


class KilledError(BaseException):
    pass


class Turns:
    """Runs actors in threads, one at a time from one named point to its next, in random order."""

    def __init__(self, chance: random.Random, clock: Clock) -> None:
        self.chance = chance
        self.clock = clock
        self.mine: dict[int, threading.Semaphore] = {}
        self.back = threading.Semaphore(0)
        self.failures: list[BaseException] = []
        self.mortal: set[int] = set()

    def point(self, name: str) -> None:
        own = self.mine.get(threading.get_ident())
        if own is None:
            return
        self.back.release()
        own.acquire()
        # cleanup after an error would not run after a kill: the child-process tests cover these points
        tidied = {"receiver.locked", "receiver.made", "receiver.looked", "receiver.cut", "receiver.made_file"}
        if name not in tidied and threading.get_ident() in self.mortal and self.chance.random() < 0.02:
            raise KilledError

    def run(self, actors: list[tuple[Callable[[], None], bool]]) -> None:
        alive = []
        for actor, is_mortal in actors:
            own = threading.Semaphore(0)
            thread = threading.Thread(target=self._act, args=(actor, own, is_mortal), daemon=True)
            thread.start()
            alive.append((thread, own))
            self.back.acquire()
        while alive:
            step = self.chance.choice([0, 0, 0, 1, 20, 70, 200, -40])
            self.clock.now += step * SECOND
            thread, own = self.chance.choice(alive)
            own.release()
            self.back.acquire()
            alive = [each for each in alive if each[1] not in self.done]

    done: set[threading.Semaphore]

    def _act(self, actor: Callable[[], None], own: threading.Semaphore, is_mortal: bool) -> None:
        self.mine[threading.get_ident()] = own
        if is_mortal:
            self.mortal.add(threading.get_ident())
        try:
            self.point("begin")
            actor()
        except KilledError:
            pass
        except BaseException as error:  # noqa: BLE001 - asserted on by the test
            self.failures.append(error)
        finally:
            self.done.add(own)
            del self.mine[threading.get_ident()]
            self.mortal.discard(threading.get_ident())
            self.back.release()


class Story:
    """Checks that acknowledged events are on disk, and that runners collect each file once by name."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self.chance = chance
        self.clock = Clock()
        self.turns = Turns(chance, self.clock)
        self.turns.done = set()
        self.sent = 0
        self.acknowledged: set[int] = set()
        self.taken: dict[str, list[dict[str, Any]]] = {}
        self.complete = NOON - 5 * MINUTE
        self.late: list[str] = []

    def write(self) -> None:
        writer = writer_of(self.folder, self.clock, full=400)
        try:
            for _ in range(self.chance.randint(1, 8)):
                ids = list(range(self.sent, self.sent + self.chance.randint(1, 3)))
                self.sent += len(ids)
                writer.append([body(each) for each in ids])
                self.acknowledged.update(ids)
                self.turns.point("acknowledged")
                writer.end_if_over()
            if self.chance.random() < 0.5:
                writer.end()
        finally:
            if writer._open is not None:
                os.close(writer._open.descriptor)

    def collect(self) -> None:
        for _ in range(self.chance.randint(1, 6)):
            self.look()

    def look(self) -> None:
        collector = collector_of(self.folder)
        before = self.complete  # events acknowledged before this scan started
        complete = collector.seal(UNIT, self.clock.now)
        known = set(self.taken)
        items = collector.arrivals(UNIT, known).items
        for item in items:
            if item.name not in self.taken:
                if item.stamp < before:
                    self.late.append(item.name)
                if item.stamp < complete:
                    self.taken[item.name] = rows_of(item)
        self.complete = max(self.complete, complete)
        self.turns.point("taken")
        collector.archive(UNIT, [item for item in items if item.name in self.taken and not item.is_archived])

    def check(self) -> None:
        assert self.turns.failures == []
        self.clock.now = max(self.clock.now, NOON) + timedelta(days=1)
        self.look()
        rows = [row for of in self.taken.values() for row in of]
        ids = [row["id"] for row in rows]
        assert len(ids) == len(set(ids)), "no event is stored twice"
        assert self.acknowledged <= set(ids), "no acknowledged event is lost"
        assert self.late == [], "sealed files do not change"
        for name, of in self.taken.items():
            window = CADENCE.window_of(segment_names.label_of_file(name.rpartition("/")[2]))
            assert all(window.contains(datetime.fromisoformat(row["_received"])) for row in of)


@pytest.mark.sampled(1)
def test_any_order_of_steps_keeps_each_event_once_and_in_its_window(
    tmp_path: Path, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_names, "_RETRY_SECONDS", 0)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(os, "fdatasync", lambda _: None)
    events = 0
    for seed in range(1500 if is_long else 60):
        story = Story(tmp_path / str(seed), random.Random(seed))
        writers, runners = story.chance.randint(1, 3), story.chance.randint(1, 2)
        with inject_faults(story.turns.point):
            story.turns.run([*[(story.write, True)] * writers, *[(story.collect, True)] * runners])
        story.check()
        events += len(story.acknowledged)
    assert events > 60


@pytest.mark.parametrize("broken", ["no marker", "closed are not sealed"])
def test_the_interleaving_test_detects_a_broken_protocol(
    tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a part of the protocol, some order of steps must fail."""
    monkeypatch.setattr(segment_names, "_RETRY_SECONDS", 0)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(os, "fdatasync", lambda _: None)
    if broken == "no marker":
        monkeypatch.setattr(segment_writing, "find_seal_time", lambda _: None)
    else:
        monkeypatch.setattr(segment_writing, "try_lock", lambda _: True)

    def stories() -> None:
        for seed in range(150):
            story = Story(tmp_path / str(seed), random.Random(seed))
            with inject_faults(story.turns.point):
                story.turns.run([*[(story.write, True)] * 2, (story.collect, True)])
            story.check()

    with pytest.raises((AssertionError, FileNotFoundError)):
        stories()


def test_markers_do_not_pile_up(tmp_path: Path) -> None:
    for at in range(10):
        seal(tmp_path, NOON + at * MINUTE)
    seal(tmp_path, NOON)
    assert sorted(path.name for path in tmp_path.glob("sealing-*")) == [
        f"sealing-{label_of(NOON + at * MINUTE)}" for at in (8, 9)
    ]


def test_keys_that_a_stranger_spells_in_his_own_way_stop_no_closed_list(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"userId":1,"a b":1}\n{"userid":2,"a_b":2,"x":3}\n')
    columns = declared(("userId", "INT"), is_open=False)
    (shape,) = shapes_of([str(path)], ReadOptions(), columns)
    assert [found.name for found in shape.found] == ["a b", "userId", "x"]
    (shape,) = shapes_of([str(path)], ReadOptions(), declared(("UserID", "INT"), is_open=False))
    assert {"userId", "userid"} <= {found.name for found in shape.found}, "both are equally possible"


def test_a_value_of_another_type_is_no_file_to_deliver_again(tmp_path: Path) -> None:
    collector = collector_of(tmp_path)
    path = tmp_path / "events" / "events_2026_11_20_12_00_00.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"id": "x"}\n', encoding="utf-8")
    of_spark = RuntimeError(f"[USER_RAISED_EXCEPTION] waterclock-misfit|file://{path}|id|x SQLSTATE: P0001")
    error = collector.explain(UNIT, declared(("id", "INT")), of_spark)
    assert error is not None
    assert (error.code, error.where) == ("E806", f"{path}:1")
    assert "deliver" not in str(error.fix)
    assert "retry" in str(error.fix)
