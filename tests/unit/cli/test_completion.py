"""A project found from a folder below it, and the shell completions there."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import TODAY, ask
from waterclock.cli.actions.init import start_project
from waterclock.cli.project_folder import project_above


@pytest.fixture
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a folder below a project as the working folder."""
    start_project(tmp_path / "shop", TODAY)
    monkeypatch.chdir(tmp_path / "shop" / "flows")
    return tmp_path / "shop" / "flows"


def test_a_command_below_a_project_is_about_it(below: Path) -> None:
    assert "no errors" in ask("check").stdout
    assert not (below / ".waterclock").exists()


def test_the_nearest_project_above_is_taken(below: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_project(below / "inner", TODAY)
    monkeypatch.chdir(below / "inner" / "data")
    assert project_above(Path()) == below / "inner"
    monkeypatch.chdir(below / "inner")
    assert project_above(Path()) == Path()


def test_a_folder_that_is_named_is_taken_as_it_is(below: Path) -> None:
    assert below.is_dir()
    (error,) = json.loads(ask("check", "--project", ".", "--json").stdout)["errors"]
    assert (error["code"], error["fix"]) == (
        "E244",
        f"run waterclock init, or give the project's folder, {below.parent}",
    )


def test_without_a_project_above_the_folder_itself_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path) in ask("check").output.replace("\n", "")


def completed(*words: str) -> list[str]:
    """Return bash's completions of the last word."""
    done = subprocess.run(
        [sys.executable, "-m", "waterclock"],
        env=os.environ
        | {"_WATERCLOCK_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(("waterclock", *words))}
        | {"COMP_CWORD": str(len(words))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.slow
def test_a_shell_completes_commands_tables_and_environments(below: Path) -> None:
    assert below.is_dir()
    assert completed("sta") == ["status"]
    assert completed("run", "sales.") == ["sales.best_customers", "sales.by_country"]
    assert completed("plan", "+web.p") == ["+web.per_order"]
    assert completed("audit", "shop.o") == ["shop.orders"]
    assert completed("run", "--env", "d") == ["dev"]


def test_a_shell_is_offered_nothing_where_the_project_is_broken(below: Path) -> None:
    (below / "broken.dpl").write_text("COLLECT")
    assert completed("run", "sales.") == []


def test_the_folder_that_a_command_names_is_the_one_whose_tables_are_completed(
    below: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert completed("run", "--project", str(below.parent), "web.v") == ["web.visits"]


def test_environments_come_from_the_project_file_alone(below: Path) -> None:
    file = below.parent / "waterclock.toml"
    file.write_text(file.read_text() + '\n[env.prod]\nstorage = "/srv/shop"\n')
    assert sorted(completed("run", "--env", "")) == ["dev", "prod"]
    assert json.loads(ask("check", "--env", "prod", "--json").stdout)["ok"] is False


def test_show_completion_prints_the_shell_completion_script() -> None:
    command = f"{shlex.quote(sys.executable)} -m waterclock --show-completion; true"
    shown = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout
    assert "_WATERCLOCK_COMPLETE=complete_bash" in shown
