"""Erases the rows of persons from archived files, each of which is replaced by a new file.

CSV, JSON, fixed width and Parquet are rewritten, also compressed. Other files, and those that cannot be read, stay as
they are and are reported.
"""

from __future__ import annotations

import bz2
import gzip
import os
import re
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, cast

from waterclock.connectors.files.bucket_listing import mark_arrival
from waterclock.connectors.files.encodings import open_decompressed
from waterclock.connectors.files.erased_sizes import record_size
from waterclock.connectors.files.file_name_matching import FORMATS, Candidate, FileNaming, find, format_of, is_stamped
from waterclock.connectors.files.landing import Landing
from waterclock.connectors.files.number_texts import is_sql_format, normalize_number
from waterclock.connectors.files.parquet_erasure import edit_parquet
from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.connectors.files.source_file_columns import split_origin_columns
from waterclock.connectors.files.text_erasure import csv_edit, edit_file, fixed_width_edit, json_edit
from waterclock.connectors.original_erasure import OriginalErasure, Subjects
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.files.filesystem import UNFINISHED, replaced_file, stat_file
from waterclock.files.object_stores import is_remote
from waterclock.flow.declarations import Columns

_TEMPORARY = re.compile(rf"\..+\.[0-9a-f]{{32}}{re.escape(UNFINISHED)}")
_STALE_SECONDS = 3600
_Edit = Callable[["IO[bytes] | None"], tuple[int, int, int]]


def erase_files(
    landing: Landing,
    folder: Path,
    names: FileNaming,
    reading: ReadOptions,
    columns: Columns,
    subjects: Subjects,
    *,
    is_dry_run: bool,
) -> Iterator[OriginalErasure]:
    """Rewrite the files of a unit in a folder, which is the archive or belongs to Waterclock otherwise.

    Yield a result for each file, and a problem for each entry that is not read, such as a link. Temporary files of
    killed processes, which may contain rows of persons too, are removed after an hour.
    Cost: each file is read once, and those with rows of persons are read again and written.
    """
    own, _ = split_origin_columns(columns)
    if not is_sql_format(reading):
        subjects = replace(subjects, number_text=lambda text: normalize_number(text, reading))
    found = find(folder, names, landing.stamp_zone)
    for report in found.reports:
        yield OriginalErasure(report.path, problem=f"{report.problem}: {report.detail}")
    for one in found.candidates:
        try:
            yield _erase_file(landing, folder, names, one, reading, own, subjects, is_dry_run=is_dry_run)
        except FileNotFoundError:
            yield OriginalErasure(one.path, problem="it is gone: another process has moved or removed it")
        except WaterclockError as error:
            yield OriginalErasure(one.path, problem=error.why or error.what)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            yield OriginalErasure(one.path, problem=str(error) or type(error).__name__)
    yield from _remove_temporary_files(folder, is_dry_run=is_dry_run)


def _erase_file(  # noqa: PLR0913 - each is an independent input
    landing: Landing,
    folder: Path,
    names: FileNaming,
    one: Candidate,
    reading: ReadOptions,
    columns: Columns,
    subjects: Subjects,
    *,
    is_dry_run: bool,
) -> OriginalErasure:
    kind = format_of(one.name)
    ending = "" if kind is None or names.takes_all else FORMATS[kind[0]]
    edit = _edit_of(one.path, ending, reading, columns, subjects)
    if edit is None:
        name = "a file that is not parsed" if names.takes_all or kind is None else f"a .{kind[0]} file"
        return OriginalErasure(one.path, problem=f"{name} cannot be rewritten")
    rows, removed, unread = edit(None)
    if removed and not is_dry_run:
        _replace(landing, folder, one, kind[1] if kind and ending != "parquet" else "", edit, removed)
    return OriginalErasure(one.path, rows, removed, unread)


def _edit_of(path: str, ending: str, reading: ReadOptions, columns: Columns, subjects: Subjects) -> _Edit | None:
    if ending == "parquet":
        return partial(_edit_parquet, path, subjects)
    if ending == "csv":
        edit = csv_edit(path, reading, columns, subjects)
    elif ending == "json":
        edit = json_edit(reading, subjects)
    elif ending == "fixed":
        edit = fixed_width_edit(reading, subjects)
    else:
        return None
    return partial(edit_file, path, reading.encoding, edit)


def _edit_parquet(path: str, subjects: Subjects, sink: IO[bytes] | None) -> tuple[int, int, int]:
    import pyarrow as pa

    try:
        with open_decompressed(path) as source:
            return (*edit_parquet(source, subjects, sink), 0)
    except pa.ArrowException as error:
        raise OSError(str(error)) from error


def _replace(landing: Landing, folder: Path, one: Candidate, compression: str, edit: _Edit, removed: int) -> None:
    """Replace a file by one without the rows of erased persons.

    In a bucket the arrival of the file, which is its time of last change, is recorded before.
    """
    target = Path(one.path) if not is_remote(folder) else folder / one.relative
    if is_remote(folder) and not is_stamped(one.name):
        mark_arrival(target, one.stamp)
    before = stat_file(one.path).size
    with replaced_file(target) as sink:
        counted = _CountedFile(sink)
        with _compress_file(cast("IO[bytes]", counted), compression) as packed:
            if edit(packed)[1] != removed:
                raise OSError("it changed while it was rewritten")
        if folder == landing.archive:
            record_size(landing.archive, one.relative, before, counted.size)
        fault("erase.written")
    fault("erase.replaced")


class _CountedFile:
    """A file that is written, with its number of bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = 0

    closed = False

    def write(self, data: bytes) -> int:
        self.size += len(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Leave the file open for `replaced_file`, which flushes it."""

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


@contextmanager
def _compress_file(sink: IO[bytes], compression: str) -> Iterator[IO[bytes]]:
    if not compression:
        yield sink
    elif compression == "gz":
        with gzip.GzipFile("", "wb", fileobj=sink, mtime=0) as file:
            yield cast("IO[bytes]", file)
    elif compression == "bz2":
        with bz2.BZ2File(sink, "wb") as file:
            yield cast("IO[bytes]", file)
    else:
        import pyarrow as pa

        with pa.CompressedOutputStream(pa.PythonFile(sink, "w"), "zstd") as file:
            yield cast("IO[bytes]", file)


def _remove_temporary_files(folder: Path, *, is_dry_run: bool) -> Iterator[OriginalErasure]:
    """Remove temporary files that killed processes left in a folder of this machine. Report younger ones."""
    if is_remote(folder):
        return
    for parent, _, files in os.walk(folder):
        for name in files:
            path = Path(parent, name)
            if _TEMPORARY.fullmatch(name) is None or path.is_symlink():
                continue
            try:
                is_stale = time.time() - path.lstat().st_ctime > _STALE_SECONDS
            except FileNotFoundError:
                continue
            if is_stale and not is_dry_run:
                path.unlink(missing_ok=True)
            else:
                yield OriginalErasure(str(path), problem="a temporary file of another process, or of a killed one")
