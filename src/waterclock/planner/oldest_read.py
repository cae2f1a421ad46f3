"""Finds the oldest window of each table that batches still to be made will read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from waterclock.flow.declarations import Flow
from waterclock.flow.enums import ReadKind
from waterclock.planner.dependency_graph import FlowGraph
from waterclock.planner.due_batches import TableWork
from waterclock.planner.input_binding import bind_read


def oldest_needed(
    flow: Flow, graph: FlowGraph, to_do: Mapping[str, TableWork], starts: Mapping[str, datetime], now: datetime
) -> dict[str, datetime]:
    """Map each table to the start of the oldest window that any batch still to be made reads.

    These batches are those that are due and not done, and the next one of each table to become due. The older a batch,
    the further back it reads, so the oldest batch of each reader is sufficient. LATEST reads the newest data, so it
    does not count. If windows choose between queries (WHEN), each query counts as if it made the oldest window.
    """
    found: dict[str, datetime] = {}
    for name, node in graph.nodes.items():
        cadence = node.table.cadence
        upcoming = max(cadence.last_due(now), starts[name])
        first = min(to_do[name].first() or upcoming, upcoming)
        for read in node.table.reads:
            if read.kind is not ReadKind.LATEST:
                bound = bind_read(node.table, read, cadence.window_of(first), flow, starts)
                found[read.table] = min(found.get(read.table, bound.low), bound.low)
    return found
