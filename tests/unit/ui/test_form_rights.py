"""The pages of a form whose columns are granted to different users: fields, buttons, posts, pastes and undo."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ui.test_form_proposals import Desk
from tests.unit.ui.test_forms import TOML, text_of
from waterclock.connectors.forms.changes import Edit, apply
from waterclock.connectors.forms.history import find_row
from waterclock.flow.form_rights import FormRights
from waterclock.operations.forms import OpenedForm, open_form
from waterclock.operations.project_opening import open_project
from waterclock.permissions.users_and_roles import Right

FLOW = """
CREATE CONNECTION forms TYPE forms;
COLLECT mdm.prices (sku KEY, name, price DECIMAL(9,2), kind EXPECT (kind IN ('a', 'b')) AS kinds)
  FROM forms.prices EVERY DAY START '2020-01-01';
GRANT EDIT (price) ON mdm.prices TO (ben);
GRANT EDIT (sku, name, kind) ON mdm.prices TO (anna);
GRANT APPROVE ON mdm.prices TO (cleo);
"""
USERS = '[roles]\nall = ["look", "edit"]\n' + "".join(
    f'[users.{name}]\nroles = ["all"]\n' for name in ("anna", "ben", "cleo")
)
LIST = "/forms/mdm.prices"
ROW = f"{LIST}/row"
EDITOR = [Right.LOOK, Right.EDIT, Right.APPROVE]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.dpl").write_text(FLOW)
    (tmp_path / "waterclock.toml").write_text(TOML + USERS)
    return tmp_path


@pytest.fixture
def form(folder: Path) -> OpenedForm:
    opened = open_form(open_project(folder, None), "mdm.prices")
    row = [Edit(("S1",), {"name": "Tea", "price": "2.00", "kind": "a"}, None)]
    apply(opened.database, opened.entity, by=FormRights("owner"), why="first", edits=row)
    return opened


@pytest.fixture
def desk(folder: Path, form: OpenedForm) -> Desk:
    assert form.entity.table == "mdm.prices"
    return Desk(folder)


def content(form: OpenedForm, key: str = "S1") -> Any:
    row = find_row(form.database, form.entity, (key,))
    return None if row is None else dict(row.content)


def posted(form: OpenedForm, **changed: str) -> dict[str, str]:
    row = find_row(form.database, form.entity, ("S1",))
    assert row is not None
    values = {f"f.{name}": value or "" for name, value in row.content.items()}
    sent = {f"f.{name}": value for name, value in changed.items()}
    return {"key": "S1", "version": str(row.version), "why": "a test"} | values | sent


def fields_to_change(page: str) -> list[str]:
    tags = re.findall(r"<(?:input|select|textarea) [^>]*name=\"f\.(\w+)\"[^>]*>", page)
    fixed = re.findall(r"<input [^>]*name=\"f\.(\w+)\"[^>]* readonly", page)
    return [name for name in tags if name not in fixed]


def test_columns_that_are_not_granted_are_read_only(desk: Desk) -> None:
    page = desk.ask("ben", EDITOR, "GET", f"{ROW}?key=S1")[1]
    assert fields_to_change(page) == ["price"]
    assert "You may not change it" in page
    assert 'value="save"' in page
    assert 'value="delete"' not in page
    page = desk.ask("anna", EDITOR, "GET", f"{ROW}?key=S1")[1]
    assert fields_to_change(page) == ["name", "kind"]
    assert 'value="delete"' in page
    assert "Add a row" in desk.ask("anna", EDITOR, "GET", LIST)[1]
    assert "Add a row" not in desk.ask("ben", EDITOR, "GET", LIST)[1]


def test_a_post_changes_only_granted_columns(desk: Desk, form: OpenedForm) -> None:
    sent = posted(form, price="3.00", name="Coffee")
    assert desk.ask("ben", EDITOR, "POST", ROW, **sent)[0] == 403
    assert content(form)["price"] == "2.00"
    assert desk.ask("ben", EDITOR, "POST", ROW, **posted(form, price="3.00"))[0] == 303  # other fields are unchanged
    assert content(form) == {"sku": "S1", "name": "Tea", "price": "3.00", "kind": "a"}
    assert desk.ask("anna", EDITOR, "POST", ROW, **posted(form, price="9.00", name="Cocoa"))[0] == 403
    assert desk.ask("anna", EDITOR, "POST", ROW, **posted(form, name="Cocoa"))[0] == 303
    assert content(form) == {"sku": "S1", "name": "Cocoa", "price": "3.00", "kind": "a"}


def test_rows_are_added_and_deleted_by_who_may_change_the_key(desk: Desk, form: OpenedForm) -> None:
    new = {"f.sku": "S2", "f.name": "Tea", "f.price": "1.00", "f.kind": "a", "why": "new"}
    assert desk.ask("ben", EDITOR, "POST", ROW, **new)[0] in {403, 422}
    assert desk.ask("ben", EDITOR, "POST", ROW, **posted(form), do="delete")[0] == 403
    assert content(form, "S2") is None
    assert desk.ask("anna", EDITOR, "POST", ROW, **new)[0] == 403  # with a price
    assert desk.ask("anna", EDITOR, "POST", ROW, **new | {"f.price": ""})[0] == 303
    assert content(form, "S2") == {"sku": "S2", "name": "Tea", "kind": "a"}
    assert desk.ask("anna", EDITOR, "POST", ROW, **posted(form), do="delete")[0] == 403  # it deletes a price
    assert content(form) is not None


def test_pastes_and_undo_change_only_granted_columns(desk: Desk, form: OpenedForm) -> None:
    paste = f"{LIST}/paste"

    def send(name: str, text: str) -> int:
        page = desk.ask(name, EDITOR, "POST", paste, text=text, do="review")[1]
        digest = re.search(r'name="digest" value="(\w+)"', page)
        assert digest is not None
        return desk.ask(name, EDITOR, "POST", paste, text=text, do="apply", digest=digest[1], why="list")[0]

    assert send("ben", "sku\tname\tprice\nS1\tCocoa\t5.00\n") == 403
    assert send("ben", "sku\tname\tprice\nS1\tTea\t5.00\n") == 303
    assert content(form)["price"] == "5.00"
    assert send("anna", "sku\tname\nS1\tCocoa\n") == 303
    assert desk.ask("ben", EDITOR, "POST", f"{LIST}/undo", key="S1", batch="3", why="undo")[0] == 403
    assert content(form)["name"] == "Cocoa"
    assert desk.ask("anna", EDITOR, "POST", f"{LIST}/undo", key="S1", batch="3", why="undo")[0] == 303
    assert content(form)["name"] == "Tea"


def test_who_has_no_grant_sees_the_reason_and_changes_nothing(desk: Desk, form: OpenedForm) -> None:
    page = text_of(desk.ask("cleo", EDITOR, "GET", LIST)[1])
    assert "you may not edit it: no GRANT EDIT of the form is to cleo" in page
    assert 'value="save"' not in desk.ask("cleo", EDITOR, "GET", f"{ROW}?key=S1")[1]
    for address, values in (
        (ROW, posted(form, price="9.00")),
        (f"{LIST}/paste", {"text": "sku\tprice\nS1\t9.00\n", "do": "apply", "digest": "x", "why": "list"}),
        (f"{LIST}/undo", {"key": "S1", "batch": "1", "why": "undo"}),
    ):
        assert desk.ask("cleo", EDITOR, "POST", address, **values)[0] in {403, 409}
    assert content(form)["price"] == "2.00"
    assert desk.ask("ben", [Right.LOOK], "POST", ROW, **posted(form, price="9.00"))[0] == 403


def test_a_changed_grant_counts_from_the_next_request(desk: Desk, form: OpenedForm, folder: Path) -> None:
    assert desk.ask("ben", EDITOR, "POST", ROW, **posted(form, price="3.00"))[0] == 303
    (folder / "flows" / "a.dpl").write_text(
        FLOW.replace("(price) ON mdm.prices TO (ben)", "(price) ON mdm.prices TO (cleo)")
    )
    assert desk.ask("ben", EDITOR, "POST", ROW, **posted(form, price="4.00"))[0] == 403
    assert desk.ask("cleo", EDITOR, "POST", ROW, **posted(form, price="5.00"))[0] == 303
    assert content(form)["price"] == "5.00"
