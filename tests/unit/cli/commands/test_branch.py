"""The commands of branches, without Spark: creating, listing, planning and deleting one."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.branches import contents
from tests.json_answers import check_answer
from waterclock.cli.actions import branch_creation
from waterclock.cli.app import app
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.branching.branch_state import BorrowedHead, BranchState
from waterclock.engine.branching.creation import create_branch
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.faults import inject_faults
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
    """Return a project whose production has a ledger, and whose code was changed since."""
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


@pytest.mark.parametrize(
    ("names", "words"), [((), "0 tables"), (("raw.a",), "1 table"), (("raw.a", "core.b"), "2 tables")]
)
def test_create_counts_the_borrowed_tables(
    root: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], words: str
) -> None:
    def create_with_heads(*project: Any, **options: Any) -> BranchState:
        heads = {name: BorrowedHead(3, "an identity", "{}") for name in names}
        return replace(create_branch(*project, **options), heads=heads)

    monkeypatch.setattr(branch_creation, "create_branch", create_with_heads)
    ran = CliRunner().invoke(app, ["branch", "create", "try", "--at", "2020-01-03", "--project", str(root)])
    assert ran.output.startswith(f"created: try borrows {words} of prod, until ")


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
        (("branch", "create", "new", "--from", "othr"), "E243"),
        (("branch", "create", "new", "--from", "new"), "E471"),
        (("branch", "delete", "tri", "--yes"), "E470"),
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
def test_an_invalid_branch_command_is_refused_and_leaves_no_files(
    root: Path, words: tuple[str, ...], code: str
) -> None:
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
def test_a_branch_never_removes_foreign_files_whatever_paths_its_section_names(
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


def listed(root: Path) -> dict[str, dict[str, object]]:
    branches = ask(root, "branch", "list")["branches"]
    assert isinstance(branches, list)
    return {each["name"]: each for each in branches}


def declare_other_base(root: Path) -> None:
    """Rename the environment `prod`, so that no branch finds its base."""
    (root / "waterclock.toml").write_text(
        TOML.replace("[env.prod]", "[env.live]").replace('env = "prod"', 'env = "live"')
    )


@pytest.mark.parametrize(("name", "more"), [("pr-1", ("--from", "prod")), ("try", ()), ("elsewhere", ())])
def test_a_branch_with_a_missing_base_is_listed_with_the_reason_and_can_be_deleted(
    root: Path, name: str, more: tuple[str, ...]
) -> None:
    section = '[env.elsewhere]\nfrom = "prod"\nstorage = "mine/here"\n'
    (root / "waterclock.toml").write_text(f"{TOML}\n{section}")
    ask(root, "branch", "create", name, *more)
    declare_other_base(root)
    (root / "waterclock.toml").write_text(f"{(root / 'waterclock.toml').read_text()}\n{section}")
    before = contents(root / ".prod"), contents(root / "flows")
    found = listed(root)[name]
    assert (found["base"], found["problem"]) == ("prod", "unknown environment prod")
    assert found["is_complete"] is True
    words = CliRunner().invoke(app, ["branch", "list", "--project", str(root)]).output
    assert "unknown environment prod" in words
    assert f"waterclock branch delete {name}" in words
    assert "E243" in refusal(root, "plan", "--env", name)
    assert ask(root, "branch", "delete", name, "--yes")["deleted"] == name
    assert listed(root) == {}
    assert (contents(root / ".prod"), contents(root / "flows")) == before
    assert (root / "mine").exists() == (name == "elsewhere"), "the folder around the storage is not the branch's"
    assert not (root / "mine" / "here").exists()


def test_deleting_a_branch_with_an_unknown_base_and_a_foreign_storage_folder_is_refused(root: Path) -> None:
    (root / "mine").mkdir()
    (root / "mine" / "branch.json").write_text('{"from": "prd"}')
    (root / "mine" / "rows").write_text("rows")
    (root / "waterclock.toml").write_text(f'{TOML}\n[env.evil]\nfrom = "prd"\nstorage = "mine"\n')
    before = contents(root / "mine")
    assert listed(root)["evil"]["problem"] == "unknown environment prd"
    assert refusal(root, "branch", "delete", "evil", "--yes") == "E476"
    assert contents(root / "mine") == before


def test_branches_are_listed_and_deleted_while_the_flow_has_errors(root: Path) -> None:
    ask(root, "branch", "create", "pr-1", "--from", "prod", "--days", "1")
    (root / "flows" / "a.dpl").write_text("COLLECT what;")
    assert listed(root)["pr-1"]["problem"] is None
    assert ask(root, "branch", "delete", "pr-1", "--yes")["deleted"] == "pr-1"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"from": 1}', "\x00"])
def test_a_branch_with_a_damaged_file_is_listed_and_deleted(root: Path, content: str) -> None:
    ask(root, "branch", "create", "pr-1", "--from", "prod")
    (root / ".branches" / "pr-1" / "branch.json").write_text(content)
    found = listed(root)["pr-1"]
    assert (found["base"], found["problem"]) == ("", "the file of the branch pr-1 is damaged")
    assert "E243" in refusal(root, "plan", "--env", "pr-1")
    before = contents(root / ".prod")
    assert ask(root, "branch", "delete", "pr-1", "--yes")["deleted"] == "pr-1"
    assert not (root / ".branches").exists()
    assert contents(root / ".prod") == before


@pytest.mark.parametrize("link", [".branches", ".branches/pr-1"])
def test_a_folder_of_branches_that_is_a_link_is_refused_and_nothing_behind_it_is_removed(
    root: Path, tmp_path_factory: pytest.TempPathFactory, link: str
) -> None:
    ask(root, "branch", "create", "pr-1", "--from", "prod")
    others = tmp_path_factory.mktemp("others") / "moved"
    (root / link).rename(others)
    (root / link).symlink_to(others)
    before = contents(others), contents(root)
    assert refusal(root, "branch", "delete", "pr-1", "--yes") == "E476"
    assert (contents(others), contents(root)) == before
    if link == ".branches":
        assert refusal(root, "branch", "create", "pr-2", "--from", "prod") == "E476"
        assert contents(others) == before[0]


@pytest.mark.parametrize(
    "section",
    [
        '[env.evil]\nfrom = "prod"\nstorage = ".waterclock/inside"',  # of the environment `other`
        '[env.evil]\nfrom = "prod"\nstorage = ".branches"',
        '[env.evil]\nfrom = "prod"\nstorage = ".branches/pr-1/inside"',
        '[env.evil]\nfrom = "prod"\nstorage = "state"\n[env.third]\nledger = "sqlite:///state/ledger.db"',
        '[env.evil]\nfrom = "gone"\nstorage = "state"\n[env.third]\nstorage = "state/inside"',
    ],
)
def test_a_branch_removes_no_files_of_environments_that_it_does_not_borrow_from(root: Path, section: str) -> None:
    ask(root, "branch", "create", "pr-1", "--from", "prod")
    (root / "waterclock.toml").write_text(f"{TOML}\n{section}\n")
    for name in (".waterclock/inside", ".branches", ".branches/pr-1/inside", "state/inside"):
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name / "branch.json").write_text('{"from": "prod"}')
    (root / "state" / "branch.json").write_text('{"from": "prod"}')
    before = contents(root)
    assert refusal(root, "branch", "delete", "evil", "--yes") == "E476"
    assert contents(root) == before


def test_a_branch_of_an_older_version_is_still_read(root: Path) -> None:
    """Its file has no version, and does not name the locations that it borrows from."""
    ask(root, "branch", "create", "pr-1", "--from", "prod")
    file = root / ".branches" / "pr-1" / "branch.json"
    state = json.loads(file.read_text())
    assert state["places"] == [str(root / ".prod"), str(root / ".prod" / "ledger.db")]
    del state["places"], state["version"]
    file.write_text(json.dumps(state))
    assert ask(root, "plan", "--env", "pr-1")["changed"] == {"core.b": ["query"]}
    declare_other_base(root)
    assert ask(root, "branch", "delete", "pr-1", "--yes")["deleted"] == "pr-1"


def test_an_unknown_base_is_marked_in_the_command(root: Path) -> None:
    error = ask(root, "branch", "create", "new", "--from", "prd")["error"]
    assert isinstance(error, dict)
    assert (error["code"], error["where"], error["fix"]) == ("E243", "--from prd", "did you mean prod?")
    assert not (root / ".branches").exists()


def test_a_base_that_differs_from_the_recorded_one_is_refused(root: Path) -> None:
    """A killed creation left the record."""
    (root / ".branches" / "new").mkdir(parents=True)
    (root / ".branches" / "new" / "branch.json").write_text('{"from": "other"}')
    error = ask(root, "branch", "create", "new", "--from", "prod")["error"]
    assert isinstance(error, dict)
    assert (error["code"], error["fix"]) == (
        "E471",
        "`waterclock branch create new` creates it from other; for prod, use another name",
    )
    assert listed(root)["new"]["is_complete"] is False


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("new", "--from", "other"), "E412"),
        (("new", "--from", "prod", "--at", "yesterdy"), "E106"),
        (("lost",), "E412"),
    ],
    ids=["no ledger", "no instant", "declared"],
)
def test_a_creation_that_fails_leaves_nothing(root: Path, words: tuple[str, ...], code: str) -> None:
    """Its name is free again: for another base, too."""
    (root / "waterclock.toml").write_text(f'{TOML}\n[env.lost]\nfrom = "other"\n')
    before = contents(root)
    assert refusal(root, "branch", "create", *words) == code
    assert contents(root) == before
    assert listed(root) == {}
    assert ask(root, "branch", "create", "new", "--from", "prod")["base"] == "prod"


def test_a_creation_that_fails_after_an_interrupted_one_leaves_nothing(root: Path) -> None:
    """The disk is full when the ledger is moved into place."""
    before = contents(root)
    full = OSError(errno.ENOSPC, "No space left on device")

    def strike(passed: str) -> None:
        if passed == "ledger installed":
            raise full

    (root / ".branches" / "new").mkdir(parents=True)
    (root / ".branches" / "new" / "branch.json").write_text('{"from": "prod"}')
    with inject_faults(strike):
        ran = CliRunner().invoke(app, ["branch", "create", "new", "--project", str(root)])
    assert ran.exit_code != 0
    found = contents(root)
    assert {name: found[name] for name in found if not name.startswith(".waterclock")} == before, (
        "except for the report"
    )


def test_creating_a_branch_in_a_folder_with_foreign_files_is_refused_and_keeps_them(root: Path) -> None:
    mine = root / ".branches" / "new" / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    before = contents(root)
    assert refusal(root, "branch", "create", "new", "--from", "prod") == "E476"
    assert contents(root) == before


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (
            ("prod", "--from", "prod"),
            "give the branch another name: `waterclock branch create NAME --from prod`",
        ),
        (("prod",), "give the branch another name: `waterclock branch create NAME --from prod`"),
        (("try", "--from", "try"), "`waterclock branch create try --from prod`"),
        (("new", "--from", "new"), "`waterclock branch create new --from prod`"),
        (
            ("try", "--from", "other"),
            "`waterclock branch create try` creates it from prod; for other, use another name",
        ),
    ],
)
def test_a_name_that_no_branch_can_have_gets_a_command(root: Path, words: tuple[str, ...], fix: str) -> None:
    error = ask(root, "branch", "create", *words)["error"]
    assert isinstance(error, dict)
    assert (error["code"], error["fix"]) == ("E471", fix)
    assert not (root / ".branches").exists()


@pytest.mark.parametrize(("name", "more"), [("pr-1", ("--from", "prod")), ("try", ())])
def test_a_branch_of_a_newer_version_is_refused_listed_and_deleted(
    root: Path, name: str, more: tuple[str, ...]
) -> None:
    ask(root, "branch", "create", name, *more)
    file = root / ".branches" / name / "branch.json"
    state = json.loads(file.read_text())
    assert state["version"] == 1
    file.write_text(json.dumps({"version": 2, "from": "prod", "name": name}))
    before = contents(root)
    for words in (("plan", "--env", name), ("run", "--env", name), ("branch", "create", name), ("promote", name)):
        error = ask(root, *words)["error"]
        assert isinstance(error, dict)
        assert error["code"] == "E478"
        assert error["why"] == "its file has version 2, this version of Waterclock reads 1"
        assert f"`waterclock branch delete {name}`" in error["fix"]
    assert listed(root)[name]["problem"] == f"the branch {name} was created by a newer version of Waterclock"
    assert contents(root) == before
    assert ask(root, "branch", "delete", name, "--yes")["deleted"] == name
    assert not (root / ".branches").exists()


@pytest.mark.parametrize("version", ['"a"', "1e999", "[]", "null", "{}"])
def test_a_branch_with_a_damaged_version_is_damaged(root: Path, version: str) -> None:
    ask(root, "branch", "create", "pr-1", "--from", "prod")
    file = root / ".branches" / "pr-1" / "branch.json"
    file.write_text(file.read_text().replace('"version": 1', f'"version": {version}'))
    assert refusal(root, "plan", "--env", "pr-1") == "E470"
    assert ask(root, "branch", "delete", "pr-1", "--yes")["deleted"] == "pr-1"


def test_a_branch_that_cannot_be_locked_is_refused(root: Path) -> None:
    (root / ".branches").write_text("mine")
    error = ask(root, "branch", "create", "new", "--from", "prod")["error"]
    assert isinstance(error, dict)
    assert (error["code"], error["what"]) == ("E476", "the branch new cannot be locked")
    assert (root / ".branches").read_text() == "mine"


@contextmanager
def used_by_another_process(root: Path, name: str) -> Iterator[int]:
    """Let another process use a branch during the block, and yield the process number."""
    code = (
        "import sys; from pathlib import Path; from waterclock.engine.branching.branch_lock import lock_branch\n"
        f"with lock_branch(Path({str(root)!r}), {name!r}): print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        try:
            yield process.pid
        finally:
            process.kill()  # its lock ends with it, and its file remains


def test_one_process_at_a_time_creates_runs_or_deletes_a_branch(root: Path) -> None:
    before = contents(root)
    with used_by_another_process(root, "new") as pid:
        error = ask(root, "branch", "create", "new", "--from", "prod")["error"]
        assert isinstance(error, dict)
        assert (error["code"], error["what"]) == ("E477", "another process is using the branch new")
        assert error["why"] == f"process {pid} creates, runs or deletes the branch now"
        ask(root, "branch", "create", "pr-1", "--from", "prod")
    ask(root, "branch", "create", "new", "--from", "prod")
    with used_by_another_process(root, "new"):
        created = contents(root)
        assert refusal(root, "branch", "delete", "new", "--yes") == "E477"
        assert refusal(root, "run", "--env", "new") == "E477"
        assert ask(root, "plan", "--env", "new")["changed"] == {"core.b": ["query"]}
        assert contents(root) == created
        ask(root, "branch", "delete", "pr-1", "--yes")
    ask(root, "branch", "delete", "new", "--yes")
    assert contents(root) == before


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("branch", "crate", "x"), "'crate' is unknown; did you mean create?"),
        (("edit", "lst", "raw.a"), "'lst' is unknown; did you mean list or set?"),
        (("branch", "try"), "it is one of create, list, delete; `waterclock branch create try` creates a branch"),
    ],
)
def test_a_misspelt_action_gets_the_nearest_one(root: Path, words: tuple[str, ...], hint: str) -> None:
    error = ask(root, *words)["error"]
    assert isinstance(error, dict)
    assert hint in error["what"]


def test_the_list_has_the_age_and_the_end_of_the_lease(root: Path) -> None:
    ask(root, "branch", "create", "pr-1", "--from", "prod", "--days", "1")
    file = root / ".branches" / "pr-1" / "branch.json"
    state = json.loads(file.read_text())
    file.write_text(
        json.dumps(state | {"created_at": "2020-01-01T00:00:00+00:00", "expires_at": "2020-01-02T00:00:00+00:00"})
    )
    found = listed(root)["pr-1"]
    assert (found["created_at"], found["expires_at"]) == ("2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z")
    assert found["is_expired"] is True
    words = CliRunner().invoke(app, ["branch", "list", "--project", str(root)]).output
    assert "expired" in words
    assert "2020-01-02 00:00Z" in words


def test_the_undeclared_environment_can_be_a_base(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text('[project]\nname = "mine"\n[defaults]\nstart = "2020-01-01"\n')
    (tmp_path / "flows" / "a.dpl").write_text(
        "COLLECT raw.a PARTITIONED (id BIGINT) FROM project.`data/*.csv` EVERY DAY BY ARRIVAL TIME;"
    )
    with open_workplace(load_project(tmp_path, capabilities=capabilities())) as work:
        apply_flow(work, parse_instant("2020-01-03", "UTC"))
    assert ask(tmp_path, "branch", "create", "pr-1")["base"] == "dev"
    assert listed(tmp_path)["pr-1"]["problem"] is None
    assert ask(tmp_path, "branch", "delete", "pr-1", "--yes")["deleted"] == "pr-1"


def test_a_branch_of_a_branch_is_planned_and_reported_once_its_base_is_deleted(root: Path) -> None:
    ask(root, "branch", "create", "pr-1", "--from", "prod")
    (root / "flows" / "a.dpl").write_text(
        FLOW.format(what="id") + "TRANSFORM core.c PARTITIONED AS SELECT id FROM core.b;"
    )
    before = contents(root / ".prod"), contents(root / ".branches" / "pr-1")
    assert ask(root, "branch", "create", "pr-2", "--from", "pr-1")["base"] == "pr-1"
    plan = ask(root, "plan", "--env", "pr-2")
    assert (plan["base"], plan["changed"], plan["new"]) == ("pr-1", {}, ["core.c"])
    error = ask(root, "promote", "pr-2")["error"]
    assert isinstance(error, dict)
    assert (error["code"], error["fix"]) == ("E472", "promote pr-1, then create pr-2 from prod")
    assert (contents(root / ".prod"), contents(root / ".branches" / "pr-1")) == before
    ask(root, "branch", "delete", "pr-1", "--yes")
    assert listed(root)["pr-2"]["problem"] == "unknown environment pr-1"
    assert ask(root, "branch", "delete", "pr-2", "--yes")["deleted"] == "pr-2"
    assert contents(root / ".prod") == before[0]


def test_a_diff_of_a_branch_without_another_side_names_its_base(root: Path) -> None:
    ask(root, "branch", "create", "try")
    line = ["diff", "--all", "--env", "try", "--project", str(root)]
    hint = "try is a branch of prod: --against prod compares with its rows"
    assert hint in CliRunner().invoke(app, line).stderr
    assert hint not in CliRunner().invoke(app, [*line, "--against", "prod"]).stderr


@pytest.mark.parametrize("words", [("promote", "new"), ("plan", "--env", "new"), ("run", "--env", "new")])
def test_an_unknown_environment_may_be_a_branch_to_create(root: Path, words: tuple[str, ...]) -> None:
    error = ask(root, *words)["error"]
    assert isinstance(error, dict)
    assert error["errors"][0]["fix"] == (
        "add a section [env.new], or create a branch: `waterclock branch create new --from ENV`"
    )


def test_check_finds_a_misspelt_sandbox_of_each_branch(root: Path) -> None:
    text = TOML.replace('[env.try]\nfrom = "prod"', '[env.try]\nfrom = "prod"\nsandbox.shpo = { path = "x.db" }')
    (root / "waterclock.toml").write_text(text)
    errors = ask(root, "check", "--env", "prod")["errors"]
    assert isinstance(errors, list)
    [error] = errors
    assert (error["code"], error["fix"]) == ("E221", "did you mean shop?")
    assert error["where"] == "waterclock.toml:12:1"
    assert "branch try cannot be used" in error["why"]


def test_the_only_environment_to_borrow_from_is_named(root: Path) -> None:
    (root / "waterclock.toml").write_text(TOML.split("[env.other]", maxsplit=1)[0])
    error = ask(root, "plan", "--env", "new")["error"]
    assert isinstance(error, dict)
    assert "`waterclock branch create new --from prod`" in error["errors"][0]["fix"]
