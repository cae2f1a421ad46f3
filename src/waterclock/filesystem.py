"""The one way to files at rest: paths of this machine and of object stores, both with the interface of pathlib.

A folder is a text: a path, or a URL such as `s3://bucket/prefix`. In an object store a folder is no more than what the
names of its files have in common: an empty one is not there, and it is moved and removed file by file.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from waterclock.object_stores import Store, is_remote, store_of

if TYPE_CHECKING:
    from obstore import ObjectMeta

_AT_ONCE = 16
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


def read_bytes(path: Path) -> bytes:
    """Read a whole file, in an object store by one request.

    Raises  FileNotFoundError where it is not there
    """
    store = store_of(path)
    if store is None:
        return path.read_bytes()
    import obstore

    return bytes(obstore.get(store.objects, _key(store, path)).bytes())


def readable(path: Path) -> Path | IO[bytes]:
    """Return what Arrow reads a file from: its path on this machine, else the file, opened.

    Raises  FileNotFoundError for one in an object store that is not there
    """
    if not is_remote(path):
        return path
    path.stat()  # obstore's file complains on the terminal where it is opened and not there
    return path.open("rb")


def writable(path: Path) -> AbstractContextManager[Path | IO[bytes]]:
    """Return what Arrow writes a file to: its path on this machine, else the file, opened; it appears when closed."""
    return path.open("wb") if is_remote(path) else nullcontext(path)


def put_if_absent(path: Path, text: str) -> bool:
    """Write a file whole, or not at all; False where another is there already."""
    store = store_of(path)
    if store is not None:
        return _put_object_if_absent(store, _key(store, path), text.encode())
    beside = beside_of(path)
    beside.write_text(text, encoding="utf-8")
    return move_if_absent(beside, path)


def beside_of(path: Path) -> Path:
    """Return a hidden name beside a path that nobody else uses, for what is moved to the path when it is whole."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}")


def move_if_absent(path: Path, target: Path) -> bool:
    """Move a file to where none is; False where there is one: the file is removed then.

    A latch on this machine. In an object store it is none, for two who see nothing there may both move theirs.
    """
    if is_remote(path):
        if target.exists():
            path.unlink()
            return False
        move_file(path, target)
        return True
    try:
        os.link(path, target)
    except FileExistsError:
        return False
    finally:
        path.unlink()
    return True


def make_folder(path: Path) -> None:
    """Make a folder, and those above it; in an object store there is nothing to make."""
    if not is_remote(path):
        path.mkdir(parents=True, exist_ok=True)


def remove_folder(path: Path) -> None:
    """Remove a folder and all below it, as far as it is there and goes."""
    store = store_of(path)
    if store is None:
        shutil.rmtree(path, ignore_errors=True)
        return
    import obstore

    for chunk in obstore.list(store.objects, prefix=_key(store, path)):
        obstore.delete(store.objects, [each["path"] for each in chunk])


def move_folder(path: Path, target: Path) -> None:
    """Move a folder to where none is: at once on this machine, file by file in an object store."""
    if not is_remote(path):
        path.rename(target)
        return
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(lambda file: move_file(path / file.path, target / file.path), list(files_below(path))))


def move_file(path: Path, target: Path) -> None:
    """Move a file, over what is there: at once on this machine, by a copy in an object store."""
    if not is_remote(path):
        path.replace(target)
        return
    copy_file(path, target)
    path.unlink()


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
        import obstore

        obstore.copy(store.objects, _key(store, path), _key(store, target))
        return
    path.stat()  # as in `readable`
    with path.open("rb") as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink, _CHUNK)


def files_below(folder: Path) -> Iterator[Found]:
    """Return all files below a folder, at any depth; none where it is not there.

    Cost: a listing of each folder; in an object store a request for a thousand files.
    """
    store = store_of(folder)
    if store is not None:
        yield from _objects_below(store, _key(store, folder))
        return
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            stat = path.stat()
            if path.is_file():
                changed = datetime.fromtimestamp(stat.st_mtime, UTC)
                yield Found(path.relative_to(folder).as_posix(), stat.st_size, changed)


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
        import obstore

        found = obstore.list_with_delimiter(store.objects, prefix=_key(store, folder))["common_prefixes"]
        return [path.rpartition("/")[2] for path in found]
    try:
        return [path.name for path in folder.iterdir() if path.is_dir()]
    except FileNotFoundError:
        return []


def _objects_below(store: Store, key: str) -> Iterator[Found]:
    import obstore

    chunk: Sequence[ObjectMeta]
    for chunk in obstore.list(store.objects, prefix=key):
        for each in chunk:
            path = each["path"].removeprefix(f"{key}/")
            if path != each["path"]:  # else it is the mark that Hadoop leaves of the folder itself
                yield Found(path, each["size"], each["last_modified"])


def _put_object_if_absent(store: Store, key: str, content: bytes) -> bool:
    import obstore
    from obstore.exceptions import AlreadyExistsError

    try:
        obstore.put(store.objects, key, content, mode="create")
    except AlreadyExistsError:
        # it is ours where the answer to a first try was lost on its way, and the second met what the first had put
        return bytes(obstore.get(store.objects, key).bytes()) == content
    return True


def _key(store: Store, path: Path) -> str:
    return str(path).removeprefix(store.bucket).strip("/")


@cache
def _have_fsspec_know(scheme: str) -> None:
    from obstore.fsspec import register

    register(scheme)
