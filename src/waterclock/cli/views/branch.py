"""Prints branches, and what a branch makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from waterclock.operations.formatting import count_words, span_words

if TYPE_CHECKING:
    from rich.console import Console

    from waterclock.engine.branching.branch_state import BranchState
    from waterclock.engine.branching.known_branches import KnownBranch
    from waterclock.engine.branching.table_changes import TableChanges
    from waterclock.operations.branches import BranchWork
    from waterclock.operations.promotion import Promotion


def print_branches(to: Console, branches: Sequence[KnownBranch], now: datetime) -> None:
    """Print a line for each branch with its age and the end of its lease, and how to delete those that are not used."""
    if not branches:
        to.print("there are no branches; `waterclock branch create NAME` creates one", soft_wrap=True)
        return
    table = Table("branch", "from", "as of", "age", "until", box=None)
    notes = {each.name: _note(each, now) for each in branches}
    for each in branches:
        state = each.state
        times = ("", "", "")
        if state is not None:
            age = span_words(max(now - state.created_at, timedelta()))
            times = (f"{state.tick:%Y-%m-%d %H:%MZ}", age, f"{state.expires_at:%Y-%m-%d %H:%MZ}")
        table.add_row(*map(Text, (each.name, each.base, *times)))
    to.print(table)
    for name, note in notes.items():
        if note:
            words = f"{name}: {note}. `waterclock branch delete {name}` deletes what {name} made"
            to.print(Text(words), soft_wrap=True)


def _note(branch: KnownBranch, now: datetime) -> str:
    if branch.problem is not None:
        return branch.problem.what
    if branch.state is None or not branch.state.is_complete:
        return "interrupted"
    return "expired" if branch.state.expires_at <= now else ""


def print_branch_work(
    to: Console,
    state: BranchState,
    changes: TableChanges,
    found: BranchWork,
    parts: Mapping[str, Sequence[str]] | None = None,
    reworded: Sequence[str] = (),
) -> None:
    """Print the tables that a branch borrows, and those that it makes with their labels.

    `parts` has the changed parts of each table's code, `reworded` the borrowed tables that were only written in another
    way.
    """
    to.print(
        Text(f"{state.name} borrows {count_words(len(changes.borrowed), 'table')} of {state.base}"), soft_wrap=True
    )
    for name in changes.own:
        how = "new" if name in changes.new else f"reads {changes.reasons.get(name)}"
        if name in changes.changed:
            how = f"changed ({', '.join(parts[name])})" if parts and name in parts else "changed"
        to.print(Text(f"  {name}: {how}; {found.describe_labels(name)}"), soft_wrap=True)
    for name in reworded:
        to.print(Text(f"  {name}: changed in a way that cannot change rows; borrowed"), soft_wrap=True)
    for name in changes.delivered:
        to.print(Text(f"  {name}: delivered to the sandbox; {found.describe_labels(name)}"), soft_wrap=True)
    for name in changes.publishes:
        to.print(Text(f"  {name}: not delivered: the branch has no sandbox of its connection"), soft_wrap=True)
    for name in changes.collects:
        how = f"reads {changes.reasons[name]}" if name in changes.reasons else "changed"
        words = f"{how}, but a branch collects nothing: its rows are those of {state.base}"
        if name not in changes.borrowed:
            words = "new, but a branch collects nothing: it has no rows"
        to.print(Text(f"  {name}: {words}"), soft_wrap=True)
    for name in found.unsettled:
        words = (
            f"{state.base} had labels to make again when {state.name} was created, so labels that read them wait here"
        )
        fix = f"run {state.base}, then `waterclock branch delete {state.name}` and create it again"
        to.print(Text(f"  {name}: {words}. Fix: {fix}"), soft_wrap=True)
    if not changes.made:
        to.print(Text(f"no table differs from {state.base}: there is nothing to make"), soft_wrap=True)


def print_promotion(to: Console, plan: Promotion, env: str) -> None:
    """Print which labels are adopted from a branch, and which are computed, with the reason."""
    for name in sorted(plan.tables):
        adopted, computed = len(plan.adopted.get(name, ())), len(plan.computed.get(name, ()))
        parts = [f"{count_words(adopted, 'label')} adopted"] if adopted else []
        parts += [f"{count_words(computed, 'label')} computed: {plan.reasons[name]}"] if computed else []
        to.print(Text(f"  {name}: {'; '.join(parts)}"), soft_wrap=True)
        if name in plan.conditions:
            to.print(Text(f"    {plan.conditions[name]}"), soft_wrap=True)
    if plan.equal:
        to.print(Text(f"{count_words(plan.equal, 'label')} of {plan.branch} are in {env} already"), soft_wrap=True)
    if not plan.tables:
        to.print("nothing to promote", soft_wrap=True)
