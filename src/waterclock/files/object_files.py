"""Treats objects of a store as files: lists, reads, writes and copies them.

`object_stores.translate_store_errors` converts errors of a store. A missing object raises FileNotFoundError.
"""

from __future__ import annotations

import asyncio
import io
import shutil
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

from waterclock.errors import WaterclockError
from waterclock.files.object_stores import Store, translate_store_errors, wrong_response_error

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer
    from obstore import GetOptions, GetResult, ObjectMeta, WritableFile

_T = TypeVar("_T")

MOST_BYTES = 256 * 1024 * 1024
"""The maximum size of an object that is read into memory as a whole, unless the caller sets another one."""
# a request takes as long as reading a mebibyte: a smaller read is not worth one
_BUFFER_BYTES = 1024 * 1024
_PART_BYTES = 8 * 1024 * 1024
_PARTS_AT_ONCE = 2
_LISTED_AT_ONCE = 1000
_MOST_TRIES, _PAUSE = 5, 0.2
_LISTING_SECONDS = 300  # for a thousand objects, or all folders of a folder
_QUICK_COPY_BYTES = 1024**3  # copies above this size get a longer timeout
_S3_COPY_BYTES = 5 * 1024**3  # as one part; bigger objects are copied through this machine


def open_object(store: Store, key: str, size: int | None = None) -> IO[bytes]:
    """Open an object for reading. All reads are of the same content: each response must have the first one's ETag.

    Raises FileNotFoundError if the object is missing; with a given `size`, the first read raises it. A read raises E807
    (transient) if the object was replaced or has another size, and E609 (transient) if the response is incomplete.
    Cost: a request for the size, if it is not given, and one for each mebibyte that is read, or for each larger read.
    """
    return cast("IO[bytes]", io.BufferedReader(_RangeReader(store, key, size), _BUFFER_BYTES))


@contextmanager
def written_object(store: Store, key: str) -> Iterator[IO[bytes]]:
    """Open an object for writing. The complete object is created once the block has ended without an error.

    A few parts of 8 MB are buffered in memory. Closing the file within the block does nothing.
    """
    import obstore

    where = f"{store.bucket}/{key}"
    # an error in the block leaves the upload unfinished, so that no object is created
    with (
        translate_store_errors(where),
        obstore.open_writer(store.objects, key, buffer_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE) as to,
    ):
        parts = _PartWriter(to)
        file = io.BufferedWriter(parts, _BUFFER_BYTES)
        try:
            yield file
            if not file.closed:
                file.flush()
        finally:
            parts.is_over = True


def object_changed_error(where: str) -> WaterclockError:
    """Return the error for an object that was replaced while it was read."""
    return WaterclockError(
        "E807",
        "the file changed while it was read",
        where=where,
        why="its size or its ETag is another one now, so that the parts read belong to different contents",
        fix="it is read again at the next attempt; to avoid this, never overwrite an uploaded file",
        transient=True,
    )


def object_metadata(store: Store, key: str) -> ObjectMeta:
    """Return an object's metadata, such as its size and last change."""
    import obstore

    with translate_store_errors(f"{store.bucket}/{key}"):
        return obstore.head(store.objects, key)


def etag_of(meta: ObjectMeta) -> str | None:
    """Return an object's ETag without quotes, which some stores leave out of listings."""
    etag = meta.get("e_tag")
    return None if etag is None else etag.removeprefix("W/").strip('"')


def object_exists(store: Store, key: str) -> bool:
    """Return whether an object exists."""
    try:
        object_metadata(store, key)
    except FileNotFoundError:
        return False
    return True


def read_object(store: Store, key: str, most: int = MOST_BYTES) -> bytes:
    """Return the content of an object. Raises E609 above `most` bytes, and (transient) for an incomplete response."""
    import obstore

    where = f"{store.bucket}/{key}"
    with translate_store_errors(where):
        found = obstore.get(store.objects, key)
        size = found.meta["size"]
        if size > most:
            raise wrong_response_error(where, f"its response announces {size} bytes, and the limit is {most}")
        return bytes(_read_body(found, size, where))


