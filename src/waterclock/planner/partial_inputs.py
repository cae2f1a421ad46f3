"""Splits the inputs of a batch that stops waiting for them (PARTIAL AFTER) into settled and missing ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from waterclock.batches.ledger_snapshot import LedgerSnapshot, Missing
from waterclock.flow.enums import Mode, ReadKind
from waterclock.planner.dependency_graph import FlowGraph, Node
from waterclock.planner.plan import BoundRead, ReadScope
from waterclock.planner.settlement import Settlement
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.window import Window


@dataclass(frozen=True, slots=True)
class Partial:
    """The settled and the missing inputs of a partial batch. A reference may be bound to several spans."""

    reads: tuple[BoundRead, ...]
    missing: tuple[Missing, ...]


def is_partial_allowed(node: Node, window: Window, now: datetime) -> bool:
    """Return whether a batch may be made from its settled inputs only, because the PARTIAL AFTER time has passed."""
    after = None if node.table.closes is not None else node.table.partial_after  # CLOSE WHEN closes windows instead
    return after is not None and after.add_to(window.end, node.table.cadence.zone) <= now


def partial_of(
    node: Node,
    reads: Iterable[BoundRead],
    graph: FlowGraph,
    snapshot: LedgerSnapshot,
    settlement: Settlement,
    starts: Mapping[str, datetime],
) -> Partial | None:
    """Return the settled inputs of a batch and the missing ones, or None if it must wait for the missing ones.

    Slices that are not settled are left out. For a regular table, the newest state without an unsettled window before
    it is read. A batch always waits for the earlier content of its own table, for a table without columns, and for
    LATEST.
    """
    kept: list[BoundRead] = []
    missing: list[Missing] = []
    for read in reads:
        settled = settlement.settled[read.read.table]
        if read.low >= read.high or settled.covers(read.low, read.high):
            kept.append(read)
            continue
        if read.read.table == node.table.name or read.read.kind is ReadKind.LATEST or node.cycle:
            return None
        found = (
            _keep_settled_slices(read, settled)
            if read.scope is ReadScope.SLICES
            else _find_complete_state(read, settled, graph, starts)
        )
        if found is None or not (_has_columns(read, graph, snapshot) or any(part.low < part.high for part in found)):
            return None
        kept += found
        missing += _find_missing_parts(read, found)
    return Partial(tuple(kept), tuple(dict.fromkeys(missing)))


def _keep_settled_slices(read: BoundRead, settled: IntervalSet) -> list[BoundRead]:
    parts = settled & IntervalSet.from_intervals([(read.low, read.high)])
    return [replace(read, low=low, high=high) for low, high in parts] or [replace(read, high=read.low)]


def _find_complete_state(
    read: BoundRead, settled: IntervalSet, graph: FlowGraph, starts: Mapping[str, datetime]
) -> list[BoundRead] | None:
    """Return a read of the newest complete state up to the one that is referenced. None if there is none."""
    table = graph.nodes[read.read.table].table
    cadence = table.cadence
    if starts[table.name] >= read.high:
        return None
    if table.mode is Mode.REPLACE:
        spans = settled & IntervalSet.from_intervals([(starts[table.name], read.high)])
        end = max((cadence.floor(high) for _, high in spans), default=read.low)
        low = cadence.previous(end)
        return [replace(read, low=low, high=end)] if settled.covers(low, end) else None
    gap = settled.first_gap(read.low, read.high)
    end = read.high if gap is None else cadence.floor(gap[0])
    return [replace(read, high=end)] if end > read.low else None


def _find_missing_parts(read: BoundRead, found: list[BoundRead]) -> list[Missing]:
    """Return the parts of a reference's interval that are not in `found`."""
    if read.scope is ReadScope.STATE:
        is_of_one = found[-1].low != read.low
        return [Missing(read.read.table, read.low if is_of_one else found[-1].high, read.high)]
    whole = IntervalSet.from_intervals([(read.low, read.high)])
    seen = IntervalSet.from_intervals((part.low, part.high) for part in found if part.low < part.high)
    return [Missing(read.read.table, low, high) for low, high in whole - seen]


def _has_columns(read: BoundRead, graph: FlowGraph, snapshot: LedgerSnapshot) -> bool:
    name = read.read.table
    return graph.nodes[name].table.columns.are_declared or bool(snapshot.of(name).covered)
