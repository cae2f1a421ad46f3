"""Searches all files below folders for values, in one pass. Decompresses, and reads Parquet, SQLite and JSON by type.

A value of six characters or more that is not a number is found wherever its bytes are, in several spellings. A number
and a shorter value may occur by chance: as a whole value of a column of persons it is a hit, and elsewhere, as a whole
word, a possible one. Numbers in columns of numbers count only in columns of persons.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import os
import re
import sqlite3
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, cast

from waterclock.files.filesystem import files_below, open_for_reading
from waterclock.files.object_stores import is_remote
from waterclock.spark_sql import fold_case
from waterclock.storage.search.matching import ValueMatcher, is_doubtful
from waterclock.storage.search.parquet_search import ParquetSearch
from waterclock.storage.search.row_counts import is_row_count

_CHUNK = 4 << 20
_WORDS = re.compile(r"\w+")
_NUMBER = re.compile(r"[-+.,0-9]*")
_DELIMITERS = ",;\t|"
_MOST_PLACES = 20
_MOST_OF_A_DOCUMENT = 64 << 20
MOST_UNPACKED = 1 << 40
"""The maximum bytes of a compressed file that are searched."""
_PARQUET, _SQLITE, _AVRO = b"PAR1", b"SQLite format 3\0", b"Obj\x01"
_PACKED = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zst"}
_ZIP = b"PK\x03\x04"
_TYPED = (_PARQUET, _SQLITE, _ZIP)
_HEADER = 1 << 16
_ERRORS = (OSError, EOFError, ValueError, RecursionError, RuntimeError, zlib.error, sqlite3.Error, zipfile.BadZipFile)


@dataclass(frozen=True, slots=True)
class ByteHit:
    """Occurrences of values in a file: the place in it, and their number. It does not contain the value."""

    path: str
    where: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search.

    `hits` are values of persons. `possible` are short values and numbers in places where they may mean something else;
    in a column of Parquet they are not counted further once there are a thousand.
    `unsearched` are files, or parts of them, that could not be searched, with the reasons.
    """

    hits: tuple[ByteHit, ...]
    possible: tuple[ByteHit, ...]
    unsearched: tuple[tuple[str, str], ...]
    files: int
    bytes: int


def search_bytes(
    roots: Iterable[str | Path],
    values: Sequence[str],
    *,
    columns: Collection[str] = (),
) -> SearchResult:
    """Search all files below `roots`, which are folders or files, for values. Links are reported, and not followed.

    `columns` are the names of columns that contain persons: there, also short values and numbers are hits.
    Cost: each file is read once, Parquet and SQLite twice. Memory does not depend on the size of files, except for a
    row group and a page of Parquet.
    """
    search = ByteSearch(values, columns)
    for root in roots:
        search.search_below(root)
    return search.result()


