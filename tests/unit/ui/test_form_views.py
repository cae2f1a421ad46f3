"""The pages of a form for people who see a part of it: each route is searched for values that are not granted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ui.test_form_proposals import Desk
from tests.unit.ui.test_form_row_rights import paste
from tests.unit.ui.test_forms import TOML, text_of
from waterclock.connectors.forms.changes import Edit, Origin, apply
from waterclock.connectors.forms.history import find_row, iterate_rows, list_changes
from waterclock.connectors.forms.proposals import list_proposals
from waterclock.flow.form_rights import FormRights
from waterclock.operations.forms import OpenedForm, open_form
from waterclock.operations.project_opening import open_project
from waterclock.permissions.users_and_roles import Person, Right, SignIn
from waterclock.ui.forms.proposal_content import describe_proposal

FLOW = """
CREATE CONNECTION forms TYPE forms;
COLLECT mdm.prices (sku KEY, land, price DECIMAL(9,2), secret, email, kind NOT NULL) FROM forms.prices APPROVAL
  EVERY DAY START '2020-01-01';
COLLECT mdm.hidden (id KEY, name) FROM forms.hidden EVERY DAY START '2020-01-01';
COLLECT mdm.open (id KEY, sku REFERENCES mdm.prices) FROM forms.open EVERY DAY START '2020-01-01';
GRANT SELECT (sku, land, price, kind, email AS (mask_text(email))) ON mdm.prices TO (anna) WHERE land = USER('land');
GRANT SELECT ON mdm.prices TO (cleo);
GRANT SELECT ON mdm.hidden TO (cleo);
"""
USERS = '[roles]\nall = ["look", "edit", "approve"]\n' + "".join(
    f'[users.{name}]\nroles = ["all"]\nattributes = {{ land = "DE" }}\n' for name in ("anna", "ben", "cleo")
)
LIST = "/forms/mdm.prices"
ROW, PASTE, UNDO = f"{LIST}/row", f"{LIST}/paste", f"{LIST}/undo"
EDITOR = [Right.LOOK, Right.EDIT, Right.APPROVE]
HUSH = ("hush", "9137.42", "Paris", "mole")
"""Parts of all that is not granted to anna: columns of rows of DE, rows of FR, who changed them and why."""


def row(sku: str, land: str | None, price: str, kind: str | None = "tea") -> Edit:
    hidden = {"secret": f"hush {sku}", "email": f"hush-{sku}@example.com"}
    return Edit((sku,), {"land": land, "price": price, "kind": kind, **hidden}, None)


def save(form: OpenedForm, *edits: Edit, who: str = "cleo", why: str = "list", origin: Origin = Origin.EDIT) -> None:
    entity = replace(form.entity, needs_approval=False)
    apply(form.database, entity, by=FormRights(who), why=why, edits=edits, origin=origin)


def version(form: OpenedForm, key: str) -> int | None:
    there = find_row(form.database, form.entity, (key,))
    return None if there is None else there.version


@pytest.fixture(params=["", "OPTIONS (approval true)"], ids=["direct", "approval"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.dpl").write_text(FLOW.replace("APPROVAL", request.param))
    (tmp_path / "waterclock.toml").write_text(TOML + USERS)
    return tmp_path


@pytest.fixture
def form(folder: Path) -> OpenedForm:
    """Open the form, with rows, changes and proposals that anna sees in part, as a whole and not at all."""
    found = open_form(open_project(folder, None), "mdm.prices")
    save(found, row("D1", "DE", "1.00"), row("D2", "DE", "2.00"), row("F1", "FR", "9137.42", "Paris"))  # 1
    save(found, row("D301", "FR", "9137.42", "Paris"), row("D302", "DE", "3.50"))  # alike keys of a row that waits
    wait = row("D300", "DE", "3.00", None), row("F2", "FR", "9137.42", None), row("N1", None, "9137.42", "Paris")
    save(found, *wait, origin=Origin.PUBLISH)
    save(found, Edit(("D1",), {"secret": "hush again"}, version(found, "D1")), who="mole", why="hush")  # 4
    save(found, Edit(("D2",), {"land": "FR", "price": "9137.42"}, version(found, "D2")), why="moved")  # 5
    save(found, Edit(("D2",), {"land": "DE", "price": "2.50"}, version(found, "D2")), why="back")  # 6
    save(found, Edit(("F1",), {"kind": "Paris again"}, version(found, "F1")), who="mole", why="hush")  # 7
    save(found, Edit(("D1",), {"price": "1.50"}, version(found, "D1")), why="plain")  # 8
    save(found, row("D4", "DE", "4.00"), why="to be deleted")
    save(found, Edit(("D4",), None, version(found, "D4")), why="deleted")
    if found.entity.needs_approval:
        for edits in (
            [Edit(("F1",), {"price": "9137.42", "secret": "hush"}, version(found, "F1"))],
            [Edit(("D1",), {"secret": "hush"}, version(found, "D1"))],
            [Edit(("D1",), {"land": "Paris"}, version(found, "D1"))],
            [row("D9", "DE", "9137.42")],
            [Edit(("D1",), {"price": "1.75"}, version(found, "D1"))],
        ):
            apply(found.database, found.entity, by=FormRights("cleo"), why="proposed", edits=edits)
    return found


@pytest.fixture
def desk(folder: Path, form: OpenedForm) -> Desk:
    assert form.entity.table == "mdm.prices"
    return Desk(folder, {name: {"land": "DE"} for name in ("anna", "cleo")})


def everything(form: OpenedForm) -> Any:
    rows = {each.key: (each.version, dict(each.content)) for each in iterate_rows(form.database, form.entity)}
    return rows, [(each.number, each.state) for each in list_proposals(form.database, form.entity)]


def fields(**values: str) -> dict[str, str]:
    return {f"f.{name}": value for name, value in values.items()} | {"why": "a test"}


def cells(key: str, version: str, **texts: str) -> str:
    """Return changed cells of a row as the list of rows posts them."""
    return json.dumps([{"key": key, "version": version, "cells": texts}])


Sent = tuple[str, dict[str, str]]


def requests_of(form: OpenedForm) -> dict[tuple[str, str], list[Sent]]:
    """Return for each route requests by which anna could see or guess what is not granted, or change it."""
    words = ("", "hush", "Paris", "9137", "FR", "D", "tea")
    columns = ("sku", "land", "price", "secret", "email", "kind", "nothing")
    keys = ("D1", "D2", "D4", "D301", "F1", "F2", "N1", "X1")
    versions = [str(number) for number in range(16)]
    get = "GET"
    cursors = ("", "after=F1&at=9137.42", "after=%00&at=Paris")  # of rows that she does not see
    last = str(version(form, "F1"))
    one, two = str(version(form, "D1")), str(version(form, "D2"))
    pastes = ("F1\tFR\n", "F1\tDE\n", "N1\t\n", "F2\t\n")
    return {
        (get, "/forms"): [("/forms", {})],
        (get, "/forms/{table}"): [
            *((f"{LIST}?q={word}", {}) for word in words),
            *((f"{LIST}?sort={name}&desc={way}&{at}", {}) for name in columns for way in "01" for at in cursors),
            *((f"{LIST}?after={key}&waiting={way}", {}) for key in keys for way in "01"),
        ],
        (get, "/forms/{table}/values"): [
            *((f"{LIST}/values?column={name}&f.x={word}", {}) for name in columns for word in words)
        ],
        (get, "/forms/{table}/rows.csv"): [(f"{LIST}/rows.csv", {})],
        (get, "/forms/{table}/rows.xlsx"): [(f"{LIST}/rows.xlsx", {})],
        (get, "/forms/{table}/row"): [
            *((f"{ROW}?key={key}&like={it}", {}) for key in (*keys, "D300") for it in ("F1", "D301", "D302")),
            (ROW, {}),
        ],
        ("POST", "/forms/{table}/row"): [
            *((ROW, {"key": "F1", "version": number} | fields(price="1", kind="x")) for number in versions),
            *((ROW, {"key": "D1", "version": number, "f.price": "x"}) for number in versions),
            *(  # a conflict, with the version of any change as that which was seen
                (ROW, {"key": "D1", "version": number} | fields(sku="D1", land="DE", price="8", kind="tea"))
                for number in versions if number != one
            ),
            *((ROW, {"key": key, "version": last, "do": "delete"} | fields()) for key in ("F1", "N1")),
            (ROW, {"key": "D2", "version": two, "do": "delete"} | fields(kind="tea")),  # hidden values would be lost
            (ROW, {"key": "D1", "version": one} | fields(land="FR", price="1", kind="tea")),  # it would leave
            (ROW, fields(sku="F1", land="FR", price="9137.42", kind="Paris again", secret="hush F1")),  # a guess
            (ROW, fields(sku="F1", land="DE", price="1", kind="tea")),
            (ROW, {"version": last} | fields(sku="F1", land="DE", price="1", kind="tea")),
            (ROW, fields(sku="X1", land="FR", price="1", kind="tea")),
            (ROW, fields(sku="X1", price="1", kind="tea")),
        ],
        ("POST", "/forms/{table}/cells"): [
            *(
                (f"{LIST}/cells", {"rows": cells(key, number, **texts), "do": do, "why": "x"})
                for number in ("0", last, one)
                for do in ("check", "save")
                for key, texts in (("F1", {"price": "1"}), ("N1", {"kind": "x"}), ("X1", {"kind": "x"}))
            ),
            *(  # a conflict, with the version of any change as that which was seen
                (f"{LIST}/cells", {"rows": cells("D1", number, price="8"), "do": "save", "why": "x"})
                for number in versions if number != one
            ),
            *(
                (f"{LIST}/cells", {"rows": cells("D1", one, **texts), "do": do, "why": "x"})
                for do in ("check", "save")
                for texts in ({"land": "FR"}, {"secret": "guess"}, {"email": "guess"}, {"kind": ""}, {"price": "many"})
            ),
        ],
        ("POST", "/forms/{table}/undo"): [
            (UNDO, {"key": "D1", "batch": str(it), "why": "u"}) for it in (1, 2, 3, 4, 5, 7, 9, 10)
        ],
        (get, "/forms/{table}/paste"): [(PASTE, {})],
        ("POST", "/forms/{table}/paste"): [
            *((PASTE, {"text": f"sku\tland\tsecret\n{each}", "do": "review"}) for each in pastes),
            *((PASTE, {"text": each, "do": "apply", "digest": "0", "why": "x"}) for each in pastes),
            (PASTE, {"text": "sku\tsecret\nD1\tguess\n", "do": "review"}),
        ],
        (get, "/forms/{table}/proposal"): [(f"{LIST}/proposal?number={it}", {}) for it in range(7)],
        ("POST", "/forms/{table}/withdraw"): [
            (f"{LIST}/withdraw", {"number": str(it), "do": "withdraw", "why": "x"}) for it in range(7)
        ],
        ("POST", "/forms/{table}/decide"): [
            (f"{LIST}/decide", {"number": str(it), "do": do, "why": "x"})
            for it in range(5)
            for do in ("approve", "reject")
        ],
    }  # fmt: skip


def served(desk: Desk) -> Iterator[tuple[str, str]]:
    for route in desk.pages.routes():
        if route.path.startswith("/forms"):
            yield from ((method, route.path) for method in (route.methods or set()) - {"HEAD"})


@pytest.mark.slow
def test_no_route_shows_or_changes_what_is_not_granted(desk: Desk, form: OpenedForm) -> None:
    sent, before = requests_of(form), everything(form)
    assert set(sent) == set(served(desk))  # a new route needs its requests
    for (method, _), requests in sent.items():
        for path, values in requests:
            status, page = desk.ask("anna", EDITOR, method, path, **values)
            assert status < 500, (path, values)
            own = " ".join([path, *values, *values.values()])  # what she sent herself may come back
            for word in HUSH:
                assert word in own or word not in page, (method, path, values, word)
            assert "secret" in own or "secret" not in page, (method, path, values)
            if method == "POST" and not path.endswith("proposal"):
                assert everything(form) == before, (method, path, values)


def test_keys_that_are_not_shown_answer_as_keys_that_do_not_exist(desk: Desk) -> None:
    for method, path, values in (
        ("GET", f"{ROW}?key=KEY", {}),
        ("POST", ROW, {"key": "KEY", "version": "6"} | fields(price="1", kind="x", land="DE")),
        ("POST", ROW, {"key": "KEY", "version": ""} | fields(kind="x", land="FR")),
        ("POST", ROW, {"key": "KEY", "version": "6", "do": "delete"} | fields()),
        ("POST", f"{LIST}/cells", {"rows": cells("KEY", "6", price="1", land="DE"), "do": "check"}),
        ("POST", f"{LIST}/cells", {"rows": cells("KEY", "6", price="1", kind="x"), "do": "save", "why": "x"}),
        ("GET", f"{LIST}?q=KEY", {}),
        ("GET", f"{LIST}/values?f.x=KEY", {}),
        ("POST", UNDO, {"key": "X", "batch": "KEY", "why": "u"}),
    ):
        answers = set()
        for key in ("7", "99") if path == UNDO else ("F1", "X9"):
            sent = {name: value.replace("KEY", key) for name, value in values.items()}
            status, page = desk.ask("anna", EDITOR, method, path.replace("KEY", key), **sent)
            shown = f"batch {key}" if path == UNDO else key
            answers.add((status, page.replace(shown, "KEY")))
        if values.get("version") == "":
            assert {status for status, _ in answers} <= {403, 422}  # the one error that says a key is taken
        else:
            assert len(answers) == 1, (method, path)


def test_what_is_granted_is_shown(desk: Desk, form: OpenedForm) -> None:
    page = desk.ask("anna", EDITOR, "GET", LIST)[1]
    assert re.findall(r'<a class="m" href="[^"]*">(\w+)</a>', page) == ["D1", "D2", "D300", "D302"]
    assert "4 rows" in text_of(page)
    assert "1 row needs a value" in text_of(page)
    assert "Masked, and not shown here: email" in page
    page = desk.ask("anna", EDITOR, "GET", f"{LIST}?sort=price&desc=1")[1]
    assert re.findall(r'<a class="m" href="[^"]*">(\w+)</a>', page) == ["D302", "D300", "D2", "D1"]
    page = desk.ask("anna", EDITOR, "GET", f"{LIST}?q=2.5")[1]
    assert re.findall(r'<a class="m" href="[^"]*">(\w+)</a>', page) == ["D2"]
    history = text_of(desk.ask("anna", EDITOR, "GET", f"{ROW}?key=D1")[1].partition("History")[2])
    assert "plain" in history
    assert "1.00 → 1.50" in history
    assert "a reason that is not shown to you" in desk.ask("anna", EDITOR, "GET", f"{ROW}?key=D4")[1]
    assert "kind tea like D302, 75 %" in text_of(desk.ask("anna", EDITOR, "GET", f"{ROW}?key=D300")[1])
    if form.entity.needs_approval:
        page = desk.ask("anna", EDITOR, "GET", LIST)[1]
        assert set(re.findall(r"/proposal\?number=(\d)\"", page)) == {"5"}
        assert desk.ask("anna", EDITOR, "POST", f"{LIST}/decide", number="5", do="approve")[0] == 303


def test_a_row_names_no_table_and_no_column_that_the_person_does_not_see(tmp_path: Path) -> None:
    flow = FLOW.replace("APPROVAL", "").replace("price DECIMAL(9,2)", "price DECIMAL(9,2) CHECKS")
    flow = flow.replace("CHECKS", "EXPECT (price < length(SECRET)) EXPECT (price > 0)")
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.dpl").write_text(flow)
    (tmp_path / "waterclock.toml").write_text(TOML + USERS)
    assert open_form(open_project(tmp_path, None), "mdm.prices").entity.field("price") is not None
    desk = Desk(tmp_path, {"anna": {"land": "DE"}})
    page = desk.ask("anna", EDITOR, "GET", ROW)[1]
    assert "price &gt; 0" in page
    assert "secret" not in page.lower()
    refers = "A row of mdm.prices."
    assert refers in desk.ask("anna", EDITOR, "GET", "/forms/mdm.open/row")[1]
    assert refers not in desk.ask("ben", EDITOR, "GET", "/forms/mdm.open/row")[1]


@pytest.mark.parametrize(("secret", "may_decide"), [("red", True), ("blue", False), (None, False)])
def test_the_page_of_a_proposal_checks_grant_approve_with_columns_that_are_not_shown(
    tmp_path: Path, secret: str | None, may_decide: bool
) -> None:
    approve = "GRANT APPROVE ON mdm.prices TO (anna) WHERE secret = 'red' AND secret IS NOT NULL;\n"
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.dpl").write_text(FLOW.replace("APPROVAL", "OPTIONS (approval true)") + approve)
    (tmp_path / "waterclock.toml").write_text(TOML + USERS)
    project = open_project(tmp_path, None)
    form = open_form(project, "mdm.prices")
    save(form, Edit(("D1",), {"land": "DE", "price": "1.00", "kind": "tea", "secret": secret}, None))
    edit = Edit(("D1",), {"price": "2.00"}, version(form, "D1"))
    apply(form.database, form.entity, by=FormRights("cleo"), why="proposed", edits=[edit])
    anna = Person("anna", frozenset(EDITOR), SignIn.TOKEN, {"land": "DE"})
    page = describe_proposal(open_form(project, "mdm.prices", anna), "1", zone="UTC")
    assert page["may_decide"] is may_decide
    assert "secret" not in str(page["rows"])


def test_the_menu_leads_to_the_forms_that_are_granted(desk: Desk, form: OpenedForm, folder: Path) -> None:
    assert form.rights.may_edit
    for name, tables in (
        ("anna", ["mdm.open", "mdm.prices"]),
        ("ben", ["mdm.open"]),
        ("cleo", ["mdm.hidden", "mdm.open", "mdm.prices"]),
    ):
        page = desk.ask(name, EDITOR, "GET", f"/forms/{tables[0]}")[1]
        assert '<a href="/forms" aria-current="page">Forms</a>' in page
        status, page = desk.ask(name, EDITOR, "GET", "/forms")
        assert status == 200
        assert sorted(re.findall(r'<a class="m" href="/forms/([^"]*)">', page)) == tables
        assert all(desk.ask(name, EDITOR, "GET", f"/forms/{table}")[0] == 200 for table in tables)
    (folder / "flows" / "a.dpl").write_text("CREATE CONNECTION forms TYPE forms;")
    assert ">Forms</a>" not in desk.ask("cleo", EDITOR, "GET", "/today")[1]


def test_changes_of_what_is_shown_keep_what_is_not(desk: Desk, form: OpenedForm, folder: Path) -> None:
    if form.entity.needs_approval:
        (folder / "flows" / "a.dpl").write_text(FLOW.replace("APPROVAL", ""))
    sent = {"key": "D1", "version": str(version(form, "D1"))} | fields(land="DE", price="7", kind="tea")
    assert desk.ask("anna", EDITOR, "POST", ROW, **sent)[0] == 303
    assert paste(desk, "anna", "sku\tprice\tsecret\nD1\t8\tguess\nD7\t\t\n") == 403  # D7 is not of DE
    assert paste(desk, "anna", "sku\tland\tprice\tkind\nD1\t\t8\t\nD7\tDE\t1\ttea\n") == 303
    stored = find_row(form.database, form.entity, ("D1",))
    assert stored is not None
    assert stored.content["price"] == "8.00"
    assert stored.content["secret"] == "hush again"
    assert stored.content["email"] == "hush-D1@example.com"
    batch = list_changes(form.database, form.entity, ("D1",))[1].batch
    assert desk.ask("anna", EDITOR, "POST", UNDO, key="D1", batch=str(batch), why="undo")[0] == 409
    batch = list_changes(form.database, form.entity, ("D7",))[0].batch
    assert desk.ask("anna", EDITOR, "POST", UNDO, key="D7", batch=str(batch), why="undo")[0] == 403  # deletes D7
    sent = {"key": "D2", "version": str(version(form, "D2"))} | fields(land="DE", price="6", kind="tea")
    assert desk.ask("anna", EDITOR, "POST", ROW, **sent)[0] == 303
    batch = list_changes(form.database, form.entity, ("D2",))[0].batch
    assert desk.ask("anna", EDITOR, "POST", UNDO, key="D2", batch=str(batch), why="undo")[0] == 303
    stored = find_row(form.database, form.entity, ("D2",))
    assert stored is not None
    assert (stored.content["price"], stored.content["secret"]) == ("2.50", "hush D2")


def test_forms_that_are_not_granted_do_not_exist_and_whole_ones_are_whole(desk: Desk) -> None:
    answers = set()
    for name in ("mdm.hidden", "mdm.hodden"):
        status, page = desk.ask("anna", EDITOR, "GET", f"/forms/{name}")
        assert "mdm.open" in page
        answers.add(
            (status, re.sub(r"<dt>Fix</dt>.*", "", page.replace(name, "NAME")))
        )  # names alike to what was asked
    assert len(answers) == 1
    assert desk.ask("anna", EDITOR, "GET", "/forms/mdm.open")[0] == 200
    assert "hush F1" in desk.ask("cleo", EDITOR, "GET", LIST)[1]
    assert desk.ask("anna", EDITOR, "GET", "/table/mdm.prices")[0] in {403, 404}
    assert desk.ask("ben", EDITOR, "GET", LIST)[0] == 404


@pytest.mark.parametrize(
    "grant",
    [
        "GRANT SELECT ON mdm.prices TO (anna) WHERE land LIKE 'D%'",
        "GRANT SELECT ON mdm.prices TO (anna) WHERE timelabel > '2020'",
        "GRANT SELECT ON mdm.prices TO (anna) WHERE land = USER('land') OR upper(kind) = 'TEA'",
        "GRANT SELECT (land, price) ON mdm.prices TO (anna)",
        "GRANT SELECT (sku AS (mask_text(sku)), *) ON mdm.prices TO (anna)",
    ],
)
def test_grants_that_a_form_cannot_show_are_refused_on_each_route(
    desk: Desk, form: OpenedForm, folder: Path, grant: str
) -> None:
    flow = (folder / "flows" / "a.dpl").read_text()
    old = next(line for line in flow.splitlines() if "TO (anna)" in line)
    (folder / "flows" / "a.dpl").write_text(flow.replace(old, f"{grant};"))
    before = everything(form)
    for (method, _), requests in requests_of(form).items():
        path, values = requests[0]
        status, page = desk.ask("anna", EDITOR, method, path, **values)
        assert not any(word in page for word in HUSH)
        if path != "/forms":  # which only has the names of forms
            assert status == 403, (method, path)
            assert "E946" in page
    assert everything(form) == before


def test_a_page_that_is_refused_names_the_page_of_a_form(desk: Desk) -> None:
    status, page = desk.ask("anna", EDITOR, "GET", "/tables/mdm.prices")
    assert (status, "E946" in page) == (403, True)
    assert "or the forms, /forms;" in page


def test_nothing_is_shown_while_the_project_has_errors(desk: Desk, folder: Path) -> None:
    with (folder / "flows" / "a.dpl").open("a") as file:
        file.write("GRANT SELECT ON mdm.prices TO (nobody);\n")
    status, page = desk.ask("anna", EDITOR, "GET", LIST)
    assert status == 403
    assert "nobody" not in page
