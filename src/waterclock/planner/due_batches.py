"""Finds the batches to make: due windows that are missing and needed, and done ones that must be made again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from heapq import merge

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER, LedgerSnapshot, TableFacts
from waterclock.flow.declarations import Flow, Read, Table
from waterclock.flow.enums import ReadKind
from waterclock.planner.closings import newest_closed
from waterclock.planner.dependency_graph import FlowGraph, Node
from waterclock.planner.input_binding import bind_read, until_end
from waterclock.planner.linked_projects import newest_served
from waterclock.planner.settlement import Settlement, find_first_label
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.period import Period, TimeUnit
from waterclock.timelabel.window import Window

_NO_WINDOWS = IntervalSet()


@dataclass(frozen=True, slots=True)
class TableWork:
    """The batches to make of one table: needed windows that are `missing`, and done labels to make again (`revisions`).

    `revisions` are sorted, oldest first. `awaited`: needed windows that are done but not settled, including the
    revisions. `behind`: done windows that are not settled and that no batch needs; they are made again only on request.
    """

    missing: IntervalSet
    revisions: tuple[datetime, ...]
    awaited: IntervalSet = field(default_factory=IntervalSet)
    behind: IntervalSet = field(default_factory=IntervalSet)

    def windows(self, cadence: Cadence) -> Iterator[Window]:
        """Yield all windows to make, oldest first."""
        missing = (window for low, high in self.missing for window in cadence.windows(low, high))
        return merge(missing, (Window(label, cadence.next(label)) for label in self.revisions))

    def count(self, cadence: Cadence) -> int:
        """Return the number of windows to make, without building them."""
        return len(self.revisions) + sum(cadence.count(low, high) for low, high in self.missing)

    def limit_missing(self, spans: IntervalSet) -> TableWork:
        """Return a copy that keeps only the missing windows within `spans`."""
        return replace(self, missing=self.missing & spans)

    def without_revisions(self, labels: frozenset[datetime]) -> TableWork:
        """Return a copy without these labels to make again."""
        return replace(self, revisions=tuple(label for label in self.revisions if label not in labels))

    def new_from(self, low: datetime) -> TableWork:
        """Return a copy with only the missing windows from `low` on."""
        return replace(self.limit_to_labels(low, None), revisions=())

    def limit_to_labels(self, low: datetime | None, high: datetime | None) -> TableWork:
        """Return a copy with only the labels in `[low, high)`; a bound of None is open."""
        if low is None and high is None:
            return self
        low, high = low or BEGINNING, high or FOREVER
        span = IntervalSet.from_intervals([(low, high)] if low < high else [])
        return replace(
            self,
            missing=self.missing & span,
            revisions=tuple(label for label in self.revisions if low <= label < high),
        )

    def front(self, cadence: Cadence) -> TableWork:
        """Return a copy with only the oldest missing window."""
        oldest = next(iter(self.missing), None)
        if oldest is None:
            return self
        return replace(self, missing=IntervalSet.from_intervals([(oldest[0], cadence.next(oldest[0]))]))

    def first(self) -> datetime | None:
        """Return the oldest label that is to be made, or that is not settled yet. None if there is none."""
        oldest = [next(iter(spans))[0] for spans in (self.missing, self.awaited) if spans]
        return min([*oldest, *self.revisions[:1]], default=None)


_NO_WORK = TableWork(_NO_WINDOWS, ())


@dataclass(frozen=True, slots=True)
class _WorkFacts:
    """The data from which the batches to make of all tables are computed.

    `forced`: labels to make even if they are done or no batch needs them. `fully_due_ends`: by table, the end of
    the newest window that is due and whose inputs are all due; filled on first use.
    """

    flow: Flow
    graph: FlowGraph
    snapshot: LedgerSnapshot
    now: datetime
    starts: Mapping[str, datetime]
    settlement: Settlement
    forced: Mapping[str, frozenset[datetime]]
    fully_due_ends: dict[str, datetime] = field(default_factory=dict)


def work_by_table(
    flow: Flow,
    graph: FlowGraph,
    snapshot: LedgerSnapshot,
    now: datetime,
    starts: Mapping[str, datetime],
    settlement: Settlement,
    forced: Mapping[str, frozenset[datetime]],
) -> dict[str, TableWork]:
    """Find the batches to make of every table.

    Tables are visited after their readers, since readers determine which labels are needed.
    """
    work_facts = _WorkFacts(flow, graph, snapshot, now, starts, settlement, forced)
    found: dict[str, TableWork] = {}
    for name in reversed(graph.nodes):
        found[name] = _find_work(work_facts, graph.nodes[name], found)
    return found


def _find_work(work_facts: _WorkFacts, node: Node, found: Mapping[str, TableWork]) -> TableWork:
    name, cadence = node.table.name, node.table.cadence
    facts = work_facts.snapshot.of(name)
    begin, end = find_first_label(node, facts, work_facts.starts), cadence.last_due(work_facts.now)
    if node.table.is_snapshot:
        return _find_snapshot_work(work_facts, node, facts, end)
    missing = facts.covered.gaps(begin, end) if begin < end else _NO_WINDOWS
    unsettled = work_facts.settlement.unsettled.get(name, _NO_WINDOWS)
    if not missing and not unsettled:
        return _NO_WORK
    requested = _find_requested_labels(work_facts, name, facts)
    revisions = requested | work_facts.settlement.stale.get(name, frozenset())
    behind = _NO_WINDOWS
    if node.is_newest_only or node.is_made_if_needed:
        needed = _find_needed_windows(work_facts, node, found, missing | unsettled, requested)
        if node.is_made_if_needed:
            behind = (unsettled - needed) & IntervalSet.from_intervals([(begin, FOREVER)])
        missing, unsettled = missing & needed, unsettled & needed
        revisions = frozenset(label for label in revisions if needed.covers_instant(label))
    return TableWork(missing, tuple(sorted(label for label in revisions if label >= begin)), unsettled, behind)


def _find_needed_windows(
    work_facts: _WorkFacts,
    node: Node,
    found: Mapping[str, TableWork],
    open_windows: IntervalSet,
    requested: frozenset[datetime],
) -> IntervalSet:
    """Return the needed windows: the newest, the requested ones, and those in `open_windows` that readers need."""
    name, cadence = node.table.name, node.table.cadence
    facts, newest = work_facts.snapshot.of(name), _find_fully_due_end(work_facts, name)
    is_begun = find_first_label(node, facts, work_facts.starts) < newest
    needed = IntervalSet.from_intervals([(cadence.previous(newest), newest)] if is_begun else [])
    due = cadence.last_due(work_facts.now)
    if name in work_facts.snapshot.links and newest < due:  # shown as waiting for the other project
        needed = needed.add(cadence.previous(due), due)
    needed = _add_requested(needed, node, work_facts.forced.get(name, frozenset()) | requested | facts.following)
    if node.is_made_if_needed and open_windows - needed:
        needed |= _find_windows_for_readers(work_facts, node, found)
    return needed


def _find_fully_due_end(work_facts: _WorkFacts, name: str) -> datetime:
    """Return the end of the newest window that is due and whose inputs, direct and indirect, are all due.

    A done window counts even if some of its inputs are not due, since PARTIAL AFTER may have made it without them. It
    is not enough to find the newest due window: if an input has a longer DELAY, that window would never be ready in
    time, and the next one would always replace it.
    """
    nodes, ends = work_facts.graph.nodes, work_facts.fully_due_ends
    if not ends:
        ends |= {other: _find_newest_due_window_end(work_facts, node) for other, node in nodes.items()}
        for node in nodes.values():
            members = [nodes[other] for other in node.cycle or (node.table.name,)]
            while any(_lower_fully_due_end(work_facts, member) for member in members):
                pass
    return _find_newest_fully_due_end(work_facts, nodes[name]) if nodes[name].table.choices else ends[name]


def _find_newest_due_window_end(work_facts: _WorkFacts, node: Node) -> datetime:
    """Return the end of the newest due window. For a linked table, its inputs must be settled in their project.

    The delay of the other project is unknown here: the newest window by the clock might always be ahead of it.
    """
    due, link = node.table.cadence.last_due(work_facts.now), work_facts.snapshot.links.get(node.table.name)
    served = None if link is None else newest_served(node.table, link)
    return due if served is None else min(due, served)


def _find_newest_fully_due_end(work_facts: _WorkFacts, node: Node) -> datetime:
    """Return the end of the newest window whose own query has only due inputs, for tables with several (WHEN)."""
    table, cadence, least = node.table, node.table.cadence, work_facts.fully_due_ends[node.table.name]
    end = cadence.last_due(work_facts.now)
    while end > least:
        window = Window(cadence.previous(end), end)
        if _find_newest_due_end(work_facts, node, table.reads_for_window(window), end) >= end:
            return end
        end = window.start
    return least


def _lower_fully_due_end(work_facts: _WorkFacts, node: Node) -> bool:
    """Lower the end of a table in `fully_due_ends` to the bound of its inputs. Return whether it changed.

    If windows choose between queries (WHEN), the reads of all queries count: a reader may need all windows up to one,
    whichever query makes each. Windows that are done count as well, if all before them are done: only some of them may
    have read an input that is not due.
    """
    table = node.table
    before = work_facts.fully_due_ends[table.name]
    end = _find_newest_due_end(work_facts, node, table.reads, before)
    done = list(work_facts.snapshot.of(table.name).covered)
    if done and table.partial_after is not None:
        end = max(end, min(before, done[-1][1]))
    elif done and table.choices and done[0][0] <= work_facts.starts[table.name]:
        end = max(end, min(before, done[0][1]))
    is_lower = end < before
    work_facts.fully_due_ends[table.name] = end
    return is_lower


def _find_newest_due_end(work_facts: _WorkFacts, node: Node, reads: Iterable[Read], end: datetime) -> datetime:
    """Return the end of the newest window, not after `end`, for which the given reads are due."""
    name, cadence = node.table.name, node.table.cadence
    for read in reads:
        if read.kind is not ReadKind.LATEST and read.table != name:
            read_table, due_end = work_facts.graph.nodes[read.table].table, work_facts.fully_due_ends[read.table]
            if read.kind is ReadKind.PREVIOUS:
                # PREVIOUS is empty up to START, so it waits for nothing
                due_end = max(due_end, work_facts.starts[read_table.name])
            newest = cadence.previous(
                read_table.cadence.next(due_end)
            )  # the last end e whose last boundary in u is fully due
            if read.kind is ReadKind.PREVIOUS:
                newest = cadence.next(newest)
            elif node.table.closes is not None and read.kind is ReadKind.UNTIL:
                closed = newest_closed(work_facts.snapshot.of(name), cadence)
                newest = work_facts.starts[name] if closed is None else closed
            elif read.kind is ReadKind.UNTIL and read.span is not None and node.table.open_of is None:
                newest = _find_newest_until_end(node.table, read.span, due_end)
            end = min(end, newest)
    return end


def _find_newest_until_end(table: Table, span: Duration, due_end: datetime) -> datetime:
    """Return the end of the newest window for which UNTIL reads no further than `due_end`."""
    end = table.cadence.ceil(span.subtract_from(due_end, table.cadence.zone))
    # a calendar span added to several last days of a month may give the same instant
    while until_end(table, span, following := table.cadence.next(end)) <= due_end:
        end = following
    while until_end(table, span, end) > due_end:
        end = table.cadence.previous(end)
    return end


def _find_requested_labels(work_facts: _WorkFacts, name: str, facts: TableFacts) -> frozenset[datetime]:
    running = {label for claim in facts.open_claims for label in claim.labels}
    asked = running.union(facts.requested, work_facts.forced.get(name, frozenset()))
    return frozenset(label for label in asked if facts.covered.covers_instant(label))


def _add_requested(needed: IntervalSet, node: Node, labels: frozenset[datetime]) -> IntervalSet:
    if not labels:
        return needed
    cadence = node.table.cadence
    return needed | IntervalSet.from_intervals((label, cadence.next(label)) for label in labels)


def _find_snapshot_work(work_facts: _WorkFacts, node: Node, facts: TableFacts, end: datetime) -> TableWork:
    """Return only the newest due label of a snapshot: its batch covers all labels since the previous snapshot."""
    begin = node.table.cadence.previous(end)
    is_due = begin >= work_facts.starts[node.table.name] and not facts.covered.covers_instant(begin)
    missing = IntervalSet.from_intervals([(begin, end)]) if is_due else _NO_WINDOWS
    return TableWork(missing, tuple(sorted(_find_requested_labels(work_facts, node.table.name, facts))))


def find_snapshot_start(facts: TableFacts) -> datetime:
    """Return the start of the period that the next snapshot stands for: the end of the covered time, or `BEGINNING`."""
    spans = list(facts.covered)
    return spans[0][1] if spans and spans[0][0] == BEGINNING else BEGINNING


def _find_windows_for_readers(work_facts: _WorkFacts, node: Node, found: Mapping[str, TableWork]) -> IntervalSet:
    """Return the windows of a REPLACE table whose state an unfinished or unsettled batch of a reader needs."""
    name = node.table.name
    spans: list[tuple[datetime, datetime]] = []
    for reader, read in node.readers:
        above = work_facts.graph.nodes[reader]
        facts = work_facts.snapshot.of(reader)
        to_do = found[reader].missing | found[reader].awaited
        if read.kind is not ReadKind.LATEST:
            spans += _map_spans_to_input(work_facts, above, read, node, to_do)
        for label, inputs in facts.suspects.items():
            if to_do.covers_instant(label):
                spans += [(fact.low, fact.high) for fact in inputs if fact.table == name]
        # the missing inputs of a batch are made, so that the batch can be made whole
        spans += [(it.low, it.high) for lacks in facts.partial.values() for it in lacks if it.table == name]
        for label, ticks in facts.latest.items():
            if name in ticks and to_do.covers_instant(label):
                spans.append((node.table.cadence.previous(ticks[name]), ticks[name]))
    return IntervalSet.from_intervals(spans)


def _map_spans_to_input(
    work_facts: _WorkFacts, reader: Node, read: Read, node: Node, spans: IntervalSet
) -> Iterator[tuple[datetime, datetime]]:
    """Yield the windows of `node` that a reference reads for the reader's windows in `spans`.

    If the reader's windows are not longer than those of `node`, neighbouring windows read neighbouring windows, so the
    first and the last determine all between. If windows choose queries (WHEN), each is bound, as some may not read the
    table.
    """
    table, cadence = reader.table, reader.table.cadence
    is_finer = _longest_minutes(cadence.period) <= _shortest_minutes(node.table.cadence.period)
    for low, high in spans:
        if is_finer and not table.choices:
            first, last = cadence.window_of(low), Window(cadence.previous(high), high)
            ends = [bind_read(table, read, window, work_facts.flow, work_facts.starts) for window in (first, last)]
            yield ends[0].low, ends[1].high
        else:
            for window in (each for each in cadence.windows(low, high) if read in table.reads_for_window(each)):
                bound = bind_read(table, read, window, work_facts.flow, work_facts.starts)
                yield bound.low, bound.high


def _longest_minutes(period: Period) -> int:
    """Return an upper bound of a window's length in minutes. A day has 25 hours or more if clocks change."""
    return period.minutes if period.unit is TimeUnit.MINUTE else period.minutes + 3 * 1440


def _shortest_minutes(period: Period) -> int:
    """Return a lower bound of a window's length in minutes."""
    return period.minutes if period.unit is TimeUnit.MINUTE else period.minutes * 9 // 10 - 3 * 60
