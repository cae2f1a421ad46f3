"""Appends received requests to the segment files of a stream, and flushes them to disk before they are answered.

Any number of writers, in any number of processes of one machine, can write to one stream. Each has its own segments.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from waterclock.connectors.receiver.frames import build_frame
from waterclock.connectors.receiver.segment_names import Segment, find_seal_time, minute_of, sync_folder, try_lock
from waterclock.faults import fault
from waterclock.permissions.ownership import create_private_file, make_private_folder

FULL = 64 << 20  # bytes after which a segment is ended, which limits the size of sealed files
_NEW = ".new-"


class SyncFailedError(OSError):
    """A sync to disk failed, so it is unknown which data is on disk, and the process must end."""


@dataclass(slots=True)
class _OpenSegment:
    segment: Segment
    path: Path
    descriptor: int
    end: datetime
    size: int = 0


class SegmentWriter:
    """Writes the segments of a stream, from one thread at a time. `end_of` maps an instant to the end of its window.

    The times of its frames never decrease, even if the machine's clock is set back, and are never in a time range that
    is sealed already.
    """

    def __init__(
        self,
        folder: Path,
        end_of: Callable[[datetime], datetime],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        full: int = FULL,
    ) -> None:
        self._folder = folder
        self._end_of = end_of
        self._clock = clock
        self._full = full
        self._name = secrets.token_hex(4)
        self._count = 0
        self._last_time = datetime.min.replace(tzinfo=UTC)
        self._open: _OpenSegment | None = None

    def append(self, bodies: Sequence[bytes]) -> None:
        """Write requests to disk with one write and one sync. After that they may be answered.

        Raises OSError if the disk fails: none of the requests is stored, and they may be sent again. Raises
        SyncFailedError if it is unknown which data is on disk: no more data may be written.
        """
        now = self._now()
        current = self._open
        if current is not None and (now >= current.end or current.size >= self._full):
            self.end()
            current = None
        if current is None:
            current = self._open = self._start_segment(now)
            now = self._last_time = max(now, current.segment.label)
        data = b"".join([build_frame(now, body) for body in bodies])
        fault("receiver.append")
        try:
            _write_all(current.descriptor, data)
        except OSError:
            self._truncate(current)
            raise
        fault("receiver.written")
        try:
            os.fdatasync(current.descriptor)
        except OSError as error:
            raise SyncFailedError(error.errno, error.strerror, str(current.path)) from error
        current.size += len(data)

    def seconds_to_window_end(self) -> float | None:
        """Return the seconds until `end_if_over` must be called; None without an open segment."""
        return None if self._open is None else max(0.0, (self._open.end - self._now()).total_seconds())

    def end_if_over(self) -> None:
        """End the open segment if its window is over, as an idle stream must not keep the window open."""
        if self._open is not None and self._now() >= self._open.end:
            self.end()

    def end(self) -> None:
        """End the open segment; the next request starts another one."""
        current, self._open = self._open, None
        if current is None:
            return
        try:
            fault("receiver.ends")
            current.path.rename(current.path.with_name(current.segment.with_state("closed").name))
            fault("receiver.ended")
        finally:
            os.close(current.descriptor)

    def _now(self) -> datetime:
        self._last_time = max(self._last_time, self._clock())
        return self._last_time

    def _start_segment(self, now: datetime) -> _OpenSegment:
        """Start a segment at the minute of `now`, or at the first minute that is not sealed."""
        make_private_folder(self._folder)
        label = minute_of(now)
        while True:
            self._count += 1
            segment = Segment("open", label, f"{self._name}-{self._count:06d}")
            made = self._create_segment(segment)
            if made is None:
                continue
            try:
                fault("receiver.made")
                sealed = find_seal_time(self._folder)
                if sealed is None or sealed <= label:
                    sync_folder(self._folder)
                    return made
            except BaseException:
                _remove_segment(made)
                raise
            # the sealer may have listed the folder before this segment existed
            _remove_segment(made)
            label = sealed

    def _create_segment(self, segment: Segment) -> _OpenSegment | None:
        """Create a segment, and lock it before it gets its final name; None if `remove_unfinished` removed it."""
        temporary, path = self._folder / f"{_NEW}{segment.name}", self._folder / segment.name
        descriptor = create_private_file(temporary, os.O_APPEND)
        try:
            is_ours = try_lock(descriptor)
            fault("receiver.locked")
            if is_ours:
                temporary.rename(path)
        except FileNotFoundError:
            is_ours = False
        except BaseException:
            os.close(descriptor)
            raise
        if not is_ours:
            os.close(descriptor)
            return None
        return _OpenSegment(segment, path, descriptor, self._end_of(segment.label))

    @staticmethod
    def _truncate(current: _OpenSegment) -> None:
        """Truncate a partial write. Raises SyncFailedError if the file cannot be truncated."""
        try:
            os.ftruncate(current.descriptor, current.size)
        except OSError as error:
            raise SyncFailedError(error.errno, error.strerror, str(current.path)) from error


def remove_unfinished(folder: Path) -> None:
    """Remove the temporary files of writers that died while they created a segment."""
    for path in folder.glob(f"{_NEW}*"):
        with suppress(FileNotFoundError), path.open("rb") as file:
            if try_lock(file.fileno()):
                path.unlink()


def _remove_segment(made: _OpenSegment) -> None:
    made.path.unlink(missing_ok=True)
    os.close(made.descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
