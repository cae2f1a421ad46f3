"""The commands of branches, without Spark: creating, listing, planning and deleting one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.branches import contents
from tests.json_answers import check_answer
from waterclock.cli.app import app
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.timelabel.zone import parse_instant

TOML = """
[project]
name = "mine"
env = "prod"
[defaults]
start = "2020-01-01"
[env.prod]
storage = ".prod"
connections.shop = { path = "shop.db" }
[env.try]
from = "prod"
[env.other]
connections.shop = { path = "shop.db" }
[env.inside]
from = "prod"
storage = ".prod/inside"
[env.full]
from = "prod"
storage = "flows"
"""
FLOW = """
CREATE CONNECTION shop TYPE sqlite;
COLLECT raw.a PARTITIONED (id BIGINT, at TIMESTAMP) FROM shop.a EVERY DAY BY DATA TIME at;
TRANSFORM core.b PARTITIONED AS SELECT {what} AS id FROM raw.a;
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project whose production has a ledger, and whose code was changed since."""
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML)
    (tmp_path / "flows" / "a.dpl").write_text(FLOW.format(what="id"))
    with open_workplace(load_project(tmp_path, capabilities=capabilities())) as work:
        apply_flow(work, parse_instant("2020-01-03", "UTC"))
    (tmp_path / "flows" / "a.dpl").write_text(FLOW.format(what="id + 1"))
    return tmp_path


def ask(root: Path, *words: str) -> dict[str, object]:
    ran = CliRunner().invoke(app, [*words, "--project", str(root), "--json"])
    answer: dict[str, object] = json.loads(ran.stdout)
    check_answer(words[0], answer)
    return answer


def refusal(root: Path, *words: str) -> str:
    error = ask(root, *words)["error"]
    assert isinstance(error, dict)
    return " ".join([str(error["code"]), *(str(each["code"]) for each in error.get("errors", ()))])


@pytest.mark.parametrize(("name", "more"), [("try", ()), ("pr-1", ("--from", "prod")), ("pr-2", ())])
def test_a_branch_is_created_planned_listed_and_deleted(root: Path, name: str, more: tuple[str, ...]) -> None:
    before = contents(root / ".prod")
    assert ask(root, "branch", "list")["branches"] == []
    made = ask(root, "branch", "create", name, *more, "--at", "2020-01-03", "--days", "2")
    assert (made["name"], made["base"], made["tick"]) == (name, "prod", "2020-01-03T00:00:00Z")
    plan = ask(root, "plan", "--env", name)
    assert plan["changed"] == {"core.b": ["query"]}
    assert plan["borrowed"] == ["raw.a"]
    listed = ask(root, "branch", "list")["branches"]
    assert isinstance(listed, list)
    assert [each["name"] for each in listed] == [name]
    assert ask(root, "promote", name, "--dry-run")["adopted"] == {}
    assert refusal(root, "branch", "create", name) == "E471"
    assert ask(root, "branch", "delete", name, "--yes")["deleted"] == name
    assert contents(root / ".prod") == before
    assert not (root / ".branches").exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("branch", "create", "other"), "E471"),
        (("branch", "create", "try", "--from", "other"), "E471"),
        (("branch", "create", "new", "--from", "othr"), "E200 E243"),
        (("branch", "create", "a..b", "--from", "prod"), "E476"),
        (("branch", "create", "inside"), "E476"),
        (("branch", "create", "full"), "E476"),
        (("branch", "create", "new", "--from", "other"), "E412"),
        (("branch", "delete", "prod", "--yes"), "E470"),
        (("branch", "delete", "try", "--yes"), "E470"),
        (("plan", "--env", "try"), "E470"),
        (("promote", "try"), "E470"),
        (("promote", "prod"), "E470"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(root: Path, words: tuple[str, ...], code: str) -> None:
    before = contents(root)
    assert refusal(root, *words) == code
    after = contents(root)
    assert {name for name in after if not name.startswith((".waterclock", ".branches"))} == {
        name for name in before if not name.startswith(".waterclock")
    }
    assert (root / "flows" / "a.dpl").exists()


@pytest.mark.parametrize("words", [("branch", "delete", "prod", "--yes"), ("promote", "prod")])
def test_an_environment_that_borrows_nothing_is_no_branch_to_create(root: Path, words: tuple[str, ...]) -> None:
    error = ask(root, *words)["error"]
    assert isinstance(error, dict)
    assert (error["what"], error["fix"]) == ("prod is not a branch", "`waterclock branch list` shows the branches")


@pytest.mark.parametrize(
    "words",
    [
        ("recollect", "raw.a", "--yes"),
        ("recompute", "core.b", "--yes"),
        ("backfill", "core.b", "2020-01-01", "--yes"),
        ("retry", "core.b"),
        ("maintain",),
        ("pause", "core.b", "--why", "x"),
        ("reset", "core.b", "--why", "x", "--yes"),
        ("drop", "raw.a@..2020-01-01", "--why", "x", "--yes"),
        ("rebuild", "core.b", "--yes"),
    ],
    ids=lambda words: words[0],
)
def test_commands_that_would_write_are_not_available_in_a_branch(root: Path, words: tuple[str, ...]) -> None:
    ask(root, "branch", "create", "try", "--at", "2020-01-03")
    before = contents(root / ".prod")
    assert refusal(root, *words, "--env", "try") == "E472"
    assert contents(root / ".prod") == before


@pytest.mark.parametrize(
    "section",
    [
        '[env.evil]\nfrom = "prod"\nledger = "sqlite:///.prod/ledger.db"',
        '[env.evil]\nfrom = "prod"\nledger = "sqlite:///mine.db"',
        '[env.evil]\nfrom = "prod"\nstorage = "."',
        '[env.evil]\nfrom = "prod"\nstorage = "flows/../.prod"',
        '[env.evil]\nfrom = "prod"\nstorage = "linked"',
        '[env."../evil"]\nfrom = "prod"',
        '[env.evil]\nfrom = "prod"\nstorage = "flows/../.branches/try"',
        (
            '[env.kept]\nledger = "sqlite:///state/ledger.db"\nconnections.shop = { path = "shop.db" }\n'
            '[env.evil]\nfrom = "kept"\nstorage = "state"'
        ),
    ],
)
def test_a_branch_removes_no_files_of_others_whatever_its_section_names(
    root: Path, tmp_path_factory: pytest.TempPathFactory, section: str
) -> None:
    name = "../evil" if "../evil" in section else "evil"
    others = tmp_path_factory.mktemp("others")
    (root / "linked").symlink_to(others)
    ask(root, "branch", "create", "try")
    for folder in (root, root / ".prod", others, root / "evil", root / "state"):
        folder.mkdir(exist_ok=True)
        (folder / "branch.json").write_text('{"from": "prod"}')
        (folder / "mine.db").write_text("mine")
        (folder / "ledger.db").touch()
    (root / ".branches" / "evil").mkdir()
    (root / ".branches" / "evil" / "branch.json").write_text('{"from": "prod"}')
    (root / "waterclock.toml").write_text(f"{TOML}\n{section}\n")
    before = contents(root), contents(others)
    assert refusal(root, "branch", "create", name) in {"E471", "E476"}
    assert refusal(root, "branch", "delete", name, "--yes") == "E476"
    assert (contents(root), contents(others)) == before
