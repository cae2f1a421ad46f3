"""Requests the other table of a TRANSFORM with APART, if a batch of one table is made by a newer query."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER, RECOMPUTE
from waterclock.batches.records import Claim
from waterclock.engine.run_context import RunContext
from waterclock.faults import fault
from waterclock.flow.apart import apart_of
from waterclock.flow.declarations import Table
from waterclock.flow.graph import other_part


def request_other_part(work: RunContext, table: Table, claim: Claim, labels: Collection[datetime]) -> None:
    """Request the labels of the other table that an older query made than the claim that is about to be recorded.

    A batch may be made again without a request: its own inputs change, or it failed. The rows of both tables
    are joined by hashed values, so that the persons of changed rows would be missing in the view. The request comes
    before the record: a runner that is killed in between leaves a claim, whose takeover records it.
    """
    other, code = other_part(work.flow, table.name), claim.request.code
    if other is None or code != table.fingerprint:  # a revert brings older code back, for both tables
        return
    ledger = work.ledger
    names = (other, table.name) if table.apart is None else (table.name, other)
    kept = ledger.maintenance.drop_boundary(other, by=FOREVER) or BEGINNING
    found = ledger.reads.idle_labels_of_other_query(*names, code, labels, by=table.name)
    older = [label for label in found if label >= kept]
    if older:
        why = f"{apart_of(names[0]) if table.apart is None else names[0]} is made by newer code"
        ledger.decisions.request_restate(other, older, RECOMPUTE, who=work.settings.who, why=why)
        fault("other_part.requested")
