"""Lists and deletes branches from the command line."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

from waterclock.cli.actions.confirm import confirm
from waterclock.cli.views.branch import print_branches
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.dpl.config.branches import BRANCHES, is_branch_name
from waterclock.engine.branching.branch_lock import lock_branch
from waterclock.engine.branching.deletion import delete_branch
from waterclock.engine.branching.known_branches import KnownBranch, find_branch, find_branches
from waterclock.errors import WaterclockError


def list_all(folder: Path, *, is_json: bool) -> None:
    """Print the branches of a project, also those that cannot be used, with the reason."""
    found, now = list(find_branches(folder.resolve())), datetime.now(UTC)
    if is_json:
        from waterclock.json_models.branches import BranchesAnswer, BranchPart

        print_answer(
            BranchesAnswer(branches=[BranchPart.model_validate(_fields_of_known(each, now)) for each in found])
        )
        return
    print_branches(console(), found, now)


def delete(folder: Path, name: str, *, yes: bool, is_json: bool) -> None:
    """Delete a branch after asking, also if its base is gone.

    Raises E470 if there is none, E476 if its storage is not its own, E477 if another process uses it.
    """
    root = folder.resolve()
    try:
        find_branch(root, name)
    except WaterclockError:
        if is_branch_name(name) and (root / BRANCHES).exists():
            with lock_branch(root, name):  # removes what a killed process left
                pass
        raise
    confirm(f"Delete the branch {name} with all that it made?", yes=yes)
    with lock_branch(root, name):
        delete_branch(find_branch(root, name))
    if is_json:
        from waterclock.json_models.branches import DeletedBranchAnswer

        print_answer(DeletedBranchAnswer(deleted=name))
    else:
        console().print(Text(f"deleted: {name}"), soft_wrap=True)


def _fields_of_known(branch: KnownBranch, now: datetime) -> Mapping[str, object]:
    state = branch.state
    return {
        "name": branch.name,
        "base": branch.base,
        "storage": branch.project.storage,
        "tick": None if state is None else state.tick,
        "created_at": None if state is None else state.created_at,
        "expires_at": None if state is None else state.expires_at,
        "tables": 0 if state is None else len(state.heads),
        "is_complete": state is not None and state.is_complete,
        "is_expired": state is not None and state.expires_at <= now,
        "problem": None if branch.problem is None else branch.problem.what,
    }
