"""Rights to edit and approve forms and their columns, by roles and by grants."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.language.cases import CAPABILITIES
from waterclock.dpl.project import Project, load_project
from waterclock.errors import WaterclockError
from waterclock.flow.form_rights import EditRefusedError, FormRights, form_rights_of
from waterclock.flow.table_visibility import TableVisibility, form_of, is_restricted
from waterclock.permissions.users_and_roles import Person, SignIn, owner

TOML = """
[project]
name = "shop"
[roles]
steward = ["look", "edit"]
pricing = ["look", "edit"]
chief = ["look", "edit", "approve"]
viewer = ["look"]
boss = ["administer"]
[users.anna]
roles = ["steward"]
[users.ben]
roles = ["pricing", "steward"]
[users.cleo]
roles = ["chief"]
[users.dora]
roles = ["boss"]
[users.eve]
roles = ["viewer", "steward"]
[env.dev]
"""
FLOW = """
CREATE CONNECTION forms TYPE forms;
COLLECT mdm.prices (sku KEY, name, price DECIMAL(9,2), remark) FROM forms.prices EVERY DAY START '2026-01-01';
COLLECT mdm.lands (land KEY, name) FROM forms.lands EVERY DAY START '2026-01-01';
"""
GRANTS = """
GRANT EDIT (price) ON mdm.prices TO (pricing);
GRANT EDIT (sku, name, remark) ON mdm.prices TO (steward);
GRANT APPROVE ON mdm.prices TO (cleo, viewer);
"""


def project(root: Path, grants: str, *, python: bool = False) -> Project:
    (root / "flows").mkdir()
    (root / "waterclock.toml").write_text(TOML, encoding="utf-8")
    (root / "flows" / "a.dpl").write_text(FLOW + ("" if python else grants), encoding="utf-8")
    if python:
        (root / "flows" / "b.py").write_text(f"import waterclock as wc\n{grants}", encoding="utf-8")
    return load_project(root, capabilities=CAPABILITIES)


def person(found: Project, name: str) -> Person:
    if name == "owner":
        return owner("owner")
    who = found.access.person(name, SignIn.TOKEN)
    assert who is not None
    return who


def rights(found: Project, name: str, table: str = "mdm.prices") -> FormRights:
    return form_rights_of(found.flow, person(found, name), table)


def columns(found: Project, name: str) -> list[str]:
    return [each for each in ("sku", "name", "price", "remark") if rights(found, name).may_change(each)]


def test_without_a_grant_the_rights_of_the_roles_count(tmp_path: Path) -> None:
    found = project(tmp_path, "")
    assert columns(found, "anna") == ["sku", "name", "price", "remark"]
    assert (rights(found, "anna").may_approve, rights(found, "cleo").may_approve) == (False, True)
    assert rights(found, "eve").may_edit
    assert "the right approve is missing" in rights(found, "anna").no_approval


def test_a_grant_closes_the_form_to_all_others_and_limits_columns(tmp_path: Path) -> None:
    found = project(tmp_path, GRANTS)
    assert columns(found, "anna") == ["sku", "name", "remark"]
    assert columns(found, "ben") == ["sku", "name", "price", "remark"]
    assert columns(found, "cleo") == []
    assert "no GRANT EDIT of the form is to cleo" in rights(found, "cleo").no_edit
    assert rights(found, "cleo").may_approve
    assert "the right approve is missing" in rights(found, "eve").no_approval  # granted to viewer, who may not approve
    for name in ("dora", "owner"):
        assert columns(found, name) == ["sku", "name", "price", "remark"]
        assert rights(found, name).may_approve
    assert rights(found, "cleo", "mdm.lands").may_edit


def test_a_grant_to_edit_does_not_limit_the_rows_and_columns_that_users_read(tmp_path: Path) -> None:
    found = project(tmp_path, GRANTS)
    for name in ("anna", "cleo", "eve"):
        assert form_of(found.flow, person(found, name), "mdm.prices") is TableVisibility.WHOLE
        assert not is_restricted(found.flow, person(found, name))


def test_the_same_is_granted_in_python(tmp_path: Path) -> None:
    grants = (
        'wc.grant("edit", on="mdm.prices", to="(pricing)", columns="price")\n'
        'wc.grant("edit", on="mdm.*", to="steward", columns="* EXCEPT (price)")\n'
        'wc.grant("approve", on="*", to="(cleo)")\n'
        'wc.grant("edit", on="mdm.lands", to="(cleo)", where="land = \'DE\'")\n'
    )
    found = project(tmp_path, grants, python=True)
    assert columns(found, "anna") == ["sku", "name", "remark"]
    assert columns(found, "ben") == ["sku", "name", "price", "remark"]
    assert rights(found, "cleo", "mdm.lands").may_approve
    cleo = rights(found, "cleo", "mdm.lands")
    assert cleo.of_row({"land": "DE"}).may_edit
    assert not cleo.of_row({"land": "FR"}).may_edit


def test_a_missing_right_is_an_error_with_the_reason(tmp_path: Path) -> None:
    found = project(tmp_path, GRANTS)
    anna = rights(found, "anna")
    before, after = {"sku": "S", "name": "a", "price": "1"}, {"sku": "S", "name": "b", "price": "2"}
    assert anna.find_refusals(before, before | {"name": "b"}) == {}
    assert anna.find_refusals(before, after) == {"price": "no GRANT EDIT names price"}
    with pytest.raises(EditRefusedError, match=r"anna may not edit S and 1 more of mdm\.prices") as raised:
        anna.require_changes("mdm.prices", {"S": (before, after), "T": (before, None), "U": (before, before)})
    assert set(raised.value.refusals) == {"S", "T"}
    assert raised.value.code == "E940"
    assert "GRANT EDIT ON mdm.prices" in str(raised.value.fix)
    with pytest.raises(WaterclockError, match="cleo may not edit"):
        rights(found, "cleo").require_edit("mdm.prices")
    with pytest.raises(WaterclockError, match="anna may not decide on changes"):
        anna.require_approval("mdm.prices")
