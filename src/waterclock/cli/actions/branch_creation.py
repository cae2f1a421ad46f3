"""Creates branches from the command line. A creation that fails leaves nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.dpl.branch_settings import read_environment_bases
from waterclock.dpl.config.branches import recorded_branches
from waterclock.dpl.project import Project
from waterclock.engine.branching.branch_lock import lock_branch
from waterclock.engine.branching.branch_state import BranchState
from waterclock.engine.branching.creation import create_branch, forget_new_branch, record_new_branch
from waterclock.engine.run_settings import RunSettings
from waterclock.errors import WaterclockError
from waterclock.operations.formatting import count_words
from waterclock.operations.project_opening import now_of, open_project
from waterclock.similar_names import did_you_mean


def create(folder: Path, name: str, base: str | None, at: str | None, days: int, *, is_json: bool) -> None:
    """Create a branch and print what it borrows. A failed creation leaves nothing. Raises E243 and E470 to E478."""
    root, now = folder.resolve(), datetime.now(UTC)
    environments = read_environment_bases(root)
    _check_base(base, name, environments)
    with lock_branch(root, name), _forgotten_if_failed(root, name):
        project = open_new_branch(root, name, base)
        tick = None if at is None else now_of(at, project.flow)
        state = create_branch(project, tick=tick, now=now, days=days, who=RunSettings().who)
    if is_json:
        from waterclock.json_models.branches import BranchAnswer

        print_answer(BranchAnswer.build(**branch_fields(project, state)))
        return
    console(stderr=False).print(
        Text(
            f"created: {state.name} borrows {count_words(len(state.heads), 'table')} of {state.base}, "
            f"until {state.expires_at:%Y-%m-%d %H:%MZ}"
        ),
        soft_wrap=True,
    )


def open_new_branch(root: Path, name: str, base: str | None) -> Project:
    """Load the project for a branch to create. One that the project file does not declare is recorded in its folder."""
    if name not in read_environment_bases(root):
        record_new_branch(root, name, base or open_project(root, None).env)
    return open_project(root, name)


@contextmanager
def _forgotten_if_failed(root: Path, name: str) -> Iterator[None]:
    """Remove the record of a new branch if the block fails."""
    is_new = name not in read_environment_bases(root)
    try:
        yield
    except BaseException:
        if is_new and name in recorded_branches(root):
            forget_new_branch(root, name)
        raise


def _check_base(base: str | None, name: str, known: Mapping[str, str | None]) -> None:
    """Raise E243 for a base that is no environment and no created branch of the project.

    Raises E471 for the branch itself, and for another environment than the one that it borrows from.
    """
    if base is None:
        return
    if base == name:
        raise WaterclockError(
            "E471",
            f"{name} cannot borrow from itself",
            where=f"--from {base}",
            why="a branch borrows the tables of another environment",
            fix=_command_with_other_name(name, known),
        )
    of = known.get(name)
    if of and of != base:
        raise WaterclockError(
            "E471",
            f"{name} is a branch of {of}",
            where=f"--from {base}",
            why=f"it borrows from {of}, and --from is {base}",
            fix=f"`waterclock branch create {name}` creates it from {of}; for {base}, use another name",
        )
    if base not in known:
        raise WaterclockError(
            "E243",
            f"unknown environment {base}",
            where=f"--from {base}",
            why=f"the project has {', '.join(known)}",
            fix=did_you_mean(base, known, otherwise="name an environment of the project file"),
        )


def _command_with_other_name(name: str, known: Mapping[str, str | None]) -> str:
    """Return a command for a branch that was to borrow from itself: a branch of it, or that branch of its base."""
    if name in known and known[name] is None:
        return f"give the branch another name: `waterclock branch create NAME --from {name}`"
    return f"`waterclock branch create {name} --from {known.get(name) or next(iter(known))}`"


def branch_fields(project: Project, state: BranchState) -> Mapping[str, object]:
    """Return the fields of a created branch for JSON."""
    return {
        "name": state.name,
        "base": state.base,
        "storage": project.storage,
        "tick": state.tick,
        "created_at": state.created_at,
        "expires_at": state.expires_at,
        "tables": len(state.heads),
        "is_complete": state.is_complete,
    }
