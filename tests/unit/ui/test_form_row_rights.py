"""The pages of a form whose rows are granted by a condition: each route is attacked for a row of another group."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ui.test_form_proposals import Desk
from tests.unit.ui.test_forms import TOML, text_of
from waterclock.connectors.forms.changes import Edit, apply
from waterclock.connectors.forms.history import find_row, iterate_rows
from waterclock.connectors.forms.proposals import list_proposals
from waterclock.flow.form_rights import FormRights
from waterclock.operations.forms import OpenedForm, open_form
from waterclock.operations.project_opening import open_project
from waterclock.permissions.users_and_roles import Right

FLOW = """
CREATE CONNECTION forms TYPE forms;
COLLECT mdm.prices (sku KEY, land, price DECIMAL(9,2)) FROM forms.prices APPROVED EVERY DAY START '2020-01-01';
GRANT EDIT ON mdm.prices TO (all) WHERE land = USER('land');
GRANT APPROVE ON mdm.prices TO (all) WHERE land = USER('land') AND NOT price > 100;
"""
USERS = '[roles]\nall = ["look", "edit", "approve"]\n' + "".join(
    f'[users.{name}]\nroles = ["all"]\nattributes = {{ land = "{land}" }}\n'
    for name, land in (("anna", "DE"), ("ben", "FR"), ("cleo", "DE"))
)
LANDS = {"anna": {"land": "DE"}, "ben": {"land": "FR"}, "cleo": {"land": "DE"}}
LIST = "/forms/mdm.prices"
ROW, PASTE, UNDO = f"{LIST}/row", f"{LIST}/paste", f"{LIST}/undo"
EDITOR = [Right.LOOK, Right.EDIT, Right.APPROVE]
ROWS = {"D1": ("DE", "1.00"), "D2": ("DE", "200.00"), "F1": ("FR", "1.00"), "N1": (None, "1.00")}


def folder_of(root: Path, flow: str) -> Path:
    (root / "flows").mkdir()
    (root / "flows" / "a.dpl").write_text(flow.replace("TO (all)", "TO (anna, ben, cleo)"))
    (root / "waterclock.toml").write_text(TOML + USERS)
    return root


def opened(folder: Path) -> OpenedForm:
    form = open_form(open_project(folder, None), "mdm.prices")
    rows = [Edit((key,), {"land": land, "price": price}, None) for key, (land, price) in ROWS.items()]
    apply(form.database, plain(form), by=FormRights("owner"), why="first", edits=rows)
    return form


def plain(form: OpenedForm) -> Any:
    """Return the entity as it would be without approval, to prepare rows."""
    from dataclasses import replace

    return replace(form.entity, needs_approval=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folder_of(tmp_path, FLOW.replace("APPROVED ", ""))


@pytest.fixture
def form(folder: Path) -> OpenedForm:
    return opened(folder)


@pytest.fixture
def desk(folder: Path, form: OpenedForm) -> Desk:
    assert form.entity.table == "mdm.prices"
    return Desk(folder, LANDS)


def everything(form: OpenedForm) -> Any:
    rows = {row.key: (row.version, dict(row.content)) for row in iterate_rows(form.database, form.entity)}
    return rows, [(each.number, each.state) for each in list_proposals(form.database, form.entity)]


def posted(form: OpenedForm, key: str, **changed: str) -> dict[str, str]:
    row = find_row(form.database, form.entity, (key,))
    assert row is not None
    values = {f"f.{name}": row.content.get(name) or "" for name in ("sku", "land", "price")}
    sent = {f"f.{name}": value for name, value in changed.items()}
    return {"key": key, "version": str(row.version), "why": "a test"} | values | sent


def cells(form: OpenedForm, key: str, **texts: str) -> str:
    """Return changed cells of a row as the list of rows posts them."""
    row = {"key": key, "version": posted(form, key)["version"], "cells": texts}
    return json.dumps([row])


def paste(desk: Desk, name: str, text: str) -> int:
    page = desk.ask(name, EDITOR, "POST", PASTE, text=text, do="review")[1]
    digest = re.search(r'name="digest" value="(\w+)"', page)
    assert digest is not None
    return desk.ask(name, EDITOR, "POST", PASTE, text=text, do="apply", digest=digest[1], why="list")[0]


def is_read_only(page: str) -> bool:
    return 'value="save"' not in page and 'value="delete"' not in page and "Undo batch" not in page


Attack = tuple[str, dict[str, str], set[int]]


def attacks(form: OpenedForm) -> dict[tuple[str, str], list[Attack]]:
    """Return for each route how anna, of DE, could change rows that are not in DE; with the allowed statuses."""
    new = {"f.sku": "X1", "f.price": "1", "why": "new"}
    one, no = "sku\tland\tprice\n", {200, 403, 409, 422}
    return {
        ("GET", "/forms"): [("/forms", {}, {200})],
        ("GET", "/forms/{table}"): [(LIST, {}, {200})],
        ("GET", "/forms/{table}/rows.csv"): [(f"{LIST}/rows.csv", {}, {200})],
        ("GET", "/forms/{table}/rows.xlsx"): [(f"{LIST}/rows.xlsx", {}, {200})],
        ("GET", "/forms/{table}/values"): [(f"{LIST}/values", {}, {200})],
        ("GET", "/forms/{table}/row"): [(f"{ROW}?key={key}", {}, {200}) for key in ("F1", "N1")],
        ("POST", "/forms/{table}/row"): [
            (ROW, posted(form, "F1", price="9"), {403}),
            (ROW, posted(form, "F1", land="DE"), {403}),
            (ROW, posted(form, "N1", land="DE"), {403}),
            (ROW, posted(form, "D1", land="FR"), {403}),
            (ROW, posted(form, "D1", land=""), {403}),
            (ROW, posted(form, "F1") | {"do": "delete"}, {403}),
            (ROW, posted(form, "D1", land="DE") | {"key": "F1"}, {403}),
            (ROW, posted(form, "F1", price="9") | {"version": ""}, {403}),
            (ROW, new | {"f.land": "FR"}, {403}),
            (ROW, new, {403}),
            (ROW, new | {"f.land": "DE", "f.sku": "F1", "version": str(posted(form, "F1")["version"])}, {403}),
        ],
        ("POST", "/forms/{table}/cells"): [
            (f"{LIST}/cells", {"rows": cells(form, key, **texts), "do": do, "why": "x"}, {403, 422} if do else {200})
            for do in ("", "save")
            for key, texts in (
                ("F1", {"price": "9"}),
                ("F1", {"land": "DE"}),
                ("N1", {"land": "DE"}),
                ("D1", {"land": "FR"}),
                ("D1", {"land": ""}),
                ("D1", {"sku": "D7"}),
            )
        ],
        ("POST", "/forms/{table}/undo"): [(UNDO, {"key": "D1", "batch": "1", "why": "undo"}, {403})],
        ("GET", "/forms/{table}/paste"): [(PASTE, {}, {200})],
        ("POST", "/forms/{table}/paste"): [
            (PASTE, {"text": f"{one}{row}", "do": "apply", "digest": "0", "why": "list"}, no)
            for row in ("F1\tDE\t9\n", "F1\t\t9\n", "D1\tFR\t9\n", "X1\tFR\t1\n")
        ],
        ("GET", "/forms/{table}/proposal"): [(f"{LIST}/proposal?number=1", {}, {200, 404})],
        ("POST", "/forms/{table}/withdraw"): [
            (f"{LIST}/withdraw", {"number": str(it), "do": "withdraw", "why": "x"}, {403, 404}) for it in (1, 2, 3)
        ],
        ("POST", "/forms/{table}/decide"): [
            (f"{LIST}/decide", {"number": str(it), "do": do, "why": "x"}, {403, 404})
            for it in (1, 2, 3)
            for do in ("approve", "reject")
        ],
    }


def attack_all(desk: Desk, form: OpenedForm) -> None:
    """Attack each route of forms that the application has, and compare all rows and proposals with those before."""
    served = {
        (method, route.path)
        for route in desk.pages.routes()
        if route.path.startswith("/forms")
        for method in (route.methods or set()) - {"HEAD"}
    }
    found, before = attacks(form), everything(form)
    assert set(found) == served  # a new route needs its attacks
    for (method, _), sent in found.items():
        for path, values, allowed in sent:
            status, page = desk.ask("anna", EDITOR, method, path, **values)
            assert status in allowed, (method, path, values, status)
            assert everything(form) == before, (method, path, values)
            if "key=F1" in path or "key=N1" in path:
                assert is_read_only(page)


def test_no_route_changes_a_row_that_is_not_granted(desk: Desk, form: OpenedForm) -> None:
    attack_all(desk, form)
    for row in ("F1\tDE\t9\n", "F1\tFR\t9\n", "D1\tFR\t9\n", "X1\tFR\t1\n", "D1\tDE\t9\nF1\tFR\t9\n"):
        before = everything(form)
        assert paste(desk, "anna", f"sku\tland\tprice\n{row}") == 403
        assert everything(form) == before


def test_rows_that_are_granted_are_changed_on_each_way(desk: Desk, form: OpenedForm) -> None:
    page = desk.ask("anna", EDITOR, "GET", f"{ROW}?key=D1")[1]
    assert 'value="save"' in page
    assert 'value="delete"' in page
    assert desk.ask("anna", EDITOR, "POST", ROW, **posted(form, "D1", price="9"))[0] == 303
    assert desk.ask("anna", EDITOR, "POST", UNDO, key="D1", batch="2", why="undo")[0] == 303
    rows = cells(form, "D1", price="8")
    assert desk.ask("anna", EDITOR, "POST", f"{LIST}/cells", rows=rows, do="save", why="x")[0] == 201
    assert paste(desk, "anna", "sku\tland\tprice\nD1\t\t3\nD9\tDE\t4\n") == 303
    assert desk.ask("anna", EDITOR, "POST", ROW, **posted(form, "D9") | {"do": "delete"})[0] == 303
    new = {"f.sku": "D8", "f.land": "DE", "f.price": "1", "why": "new"}
    assert desk.ask("anna", EDITOR, "POST", ROW, **new)[0] == 303
    assert {row.key for row in iterate_rows(form.database, form.entity)} == {*ROWS, "D8"}


def test_a_refused_change_comes_back_with_the_entered_values(desk: Desk, form: OpenedForm) -> None:
    status, page = desk.ask("anna", EDITOR, "POST", ROW, **posted(form, "D1", land="FR", price="7.77"))
    assert status == 403
    assert "anna may not edit D1 of mdm.prices: no GRANT EDIT has the row as it would be" in text_of(page)
    assert "Nothing was saved. The form below still has your values." in text_of(page)
    assert 'value="7.77"' in page
    assert 'value="a test"' in page  # why
    status, page = desk.ask(
        "anna", EDITOR, "POST", ROW, **{"f.sku": "X1", "f.land": "FR", "f.price": "7", "why": "new"}
    )
    assert (status, "X1</textarea>" in page) == (403, True)
    text = "sku\tland\tprice\nX1\tFR\t7.77\n"
    digest = re.search(r'name="digest" value="(\w+)"', desk.ask("anna", EDITOR, "POST", PASTE, text=text)[1])
    assert digest is not None
    sent = {"text": text, "do": "apply", "digest": digest[1], "why": "list"}
    status, page = desk.ask("anna", EDITOR, "POST", PASTE, **sent)
    assert (status, text in page) == (403, True)
    assert "✕ no GRANT EDIT has the row as it would be" in text_of(page)
    status, page = desk.ask("anna", EDITOR, "POST", PASTE, text='sku\tprice\n"open', do="review")
    assert (status, "open" in page) == (422, True)


def test_a_column_that_the_page_did_not_show_keeps_its_value(desk: Desk, form: OpenedForm) -> None:
    sent = posted(form, "D1", price="9")
    del sent["f.land"]  # it was not granted when the page was opened, and is now
    assert desk.ask("anna", EDITOR, "POST", ROW, **sent)[0] == 303
    row = find_row(form.database, form.entity, ("D1",))
    assert row is not None
    assert (row.content["land"], row.content["price"]) == ("DE", "9.00")


def test_a_row_that_is_not_granted_is_shown_with_the_reason(desk: Desk) -> None:
    page = desk.ask("anna", EDITOR, "GET", f"{ROW}?key=F1")[1]
    assert is_read_only(page)
    assert "You may not edit it: no GRANT EDIT has this row" in text_of(page)
    assert not is_read_only(desk.ask("ben", EDITOR, "GET", f"{ROW}?key=F1")[1])
    page = text_of(desk.ask("dora", EDITOR, "GET", LIST)[1])
    assert "no GRANT EDIT of the form is to dora" in page


def test_a_person_without_the_attribute_edits_nothing(folder: Path, form: OpenedForm) -> None:
    desk = Desk(folder)
    page = text_of(desk.ask("anna", EDITOR, "GET", LIST)[1])
    assert "the GRANT EDIT of the form needs an attribute that anna does not have" in page
    assert desk.ask("anna", EDITOR, "POST", ROW, **posted(form, "D1", price="9"))[0] == 403


def test_no_route_decides_on_a_row_that_is_not_granted(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, FLOW.replace("APPROVED", "OPTIONS (approval true)"))
    form = opened(folder)
    desk = Desk(folder, LANDS)
    assert desk.ask("ben", EDITOR, "POST", ROW, **posted(form, "F1", price="9"))[0] == 303  # 1: of FR
    assert desk.ask("cleo", EDITOR, "POST", ROW, **posted(form, "D1", price="101"))[0] == 303  # 2: too much after it
    assert desk.ask("cleo", EDITOR, "POST", ROW, **posted(form, "D2", price="5"))[0] == 303  # 3: too much before it
    assert desk.ask("cleo", EDITOR, "POST", ROW, **posted(form, "D1", price="5"))[0] == 303  # 4: granted
    attack_all(desk, form)
    page = desk.ask("anna", EDITOR, "GET", f"{LIST}/proposal?number=2")[1]
    assert "no GRANT APPROVE has all of its rows" in page
    assert 'value="approve"' not in page
    assert 'value="approve"' in desk.ask("anna", EDITOR, "GET", f"{LIST}/proposal?number=4")[1]
    assert desk.ask("anna", EDITOR, "POST", f"{LIST}/decide", number="4", do="approve")[0] == 303
    row = find_row(form.database, form.entity, ("D1",))
    assert row is not None
    assert row.content["price"] == "5.00"


def test_approve_is_offered_by_a_condition_on_a_column_that_is_not_shown(tmp_path: Path) -> None:
    flow = (
        FLOW.partition("GRANT")[0].replace("APPROVED", "OPTIONS (approval true)")
        + """
    GRANT SELECT ON mdm.prices TO (anna);
    GRANT SELECT (sku, land) ON mdm.prices TO (cleo);
    GRANT APPROVE ON mdm.prices TO (cleo) WHERE NOT price > 100;
    """
    )
    form = opened(folder_of(tmp_path, flow))
    desk = Desk(tmp_path, LANDS)
    for number, key in enumerate(("D1", "D2"), 1):
        assert desk.ask("anna", EDITOR, "POST", ROW, **posted(form, key, land="AT"))[0] == 303
        page = desk.ask("cleo", EDITOR, "GET", f"{LIST}/proposal?number={number}")[1]
        assert ("You may not approve it" in page) is (key == "D2")
        assert ('value="approve"' in page) is (key == "D1")
        assert not re.search(r"\bprice\b|200\.00", page)
    for proposal, status in (("1", 303), ("2", 403)):
        assert desk.ask("cleo", EDITOR, "POST", f"{LIST}/decide", number=proposal, do="approve", why="x")[0] == status
    assert {row.key: row.content.get("land") for row in iterate_rows(form.database, form.entity)} == {
        "D1": "AT", "D2": "DE", "F1": "FR", "N1": None,
    }  # fmt: skip
