"""A listing always ends, whatever a store returns as the next page."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain, islice
from typing import Any

import pytest

from waterclock.errors import WaterclockError
from waterclock.files import object_files
from waterclock.files.object_files import objects_below
from waterclock.files.object_stores import Store

Page = tuple[Sequence[str], str | None]


class Listing:
    """An object store that returns one page per listing request: its keys, and the token of the next page."""

    def __init__(self) -> None:
        self.asked = 0
        self.page: Callable[[int], Page] = lambda _: ((), None)
        self.port = 0

    @property
    def store(self) -> Store:
        options = {"endpoint": f"http://127.0.0.1:{self.port}", "region": "us-east-1"}
        return Store("s3://b", options | {"access_key_id": "a", "secret_access_key": "b"})

    def answer(self) -> bytes:
        keys, following = self.page(self.asked)
        self.asked += 1
        objects = "".join(
            f"<Contents><Key>{key}</Key><LastModified>2026-11-24T00:00:00.000Z</LastModified><ETag>x</ETag>"
            f"<Size>{0 if key.endswith('/') else 9}</Size></Contents>"
            for key in keys
        )
        token = f"<NextContinuationToken>{following}</NextContinuationToken>" if following else ""
        return (
            f"<ListBucketResult><Name>b</Name><Prefix>in/</Prefix><KeyCount>{len(keys)}</KeyCount>"
            f"<IsTruncated>{'true' if following else 'false'}</IsTruncated>{token}{objects}</ListBucketResult>"
        ).encode()


@pytest.fixture
def listing() -> Iterator[Listing]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            content = made.answer()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Suppress log output."""

    made = Listing()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.port = server.server_port
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield made
    server.shutdown()
    server.server_close()


@pytest.fixture
def azure(listing: Listing, monkeypatch: pytest.MonkeyPatch) -> Listing:
    """Return a fake store with Azure's listing responses."""

    class Azure(Store):
        @property
        def for_obstore(self) -> dict[str, Any]:
            return super().for_obstore | {"config": {"use_emulator": "true"}, "client_options": {"allow_http": True}}

    def answer() -> bytes:
        keys, following = listing.page(listing.asked)
        listing.asked += 1
        blobs = "".join(
            f"<Blob><Name>{key}</Name><Properties><Last-Modified>Wed, 21 Oct 2015 07:28:00 GMT</Last-Modified>"
            f"<Content-Length>3</Content-Length><Content-Type>a</Content-Type><Etag>{key}</Etag></Properties></Blob>"
            for key in keys
        )
        return (
            f"<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker>{following or ''}</NextMarker></EnumerationResults>"
        ).encode()

    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", f"http://127.0.0.1:{listing.port}")
    monkeypatch.setattr(listing, "answer", answer)
    monkeypatch.setattr(Listing, "store", Azure("abfss://c@devstoreaccount1.dfs.core.windows.net", {}))
    return listing


NAMES = [f"in/{number:04}" for number in range(1000)]


@pytest.mark.parametrize("keys", [NAMES, NAMES[:1], NAMES[::-1], ["in/", "in/a/"], ["in/"]], ids=len)
def test_a_page_that_is_repeated_ends_the_listing(
    listing: Listing, monkeypatch: pytest.MonkeyPatch, keys: list[str]
) -> None:
    monkeypatch.setattr(object_files, "_LISTED_AT_ONCE", len(keys))
    listing.page = lambda _: (keys, "same")
    with pytest.raises(WaterclockError) as refused:
        list(islice(objects_below(listing.store, "in"), 20_000))
    assert (refused.value.code, refused.value.transient) == ("E609", False)
    assert "repeats itself" in str(refused.value.why)


def test_names_that_do_not_rise_end_the_listing(listing: Listing) -> None:
    listing.page = lambda asked: ([f"in/f{asked}_{name[3:]}" for name in NAMES], f"page {asked}")
    with pytest.raises(WaterclockError, match="repeats itself"):
        list(islice(objects_below(listing.store, "in"), 20_000))


def test_pages_that_rise_are_listed_to_their_end(listing: Listing) -> None:
    names = sorted(chain(NAMES, ["in/", "in/0999-b", "in/0999/"], (f"in/0999/{number:04}" for number in range(2000))))
    pages = [names[at : at + 1000] for at in range(0, len(names), 1000)]
    listing.page = lambda asked: (pages[asked], f"page {asked}" if asked + 1 < len(pages) else None)
    found = [path for path, _ in objects_below(listing.store, "in")]
    assert found == [name.removeprefix("in/").rstrip("/") for name in names if name != "in/"]


