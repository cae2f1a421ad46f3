"""Opens files as text: decompressed, decoded, and without a byte order mark."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from bz2 import BZ2File
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import IO, cast

from waterclock.connectors.files.file_name_matching import format_of
from waterclock.files.filesystem import open_for_reading
from waterclock.files.object_stores import is_remote

_MARKS = {"16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)}
MOST_OF_A_LINE = 128 << 20
"""The maximum number of characters of a line that is read in Python. A small packed file may have any line."""
_UTF8 = frozenset(("UTF-8", "UTF8", "UTF-8-SIG"))


def open_text(path: str, encoding: str, *, errors: str = "strict") -> IO[str]:
    """Open a file as decompressed text, with its line ends unchanged."""
    return decode_file(open_decompressed(path), encoding, errors=errors)


def open_decompressed(path: str) -> IO[bytes]:
    """Open a file as a stream of decompressed bytes."""
    kind = format_of(Path(path).name)
    compression = kind[1] if kind else ""
    if not compression:
        return open_for_reading(path)
    return decompress_file(open_for_reading(path) if is_remote(path) else path, compression)


def decompress_file(file: IO[bytes] | str, compression: str) -> IO[bytes]:
    """Return the decompressed stream of an open file or, for a file on this machine, of a path."""
    if not compression:
        return cast("IO[bytes]", file)
    if compression == "gz":
        return cast("IO[bytes]", _GzipStream(file) if isinstance(file, str) else _GzipStream(fileobj=file))
    if compression == "bz2":
        return BZ2File(file)
    import pyarrow as pa

    return cast("IO[bytes]", pa.input_stream(file, compression="zstd"))


class _GzipStream(gzip.GzipFile):
    """A decompressed stream that raises OSError for damaged content. gzip raises zlib.error for some of it."""

    def read(self, size: int | None = -1) -> bytes:
        try:
            return super().read(size)
        except zlib.error as error:
            raise OSError(f"it is damaged: {error}") from error


def decode_file(file: IO[bytes], encoding: str, *, errors: str | None = None) -> IO[str]:
    """Wrap an open binary file as text. A byte order mark is removed, and determines the byte order.

    Without `errors`, bytes that are not UTF-8 become U+FFFD, as in Spark's own reader; other encodings are strict.
    """
    buffered = io.BufferedReader(cast("io.RawIOBase", file))
    if errors is None:
        errors = "replace" if encoding.upper() in _UTF8 else "strict"
    return TextIOWrapper(buffered, encoding=codec_of(encoding, buffered.peek(4)[:4]), errors=errors, newline="")


class LongLineError(EOFError):
    """Raised for a line of `MOST_OF_A_LINE` characters or more."""


def lines_of(file: IO[str]) -> Iterator[str]:
    """Yield the lines of a text with their line ends. Raises LongLineError."""
    while line := file.readline(MOST_OF_A_LINE):
        if len(line) == MOST_OF_A_LINE:
            raise LongLineError(f"it has a line of {MOST_OF_A_LINE} characters or more")
        yield line


def codec_of(encoding: str, head: bytes) -> str:
    """Return the Python codec for a declared encoding, given the first bytes of a file."""
    name = encoding.upper().replace("_", "-")
    if name in _UTF8:
        return "utf-8-sig"
    bits = name.removeprefix("UTF-")[:2] if name.startswith("UTF-") else name.removeprefix("UTF")[:2]
    if not name.startswith("UTF") or bits not in _MARKS:
        return encoding
    if head.startswith(_MARKS[bits]):
        return f"utf-{bits}"
    if name.endswith(("LE", "BE")):
        return encoding
    order = "be" if head.startswith(bytes(1)) else "le"
    return f"utf-{bits}-{order}"