def _read_body(found: GetResult, length: int, where: str) -> bytearray:
    """Return the body of a response, which must have `length` bytes.

    It is read in pieces, because obstore allocates the announced length of a whole body at once, and ends the process
    if it cannot. A body can also be longer than announced.
    Raises E609 (transient) for another length.
    """
    body = bytearray()
    for piece in found.stream(_BUFFER_BYTES):
        body += piece
        if len(body) > length:
            break
    if len(body) != length:
        why = f"its response has {'more' if len(body) > length else len(body)} bytes instead of {length}"
        raise wrong_response_error(where, why, transient=True)
    return body


def put_if_absent(store: Store, key: str, content: bytes) -> bool:
    """Put a small object. Return False if an object with other content exists already.

    An existing object with the same content counts as written by this call, as the store's response to a first attempt
    may have been lost.
    """
    import obstore
    from obstore.exceptions import AlreadyExistsError

    try:
        with translate_store_errors(f"{store.bucket}/{key}"):
            _retry_conditional_put(lambda: obstore.put(store.objects, key, content, mode="create"))
    except AlreadyExistsError:
        return object_metadata(store, key)["size"] == len(content) and read_object(store, key, len(content)) == content
    return True


def _retry_conditional_put(put: Callable[[], object]) -> None:
    """Call a conditional put, and retry it while S3 processes another one for the same name."""
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_incrementing

    retrying = Retrying(
        retry=retry_if_exception(lambda error: "ConditionalRequestConflict" in str(error)),
        wait=wait_incrementing(_PAUSE, _PAUSE),
        stop=stop_after_attempt(_MOST_TRIES),
        reraise=True,
    )
    retrying(put)


def remove(store: Store, keys: Sequence[str]) -> None:
    """Remove objects. Missing ones are ignored."""
    import obstore

    with translate_store_errors(store.bucket):
        try:
            obstore.delete(store.objects, keys)
        except Exception as error:
            if not (isinstance(error, FileNotFoundError) or "NoSuchKey" in str(error)):
                raise
            # another process has removed one; the error does not show which of the others were removed
            for key in keys if len(keys) > 1 else ():
                remove(store, [key])


def objects_below(store: Store, key: str, begin: str = "") -> Iterator[tuple[str, ObjectMeta]]:
    """Yield the relative path and metadata of a folder's objects whose relative path starts with `begin`.

    Raises E609 if the store fails or its listing is invalid.
    """
    head = f"{key}/" if key else ""
    after = begin[:-1].rstrip(".")  # the offset excludes exactly this name; `.` alone is invalid
    with translate_store_errors(f"{store.bucket}/{key}"):
        for chunk in _list_chunks(store, key, f"{head}{after}" if after else None):
            for each in chunk:
                if not each["path"].startswith(head):
                    continue  # the marker of the folder itself, which Hadoop and the web consoles of stores create
                path = each["path"].removeprefix(head)
                if path.startswith(begin):
                    yield path, each
                elif path > begin and not (store.scheme == "abfss" and _differs_by_slash(path, begin)):
                    return


def _differs_by_slash(path: str, begin: str) -> bool:
    """Return whether a path has a slash where it first differs from `begin`: Azure sorts `a/x` before `a-b`."""
    return next((own == "/" for own, other in zip(path, begin, strict=False) if own != other), False)


def _list_chunks(store: Store, key: str, offset: str | None) -> Iterator[Sequence[ObjectMeta]]:
    """Yield the objects of a folder in chunks. Raise an error if the listing repeats itself.

    Each page names the next one, and obstore requests any name. So a store that repeats a name would be listed forever.
    Therefore each chunk must sort after the one before it. Azure sorts folders differently: there the first objects of
    chunks 1, 2, 4, 8 and so on are compared with all later objects, which detects every cycle.
    """
    import obstore

    where = f"{store.bucket}/{key}"
    is_sorted = store.scheme != "abfss"
    highest, number, next_checkpoint = "", 0, 1
    checkpoint: ObjectMeta | None = None
    offset_option = {} if offset is None else {"offset": offset}
    chunks = obstore.list(store.objects, prefix=key or None, chunk_size=_LISTED_AT_ONCE, **offset_option)
    while chunk := _next_chunk(chunks, where):
        first, last = chunk[0]["path"], max(each["path"] for each in chunk)
        marker = f"{first}/"  # as the marker of a folder is sorted; obstore returns its path without the slash
        if is_sorted and marker <= highest:
            raise wrong_response_error(where, f"its listing repeats itself: {first} comes after {highest}")
        if not is_sorted and checkpoint is not None and checkpoint in chunk:
            raise wrong_response_error(where, f"its listing repeats itself: {checkpoint['path']} comes twice")
        highest = last if last > highest else marker
        number += 1
        if number == next_checkpoint:
            checkpoint, next_checkpoint = chunk[0], 2 * next_checkpoint
        yield chunk


