"""Edits that GRANT EDIT refuses come back with what was entered, in a real Chromium, with and without JavaScript."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect

from tests import stocks
from tests.e2e.ui.conftest import SOON, World
from tests.e2e.ui.test_looks import AXE, NARROW
from tests.e2e.ui.test_people import token_of
from waterclock.connectors.forms.changes import Edit, apply
from waterclock.connectors.forms.history import find_row
from waterclock.flow.form_rights import FormRights
from waterclock.operations.forms import OpenedForm, open_form
from waterclock.operations.project_opening import open_project
from waterclock.permissions.users_and_roles import Right

FLOW = """
CREATE CONNECTION forms TYPE forms;
COLLECT mdm.prices (sku KEY, land, price DECIMAL(9,2), note) FROM forms.prices EVERY DAY START '2020-01-01';
GRANT EDIT (GRANTED) ON mdm.prices TO (steward) WHERE land = 'DE';
"""
TOML = """[project]
name = "p"
[env.dev]
storage = ".dev"
[roles]
steward = ["look", "edit"]
[users.anna]
roles = ["steward"]
"""
LIST = "forms/mdm.prices"
REFUSED = "no GRANT EDIT has the row as it would be"


def declare(folder: Path, granted: str) -> None:
    (folder / "flows" / "a.dpl").write_text(FLOW.replace("GRANTED", granted))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flows").mkdir()
    declare(tmp_path, "sku, land, price, note")
    (tmp_path / "waterclock.toml").write_text(TOML)
    return tmp_path


@pytest.fixture
def form(folder: Path) -> OpenedForm:
    found = open_form(open_project(folder, None), "mdm.prices")
    values = {"land": "DE", "price": "1.00", "note": "first"}
    edits = [Edit((key,), values, None) for key in ("D1", "D2")]
    edits.append(Edit(("F1",), values | {"land": "FR"}, None))
    apply(found.database, found.entity, by=FormRights("ada"), why="agreed", edits=edits)
    return found


def content(form: OpenedForm, key: str = "D1") -> dict[str, str | None]:
    row = find_row(form.database, form.entity, (key,))
    return {} if row is None else dict(row.content)


@pytest.fixture
def as_anna(
    browser: Browser, closed_world: World, serve: Callable[..., str], folder: Path, form: OpenedForm
) -> Iterator[Callable[..., Page]]:
    """Return a function that opens a page of the form for anna, who signs in with a token."""
    assert form.entity.table == "mdm.prices"
    token = token_of(stocks.Stocks(folder), "anna", {Right.LOOK, Right.EDIT})
    address = serve(folder, None)
    closed_world.forgiven.append("403")
    with ExitStack() as stack:

        def open_page(part: str, *, has_scripts: bool = True, theme: str = "light") -> Page:
            context = browser.new_context(
                java_script_enabled=has_scripts,
                viewport={"width": NARROW[0], "height": NARROW[1]},
                color_scheme="dark" if theme == "dark" else "light",
                service_workers="block",
            )
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(SOON)
            closed_world.watch(page)
            page.goto(f"{address}sign-in")
            page.get_by_label("Access token").fill(token)
            page.get_by_role("button", name="Sign in").click()
            page.goto(f"{address}{LIST}{part}")
            return page

        yield open_page


def check_axe(page: Page) -> None:
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
    assert page.evaluate(AXE) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("has_scripts", [True, False])
def test_a_refused_row_keeps_what_was_entered(
    as_anna: Callable[..., Page], form: OpenedForm, has_scripts: bool
) -> None:
    page = as_anna("/row?key=D1", has_scripts=has_scripts)
    page.get_by_label("land").fill("FR")
    page.get_by_label("note").fill("typed\nin two lines")
    page.get_by_label("Why").fill("moved")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("anna may not edit D1 of mdm.prices")
    expect(page.get_by_label("land")).to_have_value("FR")
    expect(page.get_by_label("land")).to_have_accessible_description(f"✕ {REFUSED}")
    if has_scripts:
        expect(page.get_by_label("land")).to_be_focused()
    expect(page.get_by_label("note")).to_have_value("typed\nin two lines")
    expect(page.get_by_label("price")).not_to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Why")).to_have_value("moved")
    assert content(form)["note"] == "first"
    page.get_by_label("land").fill("DE")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("cell", name="moved")).to_be_visible()
    assert content(form)["note"] == "typed\nin two lines"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_row_whose_grant_was_revoked_since_keeps_what_was_entered(
    as_anna: Callable[..., Page], folder: Path, form: OpenedForm, theme: str
) -> None:
    page = as_anna("/row?key=D1", theme=theme)
    declare(folder, "price")
    page.get_by_label("note").fill("typed")
    page.get_by_label("price").fill("2")
    page.get_by_label("Why").fill("list")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_have_text("1 field needs a correction. Nothing was saved.")
    expect(page.get_by_label("note")).to_have_value("typed")
    expect(page.get_by_label("note")).to_have_accessible_description("✕ you may not change it")
    expect(page.get_by_label("note")).not_to_be_editable()
    check_axe(page)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("cell", name="list")).to_be_visible()
    assert (content(form)["price"], content(form)["note"]) == ("2.00", "first")


def test_refused_cells_of_the_list_stay_as_drafts(as_anna: Callable[..., Page], folder: Path, form: OpenedForm) -> None:
    page = as_anna("")
    price = page.get_by_role("row", name="D1").get_by_role("gridcell").nth(2)
    land = page.get_by_role("row", name="D2").get_by_role("gridcell").nth(1)
    land.click()
    page.keyboard.type("FR")
    page.keyboard.press("Enter")
    expect(land).to_have_attribute("aria-invalid", "true")  # it is checked before it is saved
    expect(land).to_contain_text(f"✕ {REFUSED}")
    page.keyboard.press("Control+z")
    expect(land).to_have_text("DE")
    price.click()
    page.keyboard.type("17")
    page.keyboard.press("Enter")
    expect(price.locator("ins")).to_have_text("17")
    declare(folder, "note")
    page.keyboard.press("Control+s")
    page.keyboard.type("agreed")
    page.keyboard.press("Enter")
    expect(page.locator("#draft-state")).to_contain_text("price of D1: you may not change it. Nothing was saved.")
    expect(price.locator("ins")).to_have_text("17")
    expect(price).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Why")).to_have_value("agreed")
    check_axe(page)
    assert content(form)["price"] == "1.00"
    declare(folder, "sku, land, price, note")
    page.keyboard.press("Control+s")
    expect(page.get_by_text("1 row saved, as batch 2.").first).to_be_visible()
    assert content(form)["price"] == "17.00"


def test_a_changed_cell_whose_column_is_dropped_is_marked_and_keeps_its_text(
    as_anna: Callable[..., Page], closed_world: World, folder: Path, form: OpenedForm
) -> None:
    closed_world.forgiven.append("422")
    page = as_anna("")
    price, note = (page.get_by_role("row", name="D1").get_by_role("gridcell").nth(at) for at in (2, 3))
    for cell, text in ((note, "typed"), (price, "17")):
        cell.click()
        page.keyboard.type(text)
        page.keyboard.press("Enter")
        expect(cell.locator("ins")).to_have_text(text)
    (folder / "flows" / "a.dpl").write_text(FLOW.replace(", note)", ")").replace("GRANTED", "sku, land, price"))
    page.keyboard.press("Control+s")
    page.keyboard.type("agreed")
    page.keyboard.press("Enter")
    lost = "note of D1: the form has no such column now: undo this change to save the others. Nothing was saved."
    expect(page.locator("#draft-state")).to_contain_text(lost)
    expect(note).to_contain_text("typed✕ the form has no such column now")
    expect(note).to_have_attribute("aria-invalid", "true")
    assert content(form)["price"] == "1.00"
    check_axe(page)
    note.click()
    page.keyboard.type("first")  # its value before
    page.keyboard.press("Enter")
    expect(note).to_have_text("first")
    page.keyboard.press("Control+s")
    expect(page.get_by_text("1 row saved, as batch 2.").first).to_be_visible()
    assert content(form)["price"] == "17.00"


def test_a_list_that_is_not_granted_any_more_keeps_its_drafts(
    as_anna: Callable[..., Page], folder: Path, form: OpenedForm
) -> None:
    page = as_anna("")
    price = page.get_by_role("row", name="D1").get_by_role("gridcell").nth(2)
    price.click()
    page.keyboard.type("17")
    page.keyboard.press("Enter")
    expect(price.locator("ins")).to_have_text("17")
    (folder / "flows" / "a.dpl").write_text(FLOW.replace("GRANTED", "price").replace("(steward)", "(other)"))
    (folder / "waterclock.toml").write_text(TOML + '[users.other]\nroles = ["steward"]\n')
    page.keyboard.press("Control+s")
    page.keyboard.type("agreed")
    page.keyboard.press("Enter")
    expect(page.locator("#draft-state")).to_contain_text("no GRANT EDIT of the form is to anna")
    expect(price.locator("ins")).to_have_text("17")
    expect(price).to_have_attribute("aria-invalid", "true")
    assert content(form)["price"] == "1.00"


@pytest.mark.parametrize("has_scripts", [True, False])
def test_a_refused_paste_keeps_its_text_and_marks_the_cells(
    as_anna: Callable[..., Page], form: OpenedForm, folder: Path, has_scripts: bool
) -> None:
    declare(folder, "price")
    page = as_anna("/paste", has_scripts=has_scripts)
    expect(page.get_by_text("You may not change land, note.")).to_be_visible()
    text = "sku\tland\tprice\nD1\tAT\t2\nF1\t\t3\nD2\tDE\t4\n"
    page.get_by_label("Rows of a spreadsheet").fill(text)
    page.get_by_role("button", name="Review").click()
    expect(page.get_by_role("status")).to_contain_text("0 new, 1 changed, 0 same, ✕ 2 invalid")
    expect(page.get_by_label("Rows of a spreadsheet")).to_have_value(text)
    table = page.get_by_role("table", name="Rows that change")
    expect(table.get_by_role("columnheader", name="land read only")).to_be_visible()
    expect(table.get_by_role("cell", name="DE AT ✕ no GRANT EDIT names land")).to_be_visible()
    expect(table.get_by_role("cell", name="1.00 3.00 ✕ no GRANT EDIT has the row as it is")).to_be_visible()
    expect(page.get_by_role("button", name="Apply")).to_be_disabled()
    if has_scripts:
        check_axe(page)
    page.get_by_label("Rows of a spreadsheet").fill("sku\tland\tprice\nD1\tDE\t2\nD2\tDE\t4\n")
    page.get_by_role("button", name="Review").click()
    page.get_by_label("Why").fill("the list")
    page.get_by_role("button", name="Apply 2 rows").click()
    expect(page.get_by_role("link", name="D1")).to_be_visible()
    assert content(form)["price"] == "2.00"


@pytest.mark.parametrize("part", ["/row?key=D1", "/paste"])
def test_a_page_keeps_what_was_entered_when_the_session_has_ended(
    as_anna: Callable[..., Page], closed_world: World, part: str
) -> None:
    closed_world.forgiven += ["401", "ERR_FAILED"]
    page = as_anna(part)
    field = page.get_by_role("textbox", name=re.compile("note|Rows of"))
    send = page.get_by_role("button", name=re.compile("Save|Review"))
    field.fill("D1\tDE\t3\ttyped")
    if part != "/paste":
        page.get_by_label("Why").fill("a long reason")
    cookies = page.context.cookies()
    page.context.clear_cookies()
    send.click()
    expect(page.get_by_role("alert")).to_contain_text(
        "You are signed out. Sign in again in another tab, then send this"
    )
    expect(field).to_have_value("D1\tDE\t3\ttyped")
    page.context.add_cookies([{k: v for k, v in each.items() if k != "expires"} for each in cookies])  # type: ignore[misc]
    page.route("**/ui.js*", lambda route: route.abort())
    send.click()
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer.")
    expect(page.get_by_role("alert")).to_have_count(1)
    page.unroute("**/ui.js*")
    asked: list[str] = []

    def stay(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.dismiss()

    page.on("dialog", stay)
    page.get_by_role("link", name="mdm.prices").click()
    expect(field).to_have_value("D1\tDE\t3\ttyped")
    assert asked == ["beforeunload"]
    send.click()
    expect(page.get_by_role("cell", name="a long reason" if part != "/paste" else "typed")).to_be_visible()
    assert asked == ["beforeunload"]  # the page that was sent is left without a question


def test_the_list_keeps_changed_cells_when_the_session_has_ended(
    as_anna: Callable[..., Page], closed_world: World
) -> None:
    closed_world.forgiven.append("401")
    page = as_anna("")
    page.set_viewport_size({"width": 320, "height": 400})  # as 1280 × 1600 with a zoom of 400 %
    page.locator("td[data-f=price]").first.click()
    page.keyboard.type("many")
    page.keyboard.press("Enter")
    expect(page.locator("#draft-state")).to_contain_text("it is not a number 1 changed cell")
    box = page.locator("td:focus").bounding_box()
    draft = page.locator(".draft").bounding_box()
    assert box is not None
    assert draft is not None
    assert box["y"] + box["height"] <= draft["y"] + 1  # the focused cell is not below the draft
    page.context.clear_cookies()
    page.get_by_label("Why").fill("list")
    page.keyboard.press("Enter")
    expect(page.locator("#draft-state")).to_contain_text("You are signed out. Sign in again in another tab, then save.")
    expect(page.locator(".is-draft")).to_have_count(1)
