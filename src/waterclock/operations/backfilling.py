"""Finds the labels of a range that are not done, and the other batches that making them requires."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import islice

from waterclock.batches.ledger_snapshot import RELEASE, LedgerSnapshot
from waterclock.flow.declarations import Table
from waterclock.operations.project_opening import OpenedProject, select_batches
from waterclock.operations.restating import require_at_most, require_not_dropped
from waterclock.planner.open_windows import requested_open_labels
from waterclock.planner.request import PlanRequest
from waterclock.selection import Labels, select

_NO_CAP = 1 << 30
LabelsByTable = Mapping[str, frozenset[datetime]]


def missing_labels(at: OpenedProject, selection: str, labels: str | None, most: int | None = None) -> LabelsByTable:
    """Map each selected table to its due labels that are not done, skipped, failed, held, running or released.

    For a snapshot source only the newest label is returned, because the source has only its current content.
    Raises E510 to E514 if the selection or the labels are invalid, E518 if the range begins with dropped labels, E525
            if there are more than `most` labels.
    """
    found, by_table = select_batches(at.flow, [selection], labels)
    starts = at.planner.starts(at.snapshot, at.now)
    missing: dict[str, frozenset[datetime]] = {}
    left = None if most is None else most + 1
    for name in found.tables:
        of_table = islice(
            _find_missing_labels(
                at, at.flow.tables[name], by_table.get(name), starts[name], is_added=name in found.added
            ),
            left,
        )
        missing[name] = frozenset(of_table)
        require_at_most(most, sum(map(len, missing.values())))
    return {name: of_table for name, of_table in missing.items() if of_table}


def snapshot_for(at: OpenedProject, requested: LabelsByTable) -> LedgerSnapshot:
    """Return a ledger snapshot to plan requested batches. For states of open windows it has older closings, too."""
    open_labels = requested_open_labels(at.flow, requested)
    if not open_labels or at.ledger is None:
        return at.snapshot
    known = at.ledger.reads.snapshot(at.flow, asking=open_labels)
    replaced = {name: known.of(name) for each in requested if (name := at.flow.tables[each].open_of) is not None}
    return replace(at.snapshot, tables={**at.snapshot.tables, **replaced})


def find_prerequisite_batches(at: OpenedProject, requested: LabelsByTable) -> LabelsByTable:
    """Map each table to the labels that must be made only because the requested batches read them.

    Cost: two plans of the due batches of these tables and of all tables upstream.
    """
    listed = select(at.flow, *(f"+`{name}`" for name in requested)).tables if requested else ()
    requests = (PlanRequest(cap=_NO_CAP, listed=listed, force=force) for force in ({}, requested))
    snapshot = snapshot_for(at, requested)
    plans = [at.planner.plan(snapshot, at.now, each) for each in requests]
    before, after = ({(batch.table, batch.label) for batch in plan.batches} for plan in plans)
    others: defaultdict[str, set[datetime]] = defaultdict(set)
    for name, label in after - before:
        if label not in requested.get(name, ()):
            others[name].add(label)
    return {name: frozenset(labels) for name, labels in others.items()}


def _find_missing_labels(
    at: OpenedProject, table: Table, labels: Labels | None, start: datetime, *, is_added: bool
) -> Iterator[datetime]:
    """Yield the selected labels of a table that are missing. `is_added`: no text selects it, see `select`."""
    end, facts = table.cadence.last_due(at.now), at.snapshot.of(table.name)
    if labels is None:
        low, high = max(start, facts.dropped_before or start), max(start, end)
    else:
        low, high = labels.limit_to(table, start, end)
        if (dropped := facts.dropped_before) is not None and low < dropped:
            if facts.covered.gaps(low, min(dropped, high)) and not is_added:
                require_not_dropped(table, low, dropped)
            low = min(dropped, high)
    if table.is_snapshot:
        low = max(low, table.cadence.previous(end))
    released = {label for label, verb in facts.requested.items() if verb == RELEASE}
    begun = {label for claim in facts.open_claims for label in claim.labels} | facts.troubles.keys() | released
    for span in facts.covered.gaps(low, high) if low < high else ():
        yield from (window.start for window in table.cadence.windows(*span) if window.start not in begun)
