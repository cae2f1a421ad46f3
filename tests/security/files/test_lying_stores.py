"""An object store, or a proxy in front of it, that sends wrong responses costs no rows and does not end the process."""

from __future__ import annotations

import io
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from waterclock.connectors.files.archiving import archive_items
from waterclock.connectors.files.landing import Landing
from waterclock.connectors.interface import Item
from waterclock.errors import WaterclockError
from waterclock.files import filesystem, object_files
from waterclock.files.object_files import open_object, put_file_if_absent, read_object
from waterclock.files.object_stores import Store, register_bucket

DATA = bytes(range(256)) * 40_000
Answer = Callable[["Request"], None]


class Request(BaseHTTPRequestHandler):
    """One request for the object whose content is DATA."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: LyingStore

    def do_GET(self) -> None:
        self.server.answer(self)

    def do_HEAD(self) -> None:
        self.server.answer(self)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.removed += 1
        self.send(200, b"<DeleteResult><Deleted><Key>x/a.csv</Key></Deleted></DeleteResult>")

    @property
    def range(self) -> tuple[int, int]:
        """Return the requested range: its start and its end."""
        begin, end = self.headers["Range"].removeprefix("bytes=").split("-")
        return int(begin), int(end) + 1

    def send(self, status: int, content: bytes, *, size: int | None = None, tag: str = "a", of: int = 0) -> None:
        """Send `content` as the requested range of `of` bytes, or as the whole object."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) if size is None else size))
        self.send_header("ETag", f'"{tag}"')
        self.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
        if status == 206:
            begin, end = self.range
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{of or len(DATA)}")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_range(self, *, shorter: int = 0, tag: str = "a", data: bytes = DATA) -> None:
        """Send the requested range without its last bytes, or the whole object if no range is requested."""
        if self.headers["Range"] is None:
            self.send(200, data)
            return
        begin, end = self.range
        self.send(206, data[begin : max(begin, end - shorter)], tag=tag, of=len(data))

    def log_message(self, *_: object) -> None:
        """Suppress log output."""


class LyingStore(ThreadingHTTPServer):
    """A store with one object."""

    daemon_threads = True
    answer: Answer = staticmethod(Request.send_range)
    removed = 0

    def handle_error(self, *_: object) -> None:
        """Ignore clients that stop reading."""

    @property
    def options(self) -> dict[str, str]:
        endpoint = f"http://127.0.0.1:{self.server_port}"
        return {"endpoint": endpoint, "region": "us-east-1", "access_key_id": "a", "secret_access_key": "b"}

    @property
    def store(self) -> Store:
        return Store("s3://b", self.options)


@pytest.fixture
def lying() -> Iterator[LyingStore]:
    server = LyingStore(("127.0.0.1", 0), Request)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def send_empty(request: Request) -> None:
    request.send_range(shorter=len(DATA) if request.headers["Range"] else 0)


def send_short(request: Request) -> None:
    request.send_range(shorter=1000 if request.headers["Range"] else 0)


def send_short_at_the_end(request: Request) -> None:
    request.send_range(shorter=7 if request.headers["Range"] and request.range[1] == len(DATA) else 0)


def send_another_version(request: Request) -> None:
    if request.headers["Range"] and request.range[0]:
        request.send_range(tag="b", data=bytes(len(DATA)))
    else:
        request.send_range()


def send_small_size(request: Request) -> None:
    if request.command == "HEAD":
        request.send(200, b"", size=100)
    else:
        request.send_range()


LIES = [
    (send_empty, "E609"), (send_short, "E609"), (send_short_at_the_end, "E609"), (send_another_version, "E807"),
    (send_small_size, "E807"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "code"), LIES, ids=lambda it: getattr(it, "__name__", it))
