"""Checks whether a file is complete, if possible without parsing it.

Plain CSV has no end marker. So its sender should write it under another name and rename it, or the option `settle`
should be set. Compressed files up to a maximum size are read completely once. Parquet has an end marker.
"""

from __future__ import annotations

import bz2
import gzip
import zipfile
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import IO

from waterclock.connectors.files.avro_blocks import MAGIC, MARKER, sync_marker
from waterclock.connectors.files.file_name_matching import FORMATS
from waterclock.files.filesystem import open_for_reading

DAMAGED = "damaged"
"""The problem of a file that will not become complete by waiting."""
_CHUNK = 1 << 20
_MOST_READ = {"gz": 64 << 20, "bz2": 8 << 20}
_MOST_UNPACKED = {"gz": 1 << 30, "bz2": 256 << 20}  # which takes some seconds, even at an extreme compression ratio
_MAGIC = {"gz": b"\x1f\x8b", "bz2": b"BZh", "zst": b"\x28\xb5\x2f\xfd"}
_PARQUET = b"PAR1"
_BLANK = b" \t\r\n\0"  # UTF-16 text may end with zeros


@lru_cache(maxsize=1 << 16)
def problem_of(path: str, size: int, changed: object, kind: tuple[str, str]) -> tuple[str, str] | None:
    """Return the problem of a file as (problem, detail), or None. `changed` is only a part of the cache key.

    Cost: gzip up to 64 MB and bzip2 up to 8 MB are read once, up to 1 GB or 256 MB unpacked. Of larger ones and of zstd
    only the first bytes are read, and of other formats at most the beginning and end. The scan finds other problems.
    """
    del changed
    ending, compression = kind
    if size == 0:
        return "half-written", "it is empty"
    with open_for_reading(path, size) as file:
        if compression:
            return _compressed_problem(file, size, compression, is_json=ending in ("json", "jsonl", "ndjson"))
        check = _CHECKS.get("xls" if ending == "xls" else FORMATS.get(ending, ""))
        return check(file, size) if check else None


def _compressed_problem(file: IO[bytes], size: int, compression: str, *, is_json: bool) -> tuple[str, str] | None:
    magic = _MAGIC[compression]
    start = file.read(len(magic))
    if start != magic[: len(start)]:
        return DAMAGED, f"it is not a .{compression} file"
    if len(start) < len(magic):
        return "half-written", f"it ends within the header of a .{compression} file"
    return _inner_problem(file, compression, is_json=is_json) if size <= _MOST_READ.get(compression, 0) else None


def _inner_problem(file: IO[bytes], compression: str, *, is_json: bool) -> tuple[str, str] | None:
    file.seek(0)
    try:
        tail = _read_through(file, compression)
    except EOFError:
        return "half-written", f"it ends before its .{compression} stream does"
    except (OSError, zlib.error) as error:
        return DAMAGED, str(error)
    if tail is None:
        return None
    if not tail:
        return "half-written", "its content is empty"
    return _json_problem(tail) if is_json else None


def _read_through(file: IO[bytes], compression: str) -> bytes | None:
    """Unpack a file completely, and return the end of its content; None if the content is too large."""
    tail, room = b"", _MOST_UNPACKED[compression]
    with gzip.GzipFile(fileobj=file) if compression == "gz" else bz2.BZ2File(file) as stream:
        while chunk := stream.read(_CHUNK):
            tail = (tail + chunk)[-4096:]
            room -= len(chunk)
            if room < 0:
                return None
    return tail


def _parquet_problem(file: IO[bytes], size: int) -> tuple[str, str] | None:
    if file.read(4) != _PARQUET:
        return DAMAGED, "it is not a Parquet file"
    if size < 12:
        return "half-written", "it ends before its footer"
    file.seek(size - 8)
    end = file.read(8)
    if end[4:] != _PARQUET or int.from_bytes(end[:4], "little") > size - 12:
        return "half-written", "it ends before its footer"
    return None


def _zip_problem(file: IO[bytes], size: int) -> tuple[str, str] | None:
    del size
    if file.read(2) != b"PK":
        return DAMAGED, "it is not a zip file"
    file.seek(0)
    return None if zipfile.is_zipfile(file) else ("half-written", "it ends before its list of members")


def _avro_problem(file: IO[bytes], size: int) -> tuple[str, str] | None:
    head = file.read(_CHUNK)
    if not head.startswith(MAGIC):
        return DAMAGED, "it is not an Avro file"
    try:
        mark = sync_marker(head)
    except ValueError as error:
        return DAMAGED, f"its header is broken: {error}"
    file.seek(max(0, size - MARKER))
    if not mark:
        return ("half-written", "it ends within its header") if len(head) < _CHUNK else None
    return None if file.read() == mark else ("half-written", "it ends within a block")


def _xml_problem(file: IO[bytes], size: int) -> tuple[str, str] | None:
    file.seek(max(0, size - 64))
    return None if file.read().rstrip(_BLANK).endswith(b">") else ("half-written", "it ends within an element")


def _plain_json_problem(file: IO[bytes], size: int) -> tuple[str, str] | None:
    file.seek(max(0, size - 4096))
    return _json_problem(file.read())


def _json_problem(tail: bytes) -> tuple[str, str] | None:
    stripped = tail.rstrip(_BLANK)
    if stripped and not stripped.endswith((b"}", b"]")):
        return "half-written", "its last line ends within an object"
    return None


_CHECKS: Mapping[str, Callable[[IO[bytes], int], tuple[str, str] | None]] = {
    "parquet": _parquet_problem,
    "zip": _zip_problem,
    "excel": _zip_problem,
    "avro": _avro_problem,
    "xml": _xml_problem,
    "json": _plain_json_problem,
}
