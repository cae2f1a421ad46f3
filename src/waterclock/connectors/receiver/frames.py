"""Reads and writes the frames of a segment file. Each frame is one request: `length, crc32, instant, body`.

Reading stops at an incomplete frame: after a crash the last frames may be cut off or contain zeros. Such frames were
never acknowledged. An incomplete frame before a complete one is damage: see `has_later_frame`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import IO
from zlib import crc32

from waterclock.timelabel.instant import EPOCH

_HEAD = struct.Struct("<IIq")
_TIME = struct.Struct("<q")
_MICROSECOND = timedelta(microseconds=1)
_MOST_BODY_BYTES = 1 << 30  # far beyond any request: a larger length is from a torn frame


@dataclass(frozen=True, slots=True)
class EventFrame:
    """A frame: the body of a request, the time (UTC) when it was written, and the frame's start and end in the file."""

    at: datetime
    body: bytes
    start: int
    end: int


def build_frame(at: datetime, body: bytes) -> bytes:
    """Return the bytes of a frame with a request's body and the time `at` when it is written."""
    micros = (at - EPOCH) // _MICROSECOND
    return _HEAD.pack(len(body), crc32(body, crc32(_TIME.pack(micros))), micros) + body


def frames_of(file: IO[bytes], least: int = 0) -> Iterator[EventFrame]:
    """Yield the complete frames of a file, up to the first incomplete one. Cost: one frame in memory.

    Frames that are completely in its first `least` bytes are skipped, and their checksums not verified.
    """
    start = 0
    while len(head := file.read(_HEAD.size)) == _HEAD.size:
        length, checksum, micros = _HEAD.unpack(head)
        if not 0 < length <= _MOST_BODY_BYTES:
            return
        end = start + _HEAD.size + length
        if end <= least:
            start = file.seek(length, os.SEEK_CUR)
            continue
        body = file.read(length)
        if len(body) < length or crc32(body, crc32(head[8:])) != checksum:
            return
        yield EventFrame(EPOCH + micros * _MICROSECOND, body, start, end)
        start = end


def has_later_frame(file: IO[bytes], start: int) -> bool:
    """Return whether a complete frame follows the frame at `start`, which has a wrong checksum.

    If so, the frame at `start` was written completely and damaged later, because a writer that dies leaves only its
    last frame incomplete.
    """
    file.seek(start)
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return False
    length, _, _ = _HEAD.unpack(head)
    if not 0 < length <= _MOST_BODY_BYTES:
        return False
    file.seek(start + _HEAD.size + length)
    return next(frames_of(file), None) is not None
