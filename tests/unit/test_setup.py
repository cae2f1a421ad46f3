"""The shell script that creates the environment, on simulated machines with a given PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ["sh", "awk", "cat", "cksum", "dirname", "find", "mkdir", "mktemp", "rm", "sed", "tail", "uname"]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return a checkout on a machine with the tools of every system, but without Java and uv."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "path").mkdir()
    shutil.copy(ROOT / "bin" / "_ensure", tmp_path / "bin")
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found, tool
        (tmp_path / "path" / tool).symlink_to(found)
    return tmp_path


def put(machine: Path, name: str, body: str) -> None:
    command = machine / "path" / name
    command.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    command.chmod(0o755)


def ensure(machine: Path, **settings: str) -> tuple[int, str]:
    environment = {"PATH": str(machine / "path"), "HOME": str(machine), "SSL_CERT_FILE": os.devnull, **settings}
    done = subprocess.run(
        [str(machine / "path" / "sh"), str(machine / "bin" / "_ensure")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def python_without_pip(machine: Path) -> None:
    put(machine, "python3", 'case "$2" in *ensurepip*) exit 1;; esac; [ "$1" != -m ]')


@pytest.mark.parametrize(
    ("manager", "order"),
    [
        ("apt-get", "apt-get update && apt-get install -y --no-install-recommends default-jre-headless python3-venv"),
        ("dnf", "dnf install -y java-21-openjdk-headless uv"),
        ("apk", "apk add openjdk21-jre-headless uv"),
        ("pacman", "pacman -S jre21-openjdk-headless uv"),
        ("zypper", "zypper install -y java-21-openjdk-headless python313-uv"),
        ("brew", "brew install openjdk@21 uv"),
    ],
)
def test_without_root_the_exact_install_command_is_printed(machine: Path, manager: str, order: str) -> None:
    put(machine, "id", "echo 1000")
    put(machine, manager, "echo it must not run; exit 9")
    python_without_pip(machine)
    status, said = ensure(machine)
    assert status == 1
    assert f"    {order}\n" in said
    assert "Java 17 or newer" in said
    assert "Python 3.11, 3.12 or 3.13" not in said
    assert not (machine / ".venv").exists()


def test_a_wrong_java_home_is_named_before_anything_is_installed(machine: Path) -> None:
    put(machine, "id", "echo 0")
    put(machine, "apt-get", "echo it must not run; exit 9")
    put(machine, "java", 'echo openjdk version \\"21.0.1\\" >&2')
    status, said = ensure(machine, JAVA_HOME="/nowhere/jdk")
    assert status == 1
    assert said == (
        "waterclock: JAVA_HOME is /nowhere/jdk, which has no bin/java. Fix: unset JAVA_HOME, or export the folder of"
        " Java 17 or newer\n"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
def test_a_checkout_of_another_user_is_refused_before_anything_is_installed(machine: Path) -> None:
    machine.chmod(0o500)
    try:
        status, said = ensure(machine)
    finally:
        machine.chmod(0o700)
    assert (status, said) == (1, f"waterclock: this user cannot write to {machine}. Fix: make a clone of your own\n")


@pytest.mark.parametrize("command", ["check", "docs", "lowest", "soak", "test"])
def test_help_installs_nothing(machine: Path, command: str) -> None:
    shutil.copy(ROOT / "bin" / command, machine / "bin")
    done = subprocess.run(
        [str(machine / "path" / "sh"), str(machine / "bin" / command), "--help"],
        env={"PATH": str(machine / "path")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(done.stdout.splitlines()) > 1
    assert (done.stderr, (machine / ".venv").exists()) == ("", False)


def test_on_an_unknown_system_the_missing_software_is_described(machine: Path) -> None:
    put(machine, "id", "echo 0")
    status, said = ensure(machine)
    assert status == 1
    assert said.splitlines() == [
        "waterclock: this machine lacks:",
        "waterclock:   Python 3.11, 3.12 or 3.13 (WATERCLOCK_PYTHON names one that is not called python3)",
        "waterclock:   Java 17 or newer (on PATH, or named by JAVA_HOME)",
        "waterclock:   uv, or a Python with its venv module or pip, through which uv is installed",
        "waterclock: install it, then run this again",
    ]


@pytest.mark.parametrize(
    ("version", "fits"),
    [
        ('openjdk version "1.8.0_412"', False),
        ('openjdk version "11.0.23" 2024-04-16', False),
        ('openjdk version "17.0.15" 2025-04-15', True),
        ('java version "21" 2023-09-19', True),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25.0.1" 2026-01-01', True),
    ],
)
def test_an_old_java_is_no_java(machine: Path, version: str, *, fits: bool) -> None:
    put(machine, "id", "echo 1000")
    put(machine, "java", f"cat >&2 <<'END'\n{version}\nEND")
    python_without_pip(machine)
    status, said = ensure(machine)
    assert status == 1
    assert ("Java 17 or newer" not in said) is fits


def test_as_root_a_failing_apt_get_is_shown(machine: Path) -> None:
    if not Path("/etc/debian_version").exists():
        pytest.skip("only Debian and its kin install through apt-get")
    put(machine, "id", "echo 0")
    put(machine, "apt-get", "echo E: no such mirror >&2; exit 100")
    python_without_pip(machine)
    status, said = ensure(machine, TMPDIR=str(machine))
    assert status == 1
    assert "E: no such mirror" in said
    assert "apt-get update failed" in said