def test_the_marker_of_a_folder_may_begin_a_page(listing: Listing) -> None:
    """It sorts after `a-b`, because its name ends with a slash that the path does not have."""
    pages: list[list[str]] = [[*(f"in/a-{number:04}" for number in range(1000))], ["in/a/", "in/a/x"]]
    listing.page = lambda asked: (pages[asked], None if asked else "more")
    assert [path for path, _ in objects_below(listing.store, "in")][-2:] == ["a", "a/x"]


@pytest.mark.parametrize("length", [1, 999, 1000, 1001, 3500])
@pytest.mark.parametrize("before", [0, 1, 2500])
def test_a_cycle_of_pages_ends_the_listing_of_a_store_with_another_order(
    azure: Listing, monkeypatch: pytest.MonkeyPatch, before: int, length: int
) -> None:
    monkeypatch.setattr(object_files, "_LISTED_AT_ONCE", 100)
    names = [f"in/{number * 7919 % 10_000:04}" for number in range(before + length)]
    pages = [names[:before], *(names[at : at + 1000] for at in range(before, len(names), 1000))]
    azure.page = lambda asked: (pages[asked and 1 + (asked - 1) % (len(pages) - 1)], "more")
    with pytest.raises(WaterclockError, match=r"repeats itself: in/.* comes twice") as refused:
        list(islice(objects_below(azure.store, "in"), 20_000))
    assert refused.value.code == "E609"


def test_names_in_another_order_are_listed_to_their_end(azure: Listing) -> None:
    names = [f"in/{number * 7919 % 10_000:04}" for number in range(10_000)]
    pages = [names[at : at + 1000] for at in range(0, len(names), 1000)]
    azure.page = lambda asked: (pages[asked], "more" if asked < 9 else None)
    assert [f"in/{path}" for path, _ in objects_below(azure.store, "in")] == names


def test_a_folder_before_names_that_continue_its_name_ends_no_search(azure: Listing) -> None:
    azure.page = lambda _: (["in/a/x", "in/a-1", "in/a-2", "in/b"], None)
    assert [path for path, _ in objects_below(azure.store, "in", "a-")] == ["a-1", "a-2"]


@pytest.mark.parametrize("year", ["+262142", "-0001"])
def test_a_time_that_is_out_of_range_is_an_error_of_the_store(listing: Listing, year: str) -> None:
    content = listing.answer
    listing.page = lambda _: (["in/a"], None)
    listing.answer = lambda: content().replace(b"2026-11-24", f"{year}-11-24".encode())  # type: ignore[method-assign]
    with pytest.raises(WaterclockError, match=r"E609.*\n.*\n.*invalid time"):
        list(objects_below(listing.store, "in"))


def test_pages_without_objects_end_the_listing(listing: Listing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_files, "_LISTING_SECONDS", 0.5)
    listing.page = lambda asked: ((), f"page {asked}")
    with pytest.raises(WaterclockError) as refused:
        list(objects_below(listing.store, "in"))
    assert (refused.value.code, refused.value.transient) == ("E609", True)
    assert "pages that refer to further pages" in str(refused.value.why)


def test_a_list_of_folders_has_an_end(listing: Listing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_files, "_LISTING_SECONDS", 0.5)
    listing.page = lambda asked: ((f"in/{asked}",), f"page {asked}")
    with pytest.raises(WaterclockError) as refused:
        object_files.folders_in(listing.store, "in")
    assert (refused.value.code, refused.value.transient) == ("E609", True)
    count = listing.asked
    time.sleep(0.3)
    assert listing.asked <= count + 1  # no request continues in the background


def test_a_listing_works_where_the_thread_has_a_loop(listing: Listing) -> None:
    """Notebook cells run in an event loop."""
    listing.page = lambda _: (["in/a", "in/b"], None)

    async def cell() -> list[str]:
        return [path for path, _ in objects_below(listing.store, "in")]

    with ThreadPoolExecutor(1) as thread:  # this thread may already have a loop, from Playwright
        assert thread.submit(asyncio.run, cell()).result(60) == ["a", "b"]
