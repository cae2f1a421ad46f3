"""Reads which labels a branch makes, which its promotion would adopt, and which environments are related to it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.dpl.branch_settings import read_environment_bases
from waterclock.dpl.statement_texts import statement_texts
from waterclock.engine.branching.branch_state import BranchState, no_branch_error, require_branch
from waterclock.engine.branching.promotion import read_offered_revisions
from waterclock.engine.branching.table_changes import TableChanges
from waterclock.operations.branches import BranchWork, find_branch_work
from waterclock.operations.code_differences import describe_change, find_reworded, renamed_tables
from waterclock.operations.equal_code import find_branch_changes
from waterclock.operations.project_opening import (
    OpenedProject,
    no_ledger_error,
    open_project,
    open_read_only,
    select_batches,
)
from waterclock.operations.promotion import Promotion, plan_promotion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from waterclock.batches.earlier_revisions import OfferedRevisions
    from waterclock.dpl.project import Project


def related_environments(project: Project) -> tuple[str, ...]:
    """Return the environment that a branch borrows from, or the branches that borrow from an environment."""
    bases = read_environment_bases(project.root)
    own = [project.bases[0].env] if project.bases else []
    return tuple(dict.fromkeys((*own, *(name for name, base in bases.items() if base == project.env))))


@dataclass(frozen=True, slots=True)
class BranchPlan:
    """What a branch changes, and makes: `parts` are the changed parts of each table's code.

    `reworded` are borrowed tables whose statements were written in another way, which cannot change their rows.
    """

    state: BranchState
    changes: TableChanges
    work: BranchWork
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reworded: tuple[str, ...] = ()


def read_branch_plan(
    folder: Path, env: str, selection: list[str] | None = None, labels: str | None = None
) -> BranchPlan:
    """Return which tables of a branch differ from its base and how, and which labels a run would make.

    Nothing is written. Raises E470 if the branch was not created.
    """
    state = require_branch(open_project(folder, env))
    with open_read_only(folder, env, state.tick.isoformat()) as at:
        if at.ledger is None:
            raise no_branch_error(env)
        changes = find_branch_changes(at.project, at.flow, state, at.ledger.declared.former())
        selected, by_table = select_batches(at.flow, selection, labels)
        wanted = {name: of for name, of in by_table.items() if name in changes.made}
        work = find_branch_work(at.flow, at.ledger, state, changes, wanted, selected.tables if selection else None)
        texts = statement_texts(at.flow, at.project.sources)
        renamed = renamed_tables(at.flow)
        names = {*at.flow.tables, *at.flow.views, *state.codes}
        parts = {
            name: describe_change(
                state.statements.get(at.flow.tables[name].was or name, ""),
                texts[name],
                at.project.variables,
                names,
                renamed,
            )
            for name in changes.changed
        }
        reworded = find_reworded(at.flow, changes.borrowed, state.statements, texts)
    return BranchPlan(state, changes, work, parts, tuple(each for each in reworded if each not in changes.collects))


def read_promotion(branch: Project, at: OpenedProject) -> tuple[Promotion, OfferedRevisions]:
    """Return what a promotion to an opened environment would adopt and compute, and what the branch offers.

    Raises E412 if the environment has made nothing, E470 if the branch was not created.
    """
    if at.ledger is None:
        raise no_ledger_error()
    offered = read_offered_revisions(branch, at.flow)
    return plan_promotion(at.flow, at.ledger, offered), offered


@contextmanager
def open_base(at: OpenedProject, base: str) -> Iterator[OpenedProject]:
    """Open the environment that a branch borrows from, or keep the opened project if it is this environment."""
    if at.project.env == base:
        yield at
        return
    with open_read_only(at.project.root, base, None) as opened:
        yield opened
