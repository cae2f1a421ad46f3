"""The grid with mouse and keyboard: its texts, and how many clicks a task takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests import stocks
from tests.e2e.ui.conftest import box_of

BLOCKED = "marts.stock_health 9 Nov: blocked"
SAID = "Two failures hold up 11 batches: raw.inventory @ 9 Nov and raw.prices @ 20 Nov."


@pytest.fixture
def page(shown: str, opened: Callable[..., Page]) -> Page:
    return opened(shown)


def drawer(page: Page) -> Locator:
    return page.get_by_role("complementary", name=re.compile("Batch|Plan"))


def where(page: Page) -> Locator:
    return page.locator("#where")


def row(page: Page, table: str) -> Locator:
    return page.locator(f'tr[data-t="{table}"]')


def test_the_overall_state_is_visible_without_a_click(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text(SAID)
    expect(page.get_by_role("row", name=re.compile("inventory"))).to_contain_text("20 Nov · 1 gap")
    expect(page.get_by_role("row", name=re.compile("raw 9 tables"))).to_contain_text("7 of 9 fresh")
    chips = page.locator(".chip").all_inner_texts()
    assert [" ".join(text.split()) for text in chips] == ["✕ failed 2", "– blocked 11", "! warned 4"]


def test_a_good_day_is_one_sentence_without_chips(
    tmp_path: Path, serve: Callable[..., str], opened: Callable[..., Page]
) -> None:
    shop = stocks.make(tmp_path / "well", flow=stocks.FLOW.partition("COLLECT raw.weather")[0])
    shop.fails = {}
    shop.fill(until=stocks.NOW)
    page = opened(serve(shop.folder))
    expect(page.get_by_role("heading", level=1)).to_have_text("All 5 tables are fresh to 20 Nov.")
    expect(page.locator(".chip")).to_have_count(0)


def test_seventeen_hundred_batches_are_seen_at_once(page: Page) -> None:
    assert page.locator("tr[data-t]").count() == 29
    last = box_of(page.locator("tr[data-t]").last)
    assert last["y"] + last["height"] <= 960
    first, fresh = row(page, "raw.inventory").locator("td").first, row(page, "raw.inventory").locator("td.z")
    for seen in (first, fresh):
        expect(seen).to_be_in_viewport(ratio=0.99)


def test_one_click_shows_the_causes_of_a_blocked_batch_down_to_the_root(page: Page) -> None:
    page.get_by_role("link", name=BLOCKED).click()
    steps = drawer(page).get_by_role("list").first.get_by_role("listitem")
    expect(steps).to_have_text([
        re.compile("this waits for.*core.stock_daily @ 9 Nov"),
        re.compile("which waits for.*raw.inventory @ 9 Nov"),
        re.compile("which failed"),
    ])  # fmt: skip
    expect(drawer(page)).to_contain_text("23 sites came, 24 were promised: MUC2 is missing")
    expect(drawer(page)).to_contain_text("inventory_20261109.csv")  # the location
    expect(drawer(page)).to_contain_text("when the file is whole, retry")


def test_tables_blocked_by_the_same_cause_are_highlighted_and_all_others_fade(page: Page) -> None:
    page.get_by_role("link", name=BLOCKED).click()
    traced = page.locator("tr.on").evaluate_all("rows => rows.map(row => row.dataset.t)")
    assert set(traced) == {
        "raw.inventory", "core.stock_daily", "marts.stock_health", "marts.forecast_input", "marts.out_of_stock",
        "reports.board_kpis", "reports.reorder_list",
    }  # fmt: skip
    paint = "cell => getComputedStyle(cell).backgroundImage"
    assert row(page, "core.calendar").locator("td.ok").first.evaluate(paint) != (
        row(page, "core.stock_daily").locator("td.ok").first.evaluate(paint)
    )
    frame = row(page, "raw.inventory").locator("td.failed.cause")
    assert frame.evaluate("cell => getComputedStyle(cell, '::before').borderTopWidth") == "2px"


def test_two_clicks_show_the_plan_of_a_retry(page: Page) -> None:
    page.get_by_role("link", name=BLOCKED).click()
    drawer(page).get_by_role("link", name="Retry inventory + 6 blocked…").click()
    plan = page.get_by_role("complementary", name="Plan")
    expect(plan.get_by_role("heading", level=2)).to_have_text("Retry raw.inventory @ 9 Nov and the 6 batches it blocks")
    expect(plan).to_contain_text("Nothing has started.")
    expect(row(page, "raw.inventory").locator("td.failed .step")).to_have_text("1")
    expect(row(page, "reports.reorder_list").locator("td.blocked .step")).to_have_text("5")


def test_steps_within_joined_cells_are_drawn_over_their_own_labels(page: Page, shown: str) -> None:
    page.goto(f"{shown}?t=core.returns_daily")
    [cell] = row(page, "core.returns_daily").locator("td.ok").all()
    box = box_of(cell)
    page.mouse.click(box["x"] + 15 * 30.5, box["y"] + 11)  # the thirty-first label
    drawer(page).get_by_role("link", name="Recompute…").click()
    step = cell.locator(".step")
    expect(step).to_have_count(1)
    at, box = box_of(step), box_of(cell)  # the grid made room for the drawer
    assert (round(at["x"] - box["x"]), round(at["width"])) == (15 * 30, 15)


def test_keyboard_shortcuts_move_between_failures_and_the_batches_they_block(page: Page) -> None:
    grid = page.get_by_role("table", name="Tables by label")
    page.keyboard.press("f")
    expect(where(page)).to_have_text("raw.inventory @ 2026-11-09: failed")
    page.keyboard.press("f")
    expect(where(page)).to_have_text("raw.prices @ 2026-11-20: failed")
    page.get_by_role("link", name=BLOCKED).click()
    expect(drawer(page).get_by_role("heading", level=2)).to_contain_text("marts.stock_health")
    page.keyboard.press("w")
    expect(where(page)).to_have_text("raw.inventory @ 2026-11-09: failed")
    expect(drawer(page).get_by_role("heading", level=2)).to_contain_text("raw.inventory")
    page.keyboard.press("Escape")
    expect(drawer(page)).to_be_hidden()
    expect(grid).to_be_focused()
    page.keyboard.press("ArrowLeft")  # continues from there
    expect(where(page)).to_have_text(re.compile("raw.inventory @ 2026-11-08: ok, one of 47 alike"))


def test_arrows_go_batch_by_batch_and_with_ctrl_to_the_next_change(page: Page) -> None:
    page.get_by_role("table", name="Tables by label").focus()
    page.keyboard.press("ArrowDown")
    expect(where(page)).to_have_text(re.compile("raw.inventory @ 2026-11-21: nothing is due"))
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(where(page)).to_have_text(re.compile("raw.inventory @ 2026-11-19: ok, one of 11 alike"))
    page.keyboard.press("Control+ArrowLeft")
    expect(where(page)).to_have_text("raw.inventory @ 2026-11-09: failed")
    page.keyboard.press("Control+ArrowLeft")
    expect(where(page)).to_have_text(re.compile("raw.inventory @ 2026-11-08: ok"))
    page.keyboard.press("ArrowDown")
    expect(where(page)).to_have_text(re.compile("raw.prices @ 2026-11-08: ok"))
    ring, cell = box_of(page.locator("#ring")), box_of(row(page, "raw.prices"))
    assert cell["y"] <= ring["y"] <= cell["y"] + 2
    page.keyboard.press("Enter")
    expect(drawer(page).get_by_role("heading", level=2)).to_have_text(re.compile("raw.prices.*2026-11-08"))
    page.keyboard.press("ArrowRight")  # the drawer follows
    expect(drawer(page).get_by_role("heading", level=2)).to_have_text(re.compile("raw.prices.*2026-11-09"))
    page.keyboard.press("Enter")  # moves the focus to it when opened again
    expect(drawer(page).get_by_role("heading", level=2)).to_be_focused()


def test_a_month_is_one_step_of_the_arrows(page: Page) -> None:
    month = row(page, "raw.suppliers").locator("td.ok")
    month.click(position={"x": 200, "y": 11})
    expect(where(page)).to_have_text("raw.suppliers @ 20261001000000: ok")
    page.keyboard.press("ArrowRight")
    expect(where(page)).to_have_text("raw.suppliers @ 2026-11-01: nothing is due")


def test_the_drawer_shows_the_most_recently_requested_batch(page: Page) -> None:
    def late(route: Route) -> None:
        page.wait_for_timeout(400)
        route.continue_()

    page.route("**/batches/raw.prices/**", late)
    page.keyboard.press("f")
    page.keyboard.press("f")
    page.keyboard.press("f")  # the first one again
    expect(drawer(page).get_by_role("heading", level=2)).to_contain_text("raw.inventory")
    page.wait_for_timeout(600)
    expect(drawer(page).get_by_role("heading", level=2)).to_contain_text("raw.inventory")


def test_chips_narrow_the_rows_and_layers_open_and_close(page: Page) -> None:
    page.get_by_role("button", name=re.compile("raw 9 tables")).click()
    expect(row(page, "raw.inventory")).to_be_hidden()
    chip = page.get_by_role("button", name=re.compile("failed"))
    chip.click()
    expect(chip).to_have_attribute("aria-pressed", "true")
    expect(page.locator("tr[data-t]:visible")).to_have_count(2)  # of a closed layer, too
    expect(page.get_by_role("button", name=re.compile("marts 8 tables"))).to_be_hidden()
    chip.click()
    expect(page.locator("tr[data-t]:visible")).to_have_count(20)
    page.keyboard.press("f")  # failed batches are shown wherever they are
    expect(row(page, "raw.inventory")).to_be_visible()


def test_ctrl_k_finds_tables_and_pages(page: Page) -> None:
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Find a table or a page")
    expect(box).to_be_focused()
    box.fill("stock heal")
    expect(page.get_by_role("option")).to_have_text(["marts.stock_health"])
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("marts.stock_health")


def test_a_question_mark_shows_the_keys(page: Page) -> None:
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("the next failure")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


@pytest.mark.soak
def test_tables_and_labels_travel_to_the_next_page(page: Page) -> None:
    page.get_by_role("textbox", name="Tables").fill("marts.*")
    page.get_by_role("textbox", name="Labels").fill("2026-11-01..2026-11-20")
    page.keyboard.press("Enter")
    expect(page.locator("tr[data-t]")).to_have_count(8)
    for name in ("Catalog", "Today", "Grid"):
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        assert "t=marts.%2A&l=2026-11-01..2026-11-20" in page.url
    expect(page.get_by_role("textbox", name="Labels")).to_have_value("2026-11-01..2026-11-20")
    expect(page.locator("tr[data-t]")).to_have_count(8)


@pytest.mark.soak
def test_without_scripts_a_square_is_a_link_to_its_batch(page: Page) -> None:
    page.get_by_role("link", name=BLOCKED).click(modifiers=["ControlOrMeta"])
    page.goto(f"{page.url}batches/marts.stock_health/20261109000000")
    expect(page.get_by_role("heading", level=1)).to_contain_text("marts.stock_health")
    page.get_by_role("link", name="Retry inventory + 6 blocked…").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Retry raw.inventory @ 9 Nov")


@pytest.mark.soak
def test_a_block_is_taken_by_shift_and_arrows_and_planned_as_one(page: Page) -> None:
    page.keyboard.press("f")
    expect(where(page)).to_have_text("raw.inventory @ 2026-11-09: failed")
    page.keyboard.press("Escape")
    page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("Shift+ArrowDown")
    expect(where(page)).to_have_text("2 tables @ 2026-11-08 to 2026-11-09: 2 columns")
    expect(drawer(page).get_by_role("heading", level=2)).to_have_text(
        re.compile("2 tables.*@ 2026-11-08 to 2026-11-09")
    )
    expect(drawer(page)).to_contain_text("1 of 4 batches")
    drawer(page).get_by_role("link", name="Recompute 3…").click()
    plan = page.get_by_role("complementary", name="Plan")
    expect(plan).to_contain_text("waterclock recompute '`raw.inventory` `raw.prices`' 2026-11-08..2026-11-09")
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowUp")  # one batch again
    expect(where(page)).not_to_contain_text("tables")


def test_a_block_is_taken_by_dragging_over_cells_that_are_joined_or_not(page: Page) -> None:
    top, bottom = (box_of(row(page, name).locator("td.ok").last) for name in ("raw.products", "raw.sites"))
    right = top["x"] + top["width"] - 7
    page.mouse.move(right - 15 * 4, top["y"] + 11)
    page.mouse.down()
    page.mouse.move(right - 15, top["y"] + 11)
    page.mouse.move(right, bottom["y"] + 11)
    ring = box_of(page.locator("#ring"))
    assert (round(ring["width"]), round(ring["height"])) == (75, round(bottom["y"] - top["y"] + 20))
    page.mouse.up()
    expect(where(page)).to_have_text("3 tables @ 2026-11-16 to 2026-11-20: 5 columns")
    expect(drawer(page).get_by_role("link", name="Recompute 15…")).to_be_visible()
    # a click selects one batch, as before
    row(page, "raw.products").locator("td.ok").last.click(position={"x": 20, "y": 11})
    expect(where(page)).to_have_text(re.compile("raw.products @ .*: ok"))
