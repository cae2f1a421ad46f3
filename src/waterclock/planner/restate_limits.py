"""Finds the restatements that wait for a user: more labels may be made again than a limit allows.

The limits are ON RESTATE ... AT MOST n LABELS ELSE HOLD of a table, and `run --at-most n` for all tables of a run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from waterclock.batches.ledger_snapshot import LedgerSnapshot, TableFacts
from waterclock.planner.dependency_graph import FlowGraph, Node
from waterclock.planner.due_batches import TableWork
from waterclock.planner.held_restatement import HeldRestatement
from waterclock.planner.settlement import Settlement, find_dependent_windows

_Labels = Mapping[str, frozenset[datetime]]


def find_held_restatements(
    graph: FlowGraph,
    snapshot: LedgerSnapshot,
    to_do: Mapping[str, TableWork],
    settlement: Settlement,
    forced: _Labels,
    selected: Collection[str],
    at_most: int | None,
) -> dict[str, HeldRestatement]:
    """Find the tables whose restatement exceeds a limit. Return each with its held labels.

    Labels that a user decided about do not count: those that are requested, and those that a runner is making. With
    `at_most`, the labels of all `selected` tables count together, without those that wait for labels that a table's own
    limit holds. Cost: the labels that may be made again, of tables with a limit.
    """
    open_labels = {
        name: found
        for name, node in graph.nodes.items()
        if (node.table.restate_at_most is not None or (at_most is not None and name in selected))
        and (found := _find_undecided(node, snapshot.of(name), to_do[name], forced.get(name, frozenset())))
    }
    held = {}
    for name, labels in open_labels.items():
        limit = graph.nodes[name].table.restate_at_most
        if limit is not None and len(labels) > limit:
            held[name] = HeldRestatement(labels, _changed_labels(settlement, name, labels), limit, len(labels))
    if at_most is None:
        return held
    stopped = find_dependent_windows(graph, snapshot, {name: it.labels for name, it in held.items()}) if held else {}
    counted = {}
    for name, labels in open_labels.items():
        spans = stopped.get(name)
        free = labels if spans is None else frozenset(label for label in labels if not spans.covers_instant(label))
        if name in selected and free:
            counted[name] = free
    total = sum(map(len, counted.values()))
    if total > at_most:
        for name, labels in counted.items():
            held.setdefault(
                name, HeldRestatement(labels, _changed_labels(settlement, name, labels), at_most, total, is_of_run=True)
            )
    return held


def _find_undecided(node: Node, past: TableFacts, to_do: TableWork, forced: frozenset[datetime]) -> frozenset[datetime]:
    """Return the done labels that may be made again, and about which no user has decided."""
    if not to_do.awaited:
        return frozenset()
    running = {label for claim in past.open_claims for label in claim.labels}
    decided = running.union(past.requested, past.following, forced)
    windows = (window for low, high in to_do.awaited for window in node.table.cadence.windows(low, high))
    return frozenset(window.start for window in windows if window.start not in decided)


def _changed_labels(settlement: Settlement, name: str, labels: frozenset[datetime]) -> frozenset[datetime]:
    return labels & settlement.stale.get(name, frozenset())
