"""Open pages show decisions, running batches and a lost server without a reload."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests import stocks
from tests.e2e.ui.conftest import World, pages_of
from waterclock.operations.project_opening import instant_of_question

FAILED = datetime(2026, 11, 9, tzinfo=UTC)
SOON = 4_500  # milliseconds: the poll interval of three seconds, plus a margin for a busy machine


@pytest.fixture
def page(shop: stocks.Stocks, serve: Callable[..., str], opened: Callable[..., Page]) -> Page:
    found = opened(serve(shop.folder))
    found.evaluate("window.unchanged = true")  # a reload would reset it
    return found


def not_reloaded(page: Page) -> bool:
    return bool(page.evaluate("window.unchanged === true"))


def test_a_plan_is_decided_by_keys_alone_and_the_grid_follows(shop: stocks.Stocks, page: Page) -> None:
    page.keyboard.press("f")
    expect(page.get_by_role("link", name="Retry inventory + 6 blocked…")).to_be_visible()
    page.keyboard.press("p")
    plan = page.get_by_role("complementary", name="Plan")
    expect(plan.get_by_role("heading", level=2)).to_be_focused()
    for _ in range(5):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "why":
            break
    expect(plan.get_by_role("textbox", name="Reason, kept with the batches")).to_be_focused()
    page.keyboard.type("MUC2 sent its file")
    page.keyboard.press("Tab")
    page.keyboard.type("bo")
    page.keyboard.press("Enter")
    expect(plan.or_(page.get_by_role("complementary", name="Batch")).get_by_role("status")).to_contain_text("Recorded")
    with shop.ledger() as ledger:
        event = ledger.past.audit("raw.inventory", FAILED).events[-1]
        assert (event.kind, event.who, event.data) == ("retried", "bo", {"why": "MUC2 sent its file"})
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text("One failure holds up 5 batches: raw.prices @ 20 Nov.", timeout=SOON)
    expect(page.locator("td.failed")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.get_by_role("table", name="Tables by label")).to_be_focused()
    assert not_reloaded(page)


def test_confirming_an_outdated_plan_reports_the_change_and_does_nothing(
    shop: stocks.Stocks, page: Page, closed_world: World
) -> None:
    closed_world.forgiven.append("409 (Conflict)")
    page.keyboard.press("f")
    page.get_by_role("link", name="Skip inventory…").click()
    plan = page.get_by_role("complementary", name="Plan")
    plan.get_by_role("textbox", name="Reason, kept with the batches").fill("no file comes")
    with shop.ledger() as ledger:
        ledger.decisions.retry("raw.inventory", [FAILED], who="ann")
        before = ledger.sequence()
    plan.get_by_role("button", name="Skip 1 batch").click()
    expect(page.get_by_role("alert")).to_contain_text("has changed since you opened it")
    with shop.ledger() as ledger:
        assert ledger.sequence() == before


@pytest.mark.soak
def test_a_chip_stays_pressed_and_a_drawer_open_while_the_grid_changes(shop: stocks.Stocks, page: Page) -> None:
    page.get_by_role("button", name=re.compile("blocked")).click()
    page.get_by_role("link", name="marts.stock_health 9 Nov: blocked").click()
    expect(page.locator("#drawer")).to_contain_text("which failed")
    with shop.ledger() as ledger:
        ledger.decisions.retry("raw.prices", [stocks.NOW.replace(day=20, hour=0, minute=0)], who="ann")
    chip = page.get_by_role("button", name=re.compile("blocked"))
    expect(chip).to_contain_text("6", timeout=SOON)
    expect(chip).to_have_attribute("aria-pressed", "true")
    expect(page.locator("tr[data-t]:visible")).to_have_count(6)
    expect(page.locator("tr.on")).to_have_count(7)  # rows that wait for the same cause stay marked
    expect(page.locator("td.cause")).to_have_count(1)
    expect(page.locator("#drawer")).to_be_visible()
    assert not_reloaded(page)


def test_running_batches_appear_in_the_grid_and_in_the_drawer_without_a_reload(shop: stocks.Stocks, page: Page) -> None:
    page.keyboard.press("f")
    expect(page.locator("#drawer .pill")).to_contain_text("failed")
    with shop.ledger() as ledger:
        ledger.decisions.retry("raw.inventory", [FAILED], who="ann")
    shop.now, shop.fails = datetime.now(UTC), {}  # the lease uses the real clock
    shop.fill(until=stocks.NOW, stop=lambda group: group.table == "raw.inventory")
    expect(page.locator('tr[data-t="raw.inventory"] td.running')).to_be_visible(timeout=SOON)
    expect(page.get_by_role("button", name=re.compile("running"))).to_contain_text("1")
    expect(page.locator("#drawer .pill")).to_contain_text("running", timeout=SOON)
    assert not_reloaded(page)


def test_a_new_day_becomes_a_column_and_the_drawer_stays(
    shop: stocks.Stocks, serve: Callable[..., str], opened: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = ["2026-11-21T01:30Z"]
    monkeypatch.setattr(
        "waterclock.ui.live_project.instant_of_question",
        lambda project, _, ledger: instant_of_question(project, now[0], ledger),
    )
    page = opened(serve(shop.folder))
    page.keyboard.press("f")
    heading = page.locator("#drawer").get_by_role("heading", level=2)
    expect(heading).to_contain_text("raw.inventory")
    now[0] = "2026-11-22T01:30Z"
    expect(page.locator("thead .now")).to_have_text("22", timeout=SOON)
    expect(heading).to_contain_text("2026-11-09")
    page.locator("#grid").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#where")).to_contain_text("raw.inventory @ 2026-11-08")
    expect(page.locator("#clock")).to_have_text("2026-11-22 01:30:00")


def test_an_unavailable_ledger_is_reported_above_the_last_known_grid(
    shop: stocks.Stocks, page: Page, closed_world: World
) -> None:
    closed_world.forgiven.append("503 (Service Unavailable)")
    file = shop.folder / ".waterclock" / "ledger.db"
    (shop.folder / ".waterclock" / "tables" / "raw" / "prices" / "_delta_log").mkdir(parents=True)
    away = file.rename(file.with_suffix(".away"))
    expect(page.get_by_role("alert")).to_contain_text("E4", timeout=SOON)
    expect(page.locator("tr[data-t]")).to_have_count(29)
    page.keyboard.press("f")  # the drawer shows it as well
    expect(page.locator("#drawer")).to_contain_text("E4")
    away.rename(file)
    expect(page.get_by_role("alert")).to_have_count(0, timeout=SOON)


@pytest.mark.soak
def test_a_page_with_errors_shows_the_grid_by_itself_once_they_are_fixed(
    shop: stocks.Stocks, serve: Callable[..., str], opened: Callable[..., Page], closed_world: World
) -> None:
    closed_world.forgiven.append("503 (Service Unavailable)")
    file = shop.folder / "flows" / "shop.dpl"
    good = file.read_text()
    file.write_text(good + "\nTRANSFORM marts.bad AS SELECT 1 FROM raw.nowhere;\n")
    page = opened(serve(shop.folder))
    expect(page.get_by_role("heading", level=1)).to_have_text("One thing is wrong")
    expect(page.get_by_role("main")).to_contain_text("raw.nowhere")
    file.write_text(good)
    expect(page.locator("tr[data-t]")).to_have_count(29, timeout=SOON)


def test_an_unreachable_server_is_reported_on_an_open_page(
    filled: Path, opened: Callable[..., Page], closed_world: World
) -> None:
    closed_world.forgiven += ["ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "Failed to fetch"]
    with pages_of(filled) as address:
        page = opened(address)
        page.keyboard.press("f")
        expect(page.get_by_role("link", name="Retry inventory + 6 blocked…")).to_be_visible()
        page.keyboard.press("p")
        expect(page.get_by_role("button", name="Retry 1 batch")).to_be_visible()
    page.get_by_role("button", name="Retry 1 batch").click()
    expect(page.locator("#drawer")).to_contain_text("does not answer")
    expect(page.get_by_role("alert")).to_contain_text("does not answer", timeout=SOON)
    expect(page.locator("tr[data-t]")).to_have_count(29)
