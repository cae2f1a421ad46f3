"""The pages of a shop's project in a real Chromium. No page may ask for anything outside, or say an error, ever."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, FloatRect, Locator, Page, Request, Route

from tests import sales, stocks
from tests.chromium import browsing
from waterclock.ui.live_project import LiveProject
from waterclock.ui.serving import RunningServer, serve_pages

NOW = "2026-11-21T01:30Z"
WIDE = (1280, 960)
SOON = 5_000  # a live page looks every three seconds


SERVED: list[RunningServer] = []


@contextmanager
def pages_of(folder: Path, now: str | None = NOW) -> Iterator[str]:
    """Serve a folder's pages, which `opened` opens by a one-time link; gives their address."""
    with serve_pages(LiveProject(folder, now=now), "127.0.0.1", 0) as served:
        SERVED.append(served)
        try:
            yield served.address
        finally:
            SERVED.remove(served)


@dataclass
class World:
    """What pages asked for and complained of; `forgiven`: parts of complaints that a test brings about itself."""

    complaints: list[str] = field(default_factory=list)
    forgiven: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))
        page.on("console", self._said)
        page.on("request", self._asked)
        page.route("**/*", self._answered)

    def unforgiven(self) -> list[str]:
        return [each for each in self.complaints if not any(part in each for part in self.forgiven)]

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{message.type}: {message.text} at {message.location.get('url')}")

    def _asked(self, request: Request) -> None:
        self.requests.append(request.url)

    def _answered(self, route: Route) -> None:
        if urlsplit(route.request.url).hostname == "127.0.0.1":
            route.continue_()
        else:
            self.complaints.append(f"outside: {route.request.url}")
            route.abort()


def box_of(found: Locator) -> FloatRect:
    """Return where something is on the page."""
    box = found.bounding_box()
    assert box is not None
    return box


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with browsing() as started:
        yield started


@pytest.fixture(autouse=True)
def closed_world() -> Iterator[World]:
    """Hold each test to this: no request outside, no error of a script, none on the console."""
    world = World()
    yield world
    assert not world.unforgiven()


@pytest.fixture
def opened(browser: Browser, closed_world: World) -> Iterator[Callable[..., Page]]:
    """Return what opens an address in a window of its own: `theme` is light or dark."""
    with ExitStack() as stack:

        def open_page(address: str, *, size: tuple[int, int] = WIDE, theme: str = "light") -> Page:
            context = browser.new_context(
                viewport={"width": size[0], "height": size[1]},
                color_scheme="dark" if theme == "dark" else "light",
                reduced_motion="reduce",
                service_workers="block",
            )
            stack.callback(context.close)
            for served in SERVED:  # the cookies are the context's
                context.request.get(served.new_link())
            page = context.new_page()
            page.set_default_timeout(SOON)
            closed_world.watch(page)
            page.goto(address)
            return page

        yield open_page


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a project with sixty days behind it; it is copied, and never changed."""
    folder = tmp_path_factory.mktemp("stocks") / "shop"
    shop = stocks.make(folder)
    with shop.ledger() as ledger:
        run = ledger.past.begin_run(who="ann", command="run --watch", now=stocks.NOW)
    shop.fill(until=stocks.NOW, run=run)
    with shop.ledger() as ledger:
        ledger.past.end_run(run, "failed", who="ann")
    return folder


@pytest.fixture(scope="session")
def shown(filled: Path) -> Iterator[str]:
    """Return the address of the filled project's pages, for tests that only look."""
    with pages_of(filled) as address:
        yield address


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of the pages of a shop whose sales are measured, for tests that only look."""
    shop = sales.make(tmp_path_factory.mktemp("sales") / "shop")
    shop.live()
    with pages_of(shop.folder, sales.NOW) as address:
        yield address


@pytest.fixture
def shop(filled: Path, tmp_path: Path) -> stocks.Stocks:
    """Return a copy of the filled project."""
    return stocks.Stocks(Path(shutil.copytree(filled, tmp_path / "shop")))


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Return what serves a folder's pages until the test ends, and gives their address."""
    with ExitStack() as stack:
        yield lambda folder, now=NOW: stack.enter_context(pages_of(folder, now))


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where pictures of pages are kept: WATERCLOCK_PICTURES, else pytest's own folder."""
    folder = Path(os.environ.get("WATERCLOCK_PICTURES") or tmp_path_factory.mktemp("pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
