"""Checks the sizes of an Avro file's header and blocks before fastavro reads them, since it keeps them in memory."""

from __future__ import annotations

import bz2
import lzma
import sys
import zlib
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import IO, Any

MOST_BYTES = 256 << 20
"""The maximum unpacked size of a block. Common writers make blocks of some kilobytes to some megabytes."""
MAGIC = b"Obj\x01"
MARKER = 16
"""The number of bytes of the marker that follows the header and each block."""
_LONGEST_NUMBER = 10  # bytes
_HEAD, _LONGEST_HEADER = 64 << 10, 8 << 20
_PIECE = 1 << 20
_MOST_XZ_MEMORY = 256 << 20  # the highest level needs 65 MiB


def check_header(file: IO[bytes]) -> None:
    """Check the length of an Avro file's header, and restore the file's position.

    Raises ValueError for a header that is broken or longer than `_LONGEST_HEADER`.
    """
    at = file.tell()
    for length in (_HEAD, _LONGEST_HEADER):
        file.seek(at)
        head = file.read(length)
        if not head.startswith(MAGIC) or len(head) < length or sync_marker(head):
            file.seek(at)
            return
    raise ValueError(f"its header is longer than {_LONGEST_HEADER} bytes")


def check_block(file: IO[bytes], codec: str) -> None:
    """Check the next block of an open Avro file by unpacking it, and restore the file's position.

    Raises ValueError for a broken block, and for one that is larger than `MOST_BYTES` when unpacked.
    """
    at = file.tell()
    if _read_number(file) is not None:  # its rows; none at the end of the file
        size = _read_number(file)
        if size is None or size < 0:
            raise ValueError("it is broken: a block has no size")
        if size > MOST_BYTES or _unpacked_size(file.read(size), codec) > MOST_BYTES:
            raise ValueError(
                f"it has a block of more than {MOST_BYTES} bytes when unpacked; a block must fit into memory"
            )
    file.seek(at)


def _unpacked_size(packed: bytes, codec: str) -> int:
    """Return the unpacked size of a block, or a number above `MOST_BYTES` if it is larger than that.

    For uncompressed blocks and unknown codecs it is the packed size; fastavro reports unknown codecs.
    Cost: the block is unpacked in pieces, which are not kept.
    """
    if codec == "deflate":
        return _size_of_deflate(packed)
    if codec in _UNPACKERS:
        return _size_of_stream(_UNPACKERS[codec](), packed)
    if codec == "snappy":
        return _base_128(packed[:_LONGEST_NUMBER])
    return int.from_bytes(packed[:4], "little") if codec == "lz4" else len(packed)


def _size_of_deflate(packed: bytes) -> int:
    unpacker, size = zlib.decompressobj(-15), 0  # without a header
    for at in range(0, len(packed), _PIECE):
        left, is_full = packed[at : at + _PIECE], True
        while left or is_full:
            piece = unpacker.decompress(left, _PIECE)
            left, is_full, size = unpacker.unconsumed_tail, len(piece) == _PIECE, size + len(piece)
            if size > MOST_BYTES or unpacker.eof:
                return size
    return size


def _size_of_stream(unpacker: Any, packed: bytes) -> int:
    size, left = 0, packed
    try:
        while size <= MOST_BYTES and not unpacker.eof and (left or not unpacker.needs_input):
            size += len(unpacker.decompress(left, _PIECE))
            left = b""
    except (OSError, lzma.LZMAError) as error:
        raise ValueError(f"it is broken: {error}") from error
    if unpacker.unused_data:  # further streams, which would be unpacked too
        raise ValueError("it is broken: a block has bytes after its end")
    return size


def _xz() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(memlimit=_MOST_XZ_MEMORY)


def _zstandard() -> Any:
    try:
        zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    except ImportError as error:
        raise ValueError(
            "it is compressed with zstandard: install backports.zstd on the machine that reads it"
        ) from error
    return zstd.ZstdDecompressor()


_UNPACKERS: Mapping[str, Callable[[], Any]] = {
    "bzip2": bz2.BZ2Decompressor,
    "xz": _xz,
    "zstandard": _zstandard,
}


def _read_number(file: IO[bytes]) -> int | None:
    """Read an Avro integer (zigzag, variable length) from a file; None at the end of the file."""
    read = b""
    while len(read) < _LONGEST_NUMBER and (byte := file.read(1)):
        read += byte
        if byte[0] < 0x80:
            return _zigzag(read)
    if read:
        raise ValueError("it is broken: a block does not begin with a number")
    return None


def number_at(content: bytes, at: int) -> tuple[int, int] | None:
    """Return the Avro integer at an index of `content`, and the index after it; None if the content ends within it.

    Raises ValueError for an integer that is too long.
    """
    read = content[at : at + _LONGEST_NUMBER]
    length = next((place for place, byte in enumerate(read, 1) if byte < 0x80), 0)
    if length:
        return _zigzag(read[:length]), at + length
    if len(read) == _LONGEST_NUMBER:
        raise ValueError(f"a number has more than {_LONGEST_NUMBER} bytes")
    return None


def _zigzag(read: bytes) -> int:
    number = _base_128(read)
    return (number >> 1) ^ -(number & 1)


def _base_128(read: bytes) -> int:
    number = 0
    for place, byte in enumerate(read):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    return number


def sync_marker(head: bytes) -> bytes:
    """Return the marker that follows each block of an Avro file; empty if the header is longer than `head`.

    Raises ValueError for a broken header.
    """
    at = len(MAGIC)
    remaining = 0  # keys and values of the current part of the metadata; a part without entries is the end
    while True:
        if (found := number_at(head, at)) is None:
            return b""
        number, at = found
        if remaining:
            if number < 0:
                raise ValueError(f"it has a length of {number}")
            at, remaining = at + number, remaining - 1
        elif number == 0:
            return head[at : at + MARKER] if at + MARKER <= len(head) else b""
        else:
            remaining = 2 * abs(number)
            if number < 0:  # the length of the part in bytes follows
                if (found := number_at(head, at)) is None:
                    return b""
                at = found[1]
