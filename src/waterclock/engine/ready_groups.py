"""Selects the ready groups that can start next to running ones: pools, and tables with one batch at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from waterclock.flow.declarations import Flow
from waterclock.planner.plan import Group


def fits_next_to(flow: Flow, threads: int, group: Group, running: Collection[Group]) -> bool:
    """Return whether a group can start: its pool has a place, and its table allows it next to its running batches."""
    table = flow.tables[group.table]
    in_pools = Counter(flow.tables[other.table].pool for other in running)
    if in_pools[table.pool] >= flow.pools.get(table.pool, threads):
        return False
    is_alone = not table.is_partitioned or table.source is not None or table.is_in_label_order
    return not (is_alone and any(other.table == group.table for other in running))


def without_running(ready: Iterable[Group], running: Collection[Group]) -> Iterator[Group]:
    """Yield the ready groups without those that have a label of a running one."""
    busy = {(other.table, batch.label) for other in running for batch in other.batches}
    tables = {table for table, _ in busy}
    for group in ready:
        if group.table not in tables or not any((group.table, batch.label) in busy for batch in group.batches):
            yield group
