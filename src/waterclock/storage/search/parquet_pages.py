"""Reads the decompressed pages of Parquet files, also parts of dictionaries that no row uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow.parquet as pq

MOST_OF_A_PAGE = 512 << 20
_MOST_OF_A_HEADER = 16 << 20
_HEADER_BYTES = 1 << 16
_DATA_PAGE_V2 = 3
_CODECS = {
    "GZIP": "gzip",
    "SNAPPY": "snappy",
    "ZSTD": "zstd",
    "BROTLI": "brotli",
    "LZ4": "lz4_hadoop",
    "LZ4_RAW": "lz4_raw",
}


def pages_of(file: IO[bytes], chunk: pq.ColumnChunkMetaData) -> Iterator[bytes]:
    """Yield the decompressed content of each page of a column chunk.

    Raises ValueError for a page that cannot be read, or is larger than `MOST_OF_A_PAGE`.
    """
    starts = [at for at in (chunk.dictionary_page_offset, chunk.data_page_offset) if at]
    at = min(starts, default=0)
    end = at + chunk.total_compressed_size if starts else 0
    while at < end:
        header = _read_header(file, at, end)
        size, unpacked = header.fields.get(3, 0), header.fields.get(2, 0)
        if not 0 <= unpacked <= MOST_OF_A_PAGE or not 0 <= size <= end - at:
            raise ValueError(f"a page of {size} bytes that unpacks to {unpacked} is not read")
        file.seek(at + header.size)
        content = file.read(size)
        plain = b""
        if header.fields.get(1) == _DATA_PAGE_V2:  # its levels are not compressed
            levels = header.levels
            plain, content = content[:levels], content[levels:]
        codec = _CODECS.get(chunk.compression)
        if chunk.compression != "UNCOMPRESSED" and content and header.is_compressed:
            if codec is None:
                raise ValueError(f"pages compressed by {chunk.compression} are not read")
            content = _decompress(codec, content, unpacked - len(plain))
        yield plain + content
        at += header.size + size


def _decompress(codec: str, content: bytes, unpacked: int) -> bytes:
    import pyarrow as pa

    if codec == "lz4_hadoop":
        try:
            return _decompress_lz4_of_hadoop(content, unpacked)
        except (ValueError, pa.ArrowException, OSError):
            codec = "lz4_raw"
    return bytes(pa.Codec(codec).decompress(content, unpacked))


def _decompress_lz4_of_hadoop(content: bytes, unpacked: int) -> bytes:
    """Decompress blocks that each begin with their decompressed and their compressed size."""
    import pyarrow as pa

    parts, at, length = [], 0, 0
    while at < len(content):
        size, packed = (int.from_bytes(content[at + start : at + start + 4], "big") for start in (0, 4))
        if not 0 < packed <= len(content) - at - 8 or length + size > unpacked:
            raise ValueError("no block of Hadoop")
        parts.append(bytes(pa.Codec("lz4_raw").decompress(content[at + 8 : at + 8 + packed], size)))
        at, length = at + 8 + packed, length + size
    return b"".join(parts)


class _PageHeader:
    """The fields of a page's header, in Thrift's compact protocol, and its size in bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self.levels = 0
        self.is_compressed = True
        self.fields = self._read_struct(is_page=True)
        self.size = self._at

    def _read_struct(self, *, is_page: bool = False) -> dict[int, int]:
        fields: dict[int, int] = {}
        last = 0
        while (head := self._byte()) != 0:
            delta, kind = head >> 4, head & 15
            last = last + delta if delta else self._zigzag()
            if kind in (1, 2):
                fields[last] = int(kind == 1)
            elif kind in (4, 5, 6):
                fields[last] = self._zigzag()
            elif kind == 12:
                inner = self._read_struct()
                if is_page and last == 8:
                    self.levels = inner.get(5, 0) + inner.get(6, 0)
                    self.is_compressed = bool(inner.get(7, 1))
            else:
                self._skip(kind)
        return fields

    def _skip(self, kind: int) -> None:
        if kind == 3:
            self._at += 1
        elif kind == 7:
            self._at += 8
        elif kind == 8:
            length = self._varint()  # which moves the position too
            self._at += length
        elif kind in (9, 10):
            head = self._byte()
            count = head >> 4 if head >> 4 != 15 else self._varint()
            for _ in range(count):
                self._skip_element(head & 15)
        else:
            raise ValueError(f"the header of a page has a field of type {kind}")
        if self._at > len(self._data):
            raise IndexError

    def _skip_element(self, kind: int) -> None:
        if kind in (1, 2):
            self._at += 1
        elif kind in (4, 5, 6):
            self._varint()
        elif kind == 12:
            self._read_struct()
        else:
            self._skip(kind)

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise ValueError("the header of a page has a number that is too long")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def _read_header(file: IO[bytes], at: int, end: int) -> _PageHeader:
    """Read the header of a page. It may contain statistics with long values."""
    size = _HEADER_BYTES
    while True:
        file.seek(at)
        data = file.read(min(size, end - at))
        try:
            return _PageHeader(data)
        except IndexError:
            if len(data) < size or size >= _MOST_OF_A_HEADER:
                raise ValueError("the header of a page is cut off") from None
            size *= 16
