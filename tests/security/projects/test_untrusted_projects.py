"""A project that another user can change executes nothing, by any command or import, until it is trusted."""

from __future__ import annotations

import os
import pwd
import py_compile
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.strangers import ANN, MALLORY, as_user, give, meeting_place, needs_root
from tests.unit.cli.conftest import ask
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import check_project
from waterclock.permissions import ownership

TOML = '[project]\nname = "shop"\nenv = "dev"\n[env.dev]\nstorage = ".waterclock"\n'
FLOW = """import pathlib
import waterclock as wc
pathlib.Path({trace!r}).write_text("executed")
wc.connection("shop", type="sqlite", options={{"path": "shop.db"}})
wc.collect("raw.orders", from_="shop.orders", columns="id BIGINT KEY, at TIMESTAMP", every="day", partitioned=True,
           start="2024-01-01", zone="UTC", by="data time at")
"""


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with meeting_place() as folder:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        monkeypatch.delenv("WATERCLOCK_TRUST", raising=False)
        monkeypatch.delenv("SUDO_UID", raising=False)
        yield folder


def made(place: Path, *, flow: str = FLOW) -> Path:
    """Create a project whose flow leaves a trace when it is executed."""
    root = place / "shop"
    (root / "flows").mkdir(parents=True)
    (root / "waterclock.toml").write_text(TOML)
    (root / "flows/orders.py").write_text(flow.format(trace=str(place / "trace")))
    for path in (root, *root.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o022)
    return root


def codes(root: Path) -> list[str]:
    return [error.code for error in check_project(root, capabilities=capabilities())[1]]


def test_an_own_project_runs(place: Path) -> None:
    root = made(place)
    assert codes(root) == []
    assert (place / "trace").exists()


@needs_root
@pytest.mark.parametrize("what", [".", "waterclock.toml", "flows", "flows/orders.py"])
def test_files_owned_by_another_user_are_not_executed(place: Path, what: str) -> None:
    root = made(place)
    os.chown(root / what, MALLORY, MALLORY)
    (error,) = check_project(root, capabilities=capabilities())[1]
    assert error.code == "E930"
    assert error.where == str(root / what)
    assert f"it belongs to user {MALLORY}" in str(error.why)
    assert f"`waterclock trust {root}`" in str(error.fix)
    assert not (place / "trace").exists()


@pytest.mark.parametrize("mode", [0o002, pytest.param(0o020, marks=needs_root)])
@pytest.mark.parametrize("what", [".", "waterclock.toml", "flows", "flows/orders.py"])
def test_files_writable_by_other_users_are_not_executed(place: Path, what: str, mode: int) -> None:
    root = made(place)
    path = root / what
    if mode == 0o020:
        os.chown(path, 0, 61_500)  # a group that is not the owner's own
    path.chmod(path.stat().st_mode | mode)
    (error,) = check_project(root, capabilities=capabilities())[1]
    assert error.code == "E930"
    assert "go-w" in str(error.fix)
    assert not (place / "trace").exists()


@needs_root
def test_a_user_runs_a_project_of_root_but_of_no_other_user(place: Path) -> None:
    root = made(place)
    assert codes(root) == []  # and all is imported: the other user may not read the tests' Python
    (place / "trace").unlink()
    assert as_user(ANN, lambda: codes(root)) == []
    (place / "trace").unlink()
    give(root, MALLORY)
    assert as_user(ANN, lambda: codes(root)) == ["E930"]
    assert as_user(MALLORY, lambda: codes(root)) == []


@needs_root
def test_the_private_group_of_the_owner_may_write(place: Path) -> None:
    root = made(place)  # root's group is root, which has no other member
    (root / "flows").chmod(0o775)
    assert codes(root) == []


