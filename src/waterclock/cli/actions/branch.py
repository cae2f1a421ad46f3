"""Lists, runs and deletes branches from the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.batches.ledger_snapshot import verb_of_earlier_start
from waterclock.cli.actions.confirm import confirm
from waterclock.cli.actions.run import RunOptions, run_and_report
from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.views.branch import print_branch_work, print_branches
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.dpl.config.branches import BRANCHES, is_branch_name
from waterclock.dpl.project import Project
from waterclock.engine.branching.base_checks import require_lease
from waterclock.engine.branching.branch_lock import lock_branch
from waterclock.engine.branching.branch_state import BranchState, read_branch_state, require_branch
from waterclock.engine.branching.creation import create_branch
from waterclock.engine.branching.deletion import delete_branch
from waterclock.engine.branching.known_branches import KnownBranch, find_branch, find_branches
from waterclock.engine.branching.own_tables import take_own_tables
from waterclock.engine.branching.sandbox_deliveries import forget_base_deliveries
from waterclock.engine.branching.table_changes import TableChanges
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.engine.run_settings import RunSettings
from waterclock.errors import WaterclockError
from waterclock.operations.branch_plans import read_branch_plan
from waterclock.operations.branches import BranchWork, find_branch_work, for_branch
from waterclock.operations.equal_code import find_branch_changes
from waterclock.operations.project_opening import select_tables

if TYPE_CHECKING:
    from waterclock.engine.run_context import RunContext


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


@dataclass(frozen=True, slots=True)
class BranchRun:
    """The options of a run in a branch."""

    selection: Sequence[str]
    labels: str | None
    threads: int | None
    is_json: bool


def run_in_branch(project: Project, asked: BranchRun) -> int:
    """Make the changed tables of a branch, and those made from them. Create the branch first if it is declared only.

    Raises E474 if its lease has ended, E475 if its base changed a borrowed table, E477 if another process uses it.
    """
    with lock_branch(project.root, project.env):
        return _run_locked(for_branch(project), asked)


def _run_locked(project: Project, asked: BranchRun) -> int:
    to = console(stderr=asked.is_json)
    if read_branch_state(project) is None:
        create_branch(project, tick=None, now=datetime.now(UTC), days=7, who=RunSettings().who)
    state = require_branch(project)
    require_lease(state, datetime.now(UTC))
    with open_workplace(project, is_branch_run=True) as work:
        changes, found = prepare_branch_run(work, state, asked)
    print_branch_work(to, state, changes, found)
    if not found.spans and not asked.is_json:
        return ExitCode.DONE
    options = RunOptions(
        command="run",
        only=tuple(found.spans),
        labels=found.spans,
        now=state.tick.isoformat(),
        threads=asked.threads,
        is_json=asked.is_json,
        is_branch_run=True,
    )
    return run_and_report(project, options)


def plan_branch(folder: Path, env: str, selection: list[str] | None, labels: str | None, *, is_json: bool) -> None:
    """Print which tables of a branch differ from its base and how, and which labels a run would make.

    Nothing is written. Raises E470 if the branch was not created.
    """
    plan = read_branch_plan(folder, env, selection, labels)
    state, changes, found, parts = plan.state, plan.changes, plan.work, plan.parts
    if not is_json:
        print_branch_work(console(), state, changes, found, parts, plan.reworded)
        return
    from waterclock.json_models.branches import BranchPlanAnswer

    print_answer(
        BranchPlanAnswer.build(
            branch=state.name,
            base=state.base,
            changed={name: list(of) for name, of in parts.items()},
            new=list(changes.new),
            reworded=list(plan.reworded),
            affected={name: changes.reasons[name] for name in changes.affected},
            collects=list(changes.collects),
            publishes=list(changes.publishes),
            delivered=list(changes.delivered),
            borrowed=list(changes.borrowed),
            labels={name: [window.start for window in windows] for name, windows in found.windows.items()},
        )
    )


def prepare_branch_run(work: RunContext, state: BranchState, asked: BranchRun) -> tuple[TableChanges, BranchWork]:
    """Apply the flow to the branch's ledger, take over the changed tables, and request the labels of older code.

    Publishes to a sandbox start over.
    """
    apply_flow(work, state.tick)
    changes = find_branch_changes(work.project, work.flow, state, work.former)
    work.lake = take_own_tables(work.ledger, work.lake, state, changes, who=work.settings.who)
    state = forget_base_deliveries(work, state, changes.delivered)
    selected, by_table = select_tables(work.flow, list(asked.selection), asked.labels)
    only = selected.tables if asked.selection else None
    labels = {name: of for name, of in by_table.items() if name in changes.made}
    found = find_branch_work(work.flow, work.ledger, state, changes, labels, only)
    for name, older in found.older.items():
        verb = verb_of_earlier_start(work.flow.tables[name])
        work.ledger.decisions.request_restate(
            name, older, verb, who=work.settings.who, why=f"branch {state.name}", is_retry=True
        )
    return changes, found
