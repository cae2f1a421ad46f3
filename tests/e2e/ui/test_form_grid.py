"""Cells of a form are edited in its list, in a real Chromium by the keyboard alone: drafts, conflicts, lost answers."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.ui.conftest import WIDE, World
from tests.e2e.ui.test_looks import AXE, NARROW
from waterclock.connectors.forms.changes import Edit, Origin, apply
from waterclock.connectors.forms.history import find_row, list_changes
from waterclock.connectors.forms.proposals import list_proposals
from waterclock.flow.form_rights import FormRights
from waterclock.operations.forms import OpenedForm, open_form
from waterclock.operations.project_opening import open_project

FLOW = """
CREATE CONNECTION forms TYPE forms;
COLLECT mdm.kinds (kind KEY, label) FROM forms.kinds EVERY DAY START '2020-01-01';
COLLECT mdm.product_map (
    supplier_sku KEY, sku NOT NULL, state EXPECT (state IN ('open', 'raw', 'finished')) AS states,
    pack_size INT, kind REFERENCES mdm.kinds, remark)
  FROM forms.product_map OPTIONS (approval APPROVAL) EVERY DAY START '2020-01-01';
"""
LIST = "forms/mdm.product_map"
COLUMNS = ("supplier_sku", "sku", "state", "pack_size", "kind", "remark")


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "flows").mkdir()
    approval = getattr(request, "param", "false")
    (tmp_path / "flows" / "a.dpl").write_text(FLOW.replace("APPROVAL", approval))
    (tmp_path / "waterclock.toml").write_text('[project]\nname = "p"\n[env.dev]\nstorage = ".dev"\n')
    return tmp_path


@pytest.fixture
def form(folder: Path) -> OpenedForm:
    project = open_project(folder, None)
    kinds, opened = open_form(project, "mdm.kinds"), open_form(project, "mdm.product_map")
    named = [Edit((kind,), {"label": f"all {kind}"}, None) for kind in ("tea", "teapot", "cup")]
    apply(kinds.database, kinds.entity, by=FormRights("ada"), why="agreed", edits=named)
    values = {"sku": "A", "state": "raw", "pack_size": "2", "remark": "two\nlines"}
    edits = [Edit((key,), values, None) for key in ("S1", "S2", "S3")]
    apply(opened.database, opened.entity, by=FormRights("ada"), why="agreed", edits=edits, origin=Origin.PUBLISH)
    waiting = [Edit(("S9",), {}, None)]
    apply(opened.database, opened.entity, by=FormRights("ada"), why="x", edits=waiting, origin=Origin.PUBLISH)
    return opened


def content(form: OpenedForm, key: str) -> dict[str, str | None]:
    row = find_row(form.database, form.entity, (key,))
    return {} if row is None else {name: row.content.get(name) for name in COLUMNS[1:]}


def reasons(form: OpenedForm, key: str) -> list[str]:
    return [change.why for change in list_changes(form.database, form.entity, (key,))]


def cell(page: Page, key: str, column: str) -> Locator:
    """Return a cell by its row and its column, as a screen reader finds it."""
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=key, exact=True)).get_by_role(
        "gridcell"
    ).nth(COLUMNS.index(column))  # fmt: skip


def state(page: Page) -> Locator:
    return page.locator("#draft-state")


def enter(page: Page) -> None:
    """Move the focus into the grid by Tab."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("Boolean(document.activeElement.closest('td'))"):
            return
    raise AssertionError("the grid is not reached by Tab")


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def save(page: Page, why: str) -> None:
    page.keyboard.press("Control+s")
    expect(page.get_by_label("Why")).to_be_focused()
    page.keyboard.type(why)
    page.keyboard.press("Enter")


