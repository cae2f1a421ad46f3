"""Determines each table's START: declared, recorded by the first run, or derived from the tables that it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache

from waterclock.batches.ledger_snapshot import BEGINNING, LedgerSnapshot, TableFacts
from waterclock.flow.declarations import Flow, Read, Table
from waterclock.flow.enums import Kind, ReadKind
from waterclock.flow.late_rows import LateRows
from waterclock.planner.dependency_graph import FlowGraph, graph_of, is_circular
from waterclock.planner.input_binding import until_start
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.window import Window


def starts(flow: Flow, snapshot: LedgerSnapshot, now: datetime) -> dict[str, datetime]:
    """Map every table of the flow to its START, upstream first.

    A collect has its declared START, otherwise the one that the ledger has recorded, otherwise that of
    `starts_to_write`. All others start at the first window for which all their inputs exist, or at the declared START
    if that is later.
    """
    return starts_of(flow, graph_of(flow), snapshot, now)


def has_own_start(table: Table) -> bool:
    """Return whether the first window of a table depends only on its source: a collect that reads no other table."""
    return table.kind is Kind.COLLECT and table.each is None


def starts_to_write(
    flow: Flow, snapshot: LedgerSnapshot, now: datetime, clock_of: Callable[[Table], datetime | None] = lambda _: None
) -> dict[str, datetime]:
    """Map every collect that neither declares a START nor has one in the ledger to the START that the run records.

    It is the newest window that is due at `now` and over by the clock of its source (None if the source has none). So
    the first run reads the existing data, however old it is. If labels are done (in a ledger that was rebuilt without
    its export), START is the oldest of them.
    """
    collects = (table for table in flow.tables.values() if has_own_start(table) and table.start is None)
    return {
        table.name: _default_start(table, snapshot.of(table.name), now, clock_of(table))
        for table in collects
        if snapshot.of(table.name).start is None
    }


def starts_of(flow: Flow, graph: FlowGraph, snapshot: LedgerSnapshot, now: datetime) -> dict[str, datetime]:
    """Map every table to its START, as `starts` does, for a graph that was built before."""
    found: dict[str, datetime] = {}
    for name, node in graph.nodes.items():
        table = node.table
        if table.open_of is not None:
            found[name] = table.cadence.floor(found[table.open_of])
            continue
        derived = None if has_own_start(table) else _derive_start(table, flow, found, node.cycle)
        if derived is None:
            facts = snapshot.of(name)
            found[name] = table.cadence.floor(table.start or facts.start or _default_start(table, facts, now))
        elif table.start is not None:
            found[name] = max(table.cadence.floor(table.start), derived)
        else:
            found[name] = derived
        if table.late_rows is not None:
            found[name] = max(found[name], _first_late_slice(table, table.late_rows, flow, found))
    return found


def _first_late_slice(table: Table, late_rows: LateRows, flow: Flow, found: Mapping[str, datetime]) -> datetime:
    """Return the label of the first slice that can have late rows: the first slice that any window may read."""
    of = flow.tables[late_rows.of]
    return table.cadence.floor(until_start(of, late_rows.reach, found[of.name]))


def _default_start(table: Table, facts: TableFacts, now: datetime, clock: datetime | None = None) -> datetime:
    due = table.cadence.last_due(now)
    newest = table.cadence.previous(due if clock is None else min(due, table.cadence.floor(clock)))
    done = next((low for low, _ in facts.covered if low != BEGINNING), newest)
    return min(done, newest)


def _derive_start(table: Table, flow: Flow, found: Mapping[str, datetime], cycle: frozenset[str]) -> datetime | None:
    """Return the first window for which every read is at or after the START of the table read. None without any reads.

    Snapshots cover all earlier windows, LATEST waits for a first batch, and PREVIOUS in a cycle starts with its reader.
    They give no bound, unless there are no other reads.
    """
    if table.choices:
        return _derive_from_choices(table, flow, found, cycle)
    reads = [read for read in table.reads if not is_circular(table, read, cycle)]
    return _find_latest_bound(table, [read for read in reads if _is_bound(flow, read)] or reads, flow, found)


def _is_bound(flow: Flow, read: Read) -> bool:
    return read.kind is not ReadKind.LATEST and not flow.tables[read.table].is_snapshot


def _find_latest_bound(
    table: Table, reads: Iterable[Read], flow: Flow, found: Mapping[str, datetime]
) -> datetime | None:
    bounds = [_first_window(table, read, flow.tables[read.table], found[read.table]) for read in reads]
    return max(bounds, default=None)


def _derive_from_choices(
    table: Table, flow: Flow, found: Mapping[str, datetime], cycle: frozenset[str]
) -> datetime | None:
    """Return the first window from which on all windows have the inputs of their own query (WHEN).

    Cost: if conditions only compare a window's edges with instants, a check of the few windows around these instants.
    Otherwise a check of each window between the first window of all queries and the last.
    """
    by_choice = [[read for read in it.reads if not is_circular(table, read, cycle)] for it in table.choices]
    if any(_is_bound(flow, read) for reads in by_choice for read in reads):
        by_choice = [[read for read in reads if _is_bound(flow, read)] for reads in by_choice]
    firsts = [_find_latest_bound(table, reads, flow, found) for reads in by_choice]
    known = [first for first in firsts if first is not None]
    if not known:
        return None
    return _first_common_window(table, tuple(firsts), tuple(known))


@lru_cache(maxsize=1024)
def _first_common_window(table: Table, firsts: tuple[datetime | None, ...], known: tuple[datetime, ...]) -> datetime:
    """Return the first window from which on each window is at or after the first possible window of its own query.

    `firsts` has that first window by query, None for a query without bounds; `known` has those that are not None.
    """
    low = min(known) if table.start is None else table.cadence.floor(table.start)
    for window in _iterate_windows_newest_first(table, low, max(known), known):
        choice = table.choice_of(window)
        first = next(first for first, it in zip(firsts, table.choices, strict=True) if it is choice)
        if first is not None and window.start < first:
            return window.end
    return low


def _iterate_windows_newest_first(
    table: Table, low: datetime, high: datetime, firsts: Iterable[datetime]
) -> Iterator[Window]:
    """Yield windows from `low` to `high`, newest first: all, or the newest of each span with unchanged conditions."""
    cadence, turns = table.cadence, set(firsts)
    for choice in table.choices:
        own = frozenset[datetime]() if choice.condition is None else choice.condition.turns()
        if own is None:
            yield from _iterate_windows_down(cadence, low, high)
            return
        turns |= own
    starts: set[datetime] = set()
    for turn in turns:
        if low <= turn <= high:
            inside = cadence.floor(turn)
            before = cadence.previous(inside)
            starts |= {inside, before, cadence.previous(before)}
    yield from (cadence.window_of(start) for start in sorted(starts, reverse=True) if low <= start < high)


def _iterate_windows_down(cadence: Cadence, low: datetime, high: datetime) -> Iterator[Window]:
    while high > low:
        start = cadence.previous(high)
        yield Window(start, high)
        high = start


def _first_window(table: Table, read: Read, u: Table, start: datetime) -> datetime:
    cadence = table.cadence
    if table.is_delivered_by_label:
        return cadence.floor(start)  # reads are cut at START, so that no rows are left out
    if u.is_partitioned and read.kind in {ReadKind.PLAIN, ReadKind.PAST, ReadKind.UNTIL}:
        return _first_slices(table, read, start)
    if read.kind is ReadKind.PREVIOUS:
        return cadence.ceil(start)  # empty there: rows of u's first window are read by the next one
    served = u.cadence.next(start)  # the end of u's first window
    return cadence.previous(served) if cadence.is_boundary(served) else cadence.floor(served)


def _first_slices(table: Table, read: Read, start: datetime) -> datetime:
    """Return the first window that reads no slice before `start`, the START of the table that it reads.

    With PAST it may be the window that contains `start`: the span of PAST, which ends with the window, may be shorter.
    """
    cadence = table.cadence
    first = cadence.ceil(start)
    if read.kind is not ReadKind.PAST or read.span is None:
        return first
    earlier = cadence.floor(start)  # a span shorter than the window may start after START even if the window does not
    begins = read.span.subtract_from(cadence.next(earlier), cadence.zone)
    return earlier if begins >= start else first
