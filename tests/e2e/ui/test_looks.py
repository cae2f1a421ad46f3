"""Every screen in both themes, wide and narrow: axe-core finds no barrier, and nothing overflows."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests import stocks
from tests.e2e.ui.conftest import WIDE, World, box_of

NARROW = (400, 860)
SCREENS = {
    "grid": "",
    "drawer": "",
    "plan": "",
    "block": "",
    "keys": "",
    "finder": "",
    "days": "?l=2026-11-01..2026-11-07",
    "today": "today",
    "catalog": "catalog",
    "table": "tables/marts.stock_health",
    "batches": "tables/raw.inventory/batches",
    "code": "tables/raw.inventory/code",
    "history": "tables/raw.inventory/history",
    "batch": "batches/marts.stock_health/2026-11-09",
    "hours": "batches/raw.orders/2026-11-20",
    "runs": "runs",
    "run": "runs",
    "errors": "errors",
    "plan-alone": "plan?verb=retry&t=raw.inventory&l=2026-11-09",
    "recompute": "plan?verb=recompute&t=core.returns_daily&l=2026-11-10..2026-11-12",
    "not-there": "?t=marts.revenu",
    "quality": "quality",
    "note": "quality",
    "query": "query",
    "lineage": "lineage",
    "lineage-list": "lineage/marts.stock_health?view=list",
}
MEASURED = {  # screens of the shop with measured sales
    "table-quality": "tables/raw.sales/quality",
    "values": "tables/raw.sales/quality",
    "rules": "quality",
    "lag": "lag",
    "versions": "tables/raw.returns/history",
}
AXE = """axe.run(document, {resultTypes: ['violations']}).then(found => found.violations.map(
  each => [each.id, each.nodes.length, each.nodes[0].html.slice(0, 160), each.nodes[0].failureSummary]))"""


def reach(page: Page, name: str) -> None:
    """Navigate from a page to a screen, as a user would."""
    if name in {"drawer", "plan"}:
        page.get_by_role("link", name="marts.stock_health 9 Nov: blocked").click()
        expect(page.get_by_role("link", name="Retry inventory + 6 blocked…")).to_be_visible()
    if name == "plan":
        page.keyboard.press("p")
        expect(page.get_by_role("button", name="Retry 1 batch")).to_be_visible()
    if name == "block":
        page.keyboard.press("f")
        for key in ("Shift+ArrowLeft", "Shift+ArrowDown"):
            page.keyboard.press(key)
        expect(page.get_by_role("link", name="Recompute 3…")).to_be_visible()
    if name == "run":
        page.get_by_role("link", name=re.compile("^[0-9a-f]{12}$")).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("run --watch by ann"))
    if name == "note":
        page.locator("summary").first.click()
        expect(page.get_by_role("button", name="Save")).to_be_visible()
    if name in {"values", "versions"}:
        page.locator("summary").last.click()
        expect(page.locator("details[open]")).to_be_visible()
    if name == "keys":
        page.keyboard.press("?")
    if name == "finder":
        page.keyboard.press("Control+k")
        expect(page.get_by_role("option").first).to_be_visible()


@pytest.fixture
def shown_and_measured(shown: str, measured: str) -> tuple[str, str]:
    return shown, measured


@pytest.fixture(scope="module")
def axe() -> str:
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("theme", "size"),
    [  # contrasts depend on the theme, places on the size
        pytest.param("light", WIDE, id="light-wide"),
        pytest.param("dark", NARROW, id="dark-narrow"),
        pytest.param("dark", WIDE, id="dark-wide"),
        pytest.param("light", NARROW, id="light-narrow"),
    ],
)
def test_every_screen_is_without_findings(
    shown_and_measured: tuple[str, str],
    opened: Callable[..., Page],
    closed_world: World,
    axe: str,
    pictures: Path,
    theme: str,
    size: tuple[int, int],
) -> None:
    closed_world.forgiven.append("404 (Not Found)")
    shown, measured = shown_and_measured
    page = opened(shown, theme=theme, size=size)
    found: dict[str, Any] = {}
    screens = [(shown, *each) for each in SCREENS.items()] + [(measured, *each) for each in MEASURED.items()]
    for base, name, address in screens:
        page.goto(f"{base}{address}")
        reach(page, name)
        page.screenshot(path=pictures / f"{name}_{theme}_{size[0]}.png")
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > size[0]:
            found[f"{name} sticks out"] = wide
        page.evaluate(axe)
        found |= {f"{name}: {each[0]}": each[1:] for each in page.evaluate(AXE)}
    assert found == {}


@pytest.mark.soak
def test_on_a_phone_a_table_uses_two_lines_and_shows_thirty_labels(shown: str, opened: Callable[..., Page]) -> None:
    page = opened(shown, size=NARROW)
    row = page.locator('tr[data-t="raw.inventory"]')
    name, fresh = row.get_by_role("link", name="inventory", exact=True), row.locator("td.z span")
    band = row.locator("td.ok").last
    at_name, at_fresh, at_band = (box_of(each) for each in (name, fresh, band))
    assert abs(at_name["y"] - at_fresh["y"]) < 6
    assert at_fresh["x"] + at_fresh["width"] <= 400 - 15
    column = box_of(page.locator("thead td[data-l]").first)
    assert 29.9 < (400 - 32) / column["width"] < 30.1
    assert row.evaluate("row => row.getBoundingClientRect().height") == 46
    assert at_band["height"] == 46  # the band is in its lower part


def test_on_a_phone_the_drawer_is_a_sheet_above_which_the_batch_is_seen(
    shown: str, opened: Callable[..., Page]
) -> None:
    page = opened(shown, size=NARROW)
    reach(page, "drawer")
    sheet, ring = box_of(page.locator("#drawer")), box_of(page.locator("#ring"))
    assert (round(sheet["x"]), round(sheet["width"]), round(sheet["y"] + sheet["height"])) == (0, 400, 860)
    assert ring["y"] + ring["height"] <= sheet["y"]


@pytest.mark.parametrize(
    ("project", "address", "columns"),
    [
        ("measured", "quality", ["Rule", "Broken since"]),
        ("shown", "runs", ["Outcome", "Took"]),
        ("measured", "lag", ["Age", "Late"]),
    ],
)
def test_on_a_phone_the_key_columns_are_visible_without_scrolling(
    request: pytest.FixtureRequest, opened: Callable[..., Page], project: str, address: str, columns: list[str]
) -> None:
    page = opened(f"{request.getfixturevalue(project)}{address}", size=(390, 844))
    for name in columns:
        at = box_of(page.get_by_role("columnheader", name=name, exact=True))
        assert 0 <= at["x"] <= at["x"] + at["width"] <= 390


def test_names_of_a_young_project_do_not_lie_over_how_far_they_are(
    tmp_path: Path, serve: Callable[..., str], opened: Callable[..., Page]
) -> None:
    shop = stocks.make(tmp_path / "young")
    shop.now = stocks.FIRST + timedelta(days=3, hours=1)
    shop.fill()
    page = opened(serve(shop.folder, now="2026-09-25T01:30Z"), size=NARROW)
    for row in page.locator("tr[data-t]").all()[:8]:
        name, fresh = box_of(row.locator("th a")), box_of(row.locator("td.z span"))
        assert name["x"] + name["width"] < fresh["x"]
