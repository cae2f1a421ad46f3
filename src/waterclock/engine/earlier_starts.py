"""Finds batches to make again because a new flow moves the START of one of their inputs back."""

from __future__ import annotations

from datetime import datetime

from waterclock.batches.ledger_snapshot import LedgerSnapshot, verb_of_earlier_start
from waterclock.batches.records import Input
from waterclock.flow.declarations import Flow
from waterclock.ledger.ledger import Ledger
from waterclock.planner.earlier_starts import Batch, find_earlier_starts, find_shortened_labels
from waterclock.planner.planning import Planner


def find_shortened_reads(
    ledger: Ledger, flow: Flow, now: datetime, snapshot: LedgerSnapshot | None = None
) -> dict[str, tuple[datetime, ...]]:
    """Map each table to its labels that would read more windows under `flow`, because it moves an input's START back.

    The labels are done or being made. `snapshot` is the ledger's, if the caller has it. Call this before the flow is
    applied, and right after it: batches that are claimed later already use the new START. Cost: a snapshot, plus one
    ledger query of all recorded reads for each table whose START is before its first label.
    """
    snapshot = snapshot or ledger.reads.snapshot(flow)
    planner = Planner(flow)
    starts = planner.starts(snapshot, now)
    recorded: dict[Batch, tuple[Input, ...]] = {}
    for name, (start, first) in find_earlier_starts(starts, snapshot).items():
        recorded |= ledger.reads.reads_starting_within(name, start, first)
    return find_shortened_labels(flow, planner.graph, starts, snapshot, recorded) if recorded else {}


def snapshot_once_applied(ledger: Ledger, flow: Flow, now: datetime) -> LedgerSnapshot:
    """Return the ledger's snapshot as if `flow` were applied.

    It includes the requests that applying the flow adds: batches whose inputs start earlier under `flow` are requested
    again.
    """
    snapshot = ledger.reads.snapshot(flow)
    if snapshot.flow == flow.fingerprint:
        return snapshot
    again = find_shortened_reads(ledger, flow, now, snapshot)
    asking = {(verb_of_earlier_start(flow.tables[name]), name): labels for name, labels in again.items()}
    return ledger.reads.snapshot(flow, asking=asking) if asking else snapshot