def _next_chunk(chunks: Iterator[Sequence[ObjectMeta]], where: str) -> Sequence[ObjectMeta]:
    """Return the next chunk of a listing, or an empty one at its end.

    Raises E609 for an object with a time that Python cannot represent, or if only empty pages arrive for minutes.
    """

    async def fetch_page() -> Sequence[ObjectMeta]:
        async for chunk in cast("AsyncIterator[Sequence[ObjectMeta]]", chunks):
            return chunk
        return ()

    return _run_with_time_limit(fetch_page, where)


def folders_in(store: Store, key: str) -> list[str]:
    """Return the names of the folders in a folder.

    Raises E609 for an object with a time that Python cannot represent, or if the listing takes minutes.
    """
    import obstore

    where = f"{store.bucket}/{key}"

    async def fetch_folders() -> Sequence[str]:
        return (await obstore.list_with_delimiter_async(store.objects, key or None))["common_prefixes"]

    with translate_store_errors(where):
        found = _run_with_time_limit(fetch_folders, where)
    return [each.rstrip("/").rpartition("/")[2] for each in found]


def _run_with_time_limit(call: Callable[[], Coroutine[Any, Any, _T]], where: str) -> _T:
    """Run a request for a listing, with a time limit, because obstore follows any number of empty pages."""

    def run() -> _T:
        try:
            with asyncio.Runner(
                loop_factory=asyncio.new_event_loop
            ) as runner:  # it cancels unfinished tasks after Ctrl-C
                return runner.run(asyncio.wait_for(call(), _LISTING_SECONDS))
        except TimeoutError as error:
            why = f"its listing gave nothing for {_LISTING_SECONDS} seconds but pages that refer to further pages"
            raise wrong_response_error(where, why, transient=True) from error
        except ValueError as error:
            if str(error).startswith("Could not parse path"):  # an invalid name, which the caller reports
                raise
            raise wrong_response_error(where, f"its listing has an invalid time: {error}") from error

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run()
    with ThreadPoolExecutor(1) as pool:  # a notebook has a loop in its thread
        return pool.submit(run).result()


def copy_within(store: Store, key: str, target: str) -> None:
    """Copy an object within a store, replacing an existing one.

    If the store fails to copy an object of more than 1 GiB, copy it through this machine.
    """
    import obstore

    try:
        with translate_store_errors(f"{store.bucket}/{target}"):
            obstore.copy(store.objects, key, target)
    except WaterclockError:
        if object_metadata(store, key)["size"] <= _QUICK_COPY_BYTES:
            raise
        with open_object(store, key) as source, written_object(store, target) as sink:
            shutil.copyfileobj(source, sink, _PART_BYTES)


def copy_if_absent(store: Store, key: str, target: str, size: int) -> bool:
    """Copy an object of `size` bytes to another path. Return False if an object exists there already."""
    import obstore
    from obstore.exceptions import AlreadyExistsError

    if size > _max_copy_size(store):
        with open_object(store, key) as source:
            return put_file_if_absent(store, target, source, size)
    objects = store.objects if size <= _QUICK_COPY_BYTES else store.objects_for_big_copies
    try:
        with translate_store_errors(f"{store.bucket}/{target}"):
            _retry_conditional_put(lambda: obstore.copy(objects, key, target, overwrite=False))
    except AlreadyExistsError:
        return False
    return True


def _max_copy_size(store: Store) -> int:
    """Return the maximum size of an object that a store can copy on the condition that the target does not exist."""
    return _S3_COPY_BYTES if store.scheme == "s3" else _QUICK_COPY_BYTES


