"""Reads and writes files on this machine and in object stores, both by paths with the interface of pathlib.

A folder is given as a path or as a URL such as `s3://bucket/prefix`. In an object store a folder is only the common
prefix of its files' names. So an empty folder does not exist there, and a folder is moved and removed file by file.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from pathlib import Path
from stat import S_IMODE
from typing import IO, Any, TypeVar, cast

from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.files import object_files as objects
from waterclock.files.object_stores import Store, is_remote, store_of
from waterclock.permissions.ownership import create_private_file, make_private_folder

_T = TypeVar("_T")
_R = TypeVar("_R")

UNFINISHED = ".part"
"""The end of the names of temporary files, which begin with a dot and contain 32 hexadecimal digits."""
_AT_ONCE = 16
_TRIES = 3
_CHUNK = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file below a folder: its path relative to the folder, its size in bytes, and its last modification (UTC).

    `etag` identifies the content of an object in an object store, if the store returns it.
    """

    path: str
    size: int
    changed: datetime
    etag: str | None = None


def entry_path(folder: str | Path, *parts: str) -> Path:
    """Return the path of an entry below a folder; for an object store a UPath. Raises E607 for an unsupported URL."""
    store = store_of(folder)
    if store is None:
        return Path(folder, *parts)
    from upath import UPath

    _register_fsspec(store.bucket.partition(":")[0])
    return cast("Path", UPath(str(folder), **store.for_obstore).joinpath(*filter(None, parts)))


def path_as_text(folder: str | Path) -> str:
    """Return a folder as a text, to which a slash and a name can be appended."""
    return str(folder).rstrip("/") if is_remote(folder) else str(folder)


def path_below(path: str, folder: Path) -> str | None:
    """Return a path relative to a folder, with slashes; None if it is not below the folder."""
    if is_remote(folder) or is_remote(path):
        head = f"{path_as_text(folder)}/"
        return path[len(head) :] if path.startswith(head) else None
    return Path(path).relative_to(folder).as_posix() if Path(path).is_relative_to(folder) else None


def arrow_source(path: Path, size: int | None = None) -> Path | IO[bytes]:
    """Return a source that Arrow can read: a local path, or an open file of an object store."""
    return open_for_reading(path, size) if is_remote(path) else path


def open_for_reading(path: str | Path, size: int | None = None) -> IO[bytes]:
    """Open a file for reading. An object is fetched in steps of a mebibyte or more, and only as far as it is read.

    A known `size` of an object saves a request; a missing object then fails when it is read.
    """
    store = store_of(path)
    return Path(path).open("rb") if store is None else objects.open_object(store, _key(store, path), size)


def arrow_target(path: Path) -> AbstractContextManager[Path | IO[bytes]]:
    """Return a target that Arrow can write: a local path, or an object that exists once it is complete."""
    return open_for_writing(path) if is_remote(path) else nullcontext(path)


@contextmanager
def open_for_writing(path: Path, *, is_flushed: bool = True) -> Iterator[IO[bytes]]:
    """Write a file, replacing an existing one. An object is written completely or not at all.

    With `is_flushed` the file is flushed to disk at the end; a file that is removed again needs no flush.
    """
    store = store_of(path)
    if store is not None:
        with objects.written_object(store, _key(store, path)) as file:
            yield file
        return
    with path.open("wb") as file:
        yield file
    if is_flushed:
        with path.open("rb") as file:
            os.fsync(file.fileno())


def stat_file(path: str | Path) -> FileInfo:
    """Return a file's name, size and last modification. Raises FileNotFoundError if it does not exist."""
    store = store_of(path)
    if store is None:
        stat = os.stat(path)  # noqa: PTH116 - tens of thousands of Paths
        return FileInfo(os.path.basename(path), stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))  # noqa: PTH119
    meta = objects.object_metadata(store, _key(store, path))
    return FileInfo(meta["path"].rpartition("/")[2], meta["size"], meta["last_modified"], objects.etag_of(meta))


def file_exists(path: str | Path) -> bool:
    """Return whether a file exists."""
    try:
        stat_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def is_folder(path: Path) -> bool:
    """Return whether a folder exists. In an object store it exists if it contains a file."""
    store = store_of(path)
    if store is None:
        return path.is_dir()
    return next(objects.objects_below(store, _key(store, path)), None) is not None


def read_bytes(path: str | Path, most: int = objects.MOST_BYTES) -> bytes:
    """Return the content of a file. Raises FileNotFoundError, and E609 for an object of more than `most` bytes."""
    store = store_of(path)
    return Path(path).read_bytes() if store is None else objects.read_object(store, _key(store, path), most)


def read_text(path: str | Path) -> str:
    """Return the text of a UTF-8 file. Raises FileNotFoundError if it does not exist."""
    return read_bytes(path).decode()


def read_json(path: str | Path) -> dict[str, Any] | None:
    """Parse a JSON file that contains one object; None if there is no file."""
    try:
        read: dict[str, Any] = json.loads(read_text(path))
    except FileNotFoundError:
        return None
    return read


