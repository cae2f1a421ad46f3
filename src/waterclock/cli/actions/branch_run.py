"""Plans and makes the changed tables of branches from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.batches.ledger_snapshot import FOLLOW, verb_of_earlier_start
from waterclock.cli.actions.run import RunOptions, run_and_report
from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.views.branch import print_branch_work
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.dpl.project import Project
from waterclock.engine.branching.base_checks import require_lease
from waterclock.engine.branching.branch_lock import lock_branch
from waterclock.engine.branching.branch_state import BranchState, read_branch_state, require_branch
from waterclock.engine.branching.creation import create_branch
from waterclock.engine.branching.own_tables import take_own_tables
from waterclock.engine.branching.sandbox_deliveries import forget_base_deliveries
from waterclock.engine.branching.table_changes import TableChanges
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.engine.run_settings import RunSettings
from waterclock.operations.branch_plans import read_branch_plan
from waterclock.operations.branches import BranchWork, find_branch_work, for_branch, start_deliveries
from waterclock.operations.equal_code import find_branch_changes
from waterclock.operations.project_opening import select_batches

if TYPE_CHECKING:
    from waterclock.engine.run_context import RunContext


@dataclass(frozen=True, slots=True)
class BranchRun:
    """The options of a run in a branch, as in `RunOptions`."""

    selection: Sequence[str] = ()
    labels: str | None = None
    threads: int | None = None
    at_most: int | None = None
    is_logged: bool = False
    is_json: bool = False


def run_in_branch(project: Project, asked: BranchRun) -> int:
    """Make the changed tables of a branch, and those made from them. Create the branch first if it is declared only.

    Raises E474 if its lease has ended, E475 if its base changed a borrowed table, E477 if another process uses it.
    """
    with lock_branch(project.root, project.env):
        return _run_locked(project, asked)


def _run_locked(project: Project, asked: BranchRun) -> int:
    to = console(stderr=asked.is_json or asked.is_logged)
    if read_branch_state(project) is None:
        create_branch(project, tick=None, now=datetime.now(UTC), days=7, who=RunSettings().who)
    state = require_branch(project)
    require_lease(state, datetime.now(UTC))
    with open_workplace(project, is_branch_run=True) as work:
        changes, found = prepare_branch_run(work, state, asked)
        project = work.project
    print_branch_work(to, state, changes, found)
    if not found.spans and not asked.is_json:
        return ExitCode.DONE
    options = RunOptions(
        command="run",
        only=tuple(found.spans),
        labels=found.spans,
        now=state.tick.isoformat(),
        threads=asked.threads,
        at_most=asked.at_most,
        is_logged=asked.is_logged,
        is_json=asked.is_json,
        is_branch_run=True,
    )
    return run_and_report(for_branch(project, changes.made), options)


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

    Publishes to a sandbox start over, and with their first label of this run.
    """
    apply_flow(work, state.tick)
    changes = find_branch_changes(work.project, work.flow, state, work.former)
    work.lake = take_own_tables(work.ledger, work.lake, state, changes, who=work.settings.who)
    state = forget_base_deliveries(work, state, changes.delivered)
    selected, by_table = select_batches(work.flow, list(asked.selection), asked.labels)
    only = selected.tables if asked.selection else None
    labels = {name: of for name, of in by_table.items() if name in changes.made}
    found = find_branch_work(work.flow, work.ledger, state, changes, labels, only)
    for name, stopped in found.stopped.items():
        work.ledger.decisions.retry(name, stopped, who=work.settings.who, why=f"branch {state.name}")
    for name, older in found.older.items():
        verb = verb_of_earlier_start(work.flow.tables[name])
        work.ledger.decisions.request_restate(
            name, older, verb, who=work.settings.who, why=f"branch {state.name}", is_retry=True
        )
    for name, label in found.wanted.items():
        work.ledger.decisions.request_backfill(name, [label], who=work.settings.who, why=f"branch {state.name}")
    for name, label in found.followed.items():
        work.ledger.decisions.request_restate(name, [label], FOLLOW, who=work.settings.who, why=f"branch {state.name}")
    work.project = start_deliveries(work.project, found)
    return changes, found
