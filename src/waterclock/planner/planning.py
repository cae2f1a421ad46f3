"""Builds plans: due batches with their status, the groups that may be claimed now, and the next due instant."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import islice

from waterclock.batches.ledger_snapshot import RELEASE, LedgerSnapshot, TableFacts
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Kind
from waterclock.planner.claimable_groups import claimable_groups
from waterclock.planner.closings import ClosingFacts
from waterclock.planner.dependency_graph import FlowGraph, Node, graph_of
from waterclock.planner.due_batches import TableWork, work_by_table
from waterclock.planner.first_windows import starts_of
from waterclock.planner.held_restatement import HeldRestatement
from waterclock.planner.oldest_read import oldest_needed
from waterclock.planner.plan import Batch, Group, Plan, Ripple, Status
from waterclock.planner.plan_facts import Facts
from waterclock.planner.query_ticks import Ticks
from waterclock.planner.readiness import BatchEvaluator
from waterclock.planner.request import ALL, PlanRequest
from waterclock.planner.restate_limits import find_held_restatements
from waterclock.planner.settlement import find_awaited_inputs, find_dependent_windows, find_unsettled
from waterclock.planner.sharing import SharedQueries, queries_of
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.window import Window


class Planner:
    """Plans the batches of one flow. The parts that depend only on the flow are computed once.

    A plan costs some 20 µs for a table with nothing due. Otherwise the cost grows with the number of listed windows,
    never with the number of covered ones.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.graph: FlowGraph = graph_of(flow)

    def starts(self, snapshot: LedgerSnapshot, now: datetime) -> dict[str, datetime]:
        """Map every table to its START."""
        return starts_of(self.flow, self.graph, snapshot, now)

    def plan(self, snapshot: LedgerSnapshot, now: datetime, request: PlanRequest = ALL) -> Plan:
        """Build the plan at `now`. Changes nothing."""
        evaluator = self._build_evaluator(snapshot, now, request)
        starts = evaluator.facts.starts
        batches: list[Batch] = []
        groups: list[Group] = []
        left_out: dict[str, int] = {}
        for node, to_do in self._select_work(evaluator, request):
            cadence, name = node.table.cadence, node.table.name
            windows = _windows_to_list(to_do, cadence, snapshot.of(name), request.cap)
            listed = [evaluator.batch(name, window) for window in windows]
            batches += listed
            groups += claimable_groups(evaluator, node, to_do, request)
            if left := to_do.count(cadence) - len(listed):
                left_out[name] = left
        return Plan(
            now=now,
            batches=tuple(batches),
            groups=self._sort_groups(groups, request),
            left_out=left_out,
            next_due=self._next_due(starts, now),
            older_code=self._count_older_code(snapshot),
            reported={
                name: tuple(sorted(found))
                for name, found in evaluator.facts.settlement.reported.items()
                if name in evaluator.facts.selected
            },
            following=self._count_following(evaluator),
            behind={
                name: labels
                for name, labels in self._find_behind_labels(evaluator.facts.to_do).items()
                if name in evaluator.facts.selected
            },
            queries=self._count_queries(batches, left_out, request.group_cap),
            paused={
                name: pause
                for name in self.graph.nodes
                if name in evaluator.facts.selected and (pause := snapshot.of(name).paused)
            },
            paused_all=snapshot.paused,
            partial={
                name: lacks
                for name, node in self.graph.nodes.items()
                if name in evaluator.facts.selected
                and (lacks := find_awaited_inputs(node, self.graph, snapshot, starts))
            },
            refused={
                name: error
                for name in self.graph.nodes
                if name in evaluator.facts.selected and (error := snapshot.of(name).refused)
            },
            held_restatements={
                name: held for name, held in evaluator.facts.held.items() if name in evaluator.facts.selected
            },
        )

    def ready(self, snapshot: LedgerSnapshot, now: datetime, request: PlanRequest = ALL) -> tuple[Group, ...]:
        """Return the groups of `plan` that may be claimed now, at a fraction of its cost if many batches wait."""
        evaluator = replace(self._build_evaluator(snapshot, now, request), is_brief=True)
        groups: list[Group] = []
        for node, to_do in self._select_work(evaluator, request):
            groups += claimable_groups(evaluator, node, to_do, request)
        return self._sort_groups(groups, request)

    def ticks(self, snapshot: LedgerSnapshot, now: datetime) -> Ticks:
        """Build a `Ticks`, which finds ticks at which tables can be queried together. Due batches are not evaluated."""
        starts = self.starts(snapshot, now)
        return Ticks(self.graph, snapshot, find_unsettled(self.graph, snapshot, ALL.force, starts), starts, now)

    def find_labels_to_follow(self, snapshot: LedgerSnapshot, now: datetime) -> dict[str, frozenset[datetime]]:
        """Map each table to its labels with a `follow` request whose inputs are all settled."""
        requested = {name: facts.following for name, facts in snapshot.tables.items() if facts.following}
        if not requested:
            return {}
        unsettled = find_unsettled(self.graph, snapshot, ALL.force, self.starts(snapshot, now)).unsettled
        return {
            name: frozenset(label for label in labels if not _covers_label(unsettled.get(name), label))
            for name, labels in requested.items()
        }

    def find_needed_states(self, snapshot: LedgerSnapshot, now: datetime) -> dict[str, IntervalSet]:
        """Map each REPLACE table to the windows that are made, or may be made again: other states are not needed."""
        to_do = self._build_evaluator(snapshot, now, ALL).facts.to_do
        return {
            name: to_do[name].missing | to_do[name].awaited
            for name, node in self.graph.nodes.items()
            if node.is_made_if_needed
        }

    def find_held_restatements(self, snapshot: LedgerSnapshot, now: datetime) -> Mapping[str, HeldRestatement]:
        """Map each table to its labels that are not made again because they exceed its limit (ON RESTATE)."""
        return self._build_evaluator(snapshot, now, ALL).facts.held

    def find_unreleasable(self, snapshot: LedgerSnapshot, now: datetime) -> dict[str, tuple[datetime, ...]]:
        """Map each table to its labels with a release request that no runner can ever fulfil.

        A later snapshot stands for them, START or RETAIN excludes them, or RETAIN has dropped their inputs.
        """
        verbs = ((name, label, verb) for name, it in snapshot.tables.items() for label, verb in it.requested.items())
        asked = [(name, label) for name, label, verb in verbs if verb == RELEASE and name in self.graph.nodes]
        if not asked:
            return {}
        evaluator, found = self._build_evaluator(snapshot, now, ALL), defaultdict[str, list[datetime]](list)
        for name, label in sorted(asked):
            cadence, to_do = self.graph.nodes[name].table.cadence, evaluator.facts.to_do[name]
            is_to_do = to_do.missing.covers_instant(label) or label in to_do.revisions
            window = cadence.window_of(label)
            if window.end <= cadence.last_due(now) and not (
                is_to_do and evaluator.batch(name, window).status is not Status.EXPIRED
            ):
                found[name].append(label)
        return {name: tuple(labels) for name, labels in found.items()}

    def books(self, snapshot: LedgerSnapshot, now: datetime, request: PlanRequest = ALL) -> tuple[ClosingFacts, ...]:
        """Return the facts about closing for each table with CLOSE WHEN that may run."""
        if not any(node.table.closes for node in self.graph.nodes.values()):
            return ()
        evaluator = self._build_evaluator(snapshot, now, request)
        selected = (node.table for node, _ in self._select_work(evaluator, request))
        names = dict.fromkeys(table.open_of or _late_rows_source(table) or table.name for table in selected)
        nodes = (self.graph.nodes[name] for name in names if snapshot.pause_of(name) is None)
        books = (evaluator.facts.books(node) for node in nodes if node.table.closes is not None)
        return tuple(each for each in books if not _is_refused(each, snapshot))

    def books_of(self, snapshot: LedgerSnapshot, now: datetime, name: str) -> ClosingFacts:
        """Return the facts about closing for one table."""
        return self._build_evaluator(snapshot, now, ALL).facts.books(self.graph.nodes[name])

    def oldest_needed(self, snapshot: LedgerSnapshot, now: datetime) -> dict[str, datetime]:
        """Map each table to the start of the oldest window still to be read (see `oldest_read.oldest_needed`)."""
        facts = self._build_evaluator(snapshot, now, ALL).facts
        return oldest_needed(self.flow, self.graph, facts.to_do, facts.starts, now)

    def find_dropped_inputs(
        self, snapshot: LedgerSnapshot, now: datetime, windows: Mapping[str, Iterable[Window]], request: PlanRequest
    ) -> dict[str, dict[datetime, str]]:
        """Map tables and labels to the reason why they can never be made: RETAIN has dropped their inputs.

        Labels that wait for earlier ones of their table are included, too.
        """
        evaluator = self._build_evaluator(snapshot, now, request)
        reasons = {
            name: {each.start: evaluator.find_dropped_input(name, each) for each in of} for name, of in windows.items()
        }
        return {name: found for name, of in reasons.items() if (found := {at: why for at, why in of.items() if why})}

    def find_dependent_labels(
        self, snapshot: LedgerSnapshot, now: datetime, asking: Mapping[str, Collection[datetime]]
    ) -> dict[str, frozenset[datetime]]:
        """Map REPLACE transforms to done labels made from requested ones that are not made again without a request.

        In `snapshot` the requested labels must count as requested (`ledger.reads.snapshot`, `asking`).
        """
        spans = find_dependent_windows(self.graph, snapshot, asking)
        found_labels = {}
        for name, labels in self._find_behind_labels(self._build_evaluator(snapshot, now, ALL).facts.to_do).items():
            if found := frozenset(label for label in labels if _covers_label(spans.get(name), label)):
                found_labels[name] = found
        return found_labels

    def ripple(self, snapshot: LedgerSnapshot, now: datetime, asking: Mapping[str, Collection[datetime]]) -> Ripple:
        """Return the requested batches, and the done batches that may have to be made again because of them.

        Batches that wait only for other revisions are left out. In `snapshot` the requested labels must count as
        requested (`ledger.reads.snapshot`, `asking`).
        """
        evaluator, dependent = (
            self._build_evaluator(snapshot, now, ALL),
            find_dependent_windows(self.graph, snapshot, asking),
        )
        requested: dict[str, tuple[Window, ...]] = {}
        following: dict[str, tuple[Window, ...]] = {}
        for name, node in self.graph.nodes.items():
            cadence, wanted = node.table.cadence, frozenset(asking.get(name, ()))
            awaited = evaluator.facts.to_do[name].awaited
            waiting = (window for low, high in awaited for window in cadence.windows(low, high))
            here = (window for window in waiting if _covers_label(dependent.get(name), window.start))
            if rest := tuple(window for window in here if window.start not in wanted):
                following[name] = rest
            if wanted:
                requested[name] = tuple(Window(label, cadence.next(label)) for label in sorted(wanted))
        return Ripple(requested, following)

    def _build_evaluator(self, snapshot: LedgerSnapshot, now: datetime, request: PlanRequest) -> BatchEvaluator:
        starts, force, only, clock = (
            self.starts(snapshot, now),
            _collect_forced_labels(snapshot, request),
            request.only,
            request.clock,
        )
        settlement = find_unsettled(self.graph, snapshot, force, starts)
        to_do = work_by_table(self.flow, self.graph, snapshot, now, starts, settlement, force)
        selected = frozenset(self.graph.nodes if only is None else only)
        held = find_held_restatements(self.graph, snapshot, to_do, settlement, request.force, selected, request.at_most)
        facts = Facts(
            self.flow,
            self.graph,
            snapshot,
            now,
            clock or now,
            starts,
            settlement,
            to_do,
            selected,
            request.absent,
            held,
        )
        return BatchEvaluator(facts)

    def _select_work(self, evaluator: BatchEvaluator, request: PlanRequest) -> Iterator[tuple[Node, TableWork]]:
        """Yield the selected tables with batches to make, upstream first, limited to the labels that may run."""
        for name, node in self.graph.nodes.items():
            to_do = evaluator.facts.to_do[name]
            is_listed = name in evaluator.facts.selected and (request.listed is None or name in request.listed)
            if is_listed and (to_do.missing or to_do.revisions):
                chosen = request.labels_of(name)
                yield node, to_do if chosen is None else to_do.limit_to_labels(*chosen.bounds(node.table.cadence))

    def _sort_groups(self, groups: list[Group], request: PlanRequest) -> tuple[Group, ...]:
        """Sort groups: fresh ones first, then oldest first or, if requested, newest first; upstream before downstream.

        A runner claims them in this order, but its tables take turns (`WorkOrder`).
        """
        nodes = self.graph.nodes
        groups = sorted(groups, key=lambda group: nodes[group.table].rank)
        if request.newest_first:
            groups.sort(key=lambda group: group.batches[-1].window.end, reverse=True)
        else:
            groups.sort(key=lambda group: group.batches[0].window.end)
        return tuple(sorted(groups, key=lambda group: not group.is_fresh))

    def _next_due(self, starts: Mapping[str, datetime], now: datetime) -> datetime | None:
        """Return the first instant after `now` at which a window of any table becomes due."""
        instants = []
        for name, node in self.graph.nodes.items():
            cadence = node.table.cadence
            begin = max(cadence.last_due(now), starts[name])
            instants.append(cadence.next(begin) + cadence.delay)
            if node.table.partial_after is not None:
                instants.append(self._next_partial_time(node.table, node.table.partial_after, now))
        return min(instants, default=None)

    def _next_partial_time(self, table: Table, after: Duration, now: datetime) -> datetime:
        """Return the first instant after `now` at which the PARTIAL AFTER time of a window has passed."""
        cadence = table.cadence
        end = cadence.floor(after.subtract_from(now, cadence.zone))
        while after.add_to(end, cadence.zone) <= now:
            end = cadence.next(end)
        return after.add_to(end, cadence.zone)

    def _find_behind_labels(self, to_do_of: Mapping[str, TableWork]) -> dict[str, tuple[datetime, ...]]:
        """Map each table to the labels of its windows that are behind, oldest first."""
        found = {}
        for name, to_do in to_do_of.items():
            if to_do.behind:
                cadence = self.graph.nodes[name].table.cadence
                windows = (window for low, high in to_do.behind for window in cadence.windows(low, high))
                found[name] = tuple(window.start for window in windows)
        return found

    def _count_following(self, evaluator: BatchEvaluator) -> dict[str, int]:
        """Count for each table the done windows that were made from batches which are made again.

        Windows that are to be made again themselves (`revisions`) are not counted.
        """
        found = {}
        for name, node in self.graph.nodes.items():
            to_do, cadence = evaluator.facts.to_do[name], node.table.cadence
            awaited = sum(cadence.count(low, high) for low, high in to_do.awaited)
            if waiting := awaited - sum(to_do.awaited.covers_instant(label) for label in to_do.revisions):
                found[name] = waiting
        return found

    def _count_queries(
        self, batches: Iterable[Batch], left_out: Mapping[str, int], group_cap: int
    ) -> dict[str, SharedQueries]:
        """Map each table to the number of queries that make its ready and waiting batches. Publishes are left out."""
        counts = Counter(batch.table for batch in batches if batch.status in {Status.READY, Status.WAITING})
        counts.update({name: count for name, count in left_out.items() if counts[name]})
        found: dict[str, SharedQueries] = {}
        for name, node in self.graph.nodes.items():
            if counts[name] and node.table.kind is not Kind.PUBLISH:
                parents = {read.table for read in node.table.reads if read.table != name}
                of_parents = sum(found[parent].most for parent in parents if parent in found)
                queries = queries_of(node, counts[name], group_cap, of_parents)
                # labels with different WHEN queries do not share a Spark query
                more = max(len(node.table.choices) - 1, 0)
                found[name] = replace(queries, most=max(queries.most, min(queries.most + more, counts[name])))
        return found

    def _count_older_code(self, snapshot: LedgerSnapshot) -> dict[str, int]:
        """Count for each table the done labels that ran under another fingerprint than the current one."""
        found = {}
        for name, node in self.graph.nodes.items():
            codes = snapshot.of(name).codes
            if older := sum(count for code, count in codes.items() if code != node.table.fingerprint):
                found[name] = older
        return found


