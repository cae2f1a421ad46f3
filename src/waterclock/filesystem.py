"""The one way to files at rest: paths of this machine and of object stores, both with the interface of pathlib.

A folder is a text: a path, or a URL such as `s3://bucket/prefix`. In an object store a folder is no more than what the
names of its files have in common: an empty one is not there, and it is moved and removed file by file.
"""

from __future__ import annotations

import filecmp
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
from typing import IO, TypeVar, cast

from waterclock import object_files as objects
from waterclock.errors import WaterclockError
from waterclock.object_stores import Store, is_remote, store_of
from waterclock.ownership import create_private_file, make_private_folder

_T = TypeVar("_T")
_R = TypeVar("_R")

_AT_ONCE = 16
_TRIES = 3
_CHUNK = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Found:
    """A file below a folder: its path from there, its bytes, and when it was last changed (UTC)."""

    path: str
    size: int
    changed: datetime


def at(folder: str | Path, *parts: str) -> Path:
    """Return the path of what lies below a folder; one in an object store is no Path, and is used like one.

    Raises  E607 for a URL that is no known store's
    """
    store = store_of(folder)
    if store is None:
        return Path(folder, *parts)
    from upath import UPath

    _have_fsspec_know(store.bucket.partition(":")[0])
    return cast("Path", UPath(str(folder), **store.for_obstore).joinpath(*filter(None, parts)))


def text_of(folder: str | Path) -> str:
    """Return a folder as a text that a slash and a name may follow."""
    return str(folder).rstrip("/") if is_remote(folder) else str(folder)


def path_below(path: str, folder: Path) -> str | None:
    """Return the rest of a path below a folder, with slashes; None where it lies elsewhere."""
    if is_remote(folder) or is_remote(path):
        head = f"{text_of(folder)}/"
        return path[len(head) :] if path.startswith(head) else None
    return Path(path).relative_to(folder).as_posix() if Path(path).is_relative_to(folder) else None


def readable(path: Path, size: int | None = None) -> Path | IO[bytes]:
    """Return what Arrow reads a file from: its path on this machine, else the file, `opened` with its size if known."""
    return opened(path, size) if is_remote(path) else path


def opened(path: str | Path, size: int | None = None) -> IO[bytes]:
    """Open a file for reading; of an object no more is fetched than is read, a mebibyte at least.

    Where an object's `size` is known it need not be asked for: one that is gone shows when it is read.
    """
    store = store_of(path)
    return Path(path).open("rb") if store is None else objects.open_object(store, _key(store, path), size)


def writable(path: Path) -> AbstractContextManager[Path | IO[bytes]]:
    """Return what Arrow writes a file to: its path on this machine, else the file, which is there when it is whole."""
    return written(path) if is_remote(path) else nullcontext(path)


@contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """Write a file, over what is there, and have the disk hold it; an object is there whole or not at all."""
    store = store_of(path)
    if store is not None:
        with objects.written_object(store, _key(store, path)) as file:
            yield file
        return
    with path.open("wb") as file:
        yield file
    with path.open("rb") as file:
        os.fsync(file.fileno())


def look(path: str | Path) -> Found:
    """Return a file's name, its bytes and its last change. Raises  FileNotFoundError where it is not there."""
    store = store_of(path)
    if store is None:
        stat = os.stat(path)  # noqa: PTH116 - tens of thousands of Paths
        return Found(os.path.basename(path), stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))  # noqa: PTH119
    meta = objects.about(store, _key(store, path))
    return Found(meta["path"].rpartition("/")[2], meta["size"], meta["last_modified"])