def copy_content(source: IO[bytes], sink: IO[bytes], size: int, where: str) -> None:
    """Copy an open file to another one, in bounded memory. Raises E807 (transient) if it does not have `size` bytes.

    `where` is the path of the source.
    """
    shutil.copyfileobj(source, sink, _PART_BYTES)
    if sink.tell() != size:
        raise object_changed_error(where)


def put_file_if_absent(store: Store, key: str, source: IO[bytes], size: int) -> bool:
    """Put a file of `size` bytes, in bounded memory. Return False if an object exists already.

    A big file is first written under a hidden name next to it, because a multipart upload supports no condition, but a
    copy within the store does. For sizes beyond the store's limit for copies, the path is checked before the write.
    Raises E807 (transient) if the file has another size.
    """
    where = f"{store.bucket}/{key}"
    if size <= _PART_BYTES:
        content = io.BytesIO()
        copy_content(source, content, size, where)
        return put_if_absent(store, key, content.getvalue())
    if object_exists(store, key):
        return False
    folder, _, name = key.rpartition("/")
    temporary_key = f"{folder}/.{name}.{uuid.uuid4().hex}.part".lstrip("/")
    try:
        with written_object(store, temporary_key) as sink:
            copy_content(source, sink, size, where)
        if size <= _max_copy_size(store):
            return copy_if_absent(store, temporary_key, key, size)
        if object_exists(store, key):
            return False
        copy_within(store, temporary_key, key)
    finally:
        remove(store, [temporary_key])
    return True


class _RangeReader(io.RawIOBase):
    """Reads an object by range requests. Sequential reads request increasingly long ranges, up to `_PART_BYTES`."""

    def __init__(self, store: Store, key: str, size: int | None) -> None:
        self._store, self._key = store, key
        self._position = 0
        self._etag: str | None = None
        self._size = self._request_size() if size is None else size
        self._buffer, self._buffer_start = memoryview(b""), 0
        self._read_ahead = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._position = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence])
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        found = self._read(len(view))
        view[: len(found)] = found
        return len(found)

    def readall(self) -> bytes:
        return b"".join(iter(lambda: bytes(self._read(self._size)), b""))

    def _read(self, most: int) -> memoryview:
        begin = self._position - self._buffer_start
        if not 0 <= begin < len(self._buffer):
            self._fetch(most)
            begin = 0
        found = self._buffer[begin : begin + most]
        self._position += len(found)
        return found

    def _request_size(self) -> int:
        meta = object_metadata(self._store, self._key)
        self._etag = meta["e_tag"]
        return meta["size"] or len(read_object(self._store, self._key))  # no later response would show a wrong 0

    def _fetch(self, most: int) -> None:
        is_next = self._position == self._buffer_start + len(self._buffer)
        self._read_ahead = min(2 * self._read_ahead, _PART_BYTES) if is_next and self._read_ahead else _BUFFER_BYTES
        self._buffer, self._buffer_start = memoryview(b""), self._position
        length = min(max(most, self._read_ahead), self._size - self._position)
        if length > 0:
            self._buffer = memoryview(self._range(self._position, self._position + length))

    def _range(self, begin: int, end: int) -> bytearray:
        import obstore
        from obstore.exceptions import PreconditionError

        where = f"{self._store.bucket}/{self._key}"
        options: GetOptions = {"range": (begin, end)}
        if self._etag is not None:
            options["if_match"] = self._etag
        try:
            with translate_store_errors(where):
                found = obstore.get(self._store.objects, self._key, options=options)
                meta = found.meta
                self._etag = self._etag or meta["e_tag"]
                if (meta["e_tag"], meta["size"]) != (self._etag, self._size):  # not every server supports If-Match
                    raise object_changed_error(where)
                return _read_body(found, end - begin, where)
        except PreconditionError as error:
            raise object_changed_error(where) from error


class _PartWriter(io.RawIOBase):
    """Passes written bytes to a multipart writer, which the caller closes."""

    def __init__(self, to: WritableFile) -> None:
        self._to = to
        self._written = 0
        self.is_over = False

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, content: ReadableBuffer, /) -> int:
        taken = len(memoryview(content)) if self.is_over else self._to.write(bytes(content))
        self._written += taken
        return taken