def test_the_grid_has_roles_and_one_stop_of_tab(
    opened: Callable[..., Page], serve: Callable[..., str], folder: Path, form: OpenedForm
) -> None:
    assert form.rights.may_edit
    page = opened(f"{serve(folder, None)}{LIST}")
    grid = page.get_by_role("grid", name="Rows of mdm.product_map")
    expect(grid).to_have_attribute("aria-rowcount", "5")
    expect(page.get_by_role("row").nth(1)).to_have_attribute("aria-rowindex", "2")
    expect(page.locator("[aria-selected]")).to_have_count(0)
    expect(cell(page, "S1", "supplier_sku")).to_have_attribute("aria-readonly", "true")
    enter(page)
    expect(cell(page, "S1", "supplier_sku")).to_be_focused()
    press(page, "Tab")  # whoever passes by leaves the table by one Tab
    assert page.evaluate("document.activeElement.closest('td')") is None
    press(page, "Shift+Tab", "ArrowRight")
    expect(cell(page, "S1", "sku")).to_be_focused()
    expect(page.locator("[aria-selected=true]")).to_have_count(1)
    expect(cell(page, "S1", "sku")).to_have_attribute("aria-selected", "true")
    press(page, "Tab", "ArrowDown", "Shift+Tab")
    expect(cell(page, "S2", "sku")).to_be_focused()
    press(page, "Control+End")
    expect(cell(page, "S9", "remark")).to_be_focused()
    press(page, "Home", "x")
    expect(state(page)).to_have_text("supplier_sku cannot be changed here.")
    press(page, "Escape", "Shift+Tab")
    assert page.evaluate("document.activeElement.closest('td')") is None
    enter(page)
    press(page, "Enter")  # the key is a link
    expect(page.get_by_role("heading", level=1)).to_have_text("S9")


def test_cells_are_edited_checked_and_undone_by_the_keyboard_alone(
    opened: Callable[..., Page], serve: Callable[..., str], folder: Path, form: OpenedForm
) -> None:
    assert form.rights.may_edit
    page = opened(f"{serve(folder, None)}{LIST}")
    enter(page)
    press(page, "ArrowRight")
    page.keyboard.type("B1?")  # typing replaces the text, and no key of the page is meant
    press(page, "Enter")
    expect(cell(page, "S2", "sku")).to_be_focused()
    expect(cell(page, "S1", "sku")).to_have_class("is-draft")
    expect(cell(page, "S1", "sku").locator("s")).to_have_text("A")
    expect(cell(page, "S1", "sku").locator("ins")).to_have_text("B1?")
    press(page, "F2", "ArrowLeft")
    page.keyboard.type("x")
    press(page, "Tab")
    expect(cell(page, "S2", "sku").locator("ins")).to_have_text("xA")
    expect(cell(page, "S2", "state")).to_be_focused()
    press(page, "f", "Tab")  # a list is chosen by its first letter
    expect(cell(page, "S2", "state").locator("ins")).to_have_text("finished")
    page.keyboard.type("many")
    press(page, "ArrowDown")
    expect(cell(page, "S3", "pack_size")).to_be_focused()
    expect(state(page)).to_have_text("pack_size of S2: it is not a number 4 changed cells in 2 rows, not saved.")
    expect(cell(page, "S2", "pack_size")).to_have_attribute("aria-invalid", "true")
    page.keyboard.type("7")
    press(page, "Escape")  # cancels
    expect(cell(page, "S3", "pack_size")).to_have_text("2")
    press(page, "End", "Delete")
    expect(cell(page, "S3", "remark").locator("ins")).to_have_text("(empty)")
    press(page, "Control+z")
    expect(cell(page, "S3", "remark")).to_have_text("two lines")
    press(page, *["Control+z"] * 4)
    expect(page.locator(".is-draft")).to_have_count(0)
    expect(cell(page, "S1", "sku")).to_have_text("A")