def is_there(path: str | Path) -> bool:
    """Tell whether a file is there."""
    try:
        look(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def is_folder(path: Path) -> bool:
    """Tell whether a folder is there; in an object store, whether anything is below it."""
    store = store_of(path)
    if store is None:
        return path.is_dir()
    return next(objects.objects_below(store, _key(store, path)), None) is not None


def read_bytes(path: str | Path) -> bytes:
    """Return what a file holds, in an object store by one request. Raises  FileNotFoundError where it is not there."""
    store = store_of(path)
    return Path(path).read_bytes() if store is None else objects.content_of(store, _key(store, path))


def read_text(path: str | Path) -> str:
    """Return the text of a file, which is UTF-8. Raises  FileNotFoundError where it is not there."""
    return read_bytes(path).decode()


def remove_file(path: str | Path) -> None:
    """Remove a file, if it is there."""
    store = store_of(path)
    if store is None:
        Path(path).unlink(missing_ok=True)
    else:
        objects.remove(store, [_key(store, path)])


def put_if_absent(path: Path, text: str, *, is_flushed: bool = False) -> bool:
    """Write a file whole, or not at all; False where another is there already.

    In a store one that holds the very same is ours: the answer to a first try may have been lost. With `is_flushed` the
    disk holds it then, and not this machine's memory alone; an object store always does.
    """
    store = store_of(path)
    if store is not None:
        return objects.put_if_absent(store, _key(store, path), text.encode())
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            if is_flushed:
                file.flush()
                os.fsync(file.fileno())
        os.link(beside, path)
    except FileExistsError:
        return False
    finally:
        beside.unlink(missing_ok=True)
    if is_flushed:
        flush_folder(path.parent)
    return True


def replace_text(path: Path, text: str) -> None:
    """Write a file whole, over what is there: who reads it finds what it held or what it holds now, never a part."""
    store = store_of(path)
    if store is not None:
        with objects.written_object(store, _key(store, path)) as file:
            file.write(text.encode())
        return
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def flush_folder(folder: Path) -> None:
    """Have the disk hold the names in a folder; an object store always does."""
    if is_remote(folder):
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Create a folder that other users cannot read, and those above it; an object store has no folders to create."""
    if not is_remote(path):
        make_private_folder(path)


def make_delivery_folder(path: Path) -> None:
    """Create a folder for delivered files with the rights of the user's umask, and those above it."""
    if not is_remote(path):
        path.mkdir(parents=True, exist_ok=True)


def remove_folder(path: Path) -> None:
    """Remove a folder and all below it, as far as it is there and goes."""
    store = store_of(path)
    if store is None:
        shutil.rmtree(path, ignore_errors=True)
        return
    found = objects.objects_below(store, _key(store, path))
    while keys := [each["path"] for _, each in islice(found, 1000)]:
        objects.remove(store, keys)


def move_folder(path: Path, target: Path) -> None:
    """Move a folder to where none is, within one store: at once on this machine, file by file in an object store."""
    if not is_remote(path):
        path.rename(target)
        return
    each_of(list(files_below(path)), lambda file: move_file(path / file.path, target / file.path), at=path)


def move_file(path: Path, target: Path) -> None:
    """Move a file within one store, over what is there: at once on this machine, by a copy in an object store."""
    if not is_remote(path):
        path.replace(target)
        return
    copy_file(path, target)
    remove_file(path)


def link_file(path: Path, target: Path) -> None:
    """Have a file lie at another place as well: by a hard link, or a copy where links are not to be had."""
    if not is_remote(path) and not is_remote(target):
        try:
            os.link(path, target)
        except OSError:
            shutil.copyfile(path, target)
        return
    copy_file(path, target)


def copy_file(path: Path, target: Path) -> None:
    """Copy a file, over what is there; within one store the store does it."""
    store = store_of(path)
    if store is not None and store is store_of(target):
        objects.copy_within(store, _key(store, path), _key(store, target))
        return
    with opened(path) as source, written(target) as sink:
        shutil.copyfileobj(source, sink, _CHUNK)


def put_file_if_absent(path: str | Path, target: Path, size: int | None = None) -> bool:
    """Have a file lie at another place as well, whole, with the time of its last change; False where one is there.

    In an object store the time is that of the copy. The `size` is asked for where it is not known. What is put anew
    while it is copied is copied from the beginning.
    Raises  FileNotFoundError where the file is not there
            E807 where it is put anew at each try
    """
    store, target_store = store_of(path), store_of(target)
    if store is None and target_store is None:
        return _link(Path(path), target)
    if store is not None and store is target_store:
        size = look(path).size if size is None else size
        return objects.copy_if_absent(store, _key(store, path), _key(store, target), size)
    for _ in range(_TRIES - 1):
        try:
            return _copy_between(path, target, target_store)
        except WaterclockError as error:
            if error.code != "E807":
                raise
    return _copy_between(path, target, target_store)


def _copy_between(path: str | Path, target: Path, store: Store | None) -> bool:
    if store is None:
        return _copy(path, target)
    with opened(path) as source:
        size = source.seek(0, os.SEEK_END)  # that of the content that is read, whatever was listed
        source.seek(0)
        return objects.put_file_if_absent(store, _key(store, target), source, size)


def _link(path: Path, target: Path) -> bool:
    try:
        os.link(path, target)
    except FileExistsError:
        return False
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one without hard links
        return _copy(path, target)
    return True


def put_copy_if_absent(source: IO[bytes], target: Path) -> bool:
    """Copy an open file of this machine into a new one of this user, with its times; False where one is there.

    The disk holds the copy when this returns. Who can still write to the source cannot change the copy.
    """
    aside = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        with os.fdopen(create_private_file(aside), "wb") as sink:
            shutil.copyfileobj(source, sink, _CHUNK)
            sink.flush()
            changed = os.fstat(source.fileno()).st_mtime_ns
            os.utime(sink.fileno(), ns=(changed, changed))
            os.fsync(sink.fileno())
        os.link(aside, target)
    except FileExistsError:
        return False
    finally:
        aside.unlink(missing_ok=True)
    flush_folder(target.parent)
    return True


def _copy(path: str | Path, target: Path) -> bool:
    found = look(path)
    aside = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        with opened(path) as source, written(aside) as sink:
            shutil.copyfileobj(source, sink, _CHUNK)
        changed = found.changed.timestamp()
        os.utime(aside, (changed, changed))
        if target.exists():
            return False
        aside.rename(target)
        return True
    finally:
        aside.unlink(missing_ok=True)


def is_same_content(one: str | Path, other: str | Path) -> bool:
    """Tell whether two files hold the same. Raises  FileNotFoundError where one is not there."""
    if not is_remote(one) and not is_remote(other):
        return Path(one).samefile(other) or filecmp.cmp(one, other, shallow=False)
    if look(one).size != look(other).size:
        return False
    with opened(one) as first, opened(other) as second:
        while chunk := first.read(_CHUNK):
            if chunk != second.read(len(chunk)):
                return False
    return True


def names_in(folder: Path, begin: str) -> list[str]:
    """Return the names in a folder that begin with a text, in no order; none where it is not there.

    Cost: a listing; in an object store a request for each thousand of these names
    """
    store = store_of(folder)
    if store is not None:
        found = objects.objects_below(store, _key(store, folder), begin)
        return list(dict.fromkeys(path.partition("/")[0] for path, _ in found))
    try:
        return [name for name in os.listdir(folder) if name.startswith(begin)]  # noqa: PTH208 - texts are all
    except FileNotFoundError:
        return []


def names_below(folder: Path) -> Iterator[str]:
    """Return the paths, from a folder on, of all files below it; on this machine those of folders as well."""
    if is_remote(folder):
        yield from (file.path for file in files_below(folder))
        return
    start = len(str(folder)) + 1
    for parent, folders, files in os.walk(folder):
        yield from (os.path.join(parent, name)[start:] for name in (*folders, *files))  # noqa: PTH118 - tens of thousands


def folders_in(folder: Path) -> list[str]:
    """Return the names of the folders in a folder; none where it is not there."""
    store = store_of(folder)
    if store is not None:
        return objects.folders_in(store, _key(store, folder))
    return [path.name for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []


def each_of(things: Sequence[_T], work: Callable[[_T], _R], *, at: str | Path) -> list[_R]:
    """Do something with each of many things, in order on this machine, side by side where they lie in a store."""
    if not is_remote(at) or len(things) < 2:
        return [work(thing) for thing in things]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(work, things))


def files_below(folder: Path, begin: str = "") -> Iterator[Found]:
    """Return all files below a folder whose paths from there begin with a text; none where it is not there.

    Cost: a listing of each folder; in an object store a request for a thousand files.
    """
    store = store_of(folder)
    if store is not None:
        for inner, meta in objects.objects_below(store, _key(store, folder), begin):
            yield Found(inner, meta["size"], meta["last_modified"])
        return
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            stat = path.stat()
            inner = path.relative_to(folder).as_posix()
            if inner.startswith(begin) and path.is_file():
                yield Found(inner, stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))


def _key(store: Store, path: str | Path) -> str:
    return str(path).removeprefix(store.bucket).strip("/")


@cache
def _have_fsspec_know(scheme: str) -> None:
    from obstore.fsspec import register

    register(scheme)
