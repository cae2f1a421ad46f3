"""What follows from the flow alone: order, cycles, who reads whom, and which tables go in label order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter

from waterclock.flow.choices import Batching, Kind, Mode, ReadKind
from waterclock.flow.declarations import Flow, Read, Table


@dataclass(frozen=True, slots=True)
class Node:
    """One table and what the planner asks of it at every turn.

    `rank`: its place in the order, upstream first. `readers`: who reads it, and how. `cycle`: the tables that read
    each other through PREVIOUS, itself among them; empty where there are none but perhaps itself. `is_ordered`: a
    label is made only after all needed labels before it. `is_single`: one open claim at a time. `is_newest_only`: a
    publish of a whole state. `is_made_if_needed`: labels that nobody reads are not needed.
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
        """True of partitioned arrival collects: windows seal in order, and several may share a claim."""
        source = self.table.source
        return self.table.is_partitioned and source is not None and source.batching is Batching.ARRIVAL_TIME


@dataclass(frozen=True, slots=True)
class FlowGraph:
    """The nodes of a flow by name, upstream first."""

    nodes: dict[str, Node]


def graph_of(flow: Flow) -> FlowGraph:
    """Work out order, cycles and readers of a flow, once for all plans of it."""
    parents = {
        name: {read.table for read in table.reads if read.table in flow.tables and read.table != name}
        for name, table in flow.tables.items()
    }
    cycles = _cycles(parents)
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
    """Whether a PREVIOUS read is of the own table, or of one that reads this one in turn."""
    return read.kind is ReadKind.PREVIOUS and (read.table == reader.name or read.table in cycle)


def _node(flow: Flow, name: str, rank: int, readers: tuple[tuple[str, Read], ...], cycle: frozenset[str]) -> Node:
    table = flow.tables[name]
    is_newest_only = table.kind is Kind.PUBLISH and not table.is_delivered_by_label
    is_arrival = table.source is not None and table.source.batching is Batching.ARRIVAL_TIME
    is_chained = table.in_label_order or bool(cycle) or is_arrival or table.is_delivered_by_label
    is_ordered = is_chained and not is_newest_only and not table.is_snapshot
    is_state = table.kind is Kind.TRANSFORM and table.mode is Mode.REPLACE
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
    """Sort tables upstream first; within a cycle PREVIOUS does not count, for it reads what was before."""
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
        )
    return tuple(sorter.static_order())


def _cycles(parents: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    """Find for each table on a cycle the tables that it reaches and that reach it."""
    left = _trimmed(_trimmed({name: set(above) for name, above in parents.items()}))
    reached = {name: _reach(name, left) for name in left}
    found: dict[str, frozenset[str]] = {}
    for name, above in reached.items():
        if name in above:
            found[name] = frozenset(other for other in above if name in reached[other])
    return found


def _trimmed(parents: dict[str, set[str]]) -> dict[str, set[str]]:
    """Take away, again and again, the tables that read none of the others, and turn the arrows around."""
    children: dict[str, set[str]] = {name: set() for name in parents}
    for name, above in parents.items():
        for other in above:
            children[other].add(name)
    free = [name for name, above in parents.items() if not above]
    waiting = {name: len(above) for name, above in parents.items()}
    while free:
        name = free.pop()
        del waiting[name]
        for child in children[name]:
            waiting[child] -= 1
            if not waiting[child]:
                free.append(child)
    return {name: {child for child in children[name] if child in waiting} for name in waiting}


def _reach(start: str, arrows: Mapping[str, Iterable[str]]) -> set[str]:
    seen: set[str] = set()
    to_do = list(arrows[start])
    while to_do:
        name = to_do.pop()
        if name not in seen:
            seen.add(name)
            to_do.extend(arrows[name])
    return seen
