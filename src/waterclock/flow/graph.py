"""Who reads whom: upstream and downstream of a table, an order in which to make tables, and cycles."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from waterclock.flow.choices import ReadKind
from waterclock.flow.declarations import Flow, Table


def readers_of(flow: Flow) -> Mapping[str, tuple[str, ...]]:
    """Return for every table those that read it directly, publishes included, in the flow's order."""
    readers: dict[str, list[str]] = {name: [] for name in flow.tables}
    for name in flow.order:
        for read_name in {read.table: None for read in flow.tables[name].reads}:
            readers[read_name].append(name)
    return {name: tuple(found) for name, found in readers.items()}


def upstream_of(flow: Flow, name: str) -> frozenset[str]:
    """Return all that a table is made from, however far up; itself only where it reads itself."""
    edges = {table.name: tuple(read.table for read in table.reads) for table in flow.tables.values()}
    return _reachable(edges, name)


def downstream_of(flow: Flow, name: str) -> frozenset[str]:
    """Return all that is made from a table, however far down; itself only where it reads itself."""
    return _reachable(readers_of(flow), name)


def order_of(tables: Mapping[str, Table]) -> tuple[str, ...]:
    """Return the tables upstream first; a PREVIOUS says nothing of the order, for it reads another batch.

    Raises graphlib.CycleError where there is none
    """
    edges = {
        name: [read.table for read in table.reads if read.kind is not ReadKind.PREVIOUS and read.table in tables]
        for name, table in tables.items()
    }
    return tuple(TopologicalSorter(edges).static_order())


def cycle_of(edges: Mapping[str, Iterable[str]]) -> tuple[str, ...] | None:
    """Return one cycle as a path that ends where it begins, each name reading the next; None where there is none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        path: list[str] = error.args[1]
        return tuple(reversed(path))
    return None


def components_of(edges: Mapping[str, Iterable[str]]) -> list[frozenset[str]]:
    """Return the groups of names that reach each other in a circle, those of one name only where it reaches itself."""
    reached = {name: _reachable(edges, name) for name in _in_cycles(edges)}
    groups: list[frozenset[str]] = []
    seen: set[str] = set()
    for name, others in reached.items():
        if name not in seen and name in others:
            group = frozenset(other for other in others if name in reached.get(other, frozenset()))
            groups.append(group)
            seen |= group
    return groups


def _in_cycles(edges: Mapping[str, Iterable[str]]) -> list[str]:
    """Leave out, again and again, names that read nothing more: what stays is in a circle or reads one."""
    inputs = {name: {other for other in others if other in edges} for name, others in edges.items()}
    readers: dict[str, list[str]] = {name: [] for name in edges}
    for name, others in inputs.items():
        for other in others:
            readers[other].append(name)
    done = deque(name for name, others in inputs.items() if not others)
    left = set(edges)
    while done:
        name = done.popleft()
        left.discard(name)
        for reader in readers[name]:
            inputs[reader].discard(name)
            if not inputs[reader] and reader in left:
                done.append(reader)
    return [name for name in edges if name in left]


def _reachable(edges: Mapping[str, Iterable[str]], name: str) -> frozenset[str]:
    found: set[str] = set()
    waiting = deque(edges.get(name, ()))
    while waiting:
        other = waiting.popleft()
        if other not in found:
            found.add(other)
            waiting.extend(edges.get(other, ()))
    return frozenset(found)
