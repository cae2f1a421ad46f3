"""Determines which windows are settled: not stale, and not made from stale ones (docs/explain/consistency.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from waterclock.batches.ledger_snapshot import BEGINNING, InputFact, LedgerSnapshot, Missing, TableFacts
from waterclock.flow.enums import Mode, OnRestate
from waterclock.planner.dependency_graph import FlowGraph, Node
from waterclock.timelabel.intervals import IntervalSet


@dataclass(frozen=True, slots=True)
class Settlement:
    """The settled windows of each table, and the reasons why others are not settled.

    `stale`: done labels whose inputs changed since, to be made again. `reported`: such labels of tables with ON RESTATE
    REPORT, which only report it; they count as settled. `unsettled`: covered windows that are stale, requested, being
    made again, or made from such windows. `settled`: the other covered windows.
    """

    stale: Mapping[str, frozenset[datetime]] = field(default_factory=dict)
    unsettled: Mapping[str, IntervalSet] = field(default_factory=dict)
    settled: Mapping[str, IntervalSet] = field(default_factory=dict)
    reported: Mapping[str, frozenset[datetime]] = field(default_factory=dict)

    def newest_tick(self, node: Node, start: datetime) -> datetime | None:
        """Return the newest boundary at which all of the table's content is settled, or None."""
        table, spans = node.table, list(self.settled[node.table.name])
        if not spans:
            return None
        if table.is_partitioned or table.mode is Mode.REPLACE:
            return table.cadence.floor(spans[-1][1])
        for low, high in reversed(spans):
            kept = start
            if table.retain is not None and table.mode is Mode.APPEND:
                kept = max(start, table.cadence.ceil(table.retain.subtract_from(high, table.cadence.zone)))
            if low <= kept < high:
                return table.cadence.floor(high)
        return None


def find_unsettled(
    graph: FlowGraph,
    snapshot: LedgerSnapshot,
    forced: Mapping[str, frozenset[datetime]],
    starts: Mapping[str, datetime],
) -> Settlement:
    """Compare the recorded inputs of done batches with the current content, and find the windows that are not settled.

    `forced` are labels to make again as if requested. Labels that are never made again, such as those before the START
    of their table (`starts`), count as settled.
    """
    stale: dict[str, frozenset[datetime]] = {}
    unsettled: dict[str, IntervalSet] = {}
    reported: dict[str, frozenset[datetime]] = {}
    is_any_dropped = any(facts.dropped_before for facts in snapshot.tables.values())
    visited: set[str] = set()
    for name, node in graph.nodes.items():
        if name in visited:
            continue
        members = sorted(node.cycle or {name}, key=lambda other: graph.nodes[other].rank)
        visited.update(members)
        if not any(_may_be_unsettled(snapshot.of(member)) or forced.get(member) for member in members):
            continue
        suspects: list[_Suspect] = []
        for member in (graph.nodes[member] for member in members):
            facts = snapshot.of(member.table.name)
            requested = forced.get(member.table.name, frozenset()).union(facts.requested)
            awaited = find_awaited_inputs(member, graph, snapshot, starts)
            whole = _find_completable_labels(awaited, snapshot, unsettled)
            kept = {
                label for label in facts.partial if label in awaited or _has_lost_inputs(facts, label, snapshot)
            } - whole
            first, dropping = find_first_label(member, facts, starts), snapshot if is_any_dropped else None
            found = _find_own_state(member, facts, requested, first, dropping, _PartialLabels(whole, frozenset(kept)))
            stale[member.table.name], unsettled[member.table.name] = found.stale, found.unsettled
            reported |= {member.table.name: found.reported} if found.reported else {}
            suspects += found.standing
        _propagate_unsettled(suspects, unsettled, is_chain=bool(node.cycle) or node.table.reads_itself)
    unsettled = {name: spans for name, spans in unsettled.items() if spans}
    settled = {
        name: snapshot.of(name).covered - unsettled[name] if name in unsettled else snapshot.of(name).covered
        for name in graph.nodes
    }
    return Settlement(stale, unsettled, settled, reported)


