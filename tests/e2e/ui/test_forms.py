"""Forms in a real Chromium: two editors at once, the keyboard alone, pasted rows, no JavaScript, and axe-core."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.ui.conftest import SERVED, WIDE, World
from tests.e2e.ui.test_looks import AXE, NARROW
from waterclock.connectors.forms.changes import Edit, Origin, apply
from waterclock.connectors.forms.history import find_row, list_changes
from waterclock.flow.form_rights import FormRights
from waterclock.operations.forms import OpenedForm, open_form
from waterclock.operations.project_opening import open_project

FLOW = """
CREATE CONNECTION forms TYPE forms;
COLLECT mdm.product_map (
    supplier_sku KEY, sku NOT NULL COMMENT 'our article', kind EXPECT (kind IN ('raw', 'finished')) AS kinds,
    pack_size INT, since DATE, remark)
  FROM forms.product_map EVERY DAY START '2020-01-01';
"""
LIST = "forms/mdm.product_map"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.dpl").write_text(FLOW)
    (tmp_path / "waterclock.toml").write_text('[project]\nname = "p"\n[env.dev]\nstorage = ".dev"\n')
    return tmp_path


@pytest.fixture
def form(folder: Path) -> OpenedForm:
    opened = open_form(open_project(folder, None), "mdm.product_map")
    values = {"sku": "A", "kind": "raw", "pack_size": "2", "remark": "two\nlines"}
    edits = [Edit((key,), values, None) for key in ("S1", "S2", "O'Neil <b>")]
    apply(opened.database, opened.entity, by=FormRights("ada"), why="agreed", edits=edits)
    waiting = [Edit(("S9",), {}, None)]
    apply(opened.database, opened.entity, by=FormRights("publish"), why="x", edits=waiting, origin=Origin.PUBLISH)
    return opened


def sku(form: OpenedForm, key: str) -> str | None:
    row = find_row(form.database, form.entity, (key,))
    return None if row is None else row.content.get("sku")


def save(page: Page, sku: str, why: str) -> None:
    page.get_by_label("sku (required)", exact=True).fill(sku)
    page.get_by_label("Why").fill(why)
    page.get_by_role("button", name="Save").click()


def test_two_editors_at_once_lose_nothing(
    opened: Callable[..., Page], serve: Callable[..., str], folder: Path, form: OpenedForm, closed_world: World
) -> None:
    closed_world.forgiven.append("409")
    address = f"{serve(folder, None)}{LIST}/row?key=S1"
    first, second = opened(address), opened(address)
    save(first, "B", "the first")
    expect(first.get_by_role("cell", name="the first")).to_be_visible()
    save(second, "C", "the second")
    expect(second.get_by_role("alert")).to_contain_text("saved this row since you began: the first")
    row = second.get_by_role("table", name="The three versions").get_by_role("row", name="≠ sku")
    expect(row.get_by_role("cell")).to_have_text(["A", "B", "C"])
    assert sku(form, "S1") == "B"
    second.get_by_role("button", name="Save").click()
    expect(second.get_by_role("cell", name="the second")).to_be_visible()
    assert sku(form, "S1") == "C"
    changes = list_changes(form.database, form.entity, ("S1",))
    assert [change.why for change in changes] == ["the second", "the first", "agreed"]
    assert all((change.after or {}).get("remark") == "two\nlines" for change in changes)


def test_a_row_is_edited_and_undone_by_the_keyboard_alone(
    opened: Callable[..., Page], serve: Callable[..., str], folder: Path, form: OpenedForm, closed_world: World
) -> None:
    closed_world.forgiven.append("422")
    page = opened(f"{serve(folder, None)}{LIST}?waiting=1")

    def tab_to(name: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            focused = page.evaluate("(document.activeElement.labels?.[0] ?? document.activeElement).textContent")
            if str(focused).startswith(name):
                return
        raise AssertionError(f"{name} is not reached by Tab")

    tab_to("S9")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("S9")
    tab_to("sku (required)")
    page.keyboard.type("K")
    tab_to("kind")
    page.keyboard.press("r")
    tab_to("Save")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("1 field needs a correction")
    expect(page.get_by_label("sku (required)", exact=True)).to_have_value("K")
    tab_to("Why")
    page.keyboard.type("mapped")
    page.keyboard.press("Enter")
    expect(page.get_by_role("cell", name="mapped")).to_be_visible()
    assert sku(form, "S9") == "K"
    tab_to("Undo batch")
    page.keyboard.press("Enter")
    expect(page.get_by_role("cell", name="undo of batch 3")).to_be_visible()
    assert sku(form, "S9") is None


def test_one_keystroke_fills_in_the_values_of_a_similar_key_for_saving(
    opened: Callable[..., Page], serve: Callable[..., str], folder: Path, form: OpenedForm
) -> None:
    page = opened(f"{serve(folder, None)}{LIST}/row?key=S9")
    expect(page.get_by_role("heading", name="Values of alike keys")).to_have_count(0)  # S9 is not similar to S1
    new = [Edit(("O'Neil <c>",), {}, None)]
    apply(form.database, form.entity, by=FormRights("publish"), why="x", edits=new, origin=Origin.PUBLISH)
    page.goto(f"{page.url.partition('?')[0]}?key=O%27Neil+%3Cc%3E")
    expect(page.get_by_role("link", name="1 sku A")).to_be_visible()
    page.keyboard.press("1")
    expect(page.get_by_label("sku (required)", exact=True)).to_have_value("A")
    expect(page.get_by_label("Why")).to_be_focused()
    assert sku(form, "O'Neil <c>") is None
    page.keyboard.type("like 1 of before")  # a digit in a field is a digit
    expect(page.get_by_label("Why")).to_have_value("like 1 of before")
    page.keyboard.press("Enter")
    expect(page.get_by_role("cell", name="like 1 of before")).to_be_visible()
    assert sku(form, "O'Neil <c>") == "A"
    expect(page.get_by_role("heading", name="Values of alike keys")).to_have_count(0)


def test_a_field_that_refers_to_another_form_offers_its_rows(
    opened: Callable[..., Page], serve: Callable[..., str], folder: Path, form: OpenedForm
) -> None:
    assert form.entity.table == "mdm.product_map"
    (folder / "flows" / "b.dpl").write_text(
        "COLLECT mdm.kits (kit KEY, part REFERENCES mdm.product_map) FROM forms.kits EVERY DAY START '2020-01-01';"
    )
    open_form(open_project(folder, None), "mdm.kits")
    page = opened(f"{serve(folder, None)}forms/mdm.kits/row")
    part = page.get_by_role("combobox", name="part")
    part.press_sequentially("s2")
    options = page.locator("datalist option")
    expect(options).to_have_count(1)
    expect(options).to_have_attribute("value", "S2")
    part.fill("neil")
    part.press("End")
    expect(page.locator("datalist option[value*='Neil']")).to_have_count(1)


def test_pasted_rows_are_reviewed_then_applied(
    opened: Callable[..., Page], serve: Callable[..., str], folder: Path, form: OpenedForm
) -> None:
    page = opened(f"{serve(folder, None)}{LIST}/paste")
    page.get_by_label("Rows of a spreadsheet").fill("supplier_sku\tsku\tkind\nS1\tZ\traw\nS3\tN\tother\n")
    page.get_by_role("button", name="Review").click()
    expect(page.get_by_role("status")).to_contain_text("0 new, 1 changed, 0 same, ✕ 1 invalid")
    expect(page.get_by_role("button", name="Apply")).to_be_disabled()
    page.get_by_label("Rows of a spreadsheet").fill("supplier_sku\tsku\tkind\nS1\tZ\traw\nS3\tN\traw\n")
    page.get_by_role("button", name="Review").click()
    expect(page.get_by_role("status")).to_contain_text("1 new, 1 changed, 0 same, 0 invalid")
    page.get_by_label("Why").fill("the list")
    page.get_by_role("button", name="Apply 2 rows").click()
    expect(page.get_by_role("link", name="S3")).to_be_visible()
    assert (sku(form, "S1"), sku(form, "S3")) == ("Z", "N")


def test_it_works_without_javascript(
    browser: Browser, serve: Callable[..., str], folder: Path, form: OpenedForm
) -> None:
    address = serve(folder, None)
    context = browser.new_context(java_script_enabled=False)
    for served in SERVED:
        context.request.get(served.new_link())
    page = context.new_page()
    page.goto(f"{address}{LIST}")
    page.get_by_role("link", name="O'Neil <b>").click()
    save(page, "J", "without")
    page.wait_for_url("**/row?key=O%27Neil+%3Cb%3E")
    assert sku(form, "O'Neil <b>") == "J"
    context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_form_pages_have_no_accessibility_violations(
    opened: Callable[..., Page],
    serve: Callable[..., str],
    folder: Path,
    form: OpenedForm,
    closed_world: World,
    theme: str,
) -> None:
    closed_world.forgiven += ["409", "422"]
    address, axe = serve(folder, None), files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    page = opened(f"{address}{LIST}", size=WIDE if theme == "light" else NARROW, theme=theme)

    def check(name: str) -> None:
        page.evaluate(axe)
        assert page.evaluate(AXE) == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} sticks out"

    check("list")
    page.goto(f"{address}{LIST}/row?key=S1")
    check("row with history")
    save(page, "", "")
    expect(page.get_by_role("alert")).to_be_visible()
    check("422")
    row = find_row(form.database, form.entity, ("S1",))
    page.goto(f"{address}{LIST}/row?key=S1")
    assert row is not None
    apply(
        form.database, form.entity, by=FormRights("bob"), why="other", edits=[Edit(("S1",), {"sku": "Q"}, row.version)]
    )
    save(page, "Y", "mine")
    expect(page.get_by_role("alert")).to_contain_text("bob saved this row")
    check("409")
    page.goto(f"{address}{LIST}/paste")
    page.get_by_label("Rows of a spreadsheet").fill("supplier_sku\tsku\nS1\tZ\nS3\t\n")
    page.get_by_role("button", name="Review").click()
    expect(page.get_by_role("heading", name="Review")).to_be_visible()
    check("review")
