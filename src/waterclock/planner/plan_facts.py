"""Defines the data from which one plan is made: flow, past, clock, and the state of all windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from waterclock.batches.ledger_snapshot import (
    LedgerSnapshot,
)
from waterclock.flow.declarations import Flow
from waterclock.planner.closings import ClosingFacts
from waterclock.planner.dependency_graph import FlowGraph, Node
from waterclock.planner.due_batches import TableWork
from waterclock.planner.settlement import Settlement


@dataclass(frozen=True, slots=True)
class Facts:
    """All data from which one plan is made.

    `clock` is the ledger's real clock, which decides when retries are due. `absent` maps tables to labels whose data is
    not at their sources yet.
    """

    flow: Flow
    graph: FlowGraph
    snapshot: LedgerSnapshot
    now: datetime
    clock: datetime
    starts: Mapping[str, datetime]
    settlement: Settlement
    to_do: Mapping[str, TableWork]
    selected: frozenset[str]
    absent: Mapping[str, frozenset[datetime]] = field(default_factory=dict)

    def books(self, node: Node) -> ClosingFacts:
        """Return the facts that decide when a table's windows close."""
        name = node.table.name
        past, missing = self.snapshot.of(name), self.to_do[name].missing
        return ClosingFacts(node.table, self.flow, past, missing, self.settlement, self.starts, self.now)

    def closing_books(self, node: Node) -> ClosingFacts:
        """Return the facts about closing of a table, or of the table whose open windows this one contains."""
        return self.books(self.graph.nodes[node.table.open_of or node.table.name])
