"""The section on cells in the list of a form: each key that it names has its effect in a real Chromium."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.chromium import browsing, chromium
from tests.docs.console import ROOT
from waterclock.connectors.forms.changes import Edit, apply
from waterclock.connectors.forms.history import find_row
from waterclock.flow.form_rights import FormRights
from waterclock.operations.forms import OpenedForm, open_form
from waterclock.operations.project_opening import open_project
from waterclock.ui.live_project import LiveProject
from waterclock.ui.serving import serve_pages

PAGE = (ROOT / "docs" / "howto" / "web-ui.md").read_text(encoding="utf-8")
FLOW = """
CREATE CONNECTION forms TYPE forms;
COLLECT mdm.prices (sku KEY, name, remark) FROM forms.prices EVERY DAY START '2020-01-01';
"""
ROWS = 15
ARROWS = ["ArrowDown", "ArrowRight", "ArrowUp", "ArrowLeft"]

# the keys of each row of the table, and where they lead: the cell, and the texts that changed so far; the reader is at
# the first cell of the second row and column before the first of them
STEPS: tuple[tuple[str, list[str], tuple[int, int], dict[tuple[int, int], str]], ...] = (
    ("arrow keys", [*ARROWS], (1, 1), {}),
    ("arrow keys", ["Control+ArrowDown", "Control+ArrowRight"], (14, 2), {}),
    ("`Home`, `End`, `PageUp`, `PageDown`", ["Home", "PageUp"], (4, 0), {}),
    ("`Home`, `End`, `PageUp`, `PageDown`", ["PageDown", "Control+Home", "End", "PageDown"], (10, 2), {}),
    ("any character", ["x", "ArrowUp"], (9, 2), {(10, 2): "x"}),
    ("`F2`, or `Enter`, or a double click", ["F2", "ArrowLeft", "y", "Enter"], (10, 2), {(9, 2): "yr"}),
    ("`F2`, or `Enter`, or a double click", ["Enter", "z", "Enter"], (11, 2), {(10, 2): "xz"}),
    ("`Enter`, `Shift+Enter`", ["1", "Shift+Enter"], (10, 2), {(11, 2): "1"}),
    ("`Tab`, `Shift+Tab`", ["Tab", "Shift+Tab", "Shift+Tab", "2", "Tab"], (10, 2), {(10, 1): "2"}),
    ("`Alt+Enter`", ["F2", "Alt+Enter", "3", "Enter"], (11, 2), {(10, 2): "xz\n3"}),
    ("`Escape`", ["4", "Escape"], (11, 2), {}),
    ("`Shift` with these keys, or with a click", ["Shift+ArrowUp"], (10, 2), {}),
    ("`Ctrl+C`", ["Control+c"], (10, 2), {}),
    ("`Ctrl+V`", ["ArrowDown", "ArrowDown", "Control+v"], (12, 2), {(12, 2): "xz\n3", (13, 2): "1"}),
    ("`Delete`", ["ArrowUp", "ArrowLeft", "Delete"], (11, 1), {(11, 1): ""}),
    ("`Ctrl+Z`", ["Delete", "Control+z"], (11, 1), {(11, 1): "n"}),
)


@pytest.fixture
def form(tmp_path: Path) -> OpenedForm:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.dpl").write_text(FLOW)
    (tmp_path / "waterclock.toml").write_text('[project]\nname = "p"\n[env.dev]\nstorage = ".dev"\n')
    opened = open_form(open_project(tmp_path, None), "mdm.prices")
    edits = [Edit((f"S{at:02}",), {"name": "n", "remark": "r"}, None) for at in range(ROWS)]
    apply(opened.database, opened.entity, by=FormRights("ada"), why="first", edits=edits)
    return opened


def in_chromium(form: OpenedForm, folder: Path, story: Callable[[Page], None]) -> None:
    """Run a story on the list of the form. It runs in another thread, because other tests' browsers use this one."""
    chromium()

    def played() -> None:
        with serve_pages(LiveProject(folder), "127.0.0.1", 0) as served, browsing() as browser:
            context = browser.new_context()
            context.request.get(served.new_link())
            page = context.new_page()
            page.goto(f"{served.address}forms/{form.entity.table}")
            story(page)

    with ThreadPoolExecutor(1) as beside:
        beside.submit(played).result(timeout=240)


def test_each_key_of_the_page_has_its_documented_effect(tmp_path: Path, form: OpenedForm) -> None:
    section = PAGE.partition("### Edit cells in the list\n")[2].partition("\n## ")[0]
    documented = re.findall(r"^\| (.+?) \| ", section, re.MULTILINE)[1:]
    assert documented == [*dict.fromkeys(name for name, *_ in STEPS), "`Ctrl+S`"]

    def story(page: Page) -> None:
        cells = page.locator("#rows tbody tr")
        cells.nth(1).locator("td").nth(1).click()
        for name, keys, (row, column), _ in STEPS:
            for key in keys:
                page.keyboard.press(key)
            expect(cells.nth(row).locator("td").nth(column), name).to_be_focused()
        page.keyboard.press("Control+s")
        expect(page.get_by_label("Why")).to_be_focused()
        page.keyboard.type("agreed")
        page.keyboard.press("Enter")
        expect(page.locator("#draft-state")).to_contain_text("5 rows saved, as batch 2.")
        page.keyboard.press("Escape")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('td')") is None

    in_chromium(form, tmp_path, story)
    newest = {at: text for *_, changed in STEPS for at, text in changed.items()}
    for (row, column), text in newest.items():
        stored = find_row(form.database, form.entity, (f"S{row:02}",))
        assert stored is not None
        assert (stored.content.get(("sku", "name", "remark")[column]) or "") == text
