"""Unpacks zip files for a scan. Their members are then read like other files, and removed after the scan.

A member is written into a folder of this scan under the last part of its name, so that it cannot be written elsewhere.
Still, a zip is refused if the name of a member points outside of it. The unpacked size that the zip declares is checked
before any file is written. zipfile never returns more bytes than declared, and a false size fails the checksum.
"""

from __future__ import annotations

import stat
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, cast

from waterclock.connectors.files.file_name_matching import FORMATS, format_of
from waterclock.connectors.files.file_schemas import unreadable_file_error
from waterclock.connectors.files.own_copies import copy_files, find_changeable_files
from waterclock.connectors.files.reading_options import COPIES, ROOM, ReadOptions
from waterclock.connectors.files.source_file_columns import map_by_file
from waterclock.connectors.interface import do_nothing
from waterclock.connectors.windowing import FILE_KEY, file_key_of
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import (
    folders_in,
    make_folder,
    map_each,
    open_for_reading,
    open_for_writing,
    path_as_text,
    remove_folder,
)
from waterclock.spark_sql import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHUNK = 1 << 20
_MOST_MEMBERS = 10_000
_MOST_LISTED = 8 << 20  # bytes
_MOST_RATIO = 250
_SMALL = 16 << 20  # no limit of the compression ratio applies below this size
# for other methods zipfile unpacks a whole block at once: 4 kB of bzip2 may be gigabytes, whatever the member declares
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_OLD_AFTER = timedelta(days=2)  # no scan takes so long
_STAMP = "%Y%m%d%H%M%S"


@dataclass(frozen=True, slots=True)
class UnpackedFiles:
    """The files to read in place of the requested ones.

    `zips` maps unpacked members to the path of their zip, and copies to the path of the original. `close` removes both.
    """

    paths: tuple[str, ...]
    zips: Mapping[str, str] = field(default_factory=dict)
    close: Callable[[], None] = do_nothing


def unpack_zips(paths: Sequence[str], reading: ReadOptions) -> UnpackedFiles:
    """Write the members of zips into a folder below `reading.room`, and copies of files that another user can change.

    Other files are read in place. After an error the folder is removed.

    Raises E881 for members whose names point outside of the zip; E882 for zips that are too large unpacked; E883 for
    members that cannot be read (of unknown format, encrypted, not packed by deflate); E807 for a damaged zip, and one
    with wrong member sizes.
    Cost: one pass over the zips, in bounded memory. The storage holds the unpacked members until the scan ends.
    """
    packed = [path for path in paths if _is_zip(path)]
    foreign = find_changeable_files(paths, reading.landing)
    if reading.room is None or not (packed or foreign):
        return UnpackedFiles(tuple(paths))
    _remove_old_folders(reading.room)
    folder = reading.room / f"{datetime.now(UTC):{_STAMP}}-{uuid.uuid4().hex}"
    try:
        copies = copy_files(foreign, reading.landing, folder)
        sources = [copies.get(path, path) for path in paths]
        places = {path: folder / str(at) / Path(path).name for at, path in enumerate(filter(_is_zip, sources))}
        taken = map_each(list(places), lambda path: _unpack_members(path, places[path], reading), at=folder)
        by_zip = dict(zip(places, taken, strict=True))
    except BaseException:
        remove_folder(folder)
        raise
    origins = {copy: path for path, copy in copies.items()}
    origins |= {member: origins.get(path, path) for path, found in by_zip.items() for member in found}
    every = tuple(one for path in sources for one in by_zip.get(path, [path]))
    return UnpackedFiles(
        every, {path: origins[path] for path in every if path in origins}, lambda: remove_folder(folder)
    )


def _is_zip(path: str) -> bool:
    kind = format_of(path)
    return kind is not None and FORMATS[kind[0]] == "zip"


def restore_file_keys(spark: SparkSession, frame: DataFrame, found: UnpackedFiles) -> DataFrame:
    """Set the column `FILE_KEY` to the key of the zip or original file in rows of unpacked and copied files."""
    if not found.zips:
        return frame
    keyed, of_zip = map_by_file(spark, frame, {member: file_key_of(path) for member, path in found.zips.items()})
    own = {FILE_KEY: f"coalesce({of_zip}, {FILE_KEY}) AS {FILE_KEY}"}
    return keyed.selectExpr(*(own.get(name, quote_name(name)) for name in frame.columns))


def display_name(path: str) -> str:
    """Return a file's name for messages, such as `orders.zip/a.csv` for a member of a zip."""
    parts = PurePosixPath(path).parts
    return f"{parts[-2]}/{parts[-1]}" if len(parts) > 1 and is_member(path) else parts[-1]


def is_member(path: str) -> bool:
    """Return whether a path is that of a file that was unpacked from a zip."""
    return f"/{ROOM}/" in path and f"/{COPIES}/" not in path


def _unpack_members(path: str, place: Path, reading: ReadOptions) -> list[str]:
    """Write the chosen members of a zip into a folder and return their paths. Write errors are not reported as E807."""
    with ExitStack() as opened:
        with _translate_zip_errors(path):
            file = _BoundedReads(opened.enter_context(open_for_reading(path)), path)
            packed = opened.enter_context(zipfile.ZipFile(cast("IO[bytes]", file)))
            chosen = _choose_members(packed, path, reading)
        make_folder(place)
        taken: list[str] = []
        names: set[str] = set()
        for at, member in enumerate(chosen):
            name = _plain_name(member.filename)
            inner = place
            if name in names:  # a name that the zip contains twice needs another folder
                inner = place / str(at)
                make_folder(inner)
            names.add(name)
            target = inner / name
            with open_for_writing(target, is_flushed=False) as to:
                for chunk in _read_chunks(packed, member, path):
                    to.write(chunk)
            taken.append(path_as_text(target))
        return taken


