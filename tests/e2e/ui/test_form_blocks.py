"""Blocks of cells of a form are selected, copied and pasted in its list, in a real Chromium by the keyboard alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.ui.conftest import WIDE
from tests.e2e.ui.test_form_grid import LIST, cell, content, enter, folder, form, press, reasons, save, state
from tests.e2e.ui.test_looks import AXE, NARROW
from waterclock.connectors.forms.changes import Edit, apply
from waterclock.connectors.forms.history import find_row
from waterclock.connectors.forms.row_files import escape_formula, read_text
from waterclock.flow.form_rights import FormRights
from waterclock.operations.forms import OpenedForm

__all__ = ["folder", "form"]  # fixtures


@pytest.fixture
def page(opened: Callable[..., Page], serve: Callable[..., str], folder: Path, form: OpenedForm) -> Page:
    assert form.rights.may_edit
    page = opened(f"{serve(folder, None)}{LIST}")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    enter(page)
    return page


def clipboard(page: Page) -> str:
    return str(page.evaluate("navigator.clipboard.readText()"))


def set_clipboard(page: Page, text: str) -> None:
    page.evaluate("text => navigator.clipboard.writeText(text)", text)


def selected(page: Page) -> int:
    return page.locator("td[aria-selected=true]").count()


def test_a_block_is_selected_and_copied_as_a_spreadsheet_reads_it(page: Page) -> None:
    expect(page.get_by_role("grid")).to_have_attribute("aria-multiselectable", "true")
    press(page, "ArrowRight", "Shift+ArrowRight", "Shift+ArrowDown")
    expect(state(page)).to_have_text("2 × 2 cells selected.")
    assert selected(page) == 4
    expect(cell(page, "S2", "state")).to_be_focused()
    press(page, "Control+c")
    expect(state(page)).to_have_text("2 × 2 cells copied.")
    assert clipboard(page) == "A\traw\nA\traw"
    press(page, "Shift+ArrowLeft", "Shift+ArrowUp")
    assert selected(page) == 1
    press(page, "Home", "Shift+End")
    press(page, "Control+c")
    assert clipboard(page) == 'S1\tA\traw\t2\t\t"two\nlines"'
    press(page, "Control+Home", "Control+Shift+End")
    assert selected(page) == 24
    press(page, "Escape")
    assert selected(page) == 1
    press(page, "ArrowUp")
    assert selected(page) == 1


def test_a_pasted_block_is_a_draft_that_is_checked_undone_and_saved_as_one_change(page: Page, form: OpenedForm) -> None:
    set_clipboard(page, "B\traw\t1 200\r\nC\tother\tmany\r\n")  # as Excel writes it
    press(page, "ArrowRight", "Control+v")
    expect(page.locator(".is-draft")).to_have_count(5)  # one of six is as it was
    assert selected(page) == 6
    expect(state(page)).to_contain_text("5 cells pasted. state of S2: it is none of open, raw, finished")
    expect(state(page)).to_contain_text("5 changed cells in 2 rows, not saved.")
    expect(page.locator("td[aria-invalid]")).to_have_count(2)
    press(page, "Control+z")
    expect(page.locator(".is-draft")).to_have_count(0)  # at once
    set_clipboard(page, 'B\topen\t1 200\nC\tfinished\t7\t\t"new\nlines ""so"""')
    press(page, "Control+Home", "ArrowRight", "Control+v")
    expect(page.locator(".is-draft")).to_have_count(7)
    save(page, "from a list")
    expect(state(page)).to_contain_text("2 rows saved, as batch 4.")
    assert content(form, "S1") == {
        "sku": "B", "state": "open", "pack_size": "1200", "kind": None, "remark": "two\nlines",
    }  # fmt: skip
    assert content(form, "S2") == {
        "sku": "C", "state": "finished", "pack_size": "7", "kind": None, "remark": 'new\nlines "so"',
    }  # fmt: skip
    assert content(form, "S3")["sku"] == "A"
    assert reasons(form, "S1")[0] == "from a list"


def test_a_copied_cell_fills_the_selected_block_and_delete_empties_it(page: Page) -> None:
    press(page, "ArrowRight", "ArrowRight", "ArrowRight")
    page.keyboard.type("5")
    press(page, "Enter", "ArrowUp", "Control+c")
    assert clipboard(page) == "5"
    press(page, "ArrowDown", "Shift+ArrowDown", "Control+v")
    for key in ("S1", "S2", "S3"):
        expect(cell(page, key, "pack_size").locator("ins")).to_have_text("5")
    press(page, "Control+Home", "ArrowRight", "ArrowRight", "ArrowRight", "Shift+ArrowDown", "Delete")
    for key in ("S1", "S2"):
        expect(cell(page, key, "pack_size").locator("ins")).to_have_text("(empty)")
    expect(cell(page, "S3", "pack_size").locator("ins")).to_have_text("5")
    press(page, "Control+z")
    expect(cell(page, "S2", "pack_size").locator("ins")).to_have_text("5")


