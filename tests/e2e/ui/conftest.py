"""Fixtures that open the pages of a shop's project in a real Chromium, without outside requests or script errors."""

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
SOON = 5_000  # a live page polls every three seconds


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
    """Requests and complaints of pages; `forgiven` lists parts of complaints that a test causes on purpose."""

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
    """Return the bounding box of an element."""
    box = found.bounding_box()
    assert box is not None
    return box


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with browsing() as started:
        yield started


@pytest.fixture(autouse=True)
def closed_world() -> Iterator[World]:
    """Assert that a test causes no outside request, no script error and no console error."""
    world = World()
    yield world
    assert not world.unforgiven()


@pytest.fixture
def opened(browser: Browser, closed_world: World) -> Iterator[Callable[..., Page]]:
    """Return a function that opens an address in a new window; `theme` is light or dark."""
    with ExitStack() as stack:

        def open_page(address: str, *, size: tuple[int, int] = WIDE, theme: str = "light") -> Page:
            context = browser.new_context(
                viewport={"width": size[0], "height": size[1]},
                color_scheme="dark" if theme == "dark" else "light",
                reduced_motion="reduce",
                service_workers="block",
            )
            stack.callback(context.close)
            for served in SERVED:  # cookies belong to the context
                context.request.get(served.new_link())
            page = context.new_page()
            page.set_default_timeout(SOON)
            closed_world.watch(page)
            page.goto(address)
            return page

        yield open_page


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a project with sixty past days; tests copy it and never change it."""
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
    """Return the address of the filled project's pages, for read-only tests."""
    with pages_of(filled) as address:
        yield address


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a shop's pages with measures on its sales, for read-only tests."""
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
    """Return a function that serves a folder's pages until the test ends and returns their address."""
    with ExitStack() as stack:
        yield lambda folder, now=NOW: stack.enter_context(pages_of(folder, now))


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder for screenshots: WATERCLOCK_PICTURES, or a temporary folder."""
    folder = Path(os.environ.get("WATERCLOCK_PICTURES") or tmp_path_factory.mktemp("pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
