"""The pages of a form that needs approval: proposals are listed, shown, approved, rejected and withdrawn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.security.people import Pages
from tests.unit.ui.test_forms import LIST, ROW, TOML, VALUES, text_of
from waterclock.connectors.forms.changes import Edit, Origin, apply
from waterclock.connectors.forms.history import find_row, list_changes
from waterclock.connectors.forms.proposals import list_proposals
from waterclock.flow.form_rights import FormRights
from waterclock.operations.forms import OpenedForm, open_form
from waterclock.operations.project_opening import open_project
from waterclock.permissions.users_and_roles import Person, Right, SignIn
from waterclock.ui.browser_sessions import Credential

FLOW = """
CREATE CONNECTION forms TYPE forms;
COLLECT mdm.product_map (supplier_sku KEY, sku NOT NULL, kind, pack_size INT, remark)
  FROM forms.product_map OPTIONS (approval true) EVERY DAY START '2020-01-01';
"""
DECIDE, PROPOSAL = f"{LIST}/decide", f"{LIST}/proposal"
EDITOR, APPROVER = [Right.LOOK, Right.EDIT], [Right.LOOK, Right.APPROVE]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.dpl").write_text(FLOW)
    (tmp_path / "waterclock.toml").write_text(TOML)
    return tmp_path


@pytest.fixture
def form(folder: Path) -> OpenedForm:
    return open_form(open_project(folder, None), "mdm.product_map")


class Desk:
    """The pages, requested by any user. `attributes` are those of the users, by name."""

    def __init__(self, folder: Path, attributes: Mapping[str, Mapping[str, object]] | None = None) -> None:
        self.pages, self.attributes = Pages(folder, "2020-01-05"), attributes or {}

    def ask(self, name: str, rights: list[Right], method: str, path: str, **form: Any) -> tuple[int, str]:
        async def find(credential: Credential) -> Person | None:
            del credential
            return Person(name, frozenset(rights), SignIn.TOKEN, self.attributes.get(name, {}))

        self.pages.anna.find = find  # type: ignore[method-assign]
        answer = self.pages.client.request(method, path, data=form or None, follow_redirects=False)
        return answer.status_code, answer.headers.get("location", "") + answer.text


@pytest.fixture
def desk(folder: Path, form: OpenedForm) -> Desk:
    assert form.entity.needs_approval
    return Desk(folder)


def content(form: OpenedForm, key: str = "S1") -> Any:
    row = find_row(form.database, form.entity, (key,))
    return None if row is None else dict(row.content)


def test_a_saved_row_is_a_proposal_that_another_person_approves(desk: Desk, form: OpenedForm) -> None:
    assert 'value="save">Propose</button>' in desk.ask("anna", EDITOR, "GET", ROW)[1]
    status, address = desk.ask("anna", EDITOR, "POST", ROW, **VALUES)
    assert (status, address) == (303, f"{PROPOSAL}?number=1")
    assert content(form) is None
    page = text_of(desk.ask("anna", EDITOR, "GET", address)[1])
    assert "Withdraw proposal 1" in page
    assert "Approve" not in page
    status, listed = desk.ask("ben", APPROVER, "GET", LIST)
    assert re.search(rf'<a href="{re.escape(PROPOSAL)}\?number=1"', listed)
    page = text_of(desk.ask("ben", APPROVER, "GET", address)[1])
    assert "Approve 1 row" in page
    assert desk.ask("ben", APPROVER, "POST", DECIDE, number="1", do="approve")[0] == 303
    assert content(form)["sku"] == "A"
    assert desk.ask("ben", APPROVER, "POST", DECIDE, number="1", do="approve")[0] == 303  # after a lost response
    [change] = list_changes(form.database, form.entity, ("S1",))
    assert (change.who, change.approved_by) == ("anna", "ben")
    assert "anna approved by ben" in text_of(desk.ask("kim", [Right.LOOK], "GET", f"{ROW}?key=S1")[1])
    assert "approved" in text_of(desk.ask("kim", [Right.LOOK], "GET", address)[1])
    assert "Open proposals" not in desk.ask("ben", APPROVER, "GET", LIST)[1]


def test_each_decision_needs_its_right_and_another_person(desk: Desk, form: OpenedForm) -> None:
    desk.ask("anna", EDITOR, "POST", ROW, **VALUES)
    both = [*EDITOR, Right.APPROVE]
    assert desk.ask("anna", both, "POST", DECIDE, number="1", do="approve")[0] == 403
    assert desk.ask("anna", both, "POST", DECIDE, number="1", do="reject", why="no")[0] == 403
    assert desk.ask("anna", list(Right), "POST", DECIDE, number="1", do="approve")[0] == 403
    all_others: list[Right] = [right for right in Right if right not in {Right.APPROVE, Right.ADMINISTER}]
    for rights in (EDITOR, all_others):
        assert desk.ask("ben", rights, "POST", DECIDE, number="1", do="approve")[0] == 403
    assert desk.ask("ben", both, "POST", f"{LIST}/withdraw", number="1", do="withdraw", why="no")[0] == 403
    assert desk.ask("ben", APPROVER, "POST", ROW, **VALUES)[0] == 403
    assert desk.ask("ben", EDITOR, "POST", f"{LIST}/withdraw", number="1", do="approve")[0] == 400
    assert "the right approve is missing" in text_of(desk.ask("ben", EDITOR, "GET", f"{PROPOSAL}?number=1")[1])
    assert content(form) is None
    assert len(list_proposals(form.database, form.entity)) == 1


def test_a_rejection_and_a_withdrawal_need_a_reason_and_are_shown_with_it(desk: Desk, form: OpenedForm) -> None:
    desk.ask("anna", EDITOR, "POST", ROW, **VALUES)
    assert desk.ask("ben", APPROVER, "POST", DECIDE, number="1", do="reject", why=" ")[0] == 422
    assert desk.ask("ben", APPROVER, "POST", DECIDE, number="1", do="reject", why="it is <b>B</b>")[0] == 303
    page = desk.ask("anna", EDITOR, "GET", f"{PROPOSAL}?number=1")[1]
    assert "Proposal 1: rejected" in page
    assert "it is &lt;b&gt;B&lt;/b&gt;" in page
    assert desk.ask("kim", APPROVER, "POST", DECIDE, number="1", do="approve")[0] == 409
    desk.ask("anna", EDITOR, "POST", ROW, **VALUES)
    assert desk.ask("anna", EDITOR, "POST", f"{LIST}/withdraw", number="2", do="withdraw", why="wrong")[0] == 303
    assert content(form) is None
    assert list_proposals(form.database, form.entity) == []


def test_a_stale_proposal_shows_all_three_values_and_is_not_approved(desk: Desk, form: OpenedForm) -> None:
    direct = form.entity.__class__(form.entity.name, "forms", form.entity.table, form.entity.fields)
    apply(form.database, direct, by=FormRights("kim"), why="first", edits=[Edit(("S1",), {"sku": "A"}, None)])
    version = find_row(form.database, form.entity, ("S1",))
    assert version is not None
    sent = {"key": "S1", "version": str(version.version), "f.sku": "C", "why": "mine"}
    assert desk.ask("anna", EDITOR, "POST", ROW, **sent)[0] == 303
    apply(
        form.database, direct, by=FormRights("kim"), why="second", edits=[Edit(("S1",), {"sku": "B"}, version.version)]
    )
    status, page = desk.ask("ben", APPROVER, "POST", DECIDE, number="1", do="approve")
    assert status == 409
    assert "changed since proposal 1 was made" in page
    row = re.search(r"<td>sku</td>(.*?)</tr>", page)
    assert row is not None
    assert re.findall(r"<td>(.*?)</td>", row[1]) == ["A", "≠ B", "C"]
    assert re.search(r'value="approve" disabled', page)
    assert content(form)["sku"] == "B"


def test_pasted_rows_and_undo_are_proposals(desk: Desk, form: OpenedForm) -> None:
    paste, text = f"{LIST}/paste", "supplier_sku\tsku\nS1\tA\nS2\tB\n"
    page = desk.ask("anna", EDITOR, "POST", paste, text=text, do="review")[1]
    assert "Propose 2 rows" in page
    digest = re.search(r'name="digest" value="(\w+)"', page)
    assert digest is not None
    sent = {"text": text, "do": "apply", "digest": digest[1], "why": "list"}
    for _ in range(2):  # and again after a lost response
        assert desk.ask("anna", EDITOR, "POST", paste, **sent) == (303, f"{PROPOSAL}?number=1")
    assert content(form) is None
    assert list_proposals(form.database, form.entity)[0].origin is Origin.IMPORT
    desk.ask("ben", APPROVER, "POST", DECIDE, number="1", do="approve")
    assert content(form, "S2")["sku"] == "B"
    undo = {"key": "S1", "batch": "1", "why": "undo"}
    assert desk.ask("anna", EDITOR, "POST", f"{LIST}/undo", **undo) == (303, f"{PROPOSAL}?number=2")
    assert content(form)["sku"] == "A"
    assert "Open proposals that change this row" in desk.ask("ben", APPROVER, "GET", f"{ROW}?key=S2")[1]
    desk.ask("ben", APPROVER, "POST", DECIDE, number="2", do="approve")
    assert content(form) is None


def test_unknown_proposals_are_not_found(desk: Desk, form: OpenedForm) -> None:
    for number in ("", "7", "-1", "x", "9" * 30):
        assert desk.ask("ben", APPROVER, "GET", f"{PROPOSAL}?number={number}")[0] == 404
        assert desk.ask("ben", APPROVER, "POST", DECIDE, number=number, do="approve")[0] == 404
    assert list_proposals(form.database, form.entity) == []
