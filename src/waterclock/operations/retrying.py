"""Finds the batches that can be retried, and those that wait only for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER, BatchStatus
from waterclock.operations.project_opening import OpenedProject, select_batches
from waterclock.planner.plan import STOPS, Plan, Status
from waterclock.planner.request import PlanRequest
from waterclock.selection import Labels, select

_NO_CAP = 1 << 30
LabelsByTable = dict[str, frozenset[datetime]]


def find_batches_to_retry(at: OpenedProject, selection: str | None, labels: str | None) -> LabelsByTable:
    """Return the selected failed and held batches. If labels are given and none of them failed, return skipped ones.

    A retry of failed batches thus never undoes a skip of other batches by accident.

    Raises E510 to E514 if the selection or the labels are invalid.
    """
    found, by_table = select_batches(at.flow, [selection] if selection else None, labels)
    if at.ledger is None:
        return {}
    failed = {
        name: _filter_labels(at, name, by_table.get(name), at.snapshot.of(name).troubles) for name in found.tables
    }
    if not any(failed.values()):
        failed = {
            name: _find_skipped_labels(at, name, selected)
            for name, selected in by_table.items()
            if name in found.tables
        }
    return {name: of_table for name, of_table in failed.items() if of_table}


def _find_skipped_labels(at: OpenedProject, name: str, selected: Labels) -> frozenset[datetime]:
    low, high = selected.bounds(at.flow.tables[name].cadence)
    cells = [] if at.ledger is None else at.ledger.past.grid([name], low or BEGINNING, high or FOREVER)
    return frozenset(cell.label for cell in cells if cell.status == BatchStatus.SKIPPED)


def _filter_labels(
    at: OpenedProject, name: str, selected: Labels | None, labels: Iterable[datetime]
) -> frozenset[datetime]:
    cadence = at.flow.tables[name].cadence
    return frozenset(label for label in labels if selected is None or selected.contains(label, cadence))


def plan_of_readers(at: OpenedProject, names: Iterable[str]) -> Plan:
    """Plan all due batches of these tables and of their downstream tables, without a limit."""
    below = [f"`{name}`+" for name in names]
    listed = select(at.flow, *below).tables if below else ()
    return at.planner.plan(at.snapshot, at.now, PlanRequest(cap=_NO_CAP, listed=listed))


def find_partial_batches(at: OpenedProject, found: Mapping[str, Iterable[datetime]]) -> LabelsByTable:
    """Return done batches that were made without some batches of `found` (PARTIAL AFTER). They are made again later."""
    partial: defaultdict[str, set[datetime]] = defaultdict(set)
    for name in at.flow.tables:
        for label, gaps in at.snapshot.of(name).partial.items():
            if any(it.low <= one < it.high for it in gaps for one in found.get(it.table, ())):
                partial[name].add(label)
    return {name: frozenset(labels) for name, labels in partial.items()}


def find_blocked_batches(plan: Plan, cleared: Mapping[str, Iterable[datetime]]) -> LabelsByTable:
    """Return the batches of a plan that are blocked only by cleared batches."""
    roots = {(name, label) for name, labels in cleared.items() for label in labels}
    freed: defaultdict[str, set[datetime]] = defaultdict(set)
    for batch in plan.batches:
        causes = {(cause.table, cause.window.start) for cause in batch.causes if cause.status in STOPS}
        if batch.status is Status.BLOCKED and causes and causes <= roots:
            freed[batch.table].add(batch.label)
    return {name: frozenset(labels) for name, labels in freed.items()}
