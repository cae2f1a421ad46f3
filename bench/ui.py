"""Measures the pages of `waterclock ui`: the server's CPU, the bytes sent, and the time until Chromium shows a row.

    python bench/ui.py [--sizes 30x60 500x90 200x365] [--failed 10000] [--rounds 3] [--large 1000x26280]

A size is a number of hourly tables and of labels, all done except the newest hour. `--failed` measures the page Today,
which lists failures, with 10,000 failures of one table. `first` is the first request of a server, which loads the flow
and opens the ledger. `changed` is a request after a change in the ledger, `unchanged` the next one. CPU is that of this
process, which is the server; the client takes hardly any. Targets for 500x90: a second of CPU, 1.5 s in the browser.

`--large` requests every page with a ledger of a number of hourly tables and hours. A thousand tables with three years
are 26 million batches, 33 GB (TMPDIR chooses the disk). Target: no page takes a second.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import scale_history as history
from measure import grid
from scale_history import HOUR

from tests import stocks
from tests.chromium import browsing
from waterclock.ledger.ledger import Ledger
from waterclock.operations.project_opening import open_project
from waterclock.ui.live_project import LiveProject
from waterclock.ui.serving import serve_pages

if TYPE_CHECKING:
    from playwright.sync_api import Browser

END = datetime(2026, 11, 20, tzinfo=UTC)
TOKENS: dict[str, str] = {}  # by the address of the server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", default=["30x60", "500x90", "200x365"])
    parser.add_argument("--failed", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large")
    asked = parser.parse_args()
    rows = []
    with browsing() as browser:
        for size in asked.sizes:
            tables, hours = map(int, size.split("x"))
            with tempfile.TemporaryDirectory() as root:
                folder = done(Path(root) / "project", tables, hours)
                address = f"/?l={END - hours * HOUR:%Y-%m-%dT%H:%MZ}..{END:%Y-%m-%dT%H:%MZ}"
                rows.append([size, *measured(browser, folder, f"{END:%Y-%m-%dT%H:%MZ}", address, asked.rounds)])
        if asked.failed:
            with tempfile.TemporaryDirectory() as root:
                folder = stocks.all_failed(Path(root) / "project", asked.failed).folder
                now = f"{stocks.NOW:%Y-%m-%dT%H:%MZ}"
                rows.append([f"{asked.failed:,} failed", *measured(browser, folder, now, "/today", asked.rounds)])
    heads = ["tables x labels", "first, s CPU", "changed, s CPU", "unchanged, s CPU", "KB sent", "browser, s"]
    if rows:
        print(grid(heads, rows))
    if asked.large:
        tables, hours = map(int, asked.large.split("x"))
        with tempfile.TemporaryDirectory() as root:
            folder = done(Path(root) / "project", tables, hours)
            print(f"\n{tables:,} tables, {hours:,} hours, {tables * (hours - 1):,} batches\n")
            print(grid(["page", *heads[1:5]], list(every_page(folder, asked.rounds))))


def done(folder: Path, tables: int, hours: int) -> Path:
    """Write a project in which all hours except the newest are done."""
    start = END - hours * HOUR
    history.make(folder, tables, start)
    history.fill(f"sqlite:///{folder / '.waterclock' / 'ledger.db'}", open_project(folder, None).flow, start, hours - 1)
    return folder


def measured(browser: Browser, folder: Path, now: str, address: str, rounds: int) -> list[str]:
    first, changed, unchanged, seen, size = [], [], [], [], 0
    for turn in range(rounds):
        with served(folder, now) as root:
            first.append(looked(root, address)[0])
            change(folder, 2 * turn)
            spent, size = looked(root, address)
            changed.append(spent)
            unchanged.append(looked(root, address)[0])
            change(folder, 2 * turn + 1)
            seen.append(until_seen(browser, f"{root}{address}"))
    return [
        *(f"{median(each):.2f}" for each in (first, changed, unchanged)),
        f"{size / 1000:.1f}",
        f"{median(seen):.2f}",
    ]


def every_page(folder: Path, rounds: int) -> Iterator[list[str]]:
    """Request each kind of page."""
    flow = open_project(folder, None).flow
    name, old = flow.order[len(flow.order) // 2], END - 5000 * HOUR
    with Ledger.open(f"sqlite:///{folder / '.waterclock' / 'ledger.db'}") as ledger:
        run = ledger.past.begin_run(who="bench", command="run", now=END)
    pages = (
        "/", "/?l=2026-11", f"/?t=raw.a0&l={old:%Y-%m}", "/today", "/catalog", f"/tables/{name}",
        f"/tables/{name}/batches", f"/batches/{name}/{old:%Y-%m-%dT%H:%MZ}", f"/batches/{name}/{old:%Y-%m}",
        "/lineage", f"/lineage/{name}", "/runs",
        f"/runs/{run}", "/quality", "/errors",
        f"/plan?verb=recompute&t={name}&l={END - 3 * HOUR:%Y-%m-%dT%H:%MZ}",
        f"/plan?verb=recompute&t={name}&l={old:%Y-%m-%dT%H:%MZ}",
        f"/batches?t=*&l={old:%Y-%m}",
    )  # fmt: skip
    with served(folder, f"{END:%Y-%m-%dT%H:%MZ}") as root:
        for page in pages:
            times: list[list[float]] = [[], [], []]
            size = 0
            for turn in range(rounds):
                times[0] += [looked(root, page)[0]] if not turn else []
                change(folder, turn)
                spent, size = looked(root, page)
                times[1].append(spent)
                times[2].append(looked(root, page)[0])
            yield [page, *(f"{median(each):.2f}" for each in times), f"{size / 1000:.1f}"]


@contextmanager
def served(folder: Path, now: str) -> Iterator[str]:
    with serve_pages(LiveProject(folder, now=now), "127.0.0.1", 0) as found:
        TOKENS[root := found.address.rstrip("/")] = found.guard.token
        yield root


def looked(root: str, address: str) -> tuple[float, int]:
    """Request a page. Return the CPU that it took, and the bytes sent."""
    begun = time.process_time()
    connection = HTTPConnection(urlsplit(root).netloc, timeout=120)
    connection.request("GET", address, headers={"Accept-Encoding": "gzip", "Authorization": f"Bearer {TOKENS[root]}"})
    answer = connection.getresponse()
    sent = len(answer.read())
    connection.close()
    if answer.status != 200:
        sys.exit(f"{address} gave {answer.status}")
    return time.process_time() - begun, sent


def change(folder: Path, turn: int) -> None:
    """Record a decision about one batch, which invalidates the cached pages."""
    flow = open_project(folder, None).flow
    with Ledger.open(f"sqlite:///{folder / '.waterclock' / 'ledger.db'}") as ledger:
        if "raw.a" in flow.tables:
            ledger.decisions.retry("raw.a", [stocks.NOW - timedelta(minutes=15 * (turn + 10))], who="bench")
        else:
            ledger.decisions.request_restate("raw.a0", [END - (turn + 3) * HOUR], "recompute", who="bench")


def until_seen(browser: Browser, address: str) -> float:
    """Open the page in a browser without cache. Return the seconds until a row is visible."""
    token = next(token for root, token in TOKENS.items() if address.startswith(root))
    context = browser.new_context(
        viewport={"width": 1280, "height": 960}, extra_http_headers={"Authorization": f"Bearer {token}"}
    )
    page = context.new_page()
    begun = time.perf_counter()
    page.goto(address, wait_until="commit")
    page.locator("tbody tr, article").first.wait_for()
    spent = time.perf_counter() - begun
    context.close()
    return spent


if __name__ == "__main__":
    main()
