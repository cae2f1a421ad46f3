"""Finds the batches that can be tried again, and those that wait for nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime

from waterclock.batches.facts import BEGINNING, FOREVER, BatchStatus
from waterclock.operations.opening import Reading, selected
from waterclock.planner.plan import NEEDS_SOMEBODY, Plan, Status
from waterclock.planner.request import Request

_NO_CAP = 1 << 30
Found = dict[str, frozenset[datetime]]


def troubled(at: Reading, selection: str | None, labels: str | None) -> Found:
    """Find the failed and held batches that are meant; skipped ones only where labels are said.

    Raises  E510 to E514 as `selection.select`
    """
    found, by_table = selected(at.flow, [selection] if selection else None, labels)
    if at.ledger is None:
        return {}
    batches: defaultdict[str, set[datetime]] = defaultdict(set)
    for name in found.tables:
        meant, cadence = by_table.get(name), at.flow.tables[name].cadence
        of_table = set(at.snapshot.of(name).troubles)
        if meant is not None:
            low, high = meant.bounds(cadence)
            cells = at.ledger.past.grid([name], low or BEGINNING, high or FOREVER)
            of_table |= {cell.label for cell in cells if cell.status == BatchStatus.SKIPPED}
            of_table = {label for label in of_table if meant.contains(label, cadence)}
        if of_table:
            batches[name] = of_table
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