def find_dependent_windows(
    graph: FlowGraph, snapshot: LedgerSnapshot, requested: Mapping[str, Collection[datetime]]
) -> dict[str, IntervalSet]:
    """Map each table to its requested windows and to the done windows made from them, directly or through others."""
    unsettled: dict[str, IntervalSet] = {}
    visited: set[str] = set()
    for name, node in graph.nodes.items():
        if name in visited:
            continue
        members = [graph.nodes[member] for member in sorted(node.cycle or {name}, key=lambda it: graph.nodes[it].rank)]
        visited.update(member.table.name for member in members)
        standing: list[_Suspect] = []
        for member in members:
            of, cadence = member.table.name, member.table.cadence
            facts, labels = snapshot.of(of), frozenset(requested.get(of, ()))
            spans = ((facts.period_starts.get(label, label), cadence.next(label)) for label in labels)
            unsettled[of] = IntervalSet.from_intervals(spans)
            standing += [
                _Suspect(of, member.rank, facts.period_starts.get(label, label), cadence.next(label), inputs)
                for label, inputs in facts.suspects.items()
                if label not in labels
            ]
        _propagate_unsettled(standing, unsettled, is_chain=bool(node.cycle) or node.table.reads_itself)
    return {name: spans for name, spans in unsettled.items() if spans}


def is_dropped(inputs: Iterable[tuple[str, datetime, datetime]], snapshot: LedgerSnapshot) -> str | None:
    """Return the first table of which an interval includes data that RETAIN has dropped, or None."""
    for table, low, high in inputs:
        dropped = snapshot.of(table).dropped_before
        if dropped is not None and low < dropped and low < high:
            return table
    return None


