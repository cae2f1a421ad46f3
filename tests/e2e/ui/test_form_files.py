"""Files of forms in a real Chromium, without JavaScript: a workbook is uploaded, reviewed, applied and downloaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import openpyxl
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.ui import test_forms
from tests.e2e.ui.conftest import SERVED
from tests.e2e.ui.test_forms import LIST
from waterclock.connectors.forms.history import find_row
from waterclock.operations.forms import OpenedForm

folder, form = test_forms.folder, test_forms.form  # fixtures
TEXTS = ("=cmd|'/c calc'!A0", "שלום, עולם", 'two\n"lines"', "007")


@pytest.fixture
def page(browser: Browser, serve: Callable[..., str], folder: Path, form: OpenedForm) -> Page:
    assert form.entity.table == "mdm.product_map"
    address = serve(folder, None)
    context = browser.new_context(java_script_enabled=False)
    for served in SERVED:
        context.request.get(served.new_link())
    page = context.new_page()
    page.goto(f"{address}{LIST}")
    return page


def upload(page: Page, path: Path) -> None:
    page.get_by_label("Or a file").set_input_files(path)
    page.get_by_role("button", name="Review").click()


def test_a_workbook_is_uploaded_and_its_download_changes_nothing(page: Page, form: OpenedForm, tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.create_sheet("Rows")
    sheet.append(["supplier_sku", "sku", "kind", "pack_size", "since", "remark"])
    for at, text in enumerate(TEXTS):
        sheet.append([f"N{at}", "N", "raw", 12, form_day := "2026-11-30", text])
        sheet.cell(at + 2, 6).data_type = "s"
    sheet.append(["N9", None, None, None, form_day, None])
    path = tmp_path / "rows.xlsx"
    book.save(path)
    list_address = page.url
    page.get_by_role("link", name="Paste or upload rows").click()
    page.get_by_label("Sheet of a workbook").fill("Rows")
    upload(page, path)
    expect(page.get_by_role("status")).to_contain_text("4 new, 0 changed, 0 same, ✕ 1 invalid")
    sheet.delete_rows(6)
    book.save(path)
    upload(page, path)
    expect(page.get_by_role("status")).to_contain_text("4 new, 0 changed, 0 same, 0 invalid")
    page.get_by_label("Why").fill("the workbook")
    page.get_by_role("button", name="Apply 4 rows").click()
    expect(page.get_by_role("link", name="N3")).to_be_visible()
    rows = [find_row(form.database, form.entity, (f"N{at}",)) for at in range(4)]
    assert [None if row is None else row.content["remark"] for row in rows] == list(TEXTS)
    for kind in ("CSV", "Excel"):
        page.goto(list_address)
        with page.expect_download() as waiting:
            page.get_by_role("link", name=kind, exact=True).click()
        saved = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(saved)
        page.goto(f"{list_address}/paste")
        upload(page, saved)
        expect(page.get_by_role("status")).to_contain_text("0 new, 0 changed, 8 same, 0 invalid")


def test_a_file_that_is_too_large_or_no_workbook_changes_nothing(page: Page, form: OpenedForm, tmp_path: Path) -> None:
    address = f"{page.url}/paste"
    page.goto(address)
    path = tmp_path / "rows.xlsx"
    path.write_bytes(b"no workbook")
    upload(page, path)
    expect(page.get_by_role("alert")).to_contain_text("these rows cannot be read")
    path.write_bytes(b"x" * (51 << 20))
    page.get_by_label("Or a file").set_input_files(path)
    page.get_by_role("button", name="Review").click()
    expect(page.get_by_text("too large")).to_be_visible()
    assert find_row(form.database, form.entity, ("N1",)) is None
