"""Who reads whom, an order in which to make tables, and cycles."""

from __future__ import annotations

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


def parents_of(flow: Flow) -> Mapping[str, frozenset[str]]:
    """Return for every table those tables of the flow that it reads directly."""
    return {
        name: frozenset(read.table for read in table.reads if read.table in flow.tables)
        for name, table in flow.tables.items()
    }


def closure(names: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    """Return all that some names lead to, directly or through others; themselves only where a circle leads back."""
    found: set[str] = set()
    waiting = [other for name in names for other in edges[name]]
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            waiting.extend(edges[other])
    return found


def late_tables(flow: Flow, table: str) -> tuple[str, ...]:
    """Return the tables that keep the late rows of a table whose books are closed, one for each that it reads UNTIL."""
    return tuple(
        name for name, each in flow.tables.items() if each.late_rows is not None and each.late_rows.of == table
    )


def order_of(tables: Mapping[str, Table]) -> tuple[str, ...]:
    """Return the tables upstream first; a PREVIOUS says nothing of the order, for it reads another batch.

    Raises graphlib.CycleError where there is none
    """
    edges = {
        name: [
            *(read.table for read in table.reads if read.kind is not ReadKind.PREVIOUS and read.table in tables),
            *([table.late_rows.of] if table.late_rows else []),
        ]
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
    """Return the groups of names that reach each other in a circle, those of one name only where it reaches itself.

    Names that are not among `edges` are passed over. Cost: in proportion to the edges, but quadratic in the names that
    lie on circles or between them.
    """
    among = {name: {other for other in others if other in edges} for name, others in edges.items()}
    left = _trimmed(_trimmed(among))
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
    """Return for each name on a circle all names that reach it and that it reaches, itself among them."""
    return {name: group for group in components_of(edges) for name in group}


def _trimmed(edges: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Leave out, again and again, the names that read none of those left, and turn the arrows around."""
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
