"""Finds the requests to make or remake batches that can still be withdrawn."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from waterclock.batches.ledger_snapshot import TableFacts
from waterclock.errors import WaterclockError
from waterclock.ledger import ledger_errors
from waterclock.ledger.ledger import Ledger
from waterclock.operations.formatting import count_words
from waterclock.operations.project_opening import OpenedProject, select_batches
from waterclock.planner.earlier_starts import find_shortened_labels
from waterclock.timelabel.label import label_of

LabelsByTable = dict[str, frozenset[datetime]]
_MOST_NAMED = 3


def find_withdrawable(at: OpenedProject, selection: str, labels: str | None) -> LabelsByTable:
    """Return the requested batches that no runner has started, even before START. Raises the errors of `select`."""
    found, by_table = select_batches(at.flow, [selection], labels)
    requested = {}
    for name in found.tables:
        selected, cadence = by_table.get(name), at.flow.tables[name].cadence
        waiting = find_withdrawable_labels(at.snapshot.of(name))
        requested[name] = frozenset(label for label in waiting if selected is None or selected.contains(label, cadence))
    return {name: of_table for name, of_table in requested.items() if of_table}


def find_shortened_windows(
    at: OpenedProject, ledger: Ledger, name: str, labels: Collection[datetime]
) -> tuple[datetime, ...]:
    """Return the closed windows among `labels` that would now read more, because the START of an input moved back.

    Cost: a ledger query for each label of a table with CLOSE WHEN.
    """
    if at.flow.tables[name].closes is None:
        return ()
    recorded = {(name, label): ledger.reads.inputs(name, label) for label in labels}
    starts = at.planner.starts(at.snapshot, at.now)
    return find_shortened_labels(at.flow, at.planner.graph, starts, at.snapshot, recorded).get(name, ())


def no_request_error(at: OpenedProject, selection: str, labels: str | None) -> WaterclockError:
    """Build the error for a selection without requests to withdraw. It names the requests that exist."""
    found, _ = select_batches(at.flow, [selection], labels)
    everything = {name: find_withdrawable_labels(at.snapshot.of(name)) for name in at.flow.order}
    there = [f"{name}@{label_of(label)}" for name, of_table in everything.items() for label in sorted(of_table)]
    why = "no batch is requested there, or it is made already"
    if any(_list_claimed_labels(at.snapshot.of(name)) & _list_requests(at.snapshot.of(name)) for name in found.tables):
        why = "a runner is making the requested batch"
    elif not there:
        why = "no batch of the project is requested"
    more = f" and {count_words(len(there) - _MOST_NAMED, 'other')}" if len(there) > _MOST_NAMED else ""
    fix = f"requested: {', '.join(there[:_MOST_NAMED])}{more}" if there else None
    where = f"{selection} {labels}" if labels else selection
    return ledger_errors.nothing_to_withdraw(where, why=why, fix=fix)


def find_withdrawable_labels(facts: TableFacts) -> frozenset[datetime]:
    """Return the labels of a table that were requested and that no runner has started."""
    return _list_requests(facts) - _list_claimed_labels(facts)


def _list_requests(facts: TableFacts) -> frozenset[datetime]:
    return facts.following | facts.wanted | facts.requested.keys()


def _list_claimed_labels(facts: TableFacts) -> frozenset[datetime]:
    return frozenset(label for claim in facts.open_claims for label in claim.labels)
