"""Checks the unpacked size of an Avro block before fastavro reads it, since fastavro keeps a whole block in memory."""

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
_LONGEST_NUMBER = 10  # bytes


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
    """
    if codec == "deflate":
        return len(zlib.decompressobj(-15).decompress(packed, MOST_BYTES + 1))  # without a header
    if codec in _UNPACKERS:
        return _size_of_stream(_UNPACKERS[codec](), packed)
    if codec == "snappy":
        return _base_128(packed[:_LONGEST_NUMBER])
    return int.from_bytes(packed[:4], "little") if codec == "lz4" else len(packed)


def _size_of_stream(unpacker: Any, packed: bytes) -> int:
    try:
        size = len(unpacker.decompress(packed, MOST_BYTES + 1))
    except (OSError, lzma.LZMAError) as error:
        raise ValueError(f"it is broken: {error}") from error
    if unpacker.unused_data:  # further streams, which would be unpacked too
        raise ValueError("it is broken: a block has bytes after its end")
    return size


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
    "xz": lzma.LZMADecompressor,
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
