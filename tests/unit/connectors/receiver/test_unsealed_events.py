"""Events of segments that are not sealed yet: listed and read as the sealed files that they become; no Spark."""

from __future__ import annotations

import gzip
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.receiving import UNIT, collector_of
from waterclock.connectors.interface import Item
from waterclock.connectors.receiver import unsealed_events
from waterclock.connectors.receiver.events import events_of
from waterclock.connectors.receiver.segment_sealing import seal
from waterclock.connectors.receiver.segment_writing import SegmentWriter
from waterclock.connectors.receiver.unsealed_events import UnsealedEvents, is_unsealed, list_unsealed
from waterclock.errors import WaterclockError

START = datetime(2020, 1, 1, tzinfo=UTC)


class Stream:
    """A stream with a writer, whose clock the test sets; windows last five minutes."""

    def __init__(self, project: Path) -> None:
        self.now = START + timedelta(seconds=30)
        self.collector = collector_of(project)
        self.folder = project / "data" / "door" / "events"
        self.writer = SegmentWriter(self.folder, lambda _: START + timedelta(minutes=5), lambda: self.now)

    def send(self, *ids: int) -> None:
        body = "\n".join(json.dumps({"id": id_}) for id_ in ids).encode()
        self.writer.append([events_of(body).body(None, None, has_raw=False)])

    def listed(self, *taken: str) -> list[Item]:
        return list(self.collector.arrivals_so_far(UNIT, taken).items)

    def seal(self) -> None:
        self.writer.end()
        seal(self.folder, START + timedelta(minutes=5))


def lines_of(items: list[Item], folder: Path) -> list[str]:
    copies = UnsealedEvents(folder)
    try:
        [copied] = copies.copy({START: items}).values()
        assert all(Path(item.path).stat().st_size == item.size for item in copied)
        content = [Path(item.path).read_bytes() for item in copied]
        read = [gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data for data in content]
    finally:
        copies.close()
    assert list(folder.glob("open-windows-*")) == []
    return [line for text in read for line in text.decode().splitlines()]


def test_a_segment_is_listed_and_read_as_the_file_that_it_becomes(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    assert stream.listed() == []
    stream.send(1, 2)
    [first] = stream.listed()
    assert is_unsealed(first)
    assert stream.listed() == [first]  # unchanged, as nothing was sent
    read = lines_of([first], stream.folder)
    assert [json.loads(line)["id"] for line in read] == [1, 2]
    stream.send(3)
    assert lines_of([first], stream.folder) == read  # as far as it was listed
    [grown] = stream.listed()
    assert grown.size > first.size
    stream.writer.end()
    assert [item.size for item in stream.listed()] == [grown.size]  # closed, and not sealed
    read = lines_of([grown], stream.folder)
    stream.seal()
    [sealed] = stream.listed()
    assert not is_unsealed(sealed)
    assert (sealed.name, sealed.stamp) == (grown.name, grown.stamp)
    assert lines_of([sealed], stream.folder) == lines_of([grown], stream.folder) == read  # also if it was sealed since
    assert stream.listed(grown.name) == [sealed]  # it is not archived yet, so it is listed as by `arrivals`


def test_frames_that_are_not_complete_are_left_out(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    stream.send(1)
    [segment] = stream.folder.glob("open-*.seg")
    with segment.open("ab") as file:
        file.write(b"\x10\x00\x00\x00torn")
    [item] = stream.listed()
    assert [json.loads(line)["id"] for line in lines_of([item], stream.folder)] == [1]


def test_a_segment_that_is_sealed_while_files_are_listed_is_found_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(tmp_path)
    stream.send(1)

    def list_and_seal(folder: Path) -> list[Item]:
        found = list_unsealed(folder)
        stream.seal()
        return found

    monkeypatch.setattr("waterclock.connectors.receiver.connector.list_unsealed", list_and_seal)
    [item] = stream.listed()
    assert not is_unsealed(item)


def test_events_that_were_collected_since_are_an_error_of_this_tick_alone(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    stream.send(1)
    [item] = stream.listed()
    stream.seal()
    for landed in stream.folder.glob("*.jsonl.gz"):
        landed.unlink()
    with pytest.raises(WaterclockError, match="E807") as raised:
        lines_of([item], stream.folder)
    assert raised.value.transient


def test_copies_of_a_process_that_was_killed_are_removed_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(tmp_path)
    stream.send(1)
    left, running = UnsealedEvents(stream.folder), UnsealedEvents(stream.folder)
    folders = sorted(stream.folder.glob("open-windows-*"))
    assert len(folders) == 2
    monkeypatch.setattr(unsealed_events, "_SCRATCH_SECONDS", 60)
    os.utime(left._scratch, (0, 0))
    UnsealedEvents(stream.folder).close()
    assert list(stream.folder.glob("open-windows-*")) == [running._scratch]
