"""Derives a flow's dependency graph: the order of tables, cycles, readers, and tables whose labels run in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter

from waterclock.flow.declarations import Flow, Read, Table
from waterclock.flow.enums import Batching, Kind, Mode, ReadKind
from waterclock.flow.graph import circles_of


@dataclass(frozen=True, slots=True)
class Node:
    """A table of the flow with properties that the planner needs often.

    `rank` is its position in the order, upstream first. `readers` are the tables that read it, with their references.
    `cycle` has the tables that read each other through PREVIOUS, including this one; it is empty if this table is in no
    cycle with another one. `is_ordered`: a label is made only after all needed labels before it. `is_single`: one open
    claim at a time. `is_newest_only`: a PUBLISH of a whole state, which delivers only the newest label.
    `is_made_if_needed`: a label is made only if a batch reads it.
    """

    table: Table
    rank: int
    readers: tuple[tuple[str, Read], ...]
    cycle: frozenset[str]
    is_ordered: bool
    is_single: bool
    is_newest_only: bool
    is_made_if_needed: bool

    @property
    def groups_in_order(self) -> bool:
        """Whether labels are made in order but may share a claim: in a partitioned collect BY ARRIVAL TIME."""
        source = self.table.source
        return self.table.is_partitioned and source is not None and source.batching is Batching.ARRIVAL_TIME


@dataclass(frozen=True, slots=True)
class FlowGraph:
    """The nodes of a flow by table name, upstream first."""

    nodes: dict[str, Node]


def graph_of(flow: Flow) -> FlowGraph:
    """Build the dependency graph of a flow, for use by all its plans."""
    parents = {
        name: {read.table for read in table.reads if read.table in flow.tables and read.table != name}
        for name, table in flow.tables.items()
    }
    cycles = circles_of(parents)
    order = _order(flow, cycles)
    readers: dict[str, list[tuple[str, Read]]] = {name: [] for name in flow.tables}
    for name in order:
        for read in flow.tables[name].reads:
            if read.table in readers:
                readers[read.table].append((name, read))
    nodes = {
        name: _node(flow, name, rank, tuple(readers[name]), cycles.get(name, frozenset()))
        for rank, name in enumerate(order)
    }
    return FlowGraph(nodes)


def is_circular(reader: Table, read: Read, cycle: frozenset[str]) -> bool:
    """Return whether a PREVIOUS read refers to the reader itself, or to a table that reads it in turn."""
    return read.kind is ReadKind.PREVIOUS and (read.table == reader.name or read.table in cycle)


def _node(flow: Flow, name: str, rank: int, readers: tuple[tuple[str, Read], ...], cycle: frozenset[str]) -> Node:
    table = flow.tables[name]
    is_newest_only = table.kind is Kind.PUBLISH and not table.is_delivered_by_label
    is_arrival = table.source is not None and table.source.batching is Batching.ARRIVAL_TIME
    is_chained = table.is_in_label_order or bool(cycle) or is_arrival or table.is_delivered_by_label
    is_ordered = is_chained and not is_newest_only and not table.is_snapshot
    states = {Batching.STATE, Batching.AS_OF, Batching.EACH}
    is_read_state = table.source is not None and table.source.batching in states
    is_state = (table.kind is Kind.TRANSFORM or is_read_state) and table.mode is Mode.REPLACE
    return Node(
        table=table,
        rank=rank,
        readers=readers,
        cycle=cycle,
        is_ordered=is_ordered,
        is_single=is_ordered or not table.is_partitioned,
        is_newest_only=is_newest_only,
        is_made_if_needed=is_state and not table.reads_itself and not cycle,
    )


def _order(flow: Flow, cycles: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Sort tables upstream first. PREVIOUS reads within a cycle are ignored, since they read earlier data."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for name, table in flow.tables.items():
        cycle = cycles.get(name, frozenset())
        sorter.add(
            name,
            *(
                read.table
                for read in table.reads
                if read.table in flow.tables
                and read.table != name
                and not (read.kind is ReadKind.PREVIOUS and read.table in cycle)
            ),
            *([table.open_of] if table.open_of else []),  # a table of open windows has the START of its table
            # the rows in a table of late rows depend on when the windows of its table closed
            *([table.late_rows.of] if table.late_rows else []),
        )
    return tuple(sorter.static_order())