class _BoundedReads:
    """A file that refuses to read many bytes at once. zipfile reads a zip's list of members as a whole."""

    def __init__(self, file: IO[bytes], path: str) -> None:
        self._file, self._path = file, path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(_MOST_LISTED + 1) if size < 0 else b""
        if size > _MOST_LISTED or len(content) > _MOST_LISTED:
            raise _zip_bomb_error(self._path, f"its list of members has more than {_MOST_LISTED} bytes")
        return content if size < 0 else self._file.read(size)


def _read_chunks(packed: zipfile.ZipFile, member: zipfile.ZipInfo, path: str) -> Iterator[bytes]:
    """Yield the content of a member in pieces."""
    with _translate_zip_errors(path), packed.open(member) as content:
        while chunk := content.read(_CHUNK):
            yield chunk


@contextmanager
def _translate_zip_errors(path: str) -> Iterator[None]:
    """Convert errors of zipfile to E807 for a damaged zip and E883 for an unsupported one."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, UnicodeError) as error:  # of a member's name
        raise unreadable_file_error(path, error) from error
    except (RuntimeError, NotImplementedError) as error:
        raise _unreadable_members_error(
            path, str(error), "send it without a password, compressed with deflate"
        ) from error


_RAISE_LIMIT_HINT = "; if the size is right, raise OPTIONS (most_mb ...)"


def _choose_members(packed: zipfile.ZipFile, path: str, reading: ReadOptions) -> list[zipfile.ZipInfo]:
    members = [member for member in packed.infolist() if not member.is_dir()]
    if len(members) > _MOST_MEMBERS:
        raise _zip_bomb_error(path, f"it has {len(members)} members, more than {_MOST_MEMBERS}")
    for member in members:
        _require_inside_path(member, path)
    chosen = [member for member in members if _is_wanted(member.filename, reading.member)]
    if not chosen:
        wanted = f"no member {reading.member}" if reading.member else "no member"
        raise _unreadable_members_error(
            path, f"it has {wanted}", "choose the members to read: OPTIONS (member '*.csv'), or send them"
        )
    unknown = [member.filename for member in chosen if not _has_known_format(member.filename, reading)]
    if unknown:
        why = f"{unknown[0]} has a format that is not read from a zip"
        raise _unreadable_members_error(path, why, "choose the members with data: OPTIONS (member '*.csv')")
    if any(member.compress_type not in _METHODS for member in chosen):
        raise _unreadable_members_error(
            path, "it is compressed with a method other than deflate", "send it compressed with deflate"
        )
    total = sum(member.file_size for member in chosen)
    if total > reading.most_bytes:
        raise _zip_bomb_error(
            path, f"its members have {total} bytes, more than {reading.most_bytes}", _RAISE_LIMIT_HINT
        )
    for member in chosen:
        if member.file_size > max(_SMALL, member.compress_size * _MOST_RATIO):
            raise _zip_bomb_error(
                path, f"{member.filename} has {member.file_size} bytes, compressed to {member.compress_size}"
            )
    return chosen


def _require_inside_path(member: zipfile.ZipInfo, path: str) -> None:
    name = member.orig_filename.replace("\\", "/")
    parts = name.split("/")
    is_link = stat.S_ISLNK(member.external_attr >> 16)
    if name.startswith("/") or ".." in parts or ":" in parts[0] or "\0" in name or is_link:
        raise WaterclockError(
            "E881",
            f"{Path(path).name} has a member that points outside of the zip",
            where=path,
            why=f"{member.orig_filename!r} is {'a link' if is_link else 'a path outside of the zip'}; unpacking "
            "the zip could write outside of the target folder",
            fix="ask the sender to pack plain files; no row of it was collected",
        )


def _is_wanted(name: str, glob: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    if any(part.startswith((".", "_")) for part in parts):
        return False
    return not glob or fnmatchcase(name, glob) or fnmatchcase(parts[-1], glob)


def _has_known_format(name: str, reading: ReadOptions) -> bool:
    kind = format_of(name.rpartition("/")[2])
    return kind is not None and FORMATS[kind[0]] != "zip" and (FORMATS[kind[0]] != "fixed" or bool(reading.positions))


def _plain_name(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2]


def _remove_old_folders(room: Path) -> None:
    """Remove folders of killed scans: those older than two days."""
    before = (datetime.now(UTC) - _OLD_AFTER).strftime(_STAMP)
    for name in folders_in(room):
        if name < before:
            remove_folder(room / name)


def _zip_bomb_error(path: str, why: str, more: str = "") -> WaterclockError:
    return WaterclockError(
        "E882",
        f"{Path(path).name} is too large when unpacked",
        where=path,
        why=why,
        fix=f"split it, or send it as gzip or zstd{more}",
    )


def _unreadable_members_error(path: str, why: str, fix: str) -> WaterclockError:
    return WaterclockError("E883", f"the members of {Path(path).name} cannot be read", where=path, why=why, fix=fix)