def plan(flow: Flow, snapshot: LedgerSnapshot, now: datetime, request: PlanRequest = ALL) -> Plan:
    """Build the plan at `now`, as `Planner.plan` does. Keep a `Planner` to plan more than once."""
    return Planner(flow).plan(snapshot, now, request)


def _is_refused(books: ClosingFacts, snapshot: LedgerSnapshot) -> bool:
    """Return whether closing cannot be checked: the declaration of the table, or of one that it reads, is refused."""
    names = {books.table.name, *(read.table for read in books.open_ended_reads)}
    return any(snapshot.of(name).refused for name in names)


def _late_rows_source(table: Table) -> str | None:
    """Return the table whose late rows a table keeps, or None: its closing ticks determine which rows are late."""
    return None if table.late_rows is None else table.late_rows.of


def _collect_forced_labels(snapshot: LedgerSnapshot, request: PlanRequest) -> Mapping[str, frozenset[datetime]]:
    """Return the labels to make even if no batch needs them: those of the plan request, and those of users."""
    wanted = {
        name: frozenset(label for label in facts.wanted if not facts.covered.covers_instant(label))
        for name, facts in snapshot.tables.items()
        if facts.wanted
    }
    names = {*request.force, *wanted}
    return {name: request.force.get(name, frozenset()) | wanted.get(name, frozenset()) for name in names}


def _covers_label(spans: IntervalSet | None, label: datetime) -> bool:
    return spans is not None and spans.covers_instant(label)


def _windows_to_list(to_do: TableWork, cadence: Cadence, past: TableFacts, cap: int) -> list[Window]:
    """Return the oldest windows to make, and after them failed and held ones: each up to `cap`, oldest first."""
    oldest = list(islice(to_do.windows(cadence), cap))
    if not oldest or len(oldest) < cap:
        return oldest
    later = to_do.limit_to_labels(oldest[-1].end, None)
    again = frozenset(later.revisions)
    stopped = sorted(label for label in past.troubles if label in again or later.missing.covers_instant(label))
    return [*oldest, *map(cadence.window_of, stopped[:cap])]