def remove_file(path: str | Path) -> None:
    """Remove a file, if it exists."""
    store = store_of(path)
    if store is None:
        Path(path).unlink(missing_ok=True)
    else:
        objects.remove(store, [_key(store, path)])


def put_if_absent(path: Path, text: str, *, is_flushed: bool = False) -> bool:
    """Write a complete file. Return False and write nothing if another file exists already.

    In an object store, an existing file with the same content counts as written by this call, because the response to a
    first attempt may have been lost. With `is_flushed` the file is flushed to disk before this returns; an object store
    always stores it durably.
    """
    store = store_of(path)
    if store is not None:
        return objects.put_if_absent(store, _key(store, path), text.encode())
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            if is_flushed:
                file.flush()
                os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    if is_flushed:
        flush_folder(path.parent)
    return True


def replace_text(path: Path, text: str) -> None:
    """Write a file, replacing an existing one. Readers find either the old or the new content."""
    store = store_of(path)
    if store is not None:
        with objects.written_object(store, _key(store, path)) as file:
            file.write(text.encode())
        return
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        temporary.write_text(text, encoding="utf-8")
        fault("text written")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replaced_file(path: Path) -> Iterator[IO[bytes]]:
    """Write a new version of an existing file, which replaces the file at the end of the block, or not at all.

    On this machine, the new version is a file of its own, also if the old one has other hard links. It is flushed, and
    keeps mode, owner and times. Raises E807 if the file was changed in the meantime.
    """
    store = store_of(path)
    if store is not None:
        with objects.written_object(store, _key(store, path)) as file:
            yield file
        return
    before = path.lstat()
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}{UNFINISHED}")
    try:
        with os.fdopen(create_private_file(temporary), "wb") as file:
            yield file
            file.flush()
            if (before.st_uid, before.st_gid) != ((own := os.fstat(file.fileno())).st_uid, own.st_gid):
                with suppress(PermissionError):
                    os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fchmod(file.fileno(), S_IMODE(before.st_mode))
            os.utime(file.fileno(), ns=(before.st_atime_ns, before.st_mtime_ns))
            os.fsync(file.fileno())
        now = path.lstat()
        if (now.st_ino, now.st_size, now.st_mtime_ns) != (before.st_ino, before.st_size, before.st_mtime_ns):
            raise objects.object_changed_error(str(path))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Flush the directory entries of a folder to disk; in an object store, do nothing."""
    if is_remote(folder):
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Create a folder that other users cannot read, and its parents. Object stores need no folders."""
    if not is_remote(path):
        make_private_folder(path)


def make_delivery_folder(path: Path) -> None:
    """Create a folder for delivered files, and its parents, with the permissions of the user's umask."""
    if not is_remote(path):
        path.mkdir(parents=True, exist_ok=True)


def remove_folder(path: Path) -> None:
    """Remove a folder with its content. On this machine, errors are ignored."""
    store = store_of(path)
    if store is None:
        shutil.rmtree(path, ignore_errors=True)
        return
    found = objects.objects_below(store, _key(store, path))
    while keys := [each["path"] for _, each in islice(found, 1000)]:
        objects.remove(store, keys)


def move_folder(path: Path, target: Path) -> None:
    """Move a folder within one store: by a rename on this machine, file by file in an object store."""
    if not is_remote(path):
        path.rename(target)
        return
    map_each(list(files_below(path)), lambda file: move_file(path / file.path, target / file.path), at=path)


def move_file(path: Path, target: Path) -> None:
    """Move a file within one store, replacing an existing one: by a rename on this machine, else by a copy."""
    if not is_remote(path):
        path.replace(target)
        return
    copy_file(path, target)
    remove_file(path)


def link_file(path: Path, target: Path) -> None:
    """Make a file available at a second path: by a hard link, or by a copy if links are not supported."""
    if not is_remote(path) and not is_remote(target):
        try:
            os.link(path, target)
        except OSError:
            shutil.copyfile(path, target)
        return
    copy_file(path, target)


def copy_file(path: Path, target: Path) -> None:
    """Copy a file, replacing an existing one. Within one object store, the store copies it."""
    store = store_of(path)
    if store is not None and store is store_of(target):
        objects.copy_within(store, _key(store, path), _key(store, target))
        return
    with open_for_reading(path) as source, open_for_writing(target) as sink:
        shutil.copyfileobj(source, sink, _CHUNK)


def put_file_if_absent(path: str | Path, target: Path, size: int | None = None) -> bool:
    """Link or copy a file to a second path, with its modification time. Return False if the target exists.

    In an object store the modification time is that of the copy. An unknown `size` is requested from the store. If the
    source is replaced while it is copied, the copy starts over.
    Raises FileNotFoundError if the file does not exist; E807 if it is replaced during each attempt.
    """
    store, target_store = store_of(path), store_of(target)
    if store is None and target_store is None:
        return _link_or_copy(Path(path), target)
    if store is not None and store is target_store:
        size = stat_file(path).size if size is None else size
        return objects.copy_if_absent(store, _key(store, path), _key(store, target), size)
    for _ in range(_TRIES - 1):
        try:
            return _put_between_stores(path, target, target_store)
        except WaterclockError as error:
            if error.code != "E807":
                raise
    return _put_between_stores(path, target, target_store)