def test_changes_are_saved_together_once_they_are_right(
    opened: Callable[..., Page], serve: Callable[..., str], folder: Path, form: OpenedForm, closed_world: World
) -> None:
    closed_world.forgiven.append("422")
    page = opened(f"{serve(folder, None)}{LIST}")
    enter(page)
    press(page, "ArrowRight")
    page.keyboard.type("B")
    press(page, "Enter", "End", "F2", "Control+End", "Alt+Enter")
    page.keyboard.type("three")
    press(page, "Tab", "End", "ArrowLeft", "ArrowLeft")
    expect(cell(page, "S3", "pack_size")).to_be_focused()
    page.keyboard.type("many")
    press(page, "Enter")
    save(page, "renamed")
    wrong = "1 cell cannot be saved. pack_size of S3: it is not a number. Nothing was saved."
    expect(state(page)).to_contain_text(wrong)
    assert content(form, "S1")["sku"] == "A"
    expect(cell(page, "S3", "pack_size")).to_be_focused()  # the first that is wrong
    page.keyboard.type("1 200")
    press(page, "Enter")
    expect(cell(page, "S3", "pack_size").locator("ins")).to_have_text("1 200")
    press(page, "Control+s")
    expect(state(page)).to_have_text("3 rows saved, as batch 4.")
    expect(page.locator(".is-draft")).to_have_count(0)
    expect(cell(page, "S3", "pack_size")).to_have_text("1200")
    assert content(form, "S1") == {"sku": "B", "state": "raw", "pack_size": "2", "kind": None, "remark": "two\nlines"}
    assert content(form, "S2")["remark"] == "two\nlines\nthree"
    assert [reasons(form, key) for key in ("S1", "S2", "S3")] == [["renamed", "agreed"]] * 3
    expect(page.get_by_role("button", name="Undo batch 4")).to_be_visible()


def test_a_row_that_waits_gets_a_value_of_another_form_while_typing(
    opened: Callable[..., Page], serve: Callable[..., str], folder: Path, form: OpenedForm
) -> None:
    page = opened(f"{serve(folder, None)}{LIST}")
    enter(page)
    press(page, "Control+ArrowDown", "ArrowRight")
    expect(cell(page, "S9", "sku")).to_have_text("! missing")
    page.keyboard.type("K")
    press(page, "Tab", "f", "Tab", "Tab")
    expect(cell(page, "S9", "kind")).to_be_focused()
    page.keyboard.type("tea")
    options = page.locator("datalist option")
    expect(options).to_have_count(2)
    assert {option.get_attribute("value") for option in options.all()} == {"tea", "teapot"}
    press(page, "Enter")
    expect(cell(page, "S9", "kind").locator("ins")).to_have_text("tea")
    press(page, "Escape", "Tab")  # leaves the table
    expect(page.get_by_label("Why")).to_be_focused()
    page.keyboard.type("mapped")
    press(page, "Enter")
    expect(state(page)).to_contain_text("1 row saved, as batch 4.")
    expect(cell(page, "S9", "kind")).to_be_focused()
    assert content(form, "S9") == {"sku": "K", "state": "finished", "pack_size": None, "kind": "tea", "remark": None}


def test_two_editors_of_a_row_see_all_three_values_and_the_second_decides(
    opened: Callable[..., Page], serve: Callable[..., str], folder: Path, form: OpenedForm, closed_world: World
) -> None:
    closed_world.forgiven.append("409")
    address = f"{serve(folder, None)}{LIST}"
    first, second = opened(address), opened(address)
    for page, sku in ((first, "B"), (second, "C")):
        enter(page)
        press(page, "ArrowRight")
        page.keyboard.type(sku)
        press(page, "ArrowDown")
    press(second, "ArrowRight")
    second.keyboard.type("o")
    press(second, "Enter")
    expect(cell(second, "S2", "state").locator("ins")).to_have_text("open")
    save(first, "the first")
    expect(state(first)).to_contain_text("saved, as batch")
    save(second, "the second")
    alert = second.get_by_role("alert")
    expect(alert).to_contain_text("saved S1 since you began: the first. Nothing was saved.")
    row = second.get_by_role("table", name="The three versions").get_by_role("row", name="≠ sku")
    expect(row.get_by_role("cell")).to_have_text(["A", "B", "C"])
    assert content(form, "S1")["sku"] == "B"
    assert content(form, "S2")["state"] == "raw"  # all or nothing
    expect(cell(second, "S1", "sku").locator("s")).to_have_text("B")
    expect(cell(second, "S1", "sku").locator("ins")).to_have_text("C")
    press(second, "Control+s")
    expect(state(second)).to_contain_text("2 rows saved")
    assert reasons(form, "S1") == ["the second", "the first", "agreed"]
    assert content(form, "S2")["state"] == "open"

    version = find_row(form.database, form.entity, ("S3",))
    assert version is not None
    apply(form.database, form.entity, by=FormRights("bob"), why="gone", edits=[Edit(("S3",), None, version.version)])
    press(second, "Control+Home", "ArrowDown", "ArrowDown", "ArrowRight")
    second.keyboard.type("D")
    press(second, "ArrowUp")
    second.keyboard.type("E")
    press(second, "Enter")
    expect(state(second)).to_contain_text("2 changed cells in 2 rows")
    save(second, "the third")
    expect(second.get_by_role("alert")).to_contain_text("bob deleted S3 since you began: gone.")
    expect(second.locator(".is-draft")).to_have_count(1)  # that of S2 remains
    press(second, "Control+s")
    expect(state(second)).to_contain_text("1 row saved")
    assert content(form, "S2")["sku"] == "E"
    assert content(form, "S3") == {}


