"""In a real Chromium, a site with a name rebound to this machine, or one at another port, can do nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext
from starlette.requests import Request
from starlette.responses import Response

from tests import stocks
from tests.chromium import browsing, chromium
from waterclock.cli.actions.health_server import serve_health_endpoints
from waterclock.engine.run_opening import open_workplace
from waterclock.operations.project_opening import open_project
from waterclock.permissions.users_and_roles import Person
from waterclock.ui.live_project import LiveProject
from waterclock.ui.people import People
from waterclock.ui.request_guard import Guard
from waterclock.ui.serving import serve_pages

NOW = "2026-11-21T01:30Z"
# requests of a foreign page, and the responses it tries to read
ATTACK = """async (address) => {
    const body = new URLSearchParams({verb: "retry", t: "raw.inventory", l: "2026-11-09"});
    await fetch(address + "plan", {method: "POST", mode: "no-cors", credentials: "include", body}).catch(() => null);
    return fetch(address + "grid.json", {credentials: "include"}).then((found) => found.text(), () => "kept");
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stocks.make(tmp_path_factory.mktemp("rebinding") / "shop").folder


def in_chromium(story: Callable[[BrowserContext], None]) -> None:
    """Run a story in a browser that resolves evil.example to this machine.

    It runs in another thread, because other tests' browsers use this one.
    """
    chromium()

    def played() -> None:
        with browsing("--host-resolver-rules=MAP evil.example 127.0.0.1") as browser:
            context = browser.new_context()
            context.set_default_timeout(20_000)
            story(context)

    with ThreadPoolExecutor(1) as beside:
        beside.submit(played).result(timeout=120)


class _Foreign(BaseHTTPRequestHandler):
    """A page from a server of another user; none of our policies prevents its requests."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<p>foreign</p>")

    def log_message(self, *_: object) -> None: ...


@contextmanager
def foreign_server() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Foreign)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_rebound_name_reads_no_page_even_of_a_signed_in_browser(folder: Path) -> None:
    with serve_pages(LiveProject(folder, now=NOW), "127.0.0.1", 0) as served:

        def story(context: BrowserContext) -> None:
            page = context.new_page()
            page.goto(served.new_link())
            assert page.url == served.address
            assert "raw.inventory" in page.content()
            rebound = page.goto(f"http://evil.example:{served.port}/grid.json")
            assert rebound is not None
            assert (rebound.status, "raw.inventory" in page.content()) == (421, False)

        in_chromium(story)


def test_a_page_of_another_port_has_no_session_here_and_does_nothing_by_that_of_the_reader(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Browsers send cookies to all ports of a host, and treat these ports as one site."""
    refusals: list[tuple[str, str, int | None]] = []
    admit = Guard.admit

    async def recorded(guard: Guard, request: Request, people: People) -> Response | Person:
        answer = await admit(guard, request, people)
        refusals.append((guard.place, request.method, answer.status_code if isinstance(answer, Response) else None))
        return answer

    monkeypatch.setattr(Guard, "admit", recorded)
    with (
        serve_pages(LiveProject(folder, now=NOW), "127.0.0.1", 0) as served,
        serve_pages(LiveProject(folder, now=NOW), "127.0.0.1", 0) as other,
        foreign_server() as port,
    ):

        def story(context: BrowserContext) -> None:
            page = context.new_page()
            page.goto(served.new_link())
            refused = page.goto(other.address)
            assert refused is not None
            assert refused.status == 401
            page.goto(other.new_link())
            foreign = context.new_page()
            foreign.goto(f"http://127.0.0.1:{port}/")
            assert foreign.evaluate(ATTACK, served.address) == "kept"
            assert [each for each in refusals if each[1] == "POST"] == [(str(served.port), "POST", 403)]

        in_chromium(story)


def test_a_rebound_name_reads_nothing_of_a_run(folder: Path) -> None:
    with (
        open_workplace(open_project(folder, None)) as work,
        serve_health_endpoints(work, ("127.0.0.1", 0)) as (_, port),
    ):

        def story(context: BrowserContext) -> None:
            page = context.new_page()
            for path in ("livez", "readyz", "metrics"):
                answer = page.goto(f"http://evil.example:{port}/{path}")
                assert answer is not None
                assert answer.status == 421

        in_chromium(story)
