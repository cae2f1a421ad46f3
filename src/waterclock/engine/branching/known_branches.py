"""Finds the branches of a project, also those whose base is unknown or whose file is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from waterclock.dpl.branch_settings import read_branch_settings, read_environment_bases
from waterclock.dpl.project import Project
from waterclock.engine.branching.branch_state import BranchState, no_branch_error, read_branch_state
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import entry_path, file_exists
from waterclock.similar_names import did_you_mean


@dataclass(frozen=True, slots=True)
class KnownBranch:
    """A branch of a project. `project` has its settings with an empty flow. `base` is empty if its file is damaged.

    `state` is None if it was not created, or its file is damaged. `problem` is why it cannot be used.
    """

    project: Project
    base: str
    state: BranchState | None
    problem: WaterclockError | None = None

    @property
    def name(self) -> str:
        """The name of the branch."""
        return self.project.env


def find_branches(root: Path, *, with_declared: bool = False) -> Iterator[KnownBranch]:
    """Yield the branches that the project file declares and were created, then those that it does not declare.

    `with_declared`: also those that are only declared, without a state.

    Raises ProjectErrors if the project file is invalid. Cost: the file of each branch is read.
    """
    for name, base in read_environment_bases(root).items():
        if base is None:
            continue
        found = _read_branch(root, name, base)
        if found is None and with_declared:
            settings = read_branch_settings(root, name, base)
            found = KnownBranch(settings.project, base, None, settings.problem)
        if found is not None:
            yield found


def find_branch(root: Path, name: str) -> KnownBranch:
    """Return a branch that was created, completely or not.

    Raises E470 if there is none, ProjectErrors if the project file is invalid.
    """
    bases = read_environment_bases(root)
    if name not in bases:
        raise missing_branch_error(root, name)
    base = bases[name]
    found = None if base is None else _read_branch(root, name, base)
    if found is None:
        raise no_branch_error(name, borrows=base is not None)
    return found


def missing_branch_error(root: Path, name: str) -> WaterclockError:
    """Build the error for an environment that borrows no tables, or for a name that no environment has.

    Raises ProjectErrors if the project file is invalid.
    """
    bases = read_environment_bases(root)
    if name in bases:
        return no_branch_error(name, borrows=False)
    error = no_branch_error(name)
    branches = [each for each, base in bases.items() if base is not None]
    error.fix = did_you_mean(name, branches, otherwise="`waterclock branch list` shows the branches")
    error.why = "it was not created, or it was deleted"
    return error


def _read_branch(root: Path, name: str, base: str) -> KnownBranch | None:
    """Return a branch, or None if it is only declared."""
    from waterclock.dpl.config.branches import BRANCH_FILE

    settings = read_branch_settings(root, name, base)
    project, problem = settings.project, settings.problem
    try:
        state = read_branch_state(project)
        if state is None and not file_exists(entry_path(project.storage, BRANCH_FILE)):
            return None
    except WaterclockError as error:  # its storage cannot be reached now
        return KnownBranch(project, base, None, error)
    return KnownBranch(project, base, state, problem)