@pytest.mark.parametrize("folder", ["false", "true"], indirect=True)
def test_a_lost_connection_loses_nothing_and_saves_once(
    opened: Callable[..., Page], serve: Callable[..., str], folder: Path, form: OpenedForm, closed_world: World
) -> None:
    closed_world.forgiven.append("ERR_FAILED")
    page = opened(f"{serve(folder, None)}{LIST}")

    def lose_request(route: Route) -> None:
        route.abort()

    answered: list[Route] = []

    def hold_answer(route: Route) -> None:
        route.fetch()
        answered.append(route)

    enter(page)
    press(page, "ArrowRight")
    page.route("**/cells", lose_request)
    page.keyboard.type("B")
    press(page, "Enter")
    expect(state(page)).to_contain_text(
        "The server does not answer. Your changes are kept in this page. 1 changed cell"
    )
    save(page, "offline")
    expect(state(page)).to_contain_text("they are saved once")
    page.unroute("**/cells")
    page.route("**/cells", hold_answer)
    press(page, "Enter")
    expect(state(page)).to_contain_text("Saving.")
    for _ in range(100):
        if not answered:
            page.wait_for_timeout(100)
    answered[0].abort()
    expect(state(page)).to_contain_text("they are saved once")
    page.unroute("**/cells")
    expect(cell(page, "S1", "sku")).to_have_text("B")
    expect(page.locator(".is-draft")).to_have_count(1)
    press(page, "Enter")
    if form.entity.needs_approval:
        expect(state(page)).to_contain_text("1 row proposed, as proposal 1.")
        assert [each.why for each in list_proposals(form.database, form.entity)] == ["offline"]
        assert content(form, "S1")["sku"] == "A"
    else:
        expect(state(page)).to_contain_text("All of it is saved already.")
        assert reasons(form, "S1") == ["offline", "agreed"]
    expect(page.locator(".is-draft")).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_grid_has_no_accessibility_violations(
    opened: Callable[..., Page], serve: Callable[..., str], folder: Path, form: OpenedForm, theme: str,
    closed_world: World, pictures: Path,
) -> None:  # fmt: skip
    closed_world.forgiven.append("409")
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    page = opened(f"{serve(folder, None)}{LIST}", size=WIDE if theme == "light" else NARROW, theme=theme)

    def check(name: str) -> None:
        page.screenshot(path=pictures / f"form-grid-{name}-{theme}.png")
        page.evaluate(axe)
        assert page.evaluate(AXE) == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} sticks out"

    enter(page)
    press(page, "ArrowRight", "ArrowRight", "ArrowRight")
    page.keyboard.type("many")
    press(page, "ArrowDown")
    page.keyboard.type("3")
    press(page, "ArrowDown")
    expect(page.locator("td[aria-invalid]")).to_have_count(1)
    check("draft")
    press(page, "Control+z", "Control+z")
    expect(page.locator(".is-draft")).to_have_count(0)
    row = find_row(form.database, form.entity, ("S1",))
    assert row is not None
    apply(form.database, form.entity, by=FormRights("bob"), why="x", edits=[Edit(("S1",), {"sku": "Q"}, row.version)])
    press(page, "Control+Home", "ArrowRight", "F2")
    check("editor")
    page.keyboard.type("Z")
    press(page, "Enter")
    save(page, "mine")
    expect(page.get_by_role("alert")).to_contain_text("bob saved S1")
    check("conflict")
