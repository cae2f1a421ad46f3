"""Functions on the graph of tables: readers, inputs, an order in which to run them, and cycles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from waterclock.flow.apart import APART, apart_of
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import ReadKind


def readers_of(flow: Flow) -> Mapping[str, tuple[str, ...]]:
    """Map each table to its direct readers, including publishes, in the flow's order."""
    readers: dict[str, list[str]] = {name: [] for name in flow.tables}
    for name in flow.order:
        for read_name in {read.table: None for read in flow.tables[name].reads}:
            readers[read_name].append(name)
    return {name: tuple(found) for name, found in readers.items()}


def parents_of(flow: Flow) -> Mapping[str, frozenset[str]]:
    """Map each table to its inputs: the tables of the flow that it reads directly."""
    return {
        name: frozenset(read.table for read in table.reads if read.table in flow.tables)
        for name, table in flow.tables.items()
    }


def closure(names: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    """Return all names reachable from `names` along `edges`; `names` themselves only if an edge leads to them."""
    found: set[str] = set()
    waiting = [other for name in names for other in edges[name]]
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            waiting.extend(edges[other])
    return found


def late_tables(flow: Flow, table: str) -> tuple[str, ...]:
    """Return the names of the companion tables that store the late rows of a table."""
    return tuple(
        name for name, each in flow.tables.items() if each.late_rows is not None and each.late_rows.of == table
    )


def other_part(flow: Flow, table: str) -> str | None:
    """Return the other of the two tables that a TRANSFORM with APART declares: the persons or the events; else None."""
    if flow.tables[table].apart is not None:
        return apart_of(table)
    events = flow.tables.get(table.removesuffix(APART))
    return events.name if events is not None and events.apart is not None else None


def order_of(tables: Mapping[str, Table]) -> tuple[str, ...]:
    """Return the table names, inputs first; PREVIOUS reads do not count. Raises graphlib.CycleError for a cycle."""
    edges = {
        name: [
            *(read.table for read in table.reads if read.kind is not ReadKind.PREVIOUS and read.table in tables),
            *([table.late_rows.of] if table.late_rows else []),
        ]
        for name, table in tables.items()
    }
    return tuple(TopologicalSorter(edges).static_order())


def cycle_of(edges: Mapping[str, Iterable[str]]) -> tuple[str, ...] | None:
    """Return a cycle as a path that ends at its first name; each name has an edge to the next. None without a cycle."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        path: list[str] = error.args[1]
        return tuple(reversed(path))
    return None


def components_of(edges: Mapping[str, Iterable[str]]) -> list[frozenset[str]]:
    """Return the strongly connected components of a graph. A component of a single name must have an edge to itself.

    Names that are not keys of `edges` are ignored. The cost is linear in the edges, but quadratic in the names that are
    on cycles or between cycles.
    """
    among = {name: {other for other in others if other in edges} for name, others in edges.items()}
    left = _trim_and_reverse(_trim_and_reverse(among))
    reached = {name: closure([name], left) for name in left}
    groups: list[frozenset[str]] = []
    seen: set[str] = set()
    for name, others in reached.items():
        if name not in seen and name in others:
            group = frozenset(other for other in others if name in reached[other])
            groups.append(group)
            seen |= group
    return groups


def circles_of(edges: Mapping[str, Iterable[str]]) -> Mapping[str, frozenset[str]]:
    """Map each name on a cycle to its strongly connected component, which includes the name."""
    return {name: group for group in components_of(edges) for name in group}


def _trim_and_reverse(edges: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Remove names without edges until each remaining name has an edge to another; return the edges reversed."""
    readers: dict[str, set[str]] = {name: set() for name in edges}
    for name, others in edges.items():
        for other in others:
            readers[other].add(name)
    waiting = {name: len(others) for name, others in edges.items()}
    free = [name for name, count in waiting.items() if not count]
    while free:
        name = free.pop()
        del waiting[name]
        for reader in readers[name]:
            waiting[reader] -= 1
            if not waiting[reader]:
                free.append(reader)
    return {name: {reader for reader in readers[name] if reader in waiting} for name in waiting}