def test_a_block_that_does_not_fit_or_has_other_keys_is_not_pasted(page: Page) -> None:
    set_clipboard(page, "\n".join("ABCDE"))
    press(page, "ArrowRight", "Control+v")
    expect(state(page)).to_have_text(
        "The 5 × 1 cells do not fit here. Nothing was pasted. The page Paste rows adds rows."
    )
    set_clipboard(page, "S2\tX\nS3\tY")
    press(page, "Home", "Control+v")
    expect(state(page)).to_have_text("The copied row S2 is not S1. Nothing was pasted.")
    expect(page.locator(".is-draft")).to_have_count(0)
    press(page, "ArrowDown", "Control+v")
    expect(cell(page, "S2", "sku").locator("ins")).to_have_text("X")
    expect(cell(page, "S3", "sku").locator("ins")).to_have_text("Y")
    expect(page.locator(".is-draft")).to_have_count(2)


def test_cells_that_cannot_be_changed_stay_and_are_named(
    opened: Callable[..., Page], serve: Callable[..., str], folder: Path, form: OpenedForm
) -> None:
    row = find_row(form.database, form.entity, ("S1",))
    assert row is not None
    edits = [Edit(("S1",), {"remark": "x" * 1001}, row.version)]  # changed on the page of the row
    apply(form.database, form.entity, by=FormRights("ada"), why="long", edits=edits)
    page = opened(f"{serve(folder, None)}{LIST}")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    enter(page)
    press(page, "End", "Shift+ArrowDown")
    set_clipboard(page, "short")
    press(page, "Control+v")
    note = "1 cell pasted. These cannot be changed, and stay: remark of S1."
    expect(state(page)).to_have_text(f"{note} 1 changed cell in 1 row, not saved.")
    expect(cell(page, "S2", "remark").locator("ins")).to_have_text("short")


def test_texts_of_the_page_and_of_fields_are_copied_and_pasted_as_ever(page: Page) -> None:
    set_clipboard(page, "Z")
    press(page, "ArrowRight", "F2", "Control+v", "Enter")
    expect(cell(page, "S1", "sku").locator("ins")).to_have_text("AZ")
    page.get_by_label("Find in all columns").click()
    press(page, "Control+v")
    expect(page.get_by_label("Find in all columns")).to_have_value("Z")
    expect(page.locator(".is-draft")).to_have_count(1)


def test_pasting_what_was_copied_changes_nothing_whatever_the_texts_are(page: Page, form: OpenedForm) -> None:
    """Random texts of a block are read back by the grid and by the page that pastes rows, and formulas are escaped."""
    dice = random.Random(44)
    parts = ["a", " b", '"', "'", "\n", "=1+1", "-5", "@x", "+", "é", "1.5", "{}", "\\", "''="]
    for number in range(12):
        values = {
            key: {"sku": "".join(dice.choices(parts, k=4)).strip() or "x", "remark": "".join(dice.choices(parts, k=5))}
            for key in ("S1", "S2", "S3")
        }
        edits = []
        for key, texts in values.items():
            row = find_row(form.database, form.entity, (key,))
            assert row is not None
            stored = {name: text.strip() or None for name, text in texts.items()}
            edits.append(Edit((key,), stored | {"pack_size": str(-number - 1)}, row.version))
        apply(form.database, form.entity, by=FormRights("ada"), why="random", edits=edits)
        page.reload()
        page.locator("td").first.focus()
        press(page, "Control+Home", "Shift+ArrowDown", "Shift+ArrowDown", "Shift+End", "Control+c")
        expect(state(page)).to_have_text("3 × 6 cells copied.")
        copied = clipboard(page)
        rows = read_text(copied)
        stored_rows = [find_row(form.database, form.entity, (key,)) for key in values]
        expected = [
            [escape_formula(row.content.get(each.name) or "", each) for each in form.entity.fields]
            for row in stored_rows
            if row is not None
        ]
        assert rows == expected
        press(page, "Control+Home", "Control+v")
        expect(state(page)).to_have_text("0 cells pasted.")
        expect(page.locator(".is-draft")).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_selected_and_pasted_block_has_no_accessibility_violations(
    opened: Callable[..., Page], serve: Callable[..., str], folder: Path, form: OpenedForm, theme: str, pictures: Path
) -> None:
    assert form.rights.may_edit
    page = opened(f"{serve(folder, None)}{LIST}", size=WIDE if theme == "light" else NARROW, theme=theme)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    enter(page)
    set_clipboard(page, "B\topen\nC\tother\n")
    press(page, "ArrowRight", "Control+v")
    expect(page.locator("td[aria-invalid]")).to_have_count(1)
    press(page, "Shift+ArrowDown", "Shift+ArrowDown", "Shift+ArrowRight")
    page.screenshot(path=pictures / f"form-grid-block-{theme}.png")
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
    assert page.evaluate(AXE) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
