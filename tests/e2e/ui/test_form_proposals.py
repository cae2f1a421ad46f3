"""Four eyes in a real Chromium: propose, approve and reject by the keyboard alone; a stale proposal; axe-core."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.ui.conftest import WIDE, World
from tests.e2e.ui.test_forms import LIST
from tests.e2e.ui.test_looks import AXE, NARROW
from waterclock.connectors.forms.changes import Edit, Origin, apply
from waterclock.connectors.forms.history import find_row, list_changes
from waterclock.connectors.forms.proposals import list_proposals
from waterclock.flow.form_rights import FormRights
from waterclock.operations.forms import OpenedForm, open_form
from waterclock.operations.project_opening import open_project

FLOW = """
CREATE CONNECTION forms TYPE forms;
COLLECT mdm.product_map (supplier_sku KEY, sku NOT NULL, kind, remark)
  FROM forms.product_map OPTIONS (approval true) EVERY DAY START '2020-01-01';
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.dpl").write_text(FLOW)
    (tmp_path / "waterclock.toml").write_text('[project]\nname = "p"\n[env.dev]\nstorage = ".dev"\n')
    return tmp_path


@pytest.fixture
def form(folder: Path) -> OpenedForm:
    opened = open_form(open_project(folder, None), "mdm.product_map")
    rows = [Edit((key,), {"sku": "A"}, None) for key in ("S1", "S2")]
    apply(opened.database, opened.entity, by=FormRights("publish"), why="first", edits=rows, origin=Origin.PUBLISH)
    return opened


def propose(form: OpenedForm, who: str, sku: str, key: str = "S1") -> None:
    row = find_row(form.database, form.entity, (key,))
    edit = Edit((key,), {"sku": sku}, None if row is None else row.version)
    apply(form.database, form.entity, by=FormRights(who), why=f"{who} wants {sku}", edits=[edit])


def sku(form: OpenedForm, key: str = "S1") -> str | None:
    row = find_row(form.database, form.entity, (key,))
    return None if row is None else row.content.get("sku")


def tab_to(page: Page, name: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate("(document.activeElement.labels?.[0] ?? document.activeElement).textContent")
        if str(focused).startswith(name):
            return
    raise AssertionError(f"{name} is not reached by Tab")


def test_proposals_are_approved_and_rejected_by_the_keyboard_alone(
    opened: Callable[..., Page], serve: Callable[..., str], folder: Path, form: OpenedForm
) -> None:
    propose(form, "ada", "B")
    propose(form, "bob", "Z", key="S2")
    page = opened(f"{serve(folder, None)}{LIST}")
    tab_to(page, "Proposal 1")
    page.keyboard.press("Enter")  # shown below the list, without leaving it
    expect(page.get_by_role("heading", name="Proposal 1: open")).to_be_visible()
    row = page.get_by_role("table", name="Rows of the proposal").get_by_role("row", name="S1")
    expect(row.get_by_role("cell")).to_have_text(["sku", "A", "A", "B"])
    assert page.url.endswith(LIST)
    tab_to(page, "Approve 1 row")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Proposal 1: approved")).to_be_visible()
    assert sku(form) == "B"
    tab_to(page, "All rows")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Proposal 2")).to_be_visible()
    tab_to(page, "Proposal 2")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Proposal 2: open")).to_be_visible()
    tab_to(page, "Why reject it")
    page.keyboard.type("it is A")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Proposal 2: rejected")).to_be_visible()
    expect(page.get_by_text("it is A")).to_be_visible()
    assert sku(form, "S2") == "A"
    assert list_proposals(form.database, form.entity) == []
    change = list_changes(form.database, form.entity, ("S1",))[0]
    assert change.who == "ada"
    assert change.approved_by not in {None, "ada"}


def test_a_change_of_ones_own_waits_and_is_withdrawn(
    opened: Callable[..., Page], serve: Callable[..., str], folder: Path, form: OpenedForm
) -> None:
    page = opened(f"{serve(folder, None)}{LIST}/row?key=S1")
    page.get_by_label("sku (required)", exact=True).fill("mine")
    page.get_by_label("Why").fill("a test")
    page.get_by_role("button", name="Propose", exact=True).click()
    expect(page.get_by_role("heading", name="Proposal 1: open")).to_be_visible()
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    assert sku(form) == "A"
    page.get_by_label("Why withdraw it").fill("a mistake")
    page.get_by_role("button", name="Withdraw proposal 1").click()
    expect(page.get_by_role("heading", name="Proposal 1: withdrawn")).to_be_visible()
    assert sku(form) == "A"


def test_a_proposal_that_becomes_stale_while_it_is_read_is_not_approved(
    opened: Callable[..., Page], serve: Callable[..., str], folder: Path, form: OpenedForm, closed_world: World
) -> None:
    closed_world.forgiven.append("409")
    propose(form, "ada", "C")
    page = opened(f"{serve(folder, None)}{LIST}/proposal?number=1")
    expect(page.get_by_role("button", name="Approve 1 row")).to_be_enabled()
    row = find_row(form.database, form.entity, ("S1",))
    assert row is not None
    direct = [Edit(("S1",), {"sku": "B"}, row.version)]
    apply(form.database, form.entity, by=FormRights("publish"), why="else", edits=direct, origin=Origin.PUBLISH)
    page.get_by_role("button", name="Approve 1 row").click()
    expect(page.get_by_role("alert")).to_contain_text("changed since proposal 1 was made")
    row_of = page.get_by_role("table", name="Rows of the proposal").get_by_role("row", name="S1")
    expect(row_of.get_by_role("cell")).to_have_text(["sku", "A", "≠ B", "C"])
    expect(page.get_by_role("button", name="Approve 1 row")).to_be_disabled()
    assert sku(form) == "B"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_proposal_pages_have_no_accessibility_violations(
    opened: Callable[..., Page], serve: Callable[..., str], folder: Path, form: OpenedForm, theme: str
) -> None:
    propose(form, "ada", "B")
    address, axe = serve(folder, None), files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    page = opened(f"{address}{LIST}", size=WIDE if theme == "light" else NARROW, theme=theme)

    def check(name: str) -> None:
        page.evaluate(axe)
        assert page.evaluate(AXE) == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} sticks out"

    check("list")
    page.get_by_role("link", name="Proposal 1").click()
    expect(page.get_by_role("heading", name="Proposal 1: open")).to_be_visible()
    check("list with a proposal")
    page.goto(f"{address}{LIST}/proposal?number=1")
    check("proposal")
    page.get_by_role("button", name="Approve 1 row").click()
    expect(page.get_by_role("heading", name="Proposal 1: approved")).to_be_visible()
    check("approved")