@needs_root
def test_a_group_that_is_another_user_s_primary_group_is_not_private(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = made(place)
    (root / "flows").chmod(0o775)
    users = pwd.getpwall()
    ownership.is_private_group.cache_clear()
    bob = pwd.struct_passwd(("bob", "x", MALLORY, 0, "", "/nonexistent", "/bin/sh"))  # in root's group, not in its list
    monkeypatch.setattr(pwd, "getpwall", lambda: [*users, bob])
    assert codes(root) == ["E930"]
    ownership.is_private_group.cache_clear()
    assert not (place / "trace").exists()


@needs_root
def test_under_sudo_the_caller_s_project_runs(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = made(place)
    give(root, ANN)
    assert codes(root) == ["E930"]
    monkeypatch.setenv("SUDO_UID", str(ANN))
    assert codes(root) == []
    give(root, MALLORY)
    assert codes(root) == ["E930"]
    assert as_user(ANN, lambda: codes(root)) == ["E930"], "SUDO_UID is used only by root"


@needs_root
@pytest.mark.parametrize("how", ["the variable", "the command", "the folder above"])
def test_a_trusted_folder_runs_whoever_owns_it(place: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = made(place)
    give(root, MALLORY)
    if how == "the variable":
        monkeypatch.setenv("WATERCLOCK_TRUST", f"/no/such{os.pathsep}{root}")
    else:
        trusted = ask("trust", str(root if how == "the command" else place))
        assert trusted.stdout.startswith("trusted: ")
        assert str(root if how == "the command" else place) in ask("trust").stdout
    assert codes(root) == []
    monkeypatch.delenv("WATERCLOCK_TRUST", raising=False)
    if how != "the variable":
        ask("trust", "--remove", str(root if how == "the command" else place))
    assert codes(root) == ["E930"]


@needs_root
def test_a_folder_beside_the_trusted_one_is_not_trusted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = made(place)
    give(root, MALLORY)
    monkeypatch.setenv("WATERCLOCK_TRUST", f"{place / 'sho'}{os.pathsep}{root / 'flows'}{os.pathsep}.")
    monkeypatch.chdir(root)
    assert codes(root) == ["E930"]


@needs_root
def test_a_link_out_of_a_trusted_folder_is_not_trusted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = made(place)
    (root / "flows/orders.py").rename(place / "elsewhere.py")
    os.chown(place / "elsewhere.py", MALLORY, MALLORY)
    (root / "flows/orders.py").symlink_to(place / "elsewhere.py")
    monkeypatch.setenv("WATERCLOCK_TRUST", str(root))
    assert codes(root) == ["E930"]
    assert not (place / "trace").exists()


@needs_root
def test_a_list_of_trusted_folders_that_another_user_wrote_is_refused(place: Path) -> None:
    root = made(place)
    give(root, MALLORY)
    ask("trust", str(root))
    os.chown(place / "config/waterclock/trusted-folders", MALLORY, MALLORY)
    (error,) = check_project(root, capabilities=capabilities())[1]
    assert error.code == "E930"
    assert "list of trusted folders" in error.what


HELPER = "import pathlib\npathlib.Path({trace!r}).write_text('helper')\n"


@needs_root
@pytest.mark.parametrize("how", ["a module", "a package", "beside", "a compiled module", "a cached module"])
def test_an_imported_file_of_another_user_is_not_executed(place: Path, how: str) -> None:
    trace = str(place / "helper_trace")
    found = "from .helper import x" if how == "beside" else "import helper"
    root = made(place, flow=f"{found}\n{FLOW}")
    file = {"a package": root / "helper/__init__.py", "beside": root / "flows/helper.py"}.get(how, root / "helper.py")
    file.parent.mkdir(exist_ok=True)
    file.write_text(HELPER.format(trace=trace))
    if how == "a compiled module":
        py_compile.compile(str(file), cfile=str(file) + "c")
        file.unlink()
        file = Path(str(file) + "c")
    if how == "a cached module":
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        cached = Path(str(py_compile.compile(str(file), invalidation_mode=mode)))
        file.write_text("")
        os.chown(cached, MALLORY, MALLORY)
        assert codes(root) == []  # the source is read, and the compiled file is not
    else:
        os.chown(file, MALLORY, MALLORY)
        assert codes(root) == ["E930"]
    assert not Path(trace).exists()
    sys.modules.pop("helper", None)


COMMANDS = [
    ("check",), ("plan",), ("status",), ("run",), ("audit", "raw.orders"), ("show", "raw.orders"), ("lineage",),
    ("files", "raw.orders"), ("model", "--format", "dot"), ("runners",), ("alerts",), ("query", "SELECT 1"),
    ("maintain",), ("retry", "raw.orders"), ("spec",), ("ledger", "export"), ("openlineage",),
    ("pause", "raw.orders"), ("ui", "--listen", "0"),
]  # fmt: skip


@needs_root
def test_no_command_executes_a_project_found_by_walking_upwards(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = made(place)
    give(root, MALLORY)
    (root / "mine").mkdir()
    monkeypatch.chdir(root / "mine")
    before = sorted(root.rglob("*"))
    for command in COMMANDS:
        done = ask(*command)
        assert done.exit_code != 0, command
        assert not (place / "trace").exists(), command
    assert "E930" in ask("check").output
    assert "E930" in ask("run").output
    assert sorted(root.rglob("*")) == before


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_returns_no_name_that_a_shell_evaluates(
    place: Path, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    root = made(place)
    code = rf"a\$(touch {place}/trace)"
    (root / "waterclock.toml").write_text(f"{TOML}[env.'{code}']\nstorage = '.waterclock'\n")
    (root / "flows/orders.py").write_text("\n".join(f"collect({name!r})" for name in (code, "a*", "-a", "a.b-c_d")))
    monkeypatch.chdir(root)
    assert completed("run", "a", shell=shell) == ["a.b-c_d"]
    assert completed("run", "--env", "", shell=shell) == ["dev"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_completion_in_zsh_executes_nothing(place: Path) -> None:
    root = made(place)
    code = rf"a\$(touch {place}/trace)"
    (root / "waterclock.toml").write_text(f"[env.'{code}']\n[env.ab]\n")
    words = f"{sys.executable} -P -m waterclock"
    (place / "waterclock").write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    (place / "waterclock").chmod(0o755)
    script = subprocess.run(
        [place / "waterclock"], env=os.environ | {"_WATERCLOCK_COMPLETE": "source_zsh"}, capture_output=True, check=True
    ).stdout
    (place / "completion").write_bytes(script)
    typed = f"""
        zmodload zsh/zpty; zpty z env TERM=dumb zsh -f -i
        zpty -w z 'PATH={place}:$PATH; cd {root}; autoload -Uz compinit; compinit -u -D; . {place}/completion'
        zpty -w z 'print rea''dy'; zpty -r z said '*ready*'
        zpty -n -w z $'waterclock run --env a\t'
        repeat 60 {{ sleep 0.1; zpty -r -t z more && print -rn -- $more }}
    """
    said = subprocess.run(["zsh", "-f", "-c", typed], capture_output=True, text=True, check=False).stdout
    assert "waterclock run --env ab" in said
    assert not (place / "trace").exists()


def completed(*words: str, shell: str = "bash") -> list[str]:
    if shell == "zsh":
        environment = {"_WATERCLOCK_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": " ".join(("waterclock", *words))}
        return re.findall('"(.*)"', run_completion(environment))
    environment = {"_WATERCLOCK_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(("waterclock", *words))}
    environment["COMP_CWORD"] = str(len(words))
    return run_completion(environment).split()


def run_completion(environment: dict[str, str]) -> str:
    command = [sys.executable, "-P", "-m", "waterclock"]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_completion_executes_nothing_of_any_project(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = made(place)
    monkeypatch.chdir(root)
    assert completed("run", "raw.") == ["raw.orders"]
    assert completed("run", "--env", "d") == ["dev"]
    assert not (place / "trace").exists()
    if os.geteuid() == 0:
        give(root, MALLORY)
        assert completed("run", "raw.") == []
        assert completed("run", "--env", "d") == []
    shutil.rmtree(root)
