"""Prints the plan of a revert: labels with both revisions, and the batches that follow. Also as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table as Columns
from rich.text import Text

from waterclock.engine.batch.reverting import RevertedLabel
from waterclock.json_models.decisions import RevertAnswer, RevertedLabelPart
from waterclock.operations.formatting import count_words, label_range, local_label, local_range, number_words
from waterclock.operations.project_opening import OpenedProject
from waterclock.operations.reverting import RevertPlan
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from rich.console import Console

_MOST_SHOWN = 20


def print_revert_plan(to: Console, at: OpenedProject, plan: RevertPlan) -> None:
    """Print the labels to revert, the batches that follow, and what a user should know before confirming."""
    name = plan.table.name
    if not plan.changes:
        to.print(f"nothing to revert: {count_words(len(plan.unchanged), 'label')} of {name} have this revision already")
        return
    to.print(Text(f"revert: {count_words(len(plan.changes), 'label')} of {name}", style="head"))
    rows = Columns(box=None, pad_edge=True, show_header=False, padding=(0, 2, 0, 0))
    for _ in range(4):
        rows.add_column(no_wrap=True)
    for each in plan.changes[:_MOST_SHOWN]:
        rows.add_row(*_cells(plan, each))
    to.print(rows)
    if (left := len(plan.changes) - _MOST_SHOWN) > 0:
        to.print(Text(f"  and {count_words(left, 'label')} more", style="quiet"))
    if plan.unchanged:
        to.print(Text(f"{count_words(len(plan.unchanged), 'label')} have this revision already"))
    if plan.without:
        to.print(Text(f"{count_words(len(plan.without), 'label')} stay as they are: they have no such revision"))
    _print_following(to, at, plan)
    for note in plan.notes:
        to.print(Text(note), soft_wrap=True)


def _cells(plan: RevertPlan, each: RevertedLabel) -> Sequence[Text]:
    same = each.current.digest is not None and each.current.digest == each.target.digest
    change = "the same rows" if same else f"{number_words(each.current.rows)} to {number_words(each.target.rows)} rows"
    return (
        Text(local_label(each.label, plan.table.cadence), style="name"),
        Text(f"revision {each.current.claim} to {each.target.claim}"),
        Text(f"made {each.target.recorded_at:%Y-%m-%d %H:%M:%SZ}", style="quiet"),
        Text(change),
    )


def _print_following(to: Console, at: OpenedProject, plan: RevertPlan) -> None:
    following = plan.ripple.following
    if not following:
        return
    to.print()
    total = count_words(sum(map(len, following.values())), "batch", "batches")
    to.print(Text(f"then, if rows differ, up to {total}", style="head"))
    width = max(map(len, following))
    for name, windows in following.items():
        first, last = windows[0].start, windows[-1].start
        line = Text.assemble(
            "  ",
            (f"{name:<{width}}", "name"),
            f"  {count_words(len(windows), 'label'):>12}",
            f"  {local_range(first, last, at.flow.tables[name].cadence):<26}",
            ("  " + label_range(first, last), "quiet"),
        )
        to.print(line, soft_wrap=True)
    to.print()


def build_revert_answer(plan: RevertPlan, why: str, *, is_dry: bool = False) -> RevertAnswer:
    """Build the JSON answer of `revert`."""
    return RevertAnswer(
        table=plan.table.name,
        dry_run=is_dry,
        reverted=[
            RevertedLabelPart(
                label=label_of(each.label),
                revision=each.target.claim,
                replaced=each.current.claim,
                rows=each.target.rows,
                replaced_rows=each.current.rows,
            )
            for each in plan.changes
        ],
        unchanged=[label_of(label) for label in plan.unchanged],
        without=[label_of(label) for label in plan.without],
        following={name: [label_of(each.start) for each in windows] for name, windows in plan.ripple.following.items()},
        notes=list(plan.notes),
        why=why,
    )
