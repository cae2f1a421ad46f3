"""Reads files as text such that every part can be written back with the same bytes."""

from __future__ import annotations

import codecs
import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, cast

from waterclock.connectors.files.encodings import codec_of, open_decompressed

_CHUNK = 1 << 20
_STATEFUL = ("iso2022", "hz", "utf-7")  # the bytes of a character depend on those before it
_MARKS = (
    ("utf-32-le", codecs.BOM_UTF32_LE),
    ("utf-32-be", codecs.BOM_UTF32_BE),
    ("utf-16-le", codecs.BOM_UTF16_LE),
    ("utf-16-be", codecs.BOM_UTF16_BE),
)


@dataclass(frozen=True, slots=True)
class ExactText:
    """An open text with its byte order mark. `encode` returns the original bytes of a part of it."""

    file: IO[str]
    mark: bytes
    encode: Callable[[str], bytes]


@contextmanager
def open_exact_text(path: str, encoding: str) -> Iterator[ExactText]:
    """Open a file as decompressed text. Invalid bytes become surrogates.

    Raises UnicodeError if some bytes of another encoding than UTF-8 could not be written back unchanged.
    """
    with open_decompressed(path) as stream:
        buffered = io.BufferedReader(cast("io.RawIOBase", stream))
        codec, mark = _resolve_codec(encoding, buffered.peek(4)[:4])
        buffered.read(len(mark))
        errors = "surrogatepass" if codec.startswith(("utf-16", "utf-32")) else "surrogateescape"
        if codec.startswith(_STATEFUL) or (codec != "utf-8" and not _is_exact(path, codec, errors, len(mark))):
            raise UnicodeError(f"its characters in {encoding} cannot be written back with the same bytes")
        with io.TextIOWrapper(buffered, encoding=codec, errors=errors, newline="") as file:
            yield ExactText(file, mark, lambda text: text.encode(codec, errors))


def _resolve_codec(encoding: str, head: bytes) -> tuple[str, bytes]:
    """Return a codec that reads no byte order mark, and the mark at the beginning of the file."""
    codec = codec_of(encoding, head)
    if codec == "utf-8-sig":
        return "utf-8", codecs.BOM_UTF8 if head.startswith(codecs.BOM_UTF8) else b""
    for name, mark in _MARKS:
        if name.startswith(codec) and head.startswith(mark):  # such a codec was chosen because of the mark
            return name, mark
    return codecs.lookup(codec).name, b""


def _is_exact(path: str, codec: str, errors: str, skipped: int) -> bool:
    """Return whether decoding and encoding a file returns the same bytes. Cost: the file is read once."""
    decoder = codecs.getincrementaldecoder(codec)(errors)
    encoder = codecs.getincrementalencoder(codec)(errors)
    before, after = hashlib.sha256(), hashlib.sha256()
    with open_decompressed(path) as file:
        file.read(skipped)
        while chunk := file.read(_CHUNK):
            before.update(chunk)
            after.update(encoder.encode(decoder.decode(chunk)))
        after.update(encoder.encode(decoder.decode(b"", final=True), final=True))
    return before.digest() == after.digest()
