"""Files of forms: uploaded files are reviewed as pasted rows are, and all rows are downloaded."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient

from tests.security.people import Pages
from tests.unit.ui import test_form_views as views
from tests.unit.ui import test_forms
from tests.unit.ui.test_form_proposals import Desk
from tests.unit.ui.test_forms import LIST, VALUES, content
from waterclock.connectors.forms.changes import Edit, apply
from waterclock.connectors.forms.row_files import read_file, read_text
from waterclock.flow.form_rights import FormRights
from waterclock.operations.forms import OpenedForm, open_form
from waterclock.operations.project_opening import open_project
from waterclock.permissions.users_and_roles import Right
from waterclock.ui.posted_forms import parse_form

PASTE = f"{LIST}/paste"
folder, client, form = test_forms.folder, test_forms.client, test_forms.form  # fixtures


def upload(client: TestClient, name: str, body: bytes, status: int = 200, **values: str) -> str:
    answer = client.post(PASTE, data={"do": "review", **values}, files={"file": (name, body)})
    assert answer.status_code == status, answer.text
    return answer.text


def text_of_page(page: str) -> str:
    found = re.search(r'<textarea id="text"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    assert found is not None
    return found[1].replace("&#34;", '"').replace("&#39;", "'").replace("&amp;", "&")


def apply_page(client: TestClient, page: str) -> int:
    digest = re.search(r'name="digest" value="(\w+)"', page)
    assert digest is not None
    sent = {"text": text_of_page(page), "do": "apply", "digest": digest[1], "why": "a file"}
    # as a browser sends a form with a file field in which nothing is chosen
    return client.post(PASTE, data=sent, files={"file": ("", b"")}).status_code


def workbook(**sheets: Sequence[Sequence[object]]) -> bytes:
    import openpyxl

    book, file = openpyxl.Workbook(), io.BytesIO()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(file)
    return file.getvalue()


def test_an_uploaded_file_is_reviewed_as_pasted_rows_and_applied(client: TestClient, form: OpenedForm) -> None:
    client.post(f"{LIST}/row", data=VALUES)
    body = "supplier_sku;sku;kind;pack_size;none\nS1;B;raw;1;\nS2;'=x;raw;1;y\nS3;;raw;1;\n".encode("utf-8-sig")
    page = upload(client, "rows.csv", body, text="what was pasted before")
    assert "1 new, 1 changed" in page
    assert "✕ 1 invalid" in page
    assert "a value is required" in page
    assert "The form has no column none and does not save these values." in page
    page = upload(client, "rows.csv", body.replace(b"S3;;", b"S3;C;"))
    assert content(form, "S2") is None
    assert apply_page(client, page) == 303
    assert content(form)["sku"] == "B"
    assert content(form, "S2")["sku"] == "=x"


def test_a_sheet_of_a_workbook_is_chosen_and_its_numbers_have_a_decimal_point(
    client: TestClient, form: OpenedForm
) -> None:
    rows: list[list[object]] = [
        ["supplier_sku", "sku", "kind", "pack_size", "remark"],
        ["S1", "007", "raw", 1.0, 1.234],
    ]
    book = workbook(First=[["nothing"]], Rows=rows)
    assert "its header has" not in upload(client, "rows.xlsx", book, sheet="rows", comma="1")
    page = upload(client, "ROWS.XLSX", book, sheet="rows", comma="1")
    assert 'value="1" checked' not in page
    assert apply_page(client, page) == 303
    assert content(form) == {"supplier_sku": "S1", "sku": "007", "kind": "raw", "pack_size": "1", "remark": "1.234"}
    assert "no sheet other: there are First, Rows. Nothing was saved." in upload(
        client, "a.xlsx", book, 422, sheet="other"
    )


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("rows.xlsx", b"no workbook", "these rows cannot be read"),
        ("rows.csv", b"S1,\x81\xff", "neither UTF-8 nor windows-1252"),
        ("rows.csv", b'S1,"A', "these rows cannot be read"),
        ("rows.xlsx", workbook(A=[]), "the sheet is empty"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(client: TestClient, name: str, body: bytes, words: str) -> None:
    assert words in upload(client, name, body, 422, text="kept", why="kept too")


def test_a_guessed_encoding_is_shown(client: TestClient) -> None:
    page = upload(client, "rows.csv", "supplier_sku,sku,pack_size\nS1,Käse,1\n".encode("cp1252"))
    assert "was read as windows-1252" in page
    assert "Käse" in page
    assert "was read as" not in upload(client, "rows.csv", "supplier_sku,sku,pack_size\nS1,Käse,1\n".encode())


def test_large_uploads_are_refused_before_they_are_read(client: TestClient) -> None:
    assert client.post(PASTE, files={"file": ("a.csv", b"x" * (50 << 20))}).status_code == 413
    assert client.post(f"{LIST}/row", files={"file": ("a.csv", b"x" * 70_000)}).status_code == 413
    page = upload(client, "a.csv", b"x," * 10_000_001, 422)
    assert "at most 20000000 are read" in page
    assert len(page) < 100_000


def test_an_upload_needs_the_right_and_the_origin_of_a_paste(folder: Path, client: TestClient) -> None:
    pages = Pages(folder, "2020-01-05")
    pages.anna.rights = frozenset({Right.LOOK})
    assert pages.client.post(PASTE, data={}, files={"file": ("a.csv", b"S1,A")}).status_code == 403
    answer = client.post(PASTE, files={"file": ("a.csv", b"S1,A")}, headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403


def download(client: TestClient, kind: str) -> list[list[str]]:
    answer = client.get(f"{LIST}/rows.{kind}")
    assert answer.status_code == 200
    assert answer.headers["content-disposition"].endswith(f"mdm.product_map.{kind}")
    return read_text(read_file(f"rows.{kind}", io.BytesIO(answer.content)).text)


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_an_uploaded_download_changes_nothing(client: TestClient, form: OpenedForm, kind: str) -> None:
    texts = ["=cmd|'/c calc'!A0", "שלום", 'a\n"b"', "007", "'=1", "+1", "a;b,c"]
    edits = [
        Edit((f"K{text}",), {"sku": text, "kind": "raw", "pack_size": "1", "remark": text}, None) for text in texts
    ]
    apply(form.database, form.entity, by=FormRights("ada"), why="list", edits=edits)
    answer = client.get(f"{LIST}/rows.{kind}")
    page = upload(client, f"rows.{kind}", answer.content)
    assert f"0 new, 0 changed, {len(texts)} same, 0 invalid" in page
    assert not any(cell.startswith("=") for row in download(client, kind) for cell in row)


def test_a_download_has_what_is_shown_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.dpl").write_text(views.FLOW.replace("APPROVAL", ""))
    (tmp_path / "waterclock.toml").write_text(test_forms.TOML + views.USERS)
    found = open_form(open_project(tmp_path, None), "mdm.prices")
    views.save(found, views.row("D1", "DE", "1.00"), views.row("F1", "FR", "9137.42", "Paris"))
    desk = Desk(tmp_path, {"anna": {"land": "DE"}})
    desk.ask("anna", views.EDITOR, "GET", views.LIST)
    for kind in ("csv", "xlsx"):
        answer = desk.pages.client.get(f"{views.LIST}/rows.{kind}")
        rows = read_text(read_file(f"rows.{kind}", io.BytesIO(answer.content)).text)
        assert rows == [["sku", "land", "price", "kind"], ["D1", "DE", "1.00" if kind == "csv" else "1", "tea"]]
        assert not any(word in cell for word in views.HUSH for row in rows for cell in row)


def posted(parts: Mapping[str, bytes], boundary: bytes = b"xYz") -> bytes:
    return b"".join(b"--%b\r\n%b\r\n\r\n%b\r\n" % (boundary, head.encode(), body) for head, body in parts.items()) + (
        b"--%b--\r\n" % boundary
    )


NAMED = 'Content-Disposition: form-data; name="{}"'
TYPE = "multipart/form-data; boundary=xYz"


@pytest.mark.parametrize("body", [b"", b"\r\n--xY", b"--xy", b"\r\n\r\n" * 9, b"a\r\n--xYZ--\r\n", bytes(range(256))])
def test_the_parts_of_a_form_are_what_was_sent(body: bytes) -> None:
    head = NAMED.format("file") + '; filename="ä.csv"\r\nContent-Type: text/csv'
    found = parse_form(posted({NAMED.format("text"): "ä\r\n".encode(), head: body}), TYPE)
    assert found.values == {"text": "ä\r\n"}
    assert found.file is not None
    assert (found.file.name, found.file.content) == ("ä.csv", body)


def test_a_form_that_is_cut_anywhere_is_refused() -> None:
    body = posted({NAMED.format("text"): b"one", NAMED.format("do"): b"review"})
    end = body.rindex(b"--\r\n")
    for at in range(end):
        with pytest.raises(HTTPException):
            parse_form(body[:at], TYPE)
    for wrong in (TYPE.replace("xYz", "x"), "multipart/form-data", "multipart/form-data; boundary="):
        with pytest.raises(HTTPException):
            parse_form(body, wrong)
    with pytest.raises(HTTPException):
        parse_form(posted({NAMED.format(str(at)): b"" for at in range(21)}), TYPE)
