"""A branch inherits the settings of its base, but never its storage locations or its notifications."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from waterclock.dpl.config.branches import BRANCH_FILE, BRANCHES, is_branch_name, recorded_base
from waterclock.dpl.config.model import Config, read_config

TOML = """
[project]
name = "mine"
env = "prod"
[env.prod]
storage = "s3://bucket/prod"
storage_options = { region = "eu" }
ledger = "postgresql://host/db"
publish = true
alerts = true
openlineage = true
catalog = "thrift://hive:9083"
secrets = "hidden"
connections.shop = { path = "shop.db" }
connections.out = { path = "out.db" }
vars = { rate = 2, name = "a" }
pools = { small = 2 }
[env.try]
from = "prod"
connections.out = { path = "sandbox.db" }
vars = { rate = 3 }
[env.deep]
from = "try"
storage = ".deep"
pools = { small = 1 }
[env.round]
from = "square"
[env.square]
from = "round"
[env.lost]
from = "prd"
"""


def read(env: str, root: Path | None = None) -> Config:
    config, errors = read_config(TOML, env=env, root=root)
    assert config is not None, errors
    assert not errors
    return config


def test_a_branch_inherits_all_settings_except_storage_ledger_and_outgoing_channels() -> None:
    config = read("try")
    found = config.environment
    assert (found.storage, found.storage_options, found.ledger) == (".branches/try", {}, None)
    assert (found.publish, found.alerts, found.openlineage, found.catalog) == (False, False, False, None)
    assert found.secrets == "hidden"
    assert found.connections == {"shop": {"path": "shop.db"}, "out": {"path": "sandbox.db"}}
    assert found.vars == {"rate": 3, "name": "a"}
    [(name, base)] = config.bases
    assert (name, base.storage, base.ledger) == ("prod", "s3://bucket/prod", "postgresql://host/db")
    assert config.pools["small"] == 2


def test_a_branch_of_a_branch_inherits_from_both() -> None:
    config = read("deep")
    assert [(name, base.storage) for name, base in config.bases] == [
        ("try", ".branches/try"),
        ("prod", "s3://bucket/prod"),
    ]
    assert config.environment.storage == ".deep"
    assert config.environment.vars == {"rate": 3, "name": "a"}
    assert config.pools["small"] == 1


def test_an_environment_without_from_borrows_nothing() -> None:
    assert read("prod").bases == ()


@pytest.mark.parametrize(
    ("env", "what"), [("round", "round is a branch of itself"), ("lost", "unknown environment prd")]
)
def test_a_base_that_cannot_be_is_refused_where_it_is_written(env: str, what: str) -> None:
    config, errors = read_config(TOML, env=env)
    assert config is None
    [error] = errors
    assert (error.code, error.what) == ("E243", what)
    assert error.where is not None
    assert error.where.startswith("waterclock.toml:")
    assert env != "lost" or "prod" in str(error.fix)


def test_a_created_branch_is_an_environment_too(tmp_path: Path) -> None:
    folder = tmp_path / BRANCHES / "pr-7"
    folder.mkdir(parents=True)
    (folder / BRANCH_FILE).write_text(json.dumps({"from": "prod"}))
    assert recorded_base(tmp_path, "pr-7") == "prod"
    config = read("pr-7", tmp_path)
    assert (config.env, config.environment.storage) == ("pr-7", ".branches/pr-7")
    assert [name for name, _ in config.bases] == ["prod"]
    unknown, errors = read_config(TOML, env="pr-8", root=tmp_path)
    assert unknown is None
    assert [error.code for error in errors] == ["E243"]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"from": 1}', '{"from": ["prod"]}', "{}", "[" * 100_000, '{"from": "prod"'],
    ids=range(8),
)
def test_an_invalid_branch_file_has_no_recorded_base(tmp_path: Path, content: str) -> None:
    folder = tmp_path / BRANCHES / "a"
    folder.mkdir(parents=True)
    (folder / BRANCH_FILE).write_text(content)
    assert recorded_base(tmp_path, "a") is None


@pytest.mark.parametrize("name", ["", "..", "../prod", "a/b", ".hidden", "a..b", "a b", "a" * 101, "a\n"])
def test_a_name_that_leads_elsewhere_is_no_branch(tmp_path: Path, name: str) -> None:
    assert not is_branch_name(name)
    assert recorded_base(tmp_path, name) is None


def test_an_unknown_environment_is_compared_with_created_branches(tmp_path: Path) -> None:
    for name in ("retry", "empty"):
        (tmp_path / BRANCHES / name).mkdir(parents=True)
    (tmp_path / BRANCHES / "retry" / BRANCH_FILE).write_text(json.dumps({"from": "prod"}))
    config, errors = read_config(TOML, env="rety", root=tmp_path)
    assert config is None
    (error,) = errors
    assert (error.code, error.fix) == ("E243", "did you mean retry?")
    assert error.why == "the project file has prod, try, deep, round, square, lost, and `branch create` made retry"
