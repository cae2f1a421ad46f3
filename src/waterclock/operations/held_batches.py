"""Finds the held batches: sealed, not visible to readers, and waiting for a decision."""

from __future__ import annotations

from datetime import datetime

from waterclock.batches.ledger_snapshot import BatchStatus
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.operations.opening import OpenedProject, one_table, select_tables
from waterclock.operations.restating import Found
from waterclock.selection import Labels
from waterclock.timelabel.label import label_of


def find_held_labels(at: OpenedProject, selection: str, labels: str | None) -> Found:
    """Return the held labels of a selection by table, oldest first. Making one again is one way to proceed."""
    meant, by_table = select_tables(at.flow, [selection], labels)
    found = {name: _list_held_labels(at, at.flow.tables[name], by_table.get(name)) for name in meant.tables}
    return {name: held for name, held in found.items() if held}


def held_labels(at: OpenedProject, which: str) -> tuple[str, tuple[datetime, ...]]:
    """Return a table and its held labels, all or those selected, oldest first. Raises  E440 where none is held."""
    name, said = one_table(at.flow, which)
    table = at.flow.tables[name]
    meant = _list_held_labels(at, table, said)
    if not meant:
        held = _list_held_labels(at, table, None)
        others = ", ".join(label_of(label) for label in held[:3])
        raise WaterclockError(
            "E440",
            f"no batch of {which} is held",
            where=name,
            why=f"the held labels are {others}" if held else "no batch of it is held by a rule",
            fix="`waterclock status` shows held and failed batches",
        )
    return name, meant


def commands_for_held(table: str, first: str, last: str, *, is_outdated: bool) -> str:
    """Return the commands to inspect a held label, and to release all, or make them again if they are outdated."""
    which = first if first == last else f"{first}..{last}"
    looked_at = f"`waterclock audit {table}@{first}` shows why, `SELECT * FROM {table}_held` shows its rows"
    if is_outdated:
        return f"{looked_at}; `waterclock retry {table}@{which}` makes it again"
    return f"{looked_at}; `waterclock release {table}@{which} --why '…'` shows it"


def can_be_released(at: OpenedProject, table: str, label: datetime) -> bool:
    """Return whether a held batch can be released as sealed: none of its inputs has changed since."""
    trouble = at.snapshot.of(table).troubles.get(label)
    return trouble is not None and trouble.status is BatchStatus.HELD and not trouble.is_outdated


def _list_held_labels(at: OpenedProject, table: Table, said: Labels | None) -> tuple[datetime, ...]:
    low, high = said.bounds(table.cadence) if said is not None else (None, None)
    troubles = at.snapshot.of(table.name).troubles
    held = sorted(label for label, it in troubles.items() if it.status is BatchStatus.HELD)
    return tuple(it for it in held if (low is None or it >= low) and (high is None or it < high))