@dataclass(slots=True)
class ByteSearch:
    """A search for values in many files and texts."""

    values: Sequence[str] = field(repr=False)
    columns: Collection[str]
    _hits: Counter[tuple[str, str]] = field(default_factory=Counter)
    _possible: Counter[tuple[str, str]] = field(default_factory=Counter)
    _unsearched: list[tuple[str, str]] = field(default_factory=list)
    _roots: list[str] = field(default_factory=list)
    _files: int = 0
    _bytes: int = 0
    _matcher: ValueMatcher = field(init=False)
    _certain: ValueMatcher = field(init=False)
    _parquet: ParquetSearch = field(init=False)
    _all: frozenset[str] = field(init=False, repr=False)
    _folded: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._all = frozenset(filter(None, self.values))
        self._folded = frozenset(map(fold_case, self.columns))
        self._matcher = ValueMatcher(self._all)
        # of thousands of short numbers, every page has many by chance, and they do not count there
        self._certain = ValueMatcher(value for value in self._all if not is_doubtful(value))
        self._parquet = ParquetSearch(self._all, self._matcher, self._certain, self._is_subject)

    def result(self) -> SearchResult:
        """Return the result so far."""
        hits, possible = (
            tuple(ByteHit(path, where, count) for (path, where), count in found.items())
            for found in (self._hits, self._possible)
        )
        return SearchResult(hits, possible, tuple(self._unsearched), self._files, self._bytes)

    def search_below(self, root: str | Path) -> None:
        """Search a file, or all files below a folder, unless it is below one that was searched before."""
        if any(str(root).startswith(f"{each}/") or str(root) == each for each in self._roots):
            return
        self._roots.append(str(root).rstrip("/"))
        for path in self._paths_below(root):
            self.search_file(path)

    def report_unsearched(self, path: str, why: str) -> None:
        """Record that a place could not be searched."""
        self._unsearched.append((path, why))

    def _is_subject(self, column: str) -> bool:
        return any(fold_case(part) in self._folded for part in column.split("."))

    def _add(self, path: str, where: str, *, is_certain: bool, count: int = 1) -> None:
        (self._hits if is_certain else self._possible)[path, where] += count

    def _paths_below(self, root: str | Path) -> Iterator[str]:
        if is_remote(root):
            folder = cast("Path", root)
            # objects without content are markers of folders, which cannot be read under their listed name
            yield from (f"{str(root).rstrip('/')}/{file.path}" for file in files_below(folder) if file.size)
            return
        if not Path(root).is_dir():
            yield str(root)
            return

        def report(error: OSError) -> None:
            self._unsearched.append((str(error.filename), error.strerror or str(error)))

        for parent, folders, files in os.walk(root, onerror=report):
            for name in sorted(folders):
                if Path(parent, name).is_symlink():
                    self._unsearched.append((os.path.join(parent, name), "a link is not followed"))  # noqa: PTH118
            yield from (os.path.join(parent, name) for name in sorted(files))  # noqa: PTH118

    def search_file(self, path: str) -> None:
        """Search a file by its kind, and its name. Reasons for which it cannot be searched are recorded."""
        for _ in self._certain.find(os.fsencode(path)):
            self._add(path, "its name", is_certain=True)
        if not is_remote(path):
            try:
                mode = os.lstat(path).st_mode
            except OSError as error:
                self._unsearched.append((path, error.strerror or str(error)))
                return
            if not stat.S_ISREG(mode):
                why = "a link is not followed" if stat.S_ISLNK(mode) else "no file: a pipe, a socket or a device"
                self._unsearched.append((path, why))
                return
        self._files += 1
        with self._noting(path), open_for_reading(path) as file:
            head = file.read(16)
            file.seek(0)
            if head.startswith(_SQLITE):
                with self._noting(path):
                    self._search_rows(path)
            elif head.startswith(_PARQUET):
                with self._noting(path):
                    self._search_parquet(path, file)
            elif head.startswith(_ZIP):
                with self._noting(path):
                    self._search_zip(path, file)
            elif head.startswith(_AVRO) and _has_codec(file.read(_HEADER)):
                self._unsearched.append((path, "compressed blocks of Avro are not searched"))
            file.seek(0)
            if packed := next((kind for magic, kind in _PACKED.items() if head.startswith(magic)), ""):
                self._search_stream(path, _decompress(file, packed), "")
            else:
                self._search_stream(path, _chunks_of(file, None), "", is_typed=head.startswith(_TYPED))

    @contextmanager
    def _noting(self, path: str) -> Iterator[None]:
        """Record an error that prevents a part of the search, and go on."""
        import pyarrow as pa

        try:
            yield
        except (*_ERRORS, pa.ArrowException) as error:
            self._unsearched.append((path, str(error) or type(error).__name__))

    def _search_stream(self, path: str, chunks: Iterator[bytes], within: str, *, is_typed: bool = False) -> None:
        """Search a stream. Of one that is searched by its types too, only certain values are reported.

        Possible values in JSON and CSV are decided by its members and columns.
        """
        kept = _KeptDocument()
        places = 0
        doubtful: list[int] = []
        count = 0
        matcher, passed = (self._certain, chunks) if is_typed else (self._matcher, kept.passed(chunks))
        for match in matcher.find_in_chunks(self._counted(passed)):
            if match.needle.is_doubtful:
                count += 1
                if len(doubtful) < _MOST_PLACES:
                    doubtful.append(match.start)
                continue
            places += 1
            offset = f"from byte {match.start}" if places <= _MOST_PLACES else "at other bytes"
            self._add(path, f"{within}, {offset}".removeprefix(", "), is_certain=True)
        if count and not (self._search_json(path, kept.content) or self._search_csv(path, kept.content)):
            for start in doubtful:
                self._add(path, f"{within}, from byte {start}".removeprefix(", "), is_certain=False)
            if count > len(doubtful):
                self._add(path, "at other bytes", is_certain=False, count=count - len(doubtful))

    def _counted(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._bytes += len(chunk)
            yield chunk

    # ---- JSON

    def _search_json(self, path: str, content: bytes | None, *, within: str = "") -> bool:
        """Search a JSON document or JSON lines by their members; return False for other content.

        `within` is the name of the member or column that contains the document.
        """
        if content is None or content.lstrip()[:1] not in (b"{", b"["):
            return False
        try:
            documents = [json.loads(content)]
        except (ValueError, RecursionError):
            try:
                documents = [json.loads(line) for line in content.splitlines() if line.strip()]
            except (ValueError, RecursionError):
                return False
        for document in documents:
            self._search_members(path, document, within and f".{within}")
        return True

    def _search_members(self, path: str, value: Any, where: str) -> None:
        waiting = [(value, where, False)]
        while waiting:
            value, where, is_subject = waiting.pop()
            if isinstance(value, dict):
                waiting += [
                    (inner, f"{where}.{name}", is_subject or self._names_subject(name))
                    for name, inner in value.items()
                    if not is_row_count(where, name, inner)
                ]
            elif isinstance(value, list):
                waiting += [(inner, where, is_subject) for inner in value]
            elif isinstance(value, str):
                self._search_json_text(path, value, where, waiting, is_subject=is_subject)
            elif is_subject and not isinstance(value, bool) and str(value) in self._all:
                self._add(path, f"member {where[1:]}", is_certain=True)

    def _search_json_text(
        self, path: str, value: str, where: str, waiting: list[tuple[Any, str, bool]], *, is_subject: bool
    ) -> None:
        if value.startswith(("{", "[")):
            try:
                waiting.append((json.loads(value), where, is_subject))
            except (ValueError, RecursionError):
                pass
            else:
                return
        if is_subject and value in self._all:
            self._add(path, f"member {where[1:]}", is_certain=True)
        elif any(match.needle.is_doubtful for match in self._matcher.find(value.encode("utf-8", "surrogatepass"))):
            self._add(path, f"member {where[1:]}", is_certain=False)

    def _search_csv(self, path: str, content: bytes | None) -> bool:
        """Search CSV by the columns of its header; return False for content without a column of persons."""
        first, _, _ = (content or b"").partition(b"\n")
        header = first.decode("utf-8-sig", "replace")
        delimiter = max(_DELIMITERS, key=header.count)
        try:
            names = next(csv.reader([header], delimiter=delimiter), [])
            if content is None or not any(map(self._is_subject, names)):
                return False
            for row in csv.reader(io.StringIO(content.decode("utf-8", "replace"), newline=""), delimiter=delimiter):
                for name, value in zip_longest(names, row, fillvalue=""):
                    self._search_field(path, name, value)
        except csv.Error:
            return False
        return True

    def _search_field(self, path: str, name: str, value: str) -> None:
        if self._is_subject(name):
            if value.strip() in self._all:
                self._add(path, f"column {name}", is_certain=True)
        elif not _NUMBER.fullmatch(value) and any(
            match.needle.is_doubtful for match in self._matcher.find(value.encode("utf-8", "surrogatepass"))
        ):
            self._add(path, f"column {name}", is_certain=False)

    def _names_subject(self, name: str) -> bool:
        """Return whether a member belongs to a column of persons: it has its name, or contains it, as `max(id)`."""
        return not self._folded.isdisjoint({fold_case(name), *_WORDS.findall(fold_case(name))})

    # ---- Parquet, SQLite and zips

    def _search_parquet(self, path: str, file: IO[bytes]) -> None:
        def found(where: str, count: int, *, is_certain: bool) -> None:
            self._add(path, where, is_certain=is_certain, count=count)

        for problem in self._parquet.search(file, found):
            self._unsearched.append((path, problem))

    def _search_rows(self, path: str) -> None:
        """Search the tables of an SQLite database by the types of their values, with its write-ahead log."""
        uri = f"{Path(path).absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=30)) as database:
            database.text_factory = bytes
            tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (raw,) in tables:
                table = raw.decode()
                quoted = table.replace('"', '""')
                rows = database.execute(f'SELECT * FROM "{quoted}"')
                names = [each[0] for each in rows.description]
                for row in rows:
                    for name, value in zip(names, row, strict=True):
                        self.search_value(path, f"table {table}, column {name}", name, value)

    def search_value(self, path: str, where: str, name: str, value: object) -> None:
        """Search a value of a column `name` of a database: a number, or a text as bytes."""
        is_subject = self._is_subject(name)
        if isinstance(value, bytes):
            is_whole = value.decode("utf-8", "replace") in self._all
            if is_subject and is_whole:
                self._add(path, where, is_certain=True)
                return
            doubtful = False
            for match in self._matcher.find(value):
                doubtful = doubtful or match.needle.is_doubtful
                if not match.needle.is_doubtful:
                    self._add(path, where, is_certain=True)
            if doubtful and not self._search_json(f"{path}: {where}", value, within=name):
                self._add(path, where, is_certain=False)
        elif is_subject and str(value) in self._all:
            self._add(path, where, is_certain=True)

    def _search_zip(self, path: str, file: IO[bytes]) -> None:
        room = MOST_UNPACKED
        with zipfile.ZipFile(file) as packed:
            for member in packed.infolist():
                with packed.open(member) as stream:
                    self._search_stream(path, _chunks_of(stream, room), f"member {member.filename}")
                room -= member.file_size


class _KeptDocument:
    """Keeps the content of a stream while it is passed on; None if it is large."""

    def __init__(self) -> None:
        self._parts: list[bytes] | None = []

    @property
    def content(self) -> bytes | None:
        """The content of the stream, once it is over; None if it is large."""
        return None if self._parts is None else b"".join(self._parts)

    def passed(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        size = 0
        for chunk in chunks:
            size += len(chunk)
            if size > _MOST_OF_A_DOCUMENT:
                self._parts = None
            if self._parts is not None:
                self._parts.append(chunk)
            yield chunk


def _has_codec(head: bytes) -> bool:
    """Return whether the blocks of an Avro file are compressed."""
    return b"avro.codec" in head and b"avro.codec\x08null" not in head


def _chunks_of(file: IO[bytes], most: int | None) -> Iterator[bytes]:
    room = most
    while chunk := file.read(_CHUNK):
        yield chunk
        if room is not None:
            room -= len(chunk)
            if room < 0:
                raise OSError(f"it unpacks to more than {MOST_UNPACKED >> 30} GB")


def _decompress(file: IO[bytes], kind: str) -> Iterator[bytes]:
    if kind == "zst":
        import pyarrow as pa

        stream = cast("IO[bytes]", pa.CompressedInputStream(pa.PythonFile(file), "zstd"))
    else:
        stream = cast("IO[bytes]", bz2.BZ2File(file) if kind == "bz2" else gzip.GzipFile(fileobj=file))
    yield from _chunks_of(stream, MOST_UNPACKED)
