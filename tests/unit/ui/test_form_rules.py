"""Rules of a form are checked when rows are saved: on its pages, in pastes, in the list and by `waterclock edit`."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from tests.pages import client_of
from tests.unit.ui.test_form_proposals import Desk
from tests.unit.ui.test_form_views import EDITOR
from tests.unit.ui.test_forms import TOML, text_of
from waterclock.cli.app import app
from waterclock.connectors.forms.changes import Edit, Origin, apply
from waterclock.connectors.forms.history import find_row, list_changes, undo
from waterclock.connectors.forms.proposals import approve
from waterclock.errors import WaterclockError
from waterclock.flow.form_rights import FormRights
from waterclock.operations.forms import OpenedForm, open_form
from waterclock.operations.project_opening import open_project
from waterclock.permissions.users_and_roles import Right
from waterclock.ui.live_project import LiveProject

OLD = """
CREATE CONNECTION forms TYPE forms;
COLLECT mdm.prices (
    sku KEY, price DECIMAL(9,2) RULES, kind KINDS, secret, remark)
  FROM forms.prices APPROVAL EVERY DAY START '2020-01-01' ROWS;
"""
RULES = (
    "EXPECT (price > 0) AS positive ELSE QUARANTINE EXPECT (price < 100) AS usual ELSE WARN "
    "EXPECT (price < 50 + length(sku)) AS later ELSE WARN"
)
KINDS = "EXPECT (kind IN ('raw', 'finished')) AS kinds"
ROWS = "EXPECT kind <> 'raw' OR price <= 10 AS cheap ELSE HOLD"
NEW = OLD.replace("RULES", RULES).replace("KINDS", KINDS).replace("ROWS", ROWS)
LIST = "/forms/mdm.prices"
ROW = f"{LIST}/row"
VALUES = {"f.sku": "S1", "f.price": "2.00", "f.kind": "raw", "f.secret": "", "f.remark": "typed <b>", "why": "new"}
POSITIVE = "it breaks the rule positive: price > 0"
CHEAP = "it breaks the rule cheap: kind <> 'raw' OR price <= 10"
USUAL = "it breaks the rule usual: price < 100; the next run warns of it"


def write(folder: Path, flow: str, approval: str = "", users: str = "") -> None:
    (folder / "flows").mkdir(exist_ok=True)
    for word in ("RULES", "KINDS", "ROWS"):
        flow = flow.replace(word, "")
    (folder / "flows" / "a.dpl").write_text(flow.replace("APPROVAL", approval))
    (folder / "waterclock.toml").write_text(TOML + users)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, NEW)
    return tmp_path


@pytest.fixture
def client(folder: Path) -> TestClient:
    made = client_of(LiveProject(folder))
    made.headers["Origin"] = "http://localhost"
    made.follow_redirects = False
    return made


@pytest.fixture
def form(folder: Path) -> OpenedForm:
    return open_form(open_project(folder, None), "mdm.prices")


def content(form: OpenedForm, key: str = "S1") -> Any:
    row = find_row(form.database, form.entity, (key,))
    return None if row is None else dict(row.content)


def version(form: OpenedForm, key: str = "S1") -> int | None:
    row = find_row(form.database, form.entity, (key,))
    return None if row is None else row.version


def save(form: OpenedForm, key: str, **values: str | None) -> Any:
    edits = [Edit((key,), values, version(form, key))]
    return apply(form.database, form.entity, by=FormRights("ada"), why="test", edits=edits)


def store_before_rules(folder: Path, key: str = "S1", **values: str) -> OpenedForm:
    """Return the form with a row that was stored before the rules were declared."""
    write(folder, OLD)
    save(open_form(open_project(folder, None), "mdm.prices"), key, **values)
    write(folder, NEW)
    return open_form(open_project(folder, None), "mdm.prices")


@pytest.mark.parametrize(
    ("changed", "field", "problem"),
    [
        ({"f.price": "-1"}, "f.price", POSITIVE),
        ({"f.price": ""}, "f.price", POSITIVE),
        ({"f.price": "11"}, "f.kind", CHEAP),
        ({"f.kind": "other"}, "f.kind", "it is none of raw, finished"),
    ],
)
def test_a_broken_rule_is_shown_beside_its_field_and_keeps_the_values(
    client: TestClient, form: OpenedForm, changed: dict[str, str], field: str, problem: str
) -> None:
    answer = client.post(ROW, data=VALUES | changed)
    assert answer.status_code == 422
    part = html.unescape(answer.text).partition(f'name="{field}"')[2].partition("<label")[0]
    assert f"✕ {problem}" in part
    assert 'aria-invalid="true"' in part
    assert "typed <b>" in html.unescape(answer.text)
    assert content(form) is None
    assert client.post(ROW, data=VALUES).status_code == 303


def test_the_page_names_rules_and_those_that_only_a_run_checks(client: TestClient) -> None:
    page = html.unescape(text_of(client.get(ROW).text))
    assert "Rule positive: price > 0. Rule usual: price < 100. Checked by the next run: later." in page
    assert "Rule cheap: kind <> 'raw' OR price <= 10." in page


def test_a_rule_that_only_warns_is_shown_and_saved(client: TestClient, form: OpenedForm) -> None:
    answer = client.post(ROW, data=VALUES | {"f.price": "150", "f.kind": "finished"})
    assert answer.status_code == 303
    page = html.unescape(client.get(answer.headers["location"]).text)
    assert f"! {USUAL}" in page
    assert content(form)["price"] == "150.00"
    assert save(form, "S2", price="200", kind="finished").warnings == (f"S2, price: {USUAL}",)
    assert save(form, "S2", remark="x").warnings == ()


def test_a_row_that_broke_a_rule_before_hinders_no_other_column(folder: Path, client: TestClient) -> None:
    form = store_before_rules(folder, price="-5.00", kind="old", remark="a")
    page = html.unescape(client.get(f"{ROW}?key=S1").text)
    assert f"! {POSITIVE}; the next run quarantines the row" in page
    sent = {"key": "S1", "f.price": "-5.00", "f.kind": "old", "f.remark": "b", "f.secret": "", "why": "w"}
    assert client.post(ROW, data=sent | {"version": str(version(form))}).status_code == 303
    assert content(form) == {"sku": "S1", "price": "-5.00", "kind": "old", "remark": "b"}
    answer = client.post(ROW, data=sent | {"version": str(version(form)), "f.price": "-6"})
    assert answer.status_code == 422
    assert POSITIVE in html.unescape(answer.text)
    assert client.post(ROW, data=sent | {"version": str(version(form)), "f.price": "6"}).status_code == 303


def test_a_key_that_waits_is_checked_by_all_rules_when_it_is_completed(tmp_path: Path) -> None:
    write(tmp_path, NEW.replace("secret,", "secret NOT NULL,"))
    form = open_form(open_project(tmp_path, None), "mdm.prices")
    waiting = [Edit(("S1",), {}, None)]
    apply(form.database, form.entity, by=FormRights("x"), why="x", edits=waiting, origin=Origin.PUBLISH)
    with pytest.raises(WaterclockError, match="positive"):
        save(form, "S1", secret="s", kind="finished")
    save(form, "S1", secret="s", kind="finished", price="1")


def test_a_paste_shows_broken_rules_as_errors_and_warnings(client: TestClient, form: OpenedForm) -> None:
    text = "sku\tprice\tkind\nS1\t-1\traw\nS2\t200\tfinished\nS3\t5\traw\nS4\t11\traw\nS5\tmany\traw\n"
    answer = client.post(f"{LIST}/paste", data={"text": text, "do": "review"})
    page = html.unescape(text_of(answer.text))
    assert "2 new, 0 changed, 0 same, ✕ 3 invalid" in page
    assert "! 1 row breaks a rule that only warns" in page
    assert "Checked by the next run: later" in page
    assert page.count(POSITIVE) == 1
    assert page.count(CHEAP) == 1
    assert page.count(USUAL) == 1
    assert "it is not a number" in page
    assert content(form, "S3") is None


def test_an_unchanged_row_that_breaks_a_rule_is_the_same(folder: Path, client: TestClient) -> None:
    store_before_rules(folder, price="-5.00", kind="old")
    for text, words in (
        ("S1\t-5\told\n", "0 new, 0 changed, 1 same, 0 invalid"),
        ("S1\t-5\told\t\tnew remark\n", "0 new, 1 changed, 0 same, 0 invalid"),
        ("S1\t-6\told\n", "0 new, 0 changed, 0 same, ✕ 1 invalid"),
    ):
        assert words in text_of(client.post(f"{LIST}/paste", data={"text": text, "do": "review"}).text)


def test_cells_of_the_list_are_checked_by_rules_at_once(client: TestClient, form: OpenedForm) -> None:
    save(form, "S1", price="2", kind="raw")

    def send(do: str, **cells: str) -> tuple[int, str]:
        rows = json.dumps([{"key": "S1", "version": str(version(form)), "cells": cells}])
        answer = client.post(f"{LIST}/cells", data={"rows": rows, "do": do, "why": "w"})
        return answer.status_code, html.unescape(text_of(answer.text))

    assert f"price of S1: {CHEAP}" in send("check", price="11")[1]
    status, said = send("save", price="11")
    assert (status, "1 cell cannot be saved" in said) == (422, True)
    assert send("check", price="11", kind="finished")[1].startswith("S1 ")
    status, said = send("save", price="200", kind="finished")
    assert (status, f"S1, price: {USUAL}." in said) == (201, True)


def test_the_command_line_checks_the_same_rules(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)

    def edit(*words: str, code: int = 0) -> Any:
        done = CliRunner().invoke(app, ["edit", *words, "--because", "x", "--yes", "--json"])
        assert done.exit_code == code, done.output
        return json.loads(done.stdout)

    error = edit("set", "mdm.prices", "S1", "price=-1", "kind=raw", code=1)["error"]
    assert (error["code"], error["why"]) == ("E891", POSITIVE)
    assert edit("set", "mdm.prices", "S1", "price=150", "kind=finished")["warnings"] == [f"S1, price: {USUAL}"]
    (folder / "rows.csv").write_text("sku,price,kind\nS2,11,raw\n")
    assert CHEAP in edit("import", "mdm.prices", "rows.csv", code=1)["error"]["why"]
    (folder / "rows.csv").write_text("sku,price,kind\nS2,300,finished\n")
    words = ["edit", "import", "mdm.prices", "rows.csv", "--because", "x", "--yes"]
    shown = CliRunner().invoke(app, words).output
    assert shown.count(f"warning: line 2, price: {USUAL}") == 1


def test_undo_restores_a_row_that_breaks_a_rule(folder: Path) -> None:
    form = store_before_rules(folder, price="-5.00", kind="raw")
    save(form, "S1", price="5")
    batch = list_changes(form.database, form.entity, ("S1",))[0].batch
    undo(form.database, form.entity, batch, by=FormRights("ada"), why="undo")
    assert content(form)["price"] == "-5.00"


def test_a_proposal_is_checked_when_it_is_made_and_when_it_is_approved(tmp_path: Path) -> None:
    write(tmp_path, NEW, "OPTIONS (approval true)")
    form = open_form(open_project(tmp_path, None), "mdm.prices")
    with pytest.raises(WaterclockError, match="positive"):
        save(form, "S1", price="-1", kind="raw")
    write(tmp_path, OLD, "OPTIONS (approval true)")
    done = save(open_form(open_project(tmp_path, None), "mdm.prices"), "S1", price="-1", kind="raw")
    with pytest.raises(WaterclockError, match="positive"):
        approve(form.database, form.entity, done.proposal or 0, FormRights("bob"))


@pytest.mark.parametrize("more", ["", "GRANT SELECT ON mdm.prices TO (anna) WHERE kind = 'finished';"])
def test_a_rule_on_a_column_that_is_not_shown_reveals_nothing(tmp_path: Path, more: str) -> None:
    rows = "EXPECT kind = 'raw' OR secret = 'hush' AS hushed"
    flow = OLD.replace("ROWS", rows) + "GRANT SELECT (sku, price, kind, remark) ON mdm.prices TO (anna);" + more
    users = '[roles]\nall = ["look", "edit"]\n[users.anna]\nroles = ["all"]\n'
    write(tmp_path, flow, users=users)
    form = open_form(open_project(tmp_path, None), "mdm.prices")
    save(form, "S1", kind="raw", secret="hush")
    save(form, "S2", kind="raw", secret="other")
    desk = Desk(tmp_path, {"anna": {}})
    answers = set()
    for key in ("S1", "S2"):
        sent = {"key": key, "version": str(version(form, key)), "f.kind": "x", "why": "w"}
        cells = json.dumps([{"key": key, "version": str(version(form, key)), "cells": {"kind": "z"}}])
        checked = desk.ask("anna", EDITOR, "POST", f"{LIST}/cells", rows=cells, do="check")[1]
        assert "breaks" not in checked
        status, page = desk.ask("anna", [Right.LOOK, Right.EDIT], "POST", ROW, **sent)
        assert status == 303
        answers.add((status, page.replace(key, "KEY")))
        shown = desk.ask("anna", EDITOR, "GET", f"{ROW}?key={key}")[1]
        assert "breaks" not in shown
        pasted = desk.ask("anna", EDITOR, "POST", f"{LIST}/paste", text=f"sku\tkind\n{key}\ty\n", do="review")[1]
        assert "breaks" not in pasted
        assert "1 changed" in pasted
    assert len(answers) == 1
    with pytest.raises(WaterclockError, match="hushed"):
        save(form, "S3", kind="x", secret="other")
