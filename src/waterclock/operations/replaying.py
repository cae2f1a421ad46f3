"""Finds the batches to replay: those with rows that older rules quarantined."""

from __future__ import annotations

from datetime import datetime

from waterclock.errors import WaterclockError
from waterclock.flow.graph import other_part
from waterclock.operations.project_opening import OpenedProject, select_batches
from waterclock.operations.restating import LabelsByTable, done_labels
from waterclock.timelabel.label import label_of


def find_replayable_labels(at: OpenedProject, selection: str, labels: str | None) -> LabelsByTable:
    """Return the done labels of a selection with rows that an older version of the table's code quarantined.

    Rows that the current code quarantined are left out, because it would quarantine them again.
    Raises the errors of `done_labels`, and E441 if labels are given and none of them has quarantined rows.
    """
    done = done_labels(at, selection, labels)
    if at.ledger is None:
        return {}
    quarantined = {name: at.ledger.reads.list_quarantined_labels(name) for name in done}
    selected, by_table = select_batches(at.flow, [selection], labels)
    if by_table and not any(label in quarantined[name] for name, of_table in done.items() for label in of_table):
        name = next(name for name in by_table if name not in selected.added)
        raise WaterclockError(
            "E441",
            f"no rows of {name} are quarantined there",
            where=name,
            why=_describe_quarantined(quarantined.get(name, {})),
            fix=f"waterclock query 'SELECT * FROM {name}_quarantine' shows the quarantined rows",
        )
    found = {
        name: {
            label
            for label in of_table
            if label in quarantined[name] and quarantined[name][label][1] != at.flow.tables[name].fingerprint
        }
        for name, of_table in done.items()
    }
    both = {name: labels | found.get(other_part(at.flow, name) or "", set()) for name, labels in found.items()}
    return {name: tuple(label for label in of_table if label in both[name]) for name, of_table in done.items()}


def _describe_quarantined(quarantined: dict[datetime, tuple[int, str]]) -> str:
    if not quarantined:
        return "no row of it was quarantined"
    labels = ", ".join(label_of(label) for label in [*quarantined][:3])
    return f"the quarantine has rows of {labels}{' and others' if len(quarantined) > 3 else ''}"