def test_an_original_is_not_removed_after_a_wrong_response(
    lying: LyingStore, tmp_path: Path, answer: Answer, code: str
) -> None:
    register_bucket("s3://b", lying.options)
    landing = Landing(folder=filesystem.entry_path("s3://b/x"), archive=tmp_path / "archive")
    item = Item("a.csv", datetime(2026, 1, 1, tzinfo=UTC), len(DATA), "s3://b/x/a.csv")
    lying.answer = answer
    with pytest.raises(WaterclockError) as refused:
        archive_items(landing, [item])
    assert (refused.value.code, refused.value.transient) == (code, True)
    assert lying.removed == 0
    assert list((tmp_path / "archive").iterdir()) == []
    lying.answer = Request.send_range
    assert archive_items(landing, [item]) == ()
    assert (tmp_path / "archive" / "a.csv").read_bytes() == DATA
    assert lying.removed == 1


@pytest.mark.parametrize(("answer", "code"), LIES[:4], ids=lambda it: getattr(it, "__name__", it))
@pytest.mark.parametrize("is_whole", [True, False], ids=["as a whole", "in pieces"])
def test_a_wrong_response_is_no_end_of_file(
    lying: LyingStore, monkeypatch: pytest.MonkeyPatch, answer: Answer, code: str, *, is_whole: bool
) -> None:
    lying.answer = answer
    monkeypatch.setattr(object_files, "_PART_BYTES", 1 << 20)
    with open_object(lying.store, "k", len(DATA)) as file, pytest.raises(WaterclockError, match=code):
        _ = (file.read(10), file.read()) if is_whole else list(iter(lambda: file.read(700_000), b""))


def test_an_object_is_not_read_beyond_the_size_that_is_known(lying: LyingStore) -> None:
    with pytest.raises(WaterclockError, match="E807") as refused, open_object(lying.store, "k", 100) as file:
        file.read()
    assert refused.value.transient


def test_a_size_of_zero_is_not_believed_alone(lying: LyingStore) -> None:
    lying.answer = lambda it: it.send(200, b"", size=0) if it.command == "HEAD" else it.send_range()
    with open_object(lying.store, "k") as file:
        assert file.read() == DATA


@pytest.mark.parametrize("size", [2, 4, 9 << 20])
def test_a_copy_has_the_size_of_its_original(lying: LyingStore, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(object_files, "object_exists", lambda *_: False)
    monkeypatch.setattr(object_files, "remove", lambda *_: None)
    monkeypatch.setattr(object_files, "written_object", lambda *_: written)
    with pytest.raises(WaterclockError, match="E807"):
        put_file_if_absent(lying.store, "k", io.BytesIO(b"abc"), size)


def test_a_file_that_is_read_as_a_whole_has_a_limit(lying: LyingStore) -> None:
    assert read_object(lying.store, "k") == read_object(lying.store, "k", len(DATA)) == DATA
    with pytest.raises(WaterclockError, match="E609") as refused:
        read_object(lying.store, "k", len(DATA) - 1)
    assert not refused.value.transient


def test_a_body_that_is_longer_than_its_range_is_read_no_further(lying: LyingStore) -> None:
    def answer(request: Request) -> None:
        if request.command == "HEAD":
            request.send_range()
            return
        request.send(206, b"", size=1 << 40)
        request.close_connection = True
        with suppress(OSError):
            while True:
                request.wfile.write(bytes(1 << 16))

    lying.answer = answer
    with open_object(lying.store, "k") as file, pytest.raises(WaterclockError, match="has more bytes instead of"):
        file.read(10)


@pytest.mark.parametrize(
    "read", ["read_object(store, 'k')", "read_object(store, 'k', 10**16)", "open_object(store, 'k').read()"]
)
def test_a_size_that_no_memory_holds_does_not_end_the_process(lying: LyingStore, read: str) -> None:
    most = 10**15

    def answer(request: Request) -> None:
        if request.command == "HEAD":
            request.send(200, b"", size=most)
        elif request.headers["Range"]:
            request.send(206, bytes(1 << 20), size=most, of=most)
        else:
            request.send(200, bytes(1 << 20), size=most)
        request.close_connection = True

    lying.answer = answer
    script = f"""
    import resource
    from waterclock.errors import WaterclockError
    from waterclock.files.object_files import read_object, open_object
    from waterclock.files.object_stores import Store
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    store = Store("s3://b", {lying.options})
    try:
        {read}
    except WaterclockError as error:
        print(error.code)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "E609\n"), done.stderr