def _put_between_stores(path: str | Path, target: Path, store: Store | None) -> bool:
    if store is None:
        return _copy_if_absent(path, target)
    with open_for_reading(path) as source:
        size = source.seek(0, os.SEEK_END)  # the size of the content that is read, not of a listing
        source.seek(0)
        return objects.put_file_if_absent(store, _key(store, target), source, size)


def _link_or_copy(path: Path, target: Path) -> bool:
    try:
        os.link(path, target)
    except FileExistsError:
        return False
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one without hard links
        return _copy_if_absent(path, target)
    return True


def put_copy_if_absent(source: IO[bytes], target: Path, *, is_flushed: bool = True) -> bool:
    """Copy an open local file and its modification time to a new file of this user. Return False if the target exists.

    With `is_flushed` the copy is flushed to disk before this returns. Processes that can still write to the source
    cannot change the copy.
    """
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        with os.fdopen(create_private_file(temporary), "wb") as sink:
            shutil.copyfileobj(source, sink, _CHUNK)
            sink.flush()
            changed = os.fstat(source.fileno()).st_mtime_ns
            os.utime(sink.fileno(), ns=(changed, changed))
            if is_flushed:
                os.fsync(sink.fileno())
        os.link(temporary, target)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    if is_flushed:
        flush_folder(target.parent)
    return True


def _copy_if_absent(path: str | Path, target: Path) -> bool:
    found = stat_file(path)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        with open_for_reading(path) as source, open_for_writing(temporary) as sink:
            objects.copy_content(source, sink, found.size, str(path))
        changed = found.changed.timestamp()
        os.utime(temporary, (changed, changed))
        if target.exists():
            return False
        temporary.rename(target)
        return True
    finally:
        temporary.unlink(missing_ok=True)


def is_same_content(one: str | Path, other: str | Path) -> bool:
    """Return whether two files have the same content. Raises FileNotFoundError if one does not exist."""
    if not is_remote(one) and not is_remote(other):
        filecmp.clear_cache()  # it would reuse an earlier result for files of equal size and modification time
        return Path(one).samefile(other) or filecmp.cmp(one, other, shallow=False)
    if stat_file(one).size != stat_file(other).size:
        return False
    with open_for_reading(one) as first, open_for_reading(other) as second:
        while chunk := first.read(_CHUNK):
            if chunk != second.read(len(chunk)):
                return False
    return True


def names_in(folder: Path, begin: str) -> list[str]:
    """Return the names in a folder that start with `begin`, in no order; empty if the folder does not exist.

    Cost: a listing; in an object store a request for each thousand objects below the folder with such a name.
    """
    store = store_of(folder)
    if store is not None:
        found = objects.objects_below(store, _key(store, folder), begin)
        return list(dict.fromkeys(path.partition("/")[0] for path, _ in found))
    try:
        return [name for name in os.listdir(folder) if name.startswith(begin)]  # noqa: PTH208 - only names are needed
    except FileNotFoundError:
        return []


def names_below(folder: Path) -> Iterator[str]:
    """Yield the relative paths of all files below a folder, and on this machine also those of its subfolders."""
    if is_remote(folder):
        yield from (file.path for file in files_below(folder))
        return
    start = len(str(folder)) + 1
    for parent, folders, files in os.walk(folder):
        yield from (os.path.join(parent, name)[start:] for name in (*folders, *files))  # noqa: PTH118 - tens of thousands


def folders_in(folder: Path) -> list[str]:
    """Return the names of the folders in a folder; empty if it does not exist."""
    store = store_of(folder)
    if store is not None:
        return objects.folders_in(store, _key(store, folder))
    return [path.name for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []


def map_each(things: Sequence[_T], work: Callable[[_T], _R], *, at: str | Path) -> list[_R]:
    """Apply `work` to each item: one after another on this machine, in parallel threads for an object store."""
    if not is_remote(at) or len(things) < 2:
        return [work(thing) for thing in things]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(work, things))


def files_below(folder: Path, begin: str = "") -> Iterator[FileInfo]:
    """Yield all files below a folder whose relative paths start with `begin`; nothing if the folder does not exist.

    Cost: a listing of each folder; in an object store a request for each thousand files.
    """
    store = store_of(folder)
    if store is not None:
        for inner, meta in objects.objects_below(store, _key(store, folder), begin):
            yield FileInfo(inner, meta["size"], meta["last_modified"], objects.etag_of(meta))
        return
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            stat = path.stat()
            inner = path.relative_to(folder).as_posix()
            if inner.startswith(begin) and path.is_file():
                yield FileInfo(inner, stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))


def _key(store: Store, path: str | Path) -> str:
    return str(path).removeprefix(store.bucket).strip("/")


@cache
def _register_fsspec(scheme: str) -> None:
    from obstore.fsspec import register

    register(scheme)
