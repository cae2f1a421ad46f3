"""Cells that are edited in the list of a form: checks, one batch for a draft, conflicts and repetition."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.pages import client_of
from tests.unit.ui.test_form_proposals import APPROVER, EDITOR, Desk
from tests.unit.ui.test_forms import HERE, LIST, TOML, text_of
from waterclock.connectors.forms.changes import Edit, Origin, apply
from waterclock.connectors.forms.history import find_row, list_changes
from waterclock.connectors.forms.proposals import list_proposals
from waterclock.flow.form_rights import FormRights
from waterclock.operations.forms import OpenedForm, open_form
from waterclock.operations.project_opening import open_project
from waterclock.permissions.users_and_roles import Right
from waterclock.ui.forms.cells import MOST_ROWS
from waterclock.ui.live_project import LiveProject

FLOW = """
CREATE CONNECTION forms TYPE forms;
COLLECT mdm.product_map (
  supplier_sku KEY, sku NOT NULL, kind EXPECT (kind IN ('raw', 'finished')) AS kinds, pack_size INT, remark)
  FROM forms.product_map OPTIONS (approval APPROVAL) EVERY DAY START '2020-01-01';
GRANTS
"""
USERS = '[roles]\nall = ["look", "edit"]\n' + "".join(
    f'[users.{name}]\nroles = ["all"]\n' for name in ("anna", "ben", "cleo")
)
CELLS = f"{LIST}/cells"
FIRST = {"sku": "A", "kind": "raw", "pack_size": "2", "remark": "two\nlines"}


def made(tmp_path: Path, approval: str = "false", grants: str = "") -> Path:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.dpl").write_text(FLOW.replace("APPROVAL", approval).replace("GRANTS", grants))
    (tmp_path / "waterclock.toml").write_text(TOML + USERS)
    return tmp_path


def opened(folder: Path) -> OpenedForm:
    """Open the form with the rows S1 and S2."""
    form = open_form(open_project(folder, None), "mdm.product_map")
    edits = [Edit((key,), FIRST, None) for key in ("S1", "S2")]
    apply(form.database, form.entity, by=FormRights("ada"), why="first", edits=edits, origin=Origin.PUBLISH)
    return form


@pytest.fixture
def form(tmp_path: Path) -> OpenedForm:
    return opened(made(tmp_path))


@pytest.fixture
def client(form: OpenedForm, tmp_path: Path) -> TestClient:
    assert form.rights.may_edit
    client = client_of(LiveProject(tmp_path))
    client.headers |= HERE
    return client


def draft(form: OpenedForm, **rows: dict[str, str]) -> str:
    """Return the changed cells of rows as the page posts them, with the current versions."""
    return json.dumps([{"key": key, "version": version(form, key), "cells": cells} for key, cells in rows.items()])


def version(form: OpenedForm, key: str) -> str:
    row = find_row(form.database, form.entity, (key,))
    assert row is not None
    return str(row.version)


def content(form: OpenedForm, key: str = "S1") -> dict[str, Any]:
    row = find_row(form.database, form.entity, (key,))
    return {} if row is None else dict(row.content)


def reasons(form: OpenedForm, key: str = "S1") -> list[str]:
    return [change.why for change in list_changes(form.database, form.entity, (key,))]


def cell(page: str, key: str, column: str) -> str:
    """Return the HTML of a cell."""
    [row] = re.findall(rf'<tr data-row="{key}".*?</tr>', page, re.DOTALL)
    [found] = re.findall(rf'<td data-f="{column}".*?</td>', row, re.DOTALL)
    return str(found)


def said(page: str) -> str:
    [found] = re.findall(r'<p id="said">(.*?)</p>', page)
    return unescape(str(found))


def test_the_list_has_what_the_grid_needs(client: TestClient, form: OpenedForm) -> None:
    page = client.get(LIST).text
    assert f'data-row="S1" data-version="{version(form, "S1")}" aria-rowindex="2"' in page
    assert 'aria-readonly="true"' in cell(page, "S1", "supplier_sku")
    assert cell(page, "S1", "remark").startswith('<td data-f="remark" data-v="two\nlines">')
    assert f'data-cells="{CELLS}"' in page
    editors = re.findall(r'<template data-editor="(\w+)"><(\w+)', page)
    assert editors == [("sku", "textarea"), ("kind", "select"), ("pack_size", "input"), ("remark", "textarea")]
    assert "<script>" not in page


def test_a_list_without_rows_or_rights_is_a_plain_table(client: TestClient, tmp_path: Path) -> None:
    assert 'id="rows"' not in client.get(f"{LIST}?q=nothing").text
    page = Desk(tmp_path).ask("anna", [Right.LOOK], "GET", LIST)[1]
    assert "S1" in page
    for part in ("data-f", "data-version", "<template", "form_grid.js", 'id="draft"'):
        assert part not in page


def test_a_long_value_is_edited_on_the_page_of_its_row(client: TestClient, form: OpenedForm) -> None:
    apply(
        form.database, form.entity, by=FormRights("ada"), why="long",
        edits=[Edit(("S1",), {"remark": "x" * 1001}, int(version(form, "S1")))],
    )  # fmt: skip
    assert 'aria-readonly="true"' in cell(client.get(LIST).text, "S1", "remark")


@pytest.mark.parametrize(
    ("column", "text", "problem"),
    [
        ("sku", "B", ""),
        ("sku", " ", "a value is required"),
        ("kind", "other", "it is none of raw, finished"),
        ("kind", "", "a value is required"),
        ("pack_size", "many", "it is not a number"),
        ("pack_size", "1 200", ""),
        ("pack_size", "99999999999", "it is not between -2147483648 and 2147483647"),
        ("remark", "a\tb\x07", "it contains a control character"),
        ("remark", "<b>&\"'", ""),
        ("remark", "x" * 10_001, "it has 10001 characters, and at most 10000 are stored"),
        ("supplier_sku", "S9", "it identifies the row, and cannot change"),
        ("nothing", "x", "the form has no such column now: undo this change to save the others"),
        ("SKU", "x", "the form has no such column now: undo this change to save the others"),
    ],
)
def test_a_check_has_the_problem_of_each_cell_and_saves_nothing(
    client: TestClient, form: OpenedForm, column: str, text: str, problem: str
) -> None:
    rows = draft(form, S1={column: text})
    answer = client.post(CELLS, data={"rows": rows, "do": "check"})
    assert answer.status_code == 200
    assert said(answer.text) == (f"{column} of S1: {problem}" if problem else "")
    if form.entity.field(column) and column != "SKU":
        found = cell(answer.text, "S1", column)
        assert ("aria-invalid" in found) is bool(problem)
        assert re.search('class="(r )?is-draft"', found)
        assert (problem or "<ins>") in unescape(found)
    assert f'data-version="{version(form, "S1")}"' in answer.text
    assert reasons(form) == ["first"]
    if problem:
        answer = client.post(CELLS, data={"rows": rows, "do": "save", "why": "x"})
        assert answer.status_code == 422
        assert said(answer.text) == f"1 cell cannot be saved. {column} of S1: {problem}. Nothing was saved."
        assert reasons(form) == ["first"]


def test_a_draft_is_saved_as_one_batch_and_again_changes_nothing(client: TestClient, form: OpenedForm) -> None:
    rows = draft(form, S1={"sku": "B", "pack_size": "1 200"}, S2={"kind": "finished", "remark": ""})
    answer = client.post(CELLS, data={"rows": rows, "do": "save", "why": " agreed "})
    assert answer.status_code == 201
    assert said(answer.text) == "2 rows saved, as batch 2."
    assert content(form, "S1") == FIRST | {"supplier_sku": "S1", "sku": "B", "pack_size": "1200"}
    assert content(form, "S2") == {"supplier_sku": "S2", "sku": "A", "kind": "finished", "pack_size": "2"}
    assert "is-draft" not in answer.text
    assert f'data-row="S1" data-version="{version(form, "S1")}"' in answer.text
    assert 'data-v="1200"' in cell(answer.text, "S1", "pack_size")
    assert "Undo batch 2" in answer.text
    again = client.post(CELLS, data={"rows": rows, "do": "save", "why": "agreed"})
    assert again.status_code == 200
    assert said(again.text) == "All of it is saved already."
    assert f'data-row="S1" data-version="{version(form, "S1")}"' in again.text
    assert [reasons(form, key) for key in ("S1", "S2")] == [["agreed", "first"]] * 2


def test_a_save_needs_a_reason_and_is_whole(client: TestClient, form: OpenedForm) -> None:
    rows = draft(form, S1={"sku": "B"}, S2={"pack_size": "many"})
    assert client.post(CELLS, data={"rows": rows, "do": "save", "why": "x"}).status_code == 422
    rows = draft(form, S1={"sku": "B"})
    answer = client.post(CELLS, data={"rows": rows, "do": "save", "why": " "})
    assert (answer.status_code, said(answer.text)) == (422, "State the reason. Nothing was saved.")
    answer = client.post(CELLS, data={"rows": rows, "do": "save", "why": "x" * 2001})
    assert answer.status_code == 422
    assert "a change of master data needs a person and a reason" in answer.text
    assert re.search('class="(r )?is-draft"', answer.text)
    assert content(form)["sku"] == "A"


def test_other_cells_of_a_row_that_need_a_value_are_named_on_saving(client: TestClient, form: OpenedForm) -> None:
    waiting = [Edit(("S9",), {}, None)]
    apply(form.database, form.entity, by=FormRights("x"), why="x", edits=waiting, origin=Origin.PUBLISH)
    rows = draft(form, S9={"sku": "B"})
    assert said(client.post(CELLS, data={"rows": rows}).text) == ""
    answer = client.post(CELLS, data={"rows": rows, "do": "save", "why": "x"})
    assert answer.status_code == 422
    assert said(answer.text) == (
        "1 cell cannot be saved. kind of S9: it must be one of raw, finished. Nothing was saved."
    )
    assert 'aria-invalid="true"' in cell(answer.text, "S9", "kind")
    assert "is-draft" in cell(answer.text, "S9", "sku")
    rows = draft(form, S9={"sku": "B", "kind": "raw"})
    assert client.post(CELLS, data={"rows": rows, "do": "save", "why": "x"}).status_code == 201


def test_a_conflict_shows_all_three_values_and_saving_again_decides(client: TestClient, form: OpenedForm) -> None:
    rows = draft(form, S1={"sku": "C"}, S2={"sku": "D"})
    theirs = Edit(("S1",), {"sku": "B", "remark": "theirs"}, int(version(form, "S1")))
    apply(form.database, form.entity, by=FormRights("bob"), why="other", edits=[theirs])
    checked = client.post(CELLS, data={"rows": rows, "do": "check"}).text
    assert 'data-v="A"' in cell(checked, "S1", "sku")  # a check keeps the version that the editor saw
    assert f'data-version="{version(form, "S1")}"' not in checked
    answer = client.post(CELLS, data={"rows": rows, "do": "save", "why": "mine"})
    assert answer.status_code == 409
    assert "bob saved S1 since you began: other. Nothing was saved." in text_of(answer.text)
    [three] = re.findall(r'<th scope="row">≠ sku</th>(.*?)</tr>', answer.text)
    assert re.findall(r"<td>(.*?)</td>", three) == ["A", "B", "C"]
    assert "<s>B</s><ins>C</ins>" in cell(answer.text, "S1", "sku")
    assert 'data-v="theirs"' in cell(answer.text, "S1", "remark")
    assert "<ins>D</ins>" in cell(answer.text, "S2", "sku")
    assert [content(form, key)["sku"] for key in ("S1", "S2")] == ["B", "A"]
    [new] = re.findall(r'data-row="S1" data-version="(\d+)"', answer.text)
    again = rows.replace('"version": "1"', f'"version": "{new}"')
    assert client.post(CELLS, data={"rows": again, "do": "save", "why": "mine"}).status_code == 201
    assert content(form, "S1") == FIRST | {"supplier_sku": "S1", "sku": "C", "remark": "theirs"}
    assert content(form, "S2")["sku"] == "D"


def test_a_deleted_row_is_a_conflict_and_is_not_added_again(client: TestClient, form: OpenedForm) -> None:
    rows = draft(form, S1={"sku": "C"}, S2={"sku": "D"})
    gone = Edit(("S1",), None, int(version(form, "S1")))
    apply(form.database, form.entity, by=FormRights("bob"), why="wrong", edits=[gone])
    assert "<ins>C</ins>" in cell(client.post(CELLS, data={"rows": rows}).text, "S1", "sku")
    answer = client.post(CELLS, data={"rows": rows, "do": "save", "why": "mine"})
    assert answer.status_code == 409
    assert "bob deleted S1 since you began: wrong." in text_of(answer.text)
    assert 'aria-readonly="true"' in cell(answer.text, "S1", "sku")
    assert "is-draft" not in cell(answer.text, "S1", "sku")
    assert "is-draft" in cell(answer.text, "S2", "sku")
    assert (content(form, "S1"), content(form, "S2")["sku"]) == ({}, "A")


@pytest.mark.parametrize(
    "rows",
    [
        "", "{", "[" * 100_000, "null", '"x"', "[1]", "[{}]", '[{"key": 1, "version": "1", "cells": {}}]',
        '[{"key": "S1", "version": 1, "cells": {}}]', '[{"key": "S1", "version": "-1", "cells": {}}]',
        '[{"key": "S1", "version": "\u0661", "cells": {}}]', '[{"key": "S1", "version": "1", "cells": []}]',
        '[{"key": "S1", "version": "1", "cells": {"sku": 1}}]',
        '[{"key": "S1", "version": "1", "cells": {"sku": "\\ud800"}}]',
        '[{"key": "S1", "version": "1", "cells": {"\\u0000": "x"}}]',
        json.dumps([{"key": "S1", "version": "1", "cells": {}}] * 2),
        json.dumps([{"key": str(at), "version": "1", "cells": {}} for at in range(MOST_ROWS + 1)]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("do", ["check", "save"])
def test_a_draft_that_cannot_be_read_changes_nothing(client: TestClient, form: OpenedForm, rows: str, do: str) -> None:
    answer = client.post(CELLS, data={"rows": rows, "do": do, "why": "x"})
    assert answer.status_code == 422
    assert "these changes cannot be read" in answer.text
    assert reasons(form) == ["first"]


def test_keys_that_no_row_has_are_no_new_rows(client: TestClient, form: OpenedForm) -> None:
    for number, status in (("0", 409), ("1", 409)):
        rows = json.dumps([{"key": "X1", "version": number, "cells": {"sku": "B", "kind": "raw"}}])
        assert client.post(CELLS, data={"rows": rows, "do": "save", "why": "x"}).status_code == status
    nul = json.dumps([{"key": "a\0", "version": "1", "cells": {}}])
    assert client.post(CELLS, data={"rows": nul}).status_code == 404
    assert content(form, "X1") == {}


def test_a_draft_may_be_large_and_has_a_bound(client: TestClient, form: OpenedForm) -> None:
    rows = draft(form, S1={"remark": "x" * 9000}, S2={"remark": "é" * 9000})
    assert len(rows) > 60_000
    assert client.post(CELLS, data={"rows": rows, "do": "save", "why": "x"}).status_code == 201
    assert client.post(CELLS, data={"rows": "x" * (8 << 20)}).status_code == 413


def test_where_a_form_needs_approval_a_draft_is_one_proposal(tmp_path: Path) -> None:
    form = opened(made(tmp_path, "true"))
    desk = Desk(tmp_path)
    rows = draft(form, S1={"sku": "B"}, S2={"sku": "C"})
    for _ in range(2):  # the answer to the first was lost
        status, page = desk.ask("anna", EDITOR, "POST", CELLS, rows=rows, do="save", why="agreed")
        assert (status, said(page)) == (201, "2 rows proposed, as proposal 1.")
        assert f"{LIST}/proposal?number=1" in page
        assert "is-draft" not in page
    [proposal] = list_proposals(form.database, form.entity)
    assert (proposal.who, proposal.why, proposal.count) == ("anna", "agreed", 2)
    assert content(form)["sku"] == "A"
    assert desk.ask("ben", APPROVER, "POST", f"{LIST}/decide", number="1", do="approve")[0] == 303
    assert [content(form, key)["sku"] for key in ("S1", "S2")] == ["B", "C"]
    status, page = desk.ask("anna", EDITOR, "POST", CELLS, rows=rows, do="save", why="agreed")
    assert (status, said(page)) == (200, "All of it is saved already.")


def test_columns_and_rows_that_are_not_granted_are_read_only_and_not_saved(tmp_path: Path) -> None:
    grants = """
    GRANT EDIT (sku, pack_size) ON mdm.product_map TO (anna) WHERE kind = 'raw' AND pack_size < 10;
    GRANT EDIT ON mdm.product_map TO (cleo);"""
    form = opened(made(tmp_path, grants=grants))
    finished = Edit(("S2",), {"kind": "finished"}, int(version(form, "S2")))
    apply(form.database, form.entity, by=FormRights("owner"), why="first", edits=[finished])
    desk = Desk(tmp_path)
    page = desk.ask("anna", EDITOR, "GET", LIST)[1]
    fixed = {
        (key, column): 'aria-readonly="true"' in cell(page, key, column)
        for key in ("S1", "S2")
        for column in ("sku", "kind", "pack_size", "remark")
    }
    assert [at for at, is_fixed in fixed.items() if not is_fixed] == [("S1", "sku"), ("S1", "pack_size")]
    for rows, problem in (
        (draft(form, S1={"remark": "x"}), "remark of S1: you may not change it"),
        (draft(form, S2={"sku": "x"}), "sku of S2: no GRANT EDIT has this row"),
        (
            draft(form, S1={"pack_size": "12"}),
            "pack_size of S1: no GRANT EDIT has the row as it would be",
        ),
    ):
        status, page = desk.ask("anna", EDITOR, "POST", CELLS, rows=rows)
        assert (status, said(page).startswith(problem)) == (200, True), said(page)
        status, page = desk.ask("anna", EDITOR, "POST", CELLS, rows=rows, do="save", why="x")
        assert (status, problem in said(page), "is-draft" in page) == (403, True, True)
    rows = draft(form, S1={"sku": "B", "pack_size": "9"})
    assert desk.ask("anna", EDITOR, "POST", CELLS, rows=rows, do="save", why="x")[0] == 201
    rows = draft(form, S1={"sku": "Z"})
    for do, status in (("check", 200), ("save", 403)):  # the grant of ben was revoked since
        found, page = desk.ask("ben", EDITOR, "POST", CELLS, rows=rows, do=do, why="x")
        assert (found, "<ins>Z</ins>" in cell(page, "S1", "sku")) == (status, True)
        assert "no GRANT EDIT of the form is to ben" in said(page)
        assert desk.ask("cleo", [Right.LOOK], "POST", CELLS, rows=rows, do=do, why="x")[0] == 403
    assert content(form) == FIRST | {"supplier_sku": "S1", "sku": "B", "pack_size": "9"}
    assert content(form, "S2")["sku"] == "A"


def test_forms_is_the_current_entry_of_the_menu_on_all_pages_of_a_form(client: TestClient) -> None:
    for address in ("/forms", LIST, f"{LIST}/row?key=S1", f"{LIST}/paste"):
        assert re.findall(r'<a href="([^"?]+)[^>]* aria-current', client.get(address).text) == ["/forms"], address
