"""Seals a stream up to an instant: closes segments of writers that died, and converts closed segments to sealed files.

It does not wait for live writers and does not close their segments. If the segment of a live writer belongs to an
earlier window, that window stays open until the writer's own timer closes the segment.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import IO

from waterclock.connectors.receiver.events import lines_of
from waterclock.connectors.receiver.frames import EventFrame, frames_of, has_later_frame
from waterclock.connectors.receiver.segment_names import (
    Segment,
    lock_sealing,
    mark_sealed,
    minute_of,
    segments_in,
    sync_folder,
    try_lock,
)
from waterclock.connectors.receiver.segment_writing import remove_unfinished
from waterclock.faults import fault
from waterclock.permissions.ownership import make_private_folder

_GZIP_LEVEL = 1


def seal(folder: Path, now: datetime) -> datetime:
    """Seal a stream up to the minute of `now`.

    Return the instant up to which it is complete: no earlier event will arrive. All closed segments are converted to
    files before this returns. Concurrent calls of several runners are executed one after another. Raises E811 if
    another process that seals the stream was stopped.
    Cost: new data is read once and written once, with one frame in memory.
    """
    make_private_folder(folder)
    until = minute_of(now)
    with lock_sealing(folder):
        remove_unfinished(folder)
        mark_sealed(folder, until)
        complete = min([until, *(each.label for each in _find_live_segments(folder))])
        for segment in segments_in(folder):
            if segment.state == "closed":
                _convert_segment(folder, segment)
    return complete


def lines_of_segment(source: IO[bytes], segment: Segment, least: int, most: int) -> Iterator[bytes]:
    """Yield the lines to collect of a segment's events, as a sealed file has them.

    These are the events in its first `most` bytes, without those that are completely in its first `least` bytes.
    """
    for frame in frames_of(source, least):
        if frame.end > most:
            return
        yield from _lines_of_frame(frame, segment)


def _lines_of_frame(frame: EventFrame, segment: Segment) -> Iterator[bytes]:
    return lines_of(frame.body, frame.at, f"{segment.writer}-{frame.start}")


def _find_live_segments(folder: Path) -> Iterator[Segment]:
    """Yield the segments of live writers. Close those of dead writers, after removing an incomplete last frame."""
    for segment in segments_in(folder):
        if segment.state != "open":
            continue
        with suppress(FileNotFoundError), (folder / segment.name).open("r+b") as file:
            fault("receiver.looked")
            if not try_lock(file.fileno()):
                yield segment
            elif _is_same_file(folder / segment.name, file):  # its writer has not closed it in the meantime
                end = 0
                for frame in frames_of(file):
                    end = frame.end
                if not has_later_frame(file, end):  # else it is damaged, and `_convert_segment` keeps it unchanged
                    file.truncate(end)
                    os.fsync(file.fileno())
                fault("receiver.cut")
                (folder / segment.name).rename(folder / segment.with_state("closed").name)


def _is_same_file(path: Path, file: IO[bytes]) -> bool:
    try:
        return path.stat().st_ino == os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False


def _convert_segment(folder: Path, segment: Segment) -> None:
    """Convert a closed segment to a sealed file, then remove the segment. A damaged segment is renamed instead."""
    path, temporary = folder / segment.name, folder / f".{segment.landed_name}.part"
    with path.open("rb") as source, temporary.open("wb") as sink:
        end, count = 0, 0
        with gzip.GzipFile("", "wb", _GZIP_LEVEL, sink, mtime=0) as packed:
            for frame in frames_of(source):
                end = frame.end
                for line in _lines_of_frame(frame, segment):
                    packed.write(line)
                    count += 1
        is_whole = end == os.fstat(source.fileno()).st_size
        sink.flush()
        os.fsync(sink.fileno())
    fault("receiver.made_file")
    if count:
        temporary.rename(folder / segment.landed_name)
    else:
        temporary.unlink()
    sync_folder(folder)
    fault("receiver.landed")
    if is_whole:
        path.unlink()
    else:
        path.rename(folder / segment.with_state("damaged").name)
