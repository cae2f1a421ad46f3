"""Requests the other table of a TRANSFORM with APART, if a batch of one table was made by a newer query."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER, RECOMPUTE
from waterclock.engine.run_context import RunContext
from waterclock.flow.apart import apart_of
from waterclock.flow.declarations import Table
from waterclock.flow.graph import other_part


def request_other_part(work: RunContext, table: Table, labels: Collection[datetime]) -> None:
    """Request the batches of the other table that were made by an older query than those of `table` just recorded.

    A batch may be made again although nobody requests it: its own inputs change, or it failed. The rows of both tables
    are joined by hashed values, so that the persons of changed rows would be missing in the view.
    """
    other = other_part(work.flow, table.name)
    if other is None:
        return
    ledger, is_of_persons = work.ledger, table.apart is None
    names = (other, table.name) if is_of_persons else (table.name, other)
    kept = ledger.maintenance.drop_boundary(other, by=FOREVER) or BEGINNING
    older = [
        each.label
        for each in ledger.reads.unpaired_codes(*names, labels)
        if each.is_idle and each.label >= kept and (each.persons if is_of_persons else each.events) == table.fingerprint
    ]
    if older:
        why = f"{apart_of(names[0]) if is_of_persons else names[0]} was made by newer code"
        ledger.decisions.request_restate(other, older, RECOMPUTE, who=work.settings.who, why=why)
