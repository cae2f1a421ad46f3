"""A sandbox belongs to a branch, names connections of the flow, and is not the destination of the base."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiny import CONNECTIONS
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import Project, load_project
from waterclock.errors import ProjectErrors, WaterclockError

TOML = """
[project]
name = "mine"
[defaults]
start = "2020-01-01"
[env.prod]
storage = ".prod"
publish = true
connections.shop = {{ path = "shop.db" }}
connections.out = {{ path = "out.db", create = true }}
connections.land = {{ path = "landing" }}
connections.files = {{ path = "files" }}
connections.mart = {{ url = "postgresql://prod@host/mart" }}
{prod}
[env.try]
from = "prod"
{own}
"""
FLOW = """
CREATE CONNECTION mart TYPE postgres;
COLLECT raw.a PARTITIONED (id BIGINT, at TIMESTAMP) FROM shop.a EVERY DAY BY DATA TIME at;
PUBLISH raw.a TO out.a;
PUBLISH raw.a TO mart.a;
"""


def load(folder: Path, own: str = "", prod: str = "", env: str = "try") -> Project:
    (folder / "flows").mkdir(exist_ok=True)
    (folder / "waterclock.toml").write_text(TOML.format(own=own, prod=prod))
    (folder / "flows" / "a.dpl").write_text(CONNECTIONS + FLOW)
    return load_project(folder, env=env, capabilities=capabilities())


def error_of(folder: Path, own: str = "", prod: str = "", env: str = "try") -> WaterclockError:
    with pytest.raises(ProjectErrors) as raised:
        load(folder, own, prod, env)
    [error] = raised.value.errors
    return error


def delivered(project: Project) -> set[str]:
    return {name for name, table in project.flow.tables.items() if project.delivers(table)}


def test_only_publishes_to_a_sandbox_are_delivered(tmp_path: Path) -> None:
    assert delivered(load(tmp_path, env="prod")) == {"out.a", "mart.a"}
    assert delivered(load(tmp_path)) == set()
    assert delivered(load(tmp_path, "publish = true")) == set()
    assert delivered(load(tmp_path, 'connections.out = { path = "try.db" }')) == set()
    found = load(tmp_path, 'sandbox.out = { path = "try.db" }')
    assert delivered(found) == {"out.a"}
    assert dict(found.flow.connections["out"].options) == {"path": "try.db"}
    assert dict(load(tmp_path, env="prod").flow.connections["out"].options) == {"path": "out.db", "create": True}


def test_a_branch_of_a_branch_inherits_no_sandbox(tmp_path: Path) -> None:
    deep = '\n[env.deep]\nfrom = "try"'
    assert delivered(load(tmp_path, f'sandbox.out = {{ path = "try.db" }}{deep}', env="deep")) == set()
    own = f'sandbox.out = {{ path = "try.db" }}{deep}\nsandbox.out = {{ path = "try.db" }}'
    same = error_of(tmp_path, own, env="deep")
    assert (same.code, same.what) == ("E479", "the sandbox out is the connection out of try")


@pytest.mark.parametrize(
    "own",
    [
        'sandbox.out = { path = "out.db", create = true }',
        'sandbox.out = { path = "./out.db" }',
        'sandbox.out = { path = "shop.db" }',
        'sandbox.out = { path = "out.db", type = "sqlite" }',
        'sandbox.mart = { url = "postgresql://other@host/mart" }',
        'sandbox.mart = { url = "postgresql://host/mart", password = { secret = "word" } }',
    ],
)
def test_the_connection_of_the_base_is_no_sandbox(tmp_path: Path, own: str) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "word").write_text("x")
    error = error_of(tmp_path, own)
    assert error.code == "E479"
    assert "of prod" in error.what
    assert "waterclock.toml:17" in str(error.where)


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("{root}/out.db", "the sandbox out is the connection out of prod"),
        ("linked.db", "the sandbox out is the connection out of prod"),
        (".prod/ledger.db", "the sandbox out is in the storage of prod"),
        ("{root}/x/../.prod/tables/a.db", "the sandbox out is in the storage of prod"),
        ("linked/a.db", "the sandbox out is in the storage of prod"),
    ],
)
def test_a_file_of_the_base_is_no_sandbox_by_another_path(tmp_path: Path, path: str, what: str) -> None:
    (tmp_path / "linked.db").symlink_to("out.db")
    (tmp_path / "linked").symlink_to(".prod/tables")
    error = error_of(tmp_path, f'sandbox.out = {{ path = "{path.format(root=tmp_path)}" }}')
    assert (error.code, error.what) == ("E479", what)


def test_a_ledger_of_the_base_outside_of_its_storage_is_no_sandbox(tmp_path: Path) -> None:
    error = error_of(tmp_path, 'sandbox.out = { path = "./led.db" }', prod='ledger = "sqlite:///led.db"')
    assert (error.code, error.what) == ("E479", "the sandbox out is in the storage of prod")


def test_an_unknown_sandbox_is_reported_with_the_nearest_name(tmp_path: Path) -> None:
    error = error_of(tmp_path, 'sandbox.outt = { path = "try.db" }')
    assert (error.code, error.what) == ("E221", "unknown connection outt")
    assert "out" in str(error.fix)
    assert "waterclock.toml:17" in str(error.where)


def test_an_unknown_option_of_a_sandbox_is_reported_at_its_place(tmp_path: Path) -> None:
    error = error_of(tmp_path, 'sandbox.out = { path = "try.db", creat = true }')
    assert (error.code, error.what) == ("E223", "unknown option creat")
    assert "create" in str(error.fix)
    assert "waterclock.toml:17" in str(error.where)


def test_an_environment_that_is_no_branch_has_no_sandbox(tmp_path: Path) -> None:
    error = error_of(tmp_path, prod='sandbox.out = { path = "try.db" }', env="prod")
    assert (error.code, error.what) == ("E479", "prod cannot have a sandbox")
    assert "from" in str(error.fix)