def find_first_label(node: Node, facts: TableFacts, starts: Mapping[str, datetime]) -> datetime:
    """Return the first label that a table makes: its START, or the first that RETAIN has not dropped.

    For snapshots START does not count, since a label before START may cover later ones.
    """
    start = BEGINNING if node.table.is_snapshot else starts.get(node.table.name, BEGINNING)
    return start if facts.dropped_before is None else max(start, facts.dropped_before)


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A done batch that is not stale itself, but may have been made from a batch that is not settled."""

    table: str
    rank: int
    low: datetime
    high: datetime
    inputs: tuple[InputFact, ...]


def _may_be_unsettled(facts: TableFacts) -> bool:
    return bool(facts.suspects or facts.requested or facts.open_claims or facts.partial)


def find_awaited_inputs(
    node: Node, graph: FlowGraph, snapshot: LedgerSnapshot, starts: Mapping[str, datetime]
) -> dict[datetime, tuple[Missing, ...]]:
    """Map partial batches of a table to the missing inputs for which they wait, to be made whole.

    Batches do not wait for tables that their table no longer reads. They do not wait for windows before the START of an
    input (`starts`), which are never made, unless that is a snapshot. They never become whole if RETAIN has dropped
    some of their inputs.
    """
    facts = snapshot.of(node.table.name)
    awaited = {label: select_awaited(missing, node, graph, starts) for label, missing in facts.partial.items()}
    return {
        label: inputs for label, inputs in awaited.items() if inputs and not _has_lost_inputs(facts, label, snapshot)
    }


def select_awaited(
    missing: Collection[Missing], node: Node, graph: FlowGraph, starts: Mapping[str, datetime]
) -> tuple[Missing, ...]:
    """Return the missing inputs of a batch, among `missing`, that its table still reads and that will be made."""
    read = {read.table for read in node.table.reads}
    begins = {
        name: BEGINNING if graph.nodes[name].table.is_snapshot else starts.get(name, BEGINNING)
        for name in read.intersection(it.table for it in missing)
    }
    return tuple(
        replace(it, low=max(it.low, begins[it.table]))
        for it in missing
        if it.table in begins and it.high > begins[it.table]
    )


def _has_lost_inputs(facts: TableFacts, label: datetime, snapshot: LedgerSnapshot) -> bool:
    """Return whether RETAIN has dropped a partial batch, an input that it read, or one of its missing inputs."""
    missing = ((it.table, it.low, it.high) for it in facts.partial[label])
    return (
        _has_dropped_data(facts, facts.suspects.get(label, ()), label, snapshot)
        or is_dropped(missing, snapshot) is not None
    )


def _find_completable_labels(
    partial: Mapping[datetime, tuple[Missing, ...]], snapshot: LedgerSnapshot, unsettled: Mapping[str, IntervalSet]
) -> frozenset[datetime]:
    """Return the partial batches whose missing inputs are all settled now: they can be made again with all inputs."""

    def is_there(missing: Missing) -> bool:
        settled = snapshot.of(missing.table).covered - unsettled.get(missing.table, IntervalSet())
        return settled.covers(missing.low, missing.high)

    return frozenset(label for label, missing in partial.items() if all(map(is_there, missing)))


@dataclass(frozen=True, slots=True)
class _PartialLabels:
    """The partial batches of a table: those that can now be made `whole`, and `kept`, which stay partial."""

    whole: frozenset[datetime]
    kept: frozenset[datetime]


@dataclass(frozen=True, slots=True)
class _OwnState:
    """The windows of one table that are unsettled by themselves, whatever the state of its inputs is.

    `standing` are the batches that are settled if their inputs are.
    """

    stale: frozenset[datetime]
    unsettled: IntervalSet
    standing: list[_Suspect]
    reported: frozenset[datetime]


def _find_own_state(
    node: Node,
    facts: TableFacts,
    requested: frozenset[datetime],
    first: datetime,
    dropping: LedgerSnapshot | None,
    partial: _PartialLabels,
) -> _OwnState:
    """Find the windows of a table that are unsettled by themselves, and the batches that depend on their inputs.

    A batch belongs to neither group if it is before the `first` label, or if RETAIN has dropped its inputs. The same
    holds for a partial batch until it can be made whole. `dropping`: None if RETAIN has dropped nothing.
    """
    name, cadence = node.table.name, node.table.cadence
    reports = node.table.on_restate is OnRestate.REPORT
    running = {label for claim in facts.open_claims for label in claim.labels}
    again = {label for label in requested if label >= first}
    restated = {label for label in again | running if facts.covered.covers_instant(label)}
    changed = {label for label in partial.whole if label >= first and facts.covered.covers_instant(label)}
    standing: list[_Suspect] = []
    for label, inputs in facts.suspects.items():
        if label < first or label in partial.kept or not facts.covered.covers_instant(label):
            continue
        if dropping and _has_dropped_data(facts, inputs, label, dropping):
            continue
        if any(fact.recorded != fact.current for fact in inputs):
            changed.add(label)
        elif label not in restated and not reports:
            low = facts.period_starts.get(label, label)
            standing.append(_Suspect(name, node.rank, low, cadence.next(label), inputs))
    stale = frozenset() if reports else frozenset(changed)
    spans = ((facts.period_starts.get(label, label), cadence.next(label)) for label in stale | restated)
    reported = frozenset(changed - restated) if reports else frozenset()
    return _OwnState(stale, IntervalSet.from_intervals(spans), standing, reported)


def _propagate_unsettled(suspects: list[_Suspect], unsettled: dict[str, IntervalSet], *, is_chain: bool) -> None:
    """Add to `unsettled` the windows of batches with unsettled inputs. In cycles, repeat until nothing changes."""
    if not is_chain:
        affected = [suspect for suspect in suspects if _has_unsettled_input(suspect, unsettled)]
        if affected:
            spans = IntervalSet.from_intervals((suspect.low, suspect.high) for suspect in affected)
            unsettled[affected[0].table] |= spans
        return
    waiting = sorted(suspects, key=lambda suspect: (suspect.high, suspect.rank))
    has_changed = True
    while has_changed:
        remaining = []
        for suspect in waiting:
            if _has_unsettled_input(suspect, unsettled):
                unsettled[suspect.table] = unsettled[suspect.table].add(suspect.low, suspect.high)
            else:
                remaining.append(suspect)
        has_changed = len(remaining) < len(waiting)
        waiting = remaining


def _has_unsettled_input(suspect: _Suspect, unsettled: Mapping[str, IntervalSet]) -> bool:
    return any(
        fact.low < fact.high and unsettled[fact.table].first_gap(fact.low, fact.high) != (fact.low, fact.high)
        for fact in suspect.inputs
        if unsettled.get(fact.table)
    )


def _has_dropped_data(
    facts: TableFacts, inputs: tuple[InputFact, ...], label: datetime, snapshot: LedgerSnapshot
) -> bool:
    if facts.dropped_before is not None and label < facts.dropped_before:
        return True
    return is_dropped(((fact.table, fact.low, fact.high) for fact in inputs), snapshot) is not None
