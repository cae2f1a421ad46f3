"""Finds the batches that can be tried again, and those that wait for nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime

from waterclock.batches.facts import BatchStatus
from waterclock.operations.opening import Reading, selected
from waterclock.planner.plan import NEEDS_SOMEBODY, Plan, Status
from waterclock.planner.request import Request

_NO_CAP = 1 << 30
_CLEARED = {BatchStatus.FAILED.value, BatchStatus.HELD.value, BatchStatus.SKIPPED.value}
_SKIPPED = BatchStatus.SKIPPED.value
Found = dict[str, frozenset[datetime]]


def troubled(at: Reading, selection: str | None, labels: str | None) -> Found:
    """Find the failed and held batches that are meant; skipped ones only where labels are said.

    Raises  E510 to E514 as `selection.select`
    """
    found, by_table = selected(at.flow, [selection] if selection else None, labels)
    if at.ledger is None:
        return {}
    batches: defaultdict[str, set[datetime]] = defaultdict(set)
    for cell in at.ledger.past.grid(found.tables):
        meant = by_table.get(cell.table)
        is_meant = meant is None or meant.contains(cell.label, at.flow.tables[cell.table].cadence)
        if cell.status in _CLEARED and is_meant and (cell.status != _SKIPPED or meant is not None):
            batches[cell.table].add(cell.label)
    return {name: frozenset(found) for name, found in batches.items()}


def plan_of_all(at: Reading) -> Plan:
    """Plan all that is due, however much it is."""
    return at.planner.plan(at.snapshot, at.now, Request(cap=_NO_CAP))


def blocked_by(plan: Plan, cleared: Mapping[str, Iterable[datetime]]) -> Found:
    """Find the batches of a plan of all that wait for nothing but what is cleared."""
    roots = {(name, label) for name, labels in cleared.items() for label in labels}
    freed: defaultdict[str, set[datetime]] = defaultdict(set)
    for batch in plan.batches:
        causes = {(cause.table, cause.window.start) for cause in batch.causes if cause.status in NEEDS_SOMEBODY}
        if batch.status is Status.BLOCKED and causes <= roots:
            freed[batch.table].add(batch.label)
    return {name: frozenset(labels) for name, labels in freed.items()}
