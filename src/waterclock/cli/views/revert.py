"""Prints the plan of a revert: labels with both revisions, and the batches that follow. Also as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.table import Table as Columns
from rich.text import Text

from waterclock.engine.batch.reverting import RevertedLabel
from waterclock.flow.declarations import Table
from waterclock.json_models.decisions import RevertAnswer, RevertedLabelPart
from waterclock.operations.formatting import count_words, local_label, local_range, number_words
from waterclock.operations.project_opening import OpenedProject
from waterclock.operations.reverting import RevertPlan
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from rich.console import Console

_MOST_SHOWN = 20


def print_revert_plan(to: Console, at: OpenedProject, plan: RevertPlan) -> None:
    """Print the labels to revert, the batches that follow, and the notes to read before confirming."""
    name = plan.table.name
    if not plan.parts:
        to.print(f"nothing to revert: {count_words(len(plan.unchanged), 'label')} of {name} have this revision already")
        return
    for table, changes in plan.parts:
        to.print(Text(f"revert: {count_words(len(changes), 'label')} of {table.name}", style="head"))
        rows = Columns(box=None, pad_edge=True, show_header=False, padding=(0, 2, 0, 0))
        for _ in range(4):
            rows.add_column(no_wrap=True)
        for each in changes[:_MOST_SHOWN]:
            rows.add_row(*_cells(table, each))
        to.print(rows)
        if (left := len(changes) - _MOST_SHOWN) > 0:
            to.print(Text(f"  and {count_words(left, 'label')} more", style="quiet"))
    if plan.unchanged:
        to.print(Text(f"{count_words(len(plan.unchanged), 'label')} have this revision already"))
    if plan.without:
        to.print(Text(f"{count_words(len(plan.without), 'label')} stay as they are: they have no such revision"))
    _print_following(to, at, plan)
    for note in plan.notes:
        to.print(Text(note), soft_wrap=True)


def _cells(table: Table, each: RevertedLabel) -> Sequence[Text]:
    before, after = each.current, each.target
    change = f"{number_words(before.rows)} to {number_words(after.rows)} rows"
    if before.rows == after.rows:
        is_same = before.digest is not None and before.digest == after.digest
        change = (
            "the same rows" if is_same else f"{number_words(after.rows)} other {'row' if after.rows == 1 else 'rows'}"
        )
    return (
        Text(local_label(each.label, table.cadence), style="name"),
        Text(f"revision {each.current.claim} to {each.target.claim}"),
        Text(f"made {each.target.recorded_at:%Y-%m-%d %H:%M:%SZ}", style="quiet"),
        Text(change),
    )


def _print_following(to: Console, at: OpenedProject, plan: RevertPlan) -> None:
    """Print the batches that follow: those that adopt an earlier revision, and those whose rows are computed."""
    found = plan.predicted
    if not found.count:
        return
    to.print()
    to.print(Text(f"then {count_words(found.count, 'batch', 'batches')}", style="head"))
    lines = [
        *((name, labels, "take earlier revisions back") for name, labels in found.adopted.items()),
        *((name, labels, "computed, if rows differ") for name, labels in found.computed.items()),
    ]
    rows = Columns(box=None, pad_edge=True, show_header=False, padding=(0, 2, 0, 0))
    for _ in range(4):
        rows.add_column(no_wrap=True)
    for name, labels, how in lines:
        words = local_range(labels[0], labels[-1], at.flow.tables[name].cadence)
        rows.add_row(Text(name, style="name"), count_words(len(labels), "label"), words, Text(how, style="quiet"))
    to.print(rows)
    to.print()


def build_revert_answer(plan: RevertPlan, why: str, *, is_dry: bool = False) -> RevertAnswer:
    """Build the JSON answer of `revert`."""
    return RevertAnswer(
        table=plan.table.name,
        dry_run=is_dry,
        reverted=_label_parts(plan.changes),
        others={} if plan.other is None else {plan.other.name: _label_parts(plan.other_changes)},
        unchanged=[label_of(label) for label in plan.unchanged],
        without=[label_of(label) for label in plan.without],
        adopted=_label_texts(plan.predicted.adopted),
        computed=_label_texts(plan.predicted.computed),
        notes=list(plan.notes),
        why=why,
    )


def _label_parts(changes: Sequence[RevertedLabel]) -> list[RevertedLabelPart]:
    return [
        RevertedLabelPart(
            label=label_of(each.label),
            revision=each.target.claim,
            replaced=each.current.claim,
            rows=each.target.rows,
            replaced_rows=each.current.rows,
        )
        for each in changes
    ]


def _label_texts(labels: Mapping[str, Sequence[datetime]]) -> dict[str, list[str]]:
    return {name: [label_of(label) for label in of_table] for name, of_table in labels.items()}
