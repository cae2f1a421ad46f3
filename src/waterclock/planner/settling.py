"""What is settled: covered, and neither stale nor standing on anything stale (ARCHITECTURE 2 and 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from waterclock.flow import Mode
from waterclock.ledger.facts import InputFact, LedgerSnapshot, TableFacts
from waterclock.planner.graph import FlowGraph, Node
from waterclock.timelabel import IntervalSet, Window

_NOTHING = IntervalSet()


@dataclass(frozen=True, slots=True)
class Settlement:
    """Which windows may be read, by table.

    `stale`: done labels whose inputs changed since. `unsettled`: windows that are covered but stale, asked to be
    restated, being restated, or standing on such. `settled`: what is covered without those.
    """

    stale: Mapping[str, frozenset[datetime]] = field(default_factory=dict)
    unsettled: Mapping[str, IntervalSet] = field(default_factory=dict)
    settled: Mapping[str, IntervalSet] = field(default_factory=dict)

    def newest_tick(self, node: Node, start: datetime) -> datetime | None:
        """Give the newest boundary at which the table can be read; None before its first batch."""
        table, spans = node.table, list(self.settled[node.table.name])
        if not spans:
            return None
        if table.is_partitioned or table.mode is Mode.REPLACE:
            return table.cadence.floor(spans[-1][1])
        for low, high in reversed(spans):
            kept = start
            if table.retain is not None and table.mode is Mode.APPEND:
                kept = max(start, table.cadence.ceil(table.retain.before(high, table.cadence.zone)))
            if low <= kept < high:
                return table.cadence.floor(high)
        return None


def settle(graph: FlowGraph, snapshot: LedgerSnapshot, forced: Mapping[str, frozenset[datetime]]) -> Settlement:
    """Compare what done batches read with what is there now, and follow what stands on the changed ones."""
    stale: dict[str, frozenset[datetime]] = {}
    unsettled: dict[str, IntervalSet] = {}
    seen: set[str] = set()
    for name, node in graph.nodes.items():
        if name in seen:
            continue
        members = sorted(node.cycle or {name}, key=lambda other: graph.nodes[other].rank)
        seen.update(members)
        if any(_is_restless(snapshot.of(member)) or forced.get(member) for member in members):
            _settle_together([graph.nodes[member] for member in members], snapshot, forced, stale, unsettled)
    settled = {
        name: snapshot.of(name).covered - unsettled[name] if name in unsettled else snapshot.of(name).covered
        for name in graph.nodes
    }
    return Settlement(stale, unsettled, settled)


def is_dropped(inputs: Iterable[tuple[str, datetime, datetime]], snapshot: LedgerSnapshot) -> str | None:
    """Name the first table of which an interval reaches back into what RETAIN has dropped."""
    for table, low, high in inputs:
        dropped = snapshot.of(table).dropped_before
        if dropped is not None and low < dropped and low < high:
            return table
    return None


def window_at(node: Node, facts: TableFacts, label: datetime) -> tuple[datetime, datetime]:
    """Give what a label covers: its window, and for a snapshot all that it stands for."""
    return facts.stands.get(label, label), node.table.cadence.next(label)


def _is_restless(facts: TableFacts) -> bool:
    return bool(facts.suspects or facts.requested or facts.open_claims)


def _settle_together(
    members: list[Node],
    snapshot: LedgerSnapshot,
    forced: Mapping[str, frozenset[datetime]],
    stale: dict[str, frozenset[datetime]],
    unsettled: dict[str, IntervalSet],
) -> None:
    """Settle tables that read each other (mostly just one), oldest window first, until nothing more is found."""
    bad: dict[str, list[tuple[datetime, datetime]]] = {}
    waiting: list[tuple[datetime, int, Node, datetime, tuple[InputFact, ...]]] = []
    for node in members:
        name, facts = node.table.name, snapshot.of(node.table.name)
        changed, open_suspects = _split(facts, snapshot)
        stale[name] = changed
        running = {label for claim in facts.open_claims for label in claim.labels}
        asked = {*facts.requested, *forced.get(name, ()), *running}
        covered = {label for label in asked if facts.covered.covers_instant(label)}
        bad[name] = [window_at(node, facts, label) for label in changed | covered]
        waiting += [
            (node.table.cadence.next(label), node.rank, node, label, inputs)
            for label, inputs in open_suspects.items()
            if label not in covered
        ]
        unsettled[name] = IntervalSet.from_intervals(bad[name])
    waiting.sort(key=lambda suspect: suspect[:2])
    while waiting:
        left = [suspect for suspect in waiting if not _spread(suspect, snapshot, unsettled)]
        if len(left) == len(waiting):
            break
        waiting = left
    for node in members:
        if not unsettled[node.table.name]:
            del unsettled[node.table.name]


def _spread(
    suspect: tuple[datetime, int, Node, datetime, tuple[InputFact, ...]],
    snapshot: LedgerSnapshot,
    unsettled: dict[str, IntervalSet],
) -> bool:
    """Mark a suspect as unsettled if it stands on something that is."""
    _, _, node, label, inputs = suspect
    if not any(_touches(unsettled.get(fact.table, _NOTHING), fact.low, fact.high) for fact in inputs):
        return False
    name = node.table.name
    unsettled[name] = unsettled[name].add(*window_at(node, snapshot.of(name), label))
    return True


def _split(
    facts: TableFacts, snapshot: LedgerSnapshot
) -> tuple[frozenset[datetime], dict[datetime, tuple[InputFact, ...]]]:
    """Part the suspects into those that are stale and those that may stand on stale ones.

    A batch whose inputs were dropped by RETAIN keeps what it has: it is neither.
    """
    changed: set[datetime] = set()
    others: dict[datetime, tuple[InputFact, ...]] = {}
    for label, inputs in facts.suspects.items():
        if not facts.covered.covers_instant(label) or _is_gone(facts, label):
            continue
        if is_dropped(((fact.table, fact.low, fact.high) for fact in inputs), snapshot):
            continue
        if any(fact.recorded != fact.current for fact in inputs):
            changed.add(label)
        else:
            others[label] = inputs
    return frozenset(changed), others


def _is_gone(facts: TableFacts, label: datetime) -> bool:
    return facts.dropped_before is not None and label < facts.dropped_before


def _touches(spans: IntervalSet, low: datetime, high: datetime) -> bool:
    return bool(spans) and low < high and bool(spans & IntervalSet.from_intervals([(low, high)]))


def first_unsettled(settled: IntervalSet, low: datetime, high: datetime) -> datetime | None:
    """Give the first instant of `[low, high)` that is not settled; None where all of it is."""
    if low >= high:
        return None
    gap = settled.first_gap(low, high)
    return None if gap is None else gap[0]


def window_of(node: Node, instant: datetime) -> Window:
    """Give the table's window that holds an instant."""
    return node.table.cadence.window_of(instant)
