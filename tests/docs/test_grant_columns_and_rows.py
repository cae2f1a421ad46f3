"""The page on grants: its project has no errors, both languages declare the same, and its users see what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.console import ROOT
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import Project, load_project
from waterclock.dpl.query.granted_select import granted_select
from waterclock.flow.form_rights import FormRights, form_rights_of
from waterclock.flow.form_views import view_of
from waterclock.flow.forms import entities_of
from waterclock.flow.table_visibility import grants_of
from waterclock.permissions.users_and_roles import SignIn

PAGE = (ROOT / "docs" / "howto" / "grant-columns-and-rows.md").read_text(encoding="utf-8")
COLUMNS = ("id", "at", "land", "email", "amount", "timelabel")
HEAD = '[project]\nname = "shop"\n[env.dev]\nconnections.shop = { path = "shop.sqlite" }\n'


def block(kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def project(root: Path, *, in_python: bool = False) -> Project:
    (root / "flows").mkdir()
    (root / "waterclock.toml").write_text(HEAD + block("toml"), encoding="utf-8")
    sql = block("sql")
    if in_python:
        sql = sql[: sql.index("GRANT")]
        (root / "flows" / "a.py").write_text(block("python"), encoding="utf-8")
    (root / "flows" / "a.dpl").write_text(sql, encoding="utf-8")
    return load_project(root, capabilities=capabilities())


def seen(project: Project, user: str) -> dict[str, bool] | None:
    """Return the columns that a user sees of raw.orders, and whether they are as they are; None for the whole table."""
    person = project.access.person(user, SignIn.TOKEN)
    assert person is not None
    grants = grants_of(project.flow, person, "raw.orders")
    attributes = {name: repr(value) for name, value in person.attributes.items()}
    if grants is None:
        return None
    return {column.name: column.is_plain for column in granted_select(grants, COLUMNS, attributes).columns}


def test_users_see_what_the_page_says(tmp_path: Path) -> None:
    own = project(tmp_path)
    assert seen(own, "anna") == {"id": True, "at": True, "land": True, "email": False, "timelabel": True}
    assert seen(own, "ben") == dict.fromkeys(COLUMNS, False) | {"id": True}
    assert seen(own, "carla") is None
    person = own.access.person("anna", SignIn.TOKEN)
    assert person is not None
    assert grants_of(own.flow, person, "raw.products") is None


def test_the_page_declares_the_same_in_python(tmp_path: Path) -> None:
    (tmp_path / "dpl").mkdir()
    (tmp_path / "python").mkdir()
    assert project(tmp_path / "dpl").flow.grants == project(tmp_path / "python", in_python=True).flow.grants


@pytest.mark.parametrize("code", ["E382", "E946", "E947"])
def test_the_page_links_each_error_of_grants(code: str) -> None:
    assert f"[{code}]" in PAGE


SITES = """
CREATE CONNECTION shop TYPE sqlite;
CREATE CONNECTION forms TYPE forms;
COLLECT mdm.sites (site KEY, land, rent INT, owner) FROM forms.sites EVERY DAY START '2026-01-01';
COLLECT mdm.prices (sku KEY, name, price INT, remark) FROM forms.prices EVERY DAY START '2026-01-01';
"""
ROLES = """
[roles]
steward = ["look", "edit"]
pricing = ["look", "edit"]
chief = ["look", "approve"]
agent = ["look", "edit"]
[users.anna]
roles = ["steward"]
attributes = { land = "DE" }
[users.cleo]
roles = ["chief"]
attributes = { land = "DE" }
[users.ben]
roles = ["pricing"]
[users.dora]
roles = ["agent"]
attributes = { land = "DE" }
"""


def test_people_edit_and_approve_the_rows_that_the_page_says(tmp_path: Path) -> None:
    blocks = [
        each
        for each in re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
        if "GRANT EDIT" in each or "mdm.sites" in each
    ]
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(HEAD + ROLES, encoding="utf-8")
    (tmp_path / "flows" / "a.dpl").write_text(SITES + "".join(blocks), encoding="utf-8")
    own = load_project(tmp_path, capabilities=capabilities())

    def rights(name: str) -> FormRights:
        person = own.access.person(name, SignIn.TOKEN)
        assert person is not None
        return form_rights_of(own.flow, person, "mdm.sites")

    assert len(blocks) == 3
    assert rights("anna").of_row({"site": "A", "land": "DE"}).may_edit
    assert not rights("anna").of_row({"site": "A", "land": "FR"}).may_edit
    assert not rights("anna").of_row({"site": "A"}).may_edit
    assert not rights("ben").may_edit
    cheap, dear, unknown = ({"site": "A", "land": "DE", "rent": rent} for rent in ("1000", "1001", None))
    assert rights("cleo").may_approve_row(cheap, cheap)
    assert not rights("cleo").may_approve_row(cheap, dear)
    assert not rights("cleo").may_approve_row(unknown, cheap)
    dora = own.access.person("dora", SignIn.TOKEN)
    assert dora is not None
    view = view_of(grants_of(own.flow, dora, "mdm.sites") or (), entities_of(own.flow)["mdm.sites"], dora)
    assert view is not None
    row = {"site": "A", "land": "DE", "rent": "5", "owner": "Kim"}
    assert view.project(row) == {"site": "A", "land": "DE", "rent": "5"}
    assert view.masked == ("owner",)
    assert view.project(row | {"land": "FR"}) is None
