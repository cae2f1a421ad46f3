"""The open windows of tables with CONTINUOUS in a browser: the grid, and the page that follows a table."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.ui.conftest import WIDE, World, pages_of
from tests.e2e.ui.test_looks import AXE, NARROW
from tests.ticking import CLICKS, PAGES, Ticking, yesterday
from waterclock.storage.commit.speed_tables import record_hidden_labels
from waterclock.ui.table_events import StreamLimits

SOON = 15_000  # milliseconds, on a busy machine
OPENS_A_STREAM = """address => new Promise(open => {
  const stream = new EventSource(address);
  (window.more ??= []).push(stream);
  stream.onopen = () => open(true);
})"""
GAP = """() => {
  const box = element => {
    const text = document.createRange();
    text.selectNodeContents(element);
    return text.getBoundingClientRect();
  };
  const numbers = [...document.querySelectorAll('.g thead th[data-l] span')];
  return box(document.querySelector('.open-windows')).left - box(numbers.at(-1)).right;
}"""
FOLLOWED = f"tables/{CLICKS}/live"


@pytest.fixture
def ticking(tmp_path: Path) -> Ticking:
    return Ticking(tmp_path / "clicks", start=yesterday())


def test_a_page_follows_a_table_by_events_without_a_reload_and_without_polling(
    ticking: Ticking, opened: Callable[..., Page], closed_world: World
) -> None:
    with pages_of(ticking.folder, None) as address:
        page = opened(f"{address}{FOLLOWED}")
        page.evaluate("window.unchanged = true")
        status = page.get_by_role("status")
        expect(status).to_have_text("Live: updated after each tick, at most every 1 s.", timeout=SOON)
        expect(page.get_by_text("No open window has rows that can be shown.")).to_be_visible()
        for number in (7, 8, 9):
            ticking.tick([number])
            expect(page.get_by_role("table", name="Rows", exact=True)).to_contain_text(f"n{number}", timeout=SOON)
        assert page.evaluate("window.unchanged") is True
        fetched = [each for each in closed_world.requests if each.endswith(FOLLOWED)][1:]  # without the page itself
        assert 1 <= len(fetched) <= 2 + 3  # the first event, one for each tick, and one if a tick is seen in two parts
        page.goto("about:blank")


def test_with_too_many_streams_a_page_is_updated_as_the_others_are(
    ticking: Ticking, opened: Callable[..., Page], closed_world: World
) -> None:
    closed_world.forgiven.append("503 (Service Unavailable)")
    with pages_of(ticking.folder, None) as address:
        first = opened(f"{address}{FOLLOWED}")
        for _ in range(StreamLimits().most_of_one - 1):
            first.evaluate(OPENS_A_STREAM, f"/events/{CLICKS}")
        page = opened(f"{address}{FOLLOWED}")
        expect(page.get_by_role("status")).to_have_text("Updated every 3 s: there is no live stream now.", timeout=SOON)
        ticking.tick([5])
        for each in (first, page):
            expect(each.get_by_role("table", name="Rows", exact=True)).to_contain_text("n5", timeout=SOON)
        for each in (first, page):
            each.goto("about:blank")


def test_a_stopped_server_is_reported_soon(ticking: Ticking, opened: Callable[..., Page], closed_world: World) -> None:
    closed_world.forgiven += ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE"]
    with pages_of(ticking.folder, None) as address:
        page = opened(f"{address}{FOLLOWED}")
        expect(page.get_by_role("status")).to_contain_text("Live:", timeout=SOON)
    expect(page.get_by_role("alert")).to_contain_text("does not answer", timeout=SOON)


@pytest.mark.parametrize(("theme", "size"), [("light", WIDE), ("dark", NARROW)])
def test_the_grid_shows_open_windows_by_their_shape_and_in_words(
    ticking: Ticking, opened: Callable[..., Page], pictures: Path, theme: str, size: tuple[int, int]
) -> None:
    ticking.tick([1, 2, 3])
    record_hidden_labels(ticking.spd_folder(PAGES), {yesterday(): "id IS NOT NULL is broken by 2 rows"})
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    with pages_of(ticking.folder, None) as address:
        page = opened(address, theme=theme, size=size)
        filling = page.get_by_role("link", name=f"{CLICKS}, open windows: 1 window open")
        hidden = page.get_by_role("link", name=re.compile(f"{PAGES}, open windows: 2 windows .*is broken by 2 rows"))
        expect(filling).to_be_in_viewport()
        assert size != WIDE or page.evaluate(GAP) >= 20, "the title continues the number of the newest label"
        expect(filling).to_contain_text("3 rows · ")
        expect(filling.locator(".fill")).to_be_visible()
        expect(hidden).to_have_text(re.compile("1 of 2 hidden"))
        expect(hidden.locator(".gl-blocked")).to_be_visible()
        page.locator(f'tr[data-t="{CLICKS}"] td[data-l]').last.click()
        expect(page.get_by_role("complementary", name="Batch")).to_contain_text(CLICKS)
        page.keyboard.press("Escape")
        found: dict[str, Any] = {}
        for name, path in (("open-grid", ""), ("open-live", FOLLOWED), ("open-lag", "lag")):
            page.goto(f"{address}{path}")
            page.screenshot(path=pictures / f"{name}_{theme}_{size[0]}.png")
            wide = page.evaluate("document.documentElement.scrollWidth")
            page.evaluate(axe)
            found |= {f"{name}: {each[0]}": each[1:] for each in page.evaluate(AXE)}
            assert wide <= size[0], name
        assert found == {}
        page.goto("about:blank")
