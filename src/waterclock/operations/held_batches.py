"""Finds the held batches: sealed, not visible to readers, and waiting for a decision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from waterclock.batches.ledger_snapshot import RELEASE, BatchStatus
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.operations.project_opening import OpenedProject, one_table, select_batches
from waterclock.operations.restating import LabelsByTable
from waterclock.planner.plan import Plan, Status
from waterclock.selection import Labels
from waterclock.timelabel.label import label_of


def find_held_labels(at: OpenedProject, selection: str, labels: str | None) -> LabelsByTable:
    """Map each selected table with held batches to their labels, oldest first."""
    selected, by_table = select_batches(at.flow, [selection], labels)
    found = {name: _list_held_labels(at, at.flow.tables[name], by_table.get(name)) for name in selected.tables}
    return {name: held for name, held in found.items() if held}


def select_held_labels(at: OpenedProject, which: str) -> LabelsByTable:
    """Return the held labels of one table, all or those selected, oldest first; with APART, of its other table, too.

    Raises E440 if none of them is held, or if their release was requested already.
    """
    name, labels = one_table(at.flow, which)
    held = find_held_labels(at, which, None)
    if not held:
        raise _not_held_error(at, which, at.flow.tables[name], labels)
    return held


def _not_held_error(at: OpenedProject, which: str, table: Table, labels: Labels | None) -> WaterclockError:
    name, requested = table.name, at.snapshot.of(table.name).requested
    released = _select_labels(table, labels, (label for label, verb in requested.items() if verb == RELEASE))
    if released:
        return WaterclockError(
            "E440",
            f"no batch of {which} waits for a release",
            where=name,
            why=f"the release of {_format_first_labels(released)} was requested already",
            fix=f"`waterclock run` carries it out, `waterclock withdraw {which}` cancels it",
        )
    held = _list_held_labels(at, table, None)
    return WaterclockError(
        "E440",
        f"no batch of {which} is held",
        where=name,
        why=f"the held labels are {_format_first_labels(held)}" if held else "no batch of it is held by a rule",
        fix="`waterclock status` shows held and failed batches",
    )


def _format_first_labels(labels: Sequence[datetime]) -> str:
    return ", ".join(label_of(label) for label in labels[:3])


def held_batch_commands(table: str, first: str, last: str, *, is_outdated: bool) -> str:
    """Return the commands that inspect held labels, and that release them, or make them again if they are outdated."""
    which = first if first == last else f"{first}..{last}"
    inspect = f"`waterclock audit {table}@{first}` shows why, `SELECT * FROM {table}_held` shows its rows"
    if is_outdated:
        return f"{inspect}; {retry_words(table, which)}"
    return f"{inspect}; `waterclock release {table}@{which} --why '…'` shows it"


def retry_words(table: str, which: str) -> str:
    """Return the command that makes a held batch again, for one that cannot be released any more."""
    return f"`waterclock retry {table}@{which}` makes it again"


def releasable_labels(plan: Plan, table: str) -> frozenset[datetime]:
    """Return the labels of a plan that can be released as they were sealed: none of their inputs has changed since.

    Labels that a limit holds can be released, too: they are made again.
    """
    held = (batch for batch in plan.batches if batch.table == table and batch.status is Status.HELD)
    return frozenset(batch.label for batch in held if not batch.is_outdated)


def _list_held_labels(at: OpenedProject, table: Table, labels: Labels | None) -> tuple[datetime, ...]:
    troubles = at.snapshot.of(table.name).troubles
    return _select_labels(table, labels, (label for label, it in troubles.items() if it.status is BatchStatus.HELD))


def _select_labels(table: Table, selected: Labels | None, labels: Iterable[datetime]) -> tuple[datetime, ...]:
    """Return those of `labels` that `selected` selects (all if it is None), oldest first."""
    return tuple(sorted(label for label in labels if selected is None or selected.contains(label, table.cadence)))
