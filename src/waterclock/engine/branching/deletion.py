"""Deletes branches: all that is theirs, and nothing else.

The file of a branch is removed after everything else, so an interrupted deletion can be repeated.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from waterclock.dpl.branch_settings import read_other_environments
from waterclock.dpl.config.branches import BRANCH_FILE, BRANCHES
from waterclock.dpl.project import Project
from waterclock.engine.branching.branch_places import remove_contents, require_own_storage, unusable_storage_error
from waterclock.engine.branching.branch_state import write_branch_state
from waterclock.engine.branching.known_branches import KnownBranch
from waterclock.engine.storage_access import reach_storage
from waterclock.faults import fault
from waterclock.files.filesystem import entry_path, remove_file, remove_folder
from waterclock.files.object_stores import is_remote


def delete_branch(branch: KnownBranch) -> None:
    """Delete the storage and the ledger of a branch, also if its base is gone. Raises E476 if they are not its own."""
    project, state = branch.project, branch.state
    require_own_storage(project, read_other_environments(project.root, project.env), state)
    if state is not None and state.name != project.env:
        raise unusable_storage_error(project, f"{project.storage} is that of the branch {state.name}")
    reach_storage(project)
    if state is not None:  # a killed deletion leaves no branch that runs
        write_branch_state(project, replace(state, is_complete=False))
    fault("branch deletion begun")
    remove_branch(project)


def remove_branch(project: Project) -> None:
    """Remove all that a branch has, its own file last. Its storage must be its own (`require_own_storage`)."""
    remove_contents(project)
    fault("branch contents removed")
    remove_file(entry_path(project.storage, BRANCH_FILE))
    fault("branch file removed")
    if is_remote(project.storage):
        return
    remove_folder(entry_path(project.storage))
    if Path(project.storage).parent == project.root / BRANCHES:
        with suppress(OSError):  # it contains other branches
            (project.root / BRANCHES).rmdir()
