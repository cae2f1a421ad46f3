"""Finds the batches of which rows are set aside, and those that a rule holds back."""

from __future__ import annotations

from datetime import datetime

from waterclock.batches.facts import BatchStatus
from waterclock.errors import WaterclockError
from waterclock.operations.opening import Reading, one_table, selected
from waterclock.operations.restating import Found, done_labels
from waterclock.selection import select
from waterclock.timelabel.label import label_of


def labels_set_aside(at: Reading, selection: str, labels: str | None) -> Found:
    """Find the done labels of a selection of which rows are set aside, by older code than today's.

    What the code of today has set aside it would set aside again.
    Raises  as `done_labels`; E441 for a label that is named and of which no row is set aside
    """
    done = done_labels(at, selection, labels)
    if at.ledger is None:
        return {}
    aside = {name: at.ledger.reads.set_aside(name) for name in done}
    _, by_table = selected(at.flow, [selection], labels)
    if by_table and not any(label in aside[name] for name, of_table in done.items() for label in of_table):
        name = next(iter(by_table))
        raise WaterclockError(
            "E441",
            f"no rows of {name} are set aside there",
            where=name,
            why=_where_there_are(aside.get(name, {})),
            fix=f"waterclock query 'SELECT * FROM {name}_quarantine' shows what is",
        )
    return {
        name: tuple(
            label
            for label in of_table
            if label in aside[name] and aside[name][label][1] != at.flow.tables[name].fingerprint
        )
        for name, of_table in done.items()
    }


def held_of(at: Reading, selection: str, labels: str | None) -> Found:
    """Return the held labels of a selection: to make one again is one way out."""
    _, by_table = selected(at.flow, [selection], labels)
    found: dict[str, tuple[datetime, ...]] = {}
    for name in select(at.flow, selection).tables:
        said = by_table.get(name)
        low, high = said.bounds(at.flow.tables[name].cadence) if said else (None, None)
        troubles = at.snapshot.of(name).troubles
        held = sorted(label for label, it in troubles.items() if it.status is BatchStatus.HELD)
        meant = tuple(it for it in held if (low is None or it >= low) and (high is None or it < high))
        found |= {name: meant} if meant else {}
    return found


def held_labels(at: Reading, which: str) -> tuple[str, tuple[datetime, ...]]:
    """Return a table and those of its labels, all or those named, that are held, oldest first.

    Raises  E440 where none is
    """
    name, said = one_table(at.flow, which)
    table = at.flow.tables[name]
    held = tuple(label for of in held_of(at, f"`{name}`", None).values() for label in of)
    low, high = said.bounds(table.cadence) if said is not None else (None, None)
    meant = tuple(it for it in held if (low is None or it >= low) and (high is None or it < high))
    if not meant:
        others = ", ".join(label_of(label) for label in held[:3])
        raise WaterclockError(
            "E440",
            f"nothing of {which} is held",
            where=name,
            why=f"held are {others}" if held else "no batch of it is held back by a rule",
            fix="`waterclock status` tells what is held and what failed",
        )
    return name, meant


def _where_there_are(aside: dict[datetime, tuple[int, str]]) -> str:
    if not aside:
        return "no row of it was set aside"
    labels = ", ".join(label_of(label) for label in [*aside][:3])
    return f"there are rows of {labels}{' and others' if len(aside) > 3 else ''}"
