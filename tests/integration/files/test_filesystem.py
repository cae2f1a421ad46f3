"""Files on this machine and in an object store: every operation behaves the same."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import S3FileSystem

from tests import s3
from tests.stores import fresh_bucket
from waterclock.errors import WaterclockError
from waterclock.extras import extra_install_command
from waterclock.files import object_files
from waterclock.files.filesystem import (
    arrow_source,
    arrow_target,
    copy_file,
    entry_path,
    files_below,
    folders_in,
    link_file,
    make_folder,
    move_file,
    move_folder,
    names_below,
    names_in,
    put_file_if_absent,
    put_if_absent,
    read_bytes,
    read_text,
    remove_folder,
)
from waterclock.files.object_stores import register_bucket
from waterclock.storage.lake import require_put_if_absent


@pytest.fixture(params=["here", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "here" else f"{fresh_bucket()}/a folder/ü%20"


def names(folder: str) -> list[str]:
    return sorted(file.path for file in files_below(entry_path(folder)))


def write(path: Path, text: str) -> Path:
    make_folder(path.parent)
    path.write_text(text, encoding="utf-8")
    return path


def test_only_the_first_of_concurrent_writers_creates_the_file(folder: str) -> None:
    path = entry_path(folder, "latch")
    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(lambda number: put_if_absent(path, f"runner {number}"), range(8)))
    assert won.count(True) == 1
    assert path.read_text(encoding="utf-8") == f"runner {won.index(True)}"
    assert names(folder) == ["latch"]


def test_a_file_is_put_whole_where_none_is(folder: str, tmp_path: Path) -> None:
    target = entry_path(folder, "export")
    make_folder(target.parent)
    for number, path in enumerate((entry_path(folder, ".first"), tmp_path / "second"), 1):
        assert put_file_if_absent(write(path, f"content {number}"), target) == (number == 1)
    assert read_text(target) == "content 1"


def test_files_are_listed_at_any_depth_with_their_sizes(folder: str) -> None:
    write(entry_path(folder, "a", "b", "c d.txt"), "four")
    write(entry_path(folder, "a", "é=1", "e.txt"), "")
    write(entry_path(folder, "ab.txt"), "x")
    assert {(file.path, file.size) for file in files_below(entry_path(folder, "a"))} == {
        ("b/c d.txt", 4),
        ("é=1/e.txt", 0),
    }
    assert set(names_below(entry_path(folder, "a"))) >= {"b/c d.txt", "é=1/e.txt"}
    assert sorted(folders_in(entry_path(folder, "a"))) == ["b", "é=1"]
    assert not list(files_below(entry_path(folder, "none")))
    assert folders_in(entry_path(folder, "none")) == []


def test_folders_and_files_are_moved_and_removed(folder: str) -> None:
    write(entry_path(folder, "a", "b", "c"), "c")
    write(entry_path(folder, "a", "d"), "d")
    write(entry_path(folder, "ab"), "stays")
    move_folder(entry_path(folder, "a"), entry_path(folder, "z"))
    assert names(folder) == ["ab", "z/b/c", "z/d"]
    move_file(entry_path(folder, "z", "d"), entry_path(folder, "z", "b", "c"))
    assert entry_path(folder, "z", "b", "c").read_text(encoding="utf-8") == "d"
    remove_folder(entry_path(folder, "z"))
    remove_folder(entry_path(folder, "none"))
    assert names(folder) == ["ab"]


def test_a_linked_or_copied_file_survives_the_removal_of_its_original(folder: str, tmp_path: Path) -> None:
    path = write(entry_path(folder, "one"), "same")
    link_file(path, entry_path(folder, "two"))
    copy_file(path, tmp_path / "here")
    copy_file(tmp_path / "here", entry_path(folder, "back"))
    path.unlink()
    assert {name: entry_path(folder, name).read_text(encoding="utf-8") for name in ("two", "back")} == {
        "two": "same",
        "back": "same",
    }


def test_a_missing_object_is_reported_like_a_missing_local_file(folder: str) -> None:
    path = entry_path(folder, "none")
    asked = (lambda: read_bytes(path), lambda: pq.ParquetFile(arrow_source(path)), path.stat, path.unlink)
    for ask in (*asked, lambda: copy_file(path, entry_path(folder, "copy"))):
        with pytest.raises(FileNotFoundError):
            ask()
    path.unlink(missing_ok=True)
    assert not path.exists()
    assert not path.is_dir()


def test_arrow_reads_and_writes(folder: str) -> None:
    path = entry_path(folder, "rows.parquet")
    make_folder(path.parent)
    rows = pa.table({"a": list(range(100_000))})
    with arrow_target(path) as sink:
        pq.write_table(rows, sink)
    with pq.ParquetFile(arrow_source(path)) as file:
        assert file.read() == rows


def test_the_check_for_put_if_absent_leaves_no_file_behind(folder: str) -> None:
    require_put_if_absent(folder)
    assert names(folder) == []


@pytest.fixture
def careless() -> Iterator[str]:
    """Yield the endpoint of a store that accepts every put, without conditions or authentication."""
    kept: dict[str, bytes] = {}

    class Careless(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            kept[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(200)

        def do_DELETE(self) -> None:
            kept.pop(self.path, None)
            self._answer(204)

        def do_GET(self) -> None:
            self._answer(200 if self.path in kept else 404, kept.get(self.path, b""))

        def do_POST(self) -> None:  # the objects to delete; nothing checks the deletion
            self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(200, b"<DeleteResult><Deleted><Key>it</Key></Deleted></DeleteResult>")

        do_HEAD = do_GET  # noqa: N815 - the server's own name

        def _answer(self, status: int, content: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("ETag", '"one"')
            self.send_header("Last-Modified", "Tue, 01 Jan 2013 00:00:00 GMT")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Careless)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_a_bucket_without_conditional_puts_is_refused(careless: str) -> None:
    url = "s3://careless/lake"
    register_bucket(
        url, {"endpoint": careless, "access_key_id": "any", "secret_access_key": "any", "region": "us-east-1"}
    )
    with pytest.raises(WaterclockError, match="E602 the storage cannot create a file only if it does not exist"):
        require_put_if_absent(url)


def test_unknown_options_and_url_schemes_are_reported() -> None:
    with pytest.raises(WaterclockError, match="E608 'regoin' is not an option of an object store") as told:
        register_bucket("s3://lake", {"regoin": "eu-central-1"})
    assert told.value.fix == "did you mean region?"
    with pytest.raises(WaterclockError, match="E608 'region' is not an option of an object store"):
        register_bucket("gs://lake", {"region": "eu"})
    with pytest.raises(WaterclockError, match="E607 hdfs:// is not a supported storage"):
        entry_path("hdfs://lake/flights")
    with pytest.raises(WaterclockError, match="E607 the URL names no bucket"):
        entry_path("s3:///flights")


def test_the_mark_that_others_leave_of_a_folder_hides_no_file() -> None:
    url = fresh_bucket()
    write(entry_path(url, "new", "web", "events.csv"), "id")
    options = s3.server().options()
    store = S3FileSystem(
        access_key=options["access_key_id"],
        secret_key=options["secret_access_key"],
        endpoint_override=options["endpoint"],
        region=options["region"],
    )
    store.create_dir(f"{url.rpartition('/')[2]}/new/web", recursive=False)
    assert names_in(entry_path(url, "new", "web"), "e") == ["events.csv"]
    assert [file.path for file in files_below(entry_path(url, "new", "web"))] == ["events.csv"]


def test_a_put_is_tried_again_where_s3_is_at_another_of_that_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_files, "_PAUSE", 0)
    answers = [RuntimeError("409 Conflict: ConditionalRequestConflict")] * 2
    put: list[str] = []

    def answer() -> None:
        if answers:
            raise answers.pop()
        put.append("done")

    object_files._retry_conditional_put(answer)
    assert put == ["done"]
    answers = [RuntimeError("409 Conflict: ConditionalRequestConflict")] * 9
    with pytest.raises(RuntimeError, match="Conflict"):
        object_files._retry_conditional_put(answer)


def test_missing_libraries_are_reported_with_the_extra_that_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(WaterclockError, match="E609 object storage needs libraries") as told:
        entry_path("s3://never-asked-for/lake")
    assert told.value.fix == f"install them: {extra_install_command('objects')}"
