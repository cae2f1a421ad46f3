# noqa: INP001 - a script
"""Take the pictures of the pages: docs/images/ui-*.png, of the shops that the tests of the pages look at.

python -m docs.images.pages      needs Chromium
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from playwright.sync_api import sync_playwright

from tests import sales, slices, stocks
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest
from waterclock.storage.lake import Lake
from waterclock.ui.live_project import LiveProject
from waterclock.ui.serving import RunningServer, serve_pages

if TYPE_CHECKING:
    from playwright.sync_api import Page

HERE = Path(__file__).resolve().parent
LABEL = datetime(2026, 11, 18, tzinfo=UTC)
TABLE = "raw.inventory"
SCHEMA = pa.schema([("timelabel", pa.string()), ("sku", pa.string()), ("qty", pa.int32()), ("at", pa.timestamp("us"))])
BEFORE = {"Kettle 1.7 l": 118, "Toaster": 7, "Hand mixer": 49, "Rice cooker": 0, "Blender": 12, "Juicer": 33}
AFTER = BEFORE | {"Toaster": 19, "Hand mixer": 61, "Juicer": 30}
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def main() -> None:
    """Make the project, serve it, and take its pictures."""
    with tempfile.TemporaryDirectory() as folder:
        shop = stocks.make(Path(folder) / "shop")
        shop.fill(until=stocks.NOW)
        first, second = made_anew(shop)
        live = LiveProject(shop.folder, now=f"{stocks.NOW:%Y-%m-%dT%H:%MZ}")
        with serve_pages(live, "127.0.0.1", 0) as served, sync_playwright() as playwright:
            chromium = shutil.which("chromium") or shutil.which("chromium-browser")
            browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)

            def take(
                name: str,
                path: str,
                height: int,
                act: Callable[[Page], object] = lambda _: None,
                of: RunningServer = served,
            ) -> None:
                page = browser.new_page(viewport={"width": 1280, "height": height}, color_scheme="light")
                page.goto(of.new_link())
                page.goto(of.address.rstrip("/") + path)
                act(page)
                page.wait_for_timeout(500)
                page.screenshot(path=HERE / f"ui-{name}.png")
                page.close()

            take("grid", "/", 960, why_blocked)
            take("lineage", "/lineage", 800)
            held = f"?at={LABEL:%Y-%m-%d}&known={second}&against={first}"
            take("table", f"/tables/{TABLE}{held}", 760)
            sold = sales.make(Path(folder) / "sales")
            sold.live()
            with serve_pages(LiveProject(sold.folder, now=sales.NOW), "127.0.0.1", 0) as measured:
                take("quality", "/tables/raw.sales/quality", 1150, of=measured)


def why_blocked(page: Page) -> None:
    """Open the drawer of a batch that waits for another."""
    page.locator('tr[data-t="marts.stock_health"] td.blocked').click()


def made_anew(shop: stocks.Stocks) -> tuple[int, int]:
    """Make a label anew with other rows, and give the claims of both revisions."""
    flow, folder = shop.project.flow, Lake(shop.project.storage).folder(TABLE)
    with shop.ledger() as ledger:
        first = ledger.past.audit(TABLE, LABEL).cell.current_claim or 0
        ledger.decisions.request_restate(TABLE, [LABEL], "recompute", who="ann")
        asked = PlanRequest(only=[TABLE], clock=ledger.now())
        group = Planner(flow).ready(ledger.reads.snapshot(flow), stocks.NOW, asked)[0]
        second = stocks.take(ledger, shop.project, group, stocks.NOW)
        stocks.record(ledger, second, group)
    for claim, held in ((first, BEFORE), (second.number, AFTER)):
        rows = [{"sku": sku, "qty": qty, "at": LABEL.replace(tzinfo=None)} for sku, qty in held.items()]
        slices.sealed(folder, LABEL, claim, rows, schema=SCHEMA)
    return first, second.number


if __name__ == "__main__":
    main()
