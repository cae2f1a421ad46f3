"""The file of a branch may come with an untrusted project: it is read only if it is a file of moderate size."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

import pytest

from waterclock.dpl.branch_settings import read_branch_settings
from waterclock.dpl.config.branches import BRANCH_FILE, BRANCHES, recorded_base
from waterclock.dpl.project import Project
from waterclock.engine.branching.branch_state import BranchState, read_branch_state, write_branch_state
from waterclock.engine.branching.known_branches import find_branches

TOML = '[project]\nname = "mine"\n[env.prod]\nstorage = ".prod"\n[env.try]\nfrom = "prod"\n'


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with a complete branch."""
    (tmp_path / "waterclock.toml").write_text(TOML)
    (tmp_path / BRANCHES / "try").mkdir(parents=True)
    found = read_branch_settings(tmp_path, "try", "prod").project
    now = datetime.now(UTC)
    write_branch_state(found, BranchState("try", "prod", now, now, now, is_complete=True))
    return found


@contextmanager
def piped(file: Path) -> Iterator[None]:
    """Replace a file by a pipe that delivers its content to its reader."""
    content = file.read_bytes()
    file.unlink()
    os.mkfifo(file)

    def write() -> None:
        with suppress(BrokenPipeError):
            file.write_bytes(content)

    writer = Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        os.close(os.open(file, os.O_RDONLY | os.O_NONBLOCK))  # ends a writer without a reader
        writer.join(10)


def test_the_file_of_a_branch_is_no_pipe(project: Project) -> None:
    file = project.root / BRANCHES / "try" / BRANCH_FILE
    assert recorded_base(project.root, "try") == "prod"
    with piped(file):
        assert recorded_base(project.root, "try") is None
    file.unlink()


def test_the_state_of_a_branch_is_no_pipe(project: Project) -> None:
    file = project.root / BRANCHES / "try" / BRANCH_FILE
    assert read_branch_state(project) is not None
    with piped(file):
        assert read_branch_state(project) is None


def test_a_branch_whose_file_is_a_device_is_listed_as_damaged(project: Project) -> None:
    file = project.root / BRANCHES / "try" / BRANCH_FILE
    file.unlink()
    file.symlink_to("/dev/null")
    [found] = find_branches(project.root)
    assert (found.name, found.state) == ("try", None)


def test_a_file_of_more_than_64_megabytes_is_not_parsed(project: Project) -> None:
    file = project.root / BRANCHES / "try" / BRANCH_FILE
    with file.open("ab") as opened:
        opened.write(b" " * 64_000_000)
    assert read_branch_state(project) is None
    assert recorded_base(project.root, "try") is None
