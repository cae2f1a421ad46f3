"""Defines the files in a stream's folder: segments, markers and sealed files.

    open-<label>-<writer>-<number>.seg      is being written; its writer keeps a flock on it for as long as it lives
    closed-<label>-<writer>-<number>.seg    is complete, and no longer has a writer
    damaged-<label>-<writer>-<number>.seg   was complete once: its readable part was collected, the segment is kept
    <label>-<writer>-<number>.jsonl.gz      the events of a closed segment, to be collected and then archived
    sealing-<label>                         windows that end by this label are sealed: no new segment begins before it

A segment's label is the minute in which it begins. Its writer ends it where a window of the stream's tables ends, so
a segment belongs to one window of each table.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic, sleep

from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.timelabel.instant import EPOCH
from waterclock.timelabel.label import instant_of, label_of

LANDED = "*.jsonl.gz"

_MINUTE = timedelta(minutes=1)
_SEGMENT = re.compile(r"(open|closed|damaged)-([0-9]{14})-([0-9a-z]+-[0-9]+)\.seg")
_MARKER_NAME = re.compile(r"sealing-[0-9]{14}")
_MARKER = "sealing-"
_LOCK_FILE = ".sealer"
_MARKERS_KEPT = 2
_RETRY_SECONDS = 0.02
_LOCK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Segment:
    """The parts of a segment's name: state (open, closed, damaged), first minute, and writer with number."""

    state: str
    label: datetime
    writer: str

    @property
    def name(self) -> str:
        """The name of the segment's file."""
        return f"{self.state}-{label_of(self.label)}-{self.writer}.seg"

    @property
    def landed_name(self) -> str:
        """The name of the sealed file with the segment's events."""
        return f"{label_of(self.label)}-{self.writer}.jsonl.gz"

    def with_state(self, state: str) -> Segment:
        """Return the same segment in another state."""
        return Segment(state, self.label, self.writer)


def label_of_file(landed: str) -> datetime:
    """Return the first minute of the events in a sealed file, from its name."""
    return instant_of(landed.partition("-")[0])


def landed_segment(landed: str) -> Segment:
    """Return the segment, as an open one, whose events are in a sealed file or will be, from the name of that file."""
    label, _, writer = landed.removesuffix(LANDED.lstrip("*")).partition("-")
    return Segment("open", instant_of(label), writer)


def minute_of(at: datetime) -> datetime:
    """Return the start of the minute of an instant. No window begins or ends within a minute."""
    return at - (at - EPOCH) % _MINUTE


def segments_in(folder: Path) -> list[Segment]:
    """Return the segments of a stream, sorted by file name; empty if its folder does not exist."""
    found = (_SEGMENT.fullmatch(name) for name in _list_names(folder))
    return [Segment(each[1], instant_of(each[2]), each[3]) for each in found if each]


def find_seal_time(folder: Path) -> datetime | None:
    """Return the instant of the newest marker, before which no segment begins. None before the first sealing."""
    markers = _list_markers(folder)
    return instant_of(markers[-1].removeprefix(_MARKER)) if markers else None


def mark_sealed(folder: Path, until: datetime) -> None:
    """Create the marker of an instant, unless a newer one exists. Remove all older markers except the last one."""
    markers = _list_markers(folder)
    name = f"{_MARKER}{label_of(until)}"
    if not markers or markers[-1] < name:
        (folder / name).touch()
        fault("receiver.marked")
        for old in markers[: 1 - _MARKERS_KEPT]:
            (folder / old).unlink(missing_ok=True)


@contextmanager
def lock_sealing(folder: Path) -> Iterator[None]:
    """Lock a stream for sealing within the block. Wait up to a minute while another process holds the lock.

    The lock of a process that died is free. Raises E811 if the other process does not release it, as one that was
    stopped.
    """
    with (folder / _LOCK_FILE).open("ab") as lock:
        end = monotonic() + _LOCK_SECONDS
        while not try_lock(lock.fileno()):
            if monotonic() > end:
                raise _lock_error(folder)
            fault("receiver.waits")
            sleep(_RETRY_SECONDS)
        yield


def _lock_error(folder: Path) -> WaterclockError:
    lock = shlex.quote(str(folder / _LOCK_FILE))
    return WaterclockError(
        "E811",
        f"the stream {folder.name} is locked",
        where=str(folder),
        why=f"another process has been converting its events for {_LOCK_SECONDS:g} seconds, or was stopped meanwhile",
        fix=f"it is tried again; if that process was stopped, continue or end it: fuser {lock}",
        transient=True,
    )


def try_lock(descriptor: int) -> bool:
    """Try to lock an open file. Return whether it succeeded: False if another process or descriptor has the lock."""
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def sync_folder(folder: Path) -> None:
    """Flush the directory entries of a folder to disk. Raises OSError if the disk fails."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _list_markers(folder: Path) -> list[str]:
    return [name for name in _list_names(folder) if _MARKER_NAME.fullmatch(name)]


def _list_names(folder: Path) -> list[str]:
    with suppress(FileNotFoundError):
        return sorted(os.listdir(folder))  # noqa: PTH208 - only names are needed
    return []
