"""Combines done and planned batches into the status of every label in a time span, for display."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import pairwise

from waterclock.batches.audit_records import BatchState, StoredStates
from waterclock.batches.ledger_snapshot import BatchStatus, LedgerSnapshot, Missing, describe_missing_inputs
from waterclock.planner.plan import Batch, Status
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest
from waterclock.selection import Labels
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.label import label_of

_NO_LIMIT = 1 << 30
_STORED = {
    BatchStatus.RUNNING: Status.RUNNING,
    BatchStatus.DONE: Status.DONE,
    BatchStatus.SKIPPED: Status.SKIPPED,
}
_DROPPED = "its rows were dropped since, and no query shows them"
_TROUBLE_STATUSES = frozenset({BatchStatus.FAILED.value, BatchStatus.HELD.value})


@dataclass(frozen=True, slots=True)
class LabelState:
    """The status of one label, with a reason. `stored` is its record in the ledger, if any.

    `is_outdated`: the batch is held, and its inputs have changed since, so that it cannot be released.
    """

    label: datetime
    status: Status
    reason: str = ""
    stored: BatchState | None = None
    is_outdated: bool = False


@dataclass(frozen=True, slots=True)
class IdleCounts:
    """The due labels of a table that need no batch: no reader needs them, or a snapshot stands for them (`stood_for`).

    A planned snapshot counts, too: it will stand for all labels since the previous one.
    """

    not_needed: int = 0
    stood_for: int = 0


@dataclass(frozen=True, slots=True)
class SpanStates:
    """The states of the labels in a time span. `listed` has some one by one, and `counts` the others by status."""

    listed: tuple[LabelState, ...] = ()
    counts: Mapping[Status, int] = field(default_factory=dict)


def label_states(
    planner: Planner,
    snapshot: LedgerSnapshot,
    now: datetime,
    stored: Iterable[BatchState],
    span: tuple[datetime, datetime],
    *,
    only: Collection[str] | None = None,
) -> dict[str, tuple[LabelState, ...]]:
    """Map each table to the states of its labels in the span `[low, high)` that are due at `now`, oldest first.

    `stored` are the labels' states in the ledger (`ledger.past.grid`). A done batch that must be made again is STALE.
    Cost: a plan of the span, and a few microseconds a label.
    """
    low, high = span
    kept: dict[str, dict[datetime, BatchState]] = {}
    for cell in stored:
        kept.setdefault(cell.table, {})[cell.label] = cell
    facts = _collect_state_facts(planner, snapshot, now, span, kept, only)
    starts = planner.starts(snapshot, now)
    found: dict[str, tuple[LabelState, ...]] = {}
    for name, state_facts in facts.items():
        cadence = planner.graph.nodes[name].table.cadence
        begin = max(low, min([starts[name], *kept.get(name, ())]))  # a later START does not hide history
        windows = cadence.windows(begin, min(high, cadence.last_due(now)))
        found[name] = tuple(state_facts.state(window.start) for window in windows)
    return found


def count_states(
    planner: Planner,
    snapshot: LedgerSnapshot,
    now: datetime,
    settled: StoredStates,
    bounds: Mapping[str, Sequence[datetime]],
    *,
    apart: Mapping[str, Collection[datetime]],
) -> dict[str, tuple[SpanStates, ...]]:
    """Count the states of each table's due labels in consecutive time spans, given by their `bounds`.

    `settled` are the ledger's states of all these labels. `apart` are done labels to list one by one, instead of
    counting them. The result is the same as counting `label_states`, but labels that are done, covered or not needed
    add no cost. Cost: a plan of the span, the listed labels, and some microseconds a span.
    """
    span = (min(each[0] for each in bounds.values()), max(each[-1] for each in bounds.values()))
    kept: dict[str, dict[datetime, BatchState]] = {}
    for cell in settled.others:
        kept.setdefault(cell.table, {})[cell.label] = cell
    facts = _collect_state_facts(planner, snapshot, now, span, kept, bounds.keys())
    starts = planner.starts(snapshot, now)
    found = {}
    shared: dict[tuple[Cadence, datetime, tuple[datetime, ...]], _StateSpans] = {}
    for name, of_table in bounds.items():
        cadence, done = planner.graph.nodes[name].table.cadence, settled.done.get(name, ())
        begin = cadence.ceil(min([starts[name], *kept.get(name, ()), *done[:1]]))
        counted = _StateCounter(cadence, facts[name], done, apart.get(name, ()))
        key = (cadence, max(begin, of_table[0]), tuple(of_table))
        if key not in shared:
            shared[key] = _build_spans(cadence, begin, cadence.last_due(now), of_table)
        spans = shared[key]
        found[name] = counted.count_spans(spans)
    return found


@dataclass(frozen=True, slots=True)
class _Span:
    """Consecutive windows: the start of the first, the end of the last, and their count."""

    low: datetime
    high: datetime
    count: int


@dataclass(frozen=True, slots=True)
class _StateSpans:
    """Consecutive time spans of windows. `done` has the result for each span in case all of its labels are done."""

    each: tuple[_Span, ...]
    done: tuple[SpanStates, ...]
    lows: tuple[datetime, ...]
    count: int


def _build_spans(cadence: Cadence, begin: datetime, end: datetime, edges: Iterable[datetime]) -> _StateSpans:
    """Build the spans of windows between neighbouring edges, limited to `[begin, end)`."""
    bounded = ((cadence.ceil(max(low, begin)), cadence.ceil(min(high, end))) for low, high in pairwise(edges))
    each = tuple(_Span(low, high, cadence.count(low, high)) for low, high in bounded)
    done = tuple(SpanStates(counts={Status.DONE: span.count} if span.count else {}) for span in each)
    return _StateSpans(each, done, tuple(span.low for span in each), sum(span.count for span in each))


def _collect_state_facts(
    planner: Planner,
    snapshot: LedgerSnapshot,
    now: datetime,
    span: tuple[datetime, datetime],
    kept: Mapping[str, Mapping[datetime, BatchState]],
    only: Collection[str] | None,
) -> dict[str, _StateFacts]:
    """Collect for each table everything that determines the states of the labels in a time span."""
    planned: dict[str, dict[datetime, Batch]] = {}
    reported: Mapping[str, Collection[datetime]] = {}
    behind: Mapping[str, Collection[datetime]] = {}
    if span[0] < span[1]:
        plan = planner.plan(snapshot, now, PlanRequest(listed=only, labels=Labels.from_range(*span), cap=_NO_LIMIT))
        reported, behind = plan.reported, plan.behind
        for batch in plan.batches:
            planned.setdefault(batch.table, {})[batch.label] = batch
    return {
        name: _StateFacts(
            name,
            snapshot.of(name).covered,
            kept.get(name, {}),
            planned.get(name, {}),
            node.table.is_snapshot,
            frozenset(reported.get(name, ())),
            frozenset(behind.get(name, ())),
            snapshot.of(name).partial,
            snapshot.of(name).dropped_before,
        )
        for name, node in planner.graph.nodes.items()
        if only is None or name in only
    }


def count_idle_labels(
    planner: Planner, snapshot: LedgerSnapshot, now: datetime, planned: Mapping[str, int]
) -> dict[str, IdleCounts]:
    """Count for each table the due labels that are not needed and those that snapshots cover.

    `planned`: by table, the number of its labels in the plan.
    """
    starts = planner.starts(snapshot, now)
    found = {}
    for name, node in planner.graph.nodes.items():
        facts, cadence = snapshot.of(name), node.table.cadence
        begin, end = starts[name], cadence.last_due(now)
        if begin >= end or not (node.is_made_if_needed or node.is_newest_only or node.table.is_snapshot):
            continue
        due = cadence.count(begin, end)
        covered = facts.covered & IntervalSet.from_intervals([(begin, end)])
        done = sum(cadence.count(*part) for part in covered)
        labels_done = sum(facts.codes.values())
        left = max(0, due - done - planned.get(name, 0))
        if node.table.is_snapshot:
            left, stood = 0, left + max(0, done - labels_done)
        else:
            stood = 0
        if left or stood:
            found[name] = IdleCounts(not_needed=left, stood_for=stood)
    return found


@dataclass(frozen=True)
class _StateFacts:
    """Everything that determines the states of one table's labels."""

    table: str
    covered: IntervalSet
    stored: Mapping[datetime, BatchState]
    planned: Mapping[datetime, Batch]
    is_snapshot: bool
    reported: frozenset[datetime]
    behind: frozenset[datetime]
    partial: Mapping[datetime, tuple[Missing, ...]]
    dropped_before: datetime | None = None

    @cached_property
    def labels(self) -> frozenset[datetime]:
        """The labels to evaluate one by one: those that are not just done, covered by a snapshot, or not needed."""
        return frozenset((*self.stored, *self.planned, *self.reported, *self.behind, *self.partial))

    def state(self, label: datetime) -> LabelState:
        cell, batch = self.stored.get(label), self.planned.get(label)
        if batch is not None:
            is_again = batch.is_revision and batch.status in {Status.READY, Status.WAITING, Status.PAUSED}
            status = Status.STALE if is_again else batch.status
            return LabelState(label, status, batch.reason, cell, batch.is_outdated)
        if label in self.reported:
            return LabelState(label, Status.STALE, "its inputs have changed; ON RESTATE REPORT", cell)
        if label in self.behind:
            again = f"waterclock recompute {self.table} {label_of(label)}"
            why = f"its inputs were restated since; `{again}` makes it again"
            return LabelState(label, Status.BEHIND, why, cell)
        if label in self.partial or (cell is not None and cell.status is not None and not self._is_given_up(cell)):
            return self._stored_state(label, cell)
        if self.is_snapshot or self.covered.covers_instant(label):
            return LabelState(label, Status.STOOD_FOR, stored=cell)
        return LabelState(label, Status.NOT_NEEDED, stored=cell)

    def _stored_state(self, label: datetime, cell: BatchState | None) -> LabelState:
        """Return the state of a label that is not planned.

        A failed label is then shown as not needed, as a newer state was made.
        """
        if label in self.partial:
            return LabelState(label, Status.DONE, f"partial, {describe_missing_inputs(self.partial[label])}", cell)
        if cell is None or cell.status is None:
            raise ValueError(f"nothing is stored of {self.table}@{label_of(label)}")
        status = BatchStatus(cell.status)
        if status not in _TROUBLE_STATUSES:
            is_dropped = self.dropped_before is not None and cell.label < self.dropped_before
            why = _DROPPED if is_dropped and status is BatchStatus.DONE else ""
            return LabelState(cell.label, _STORED[status], why, cell)
        if cell.current_claim is None:
            return LabelState(cell.label, Status.NOT_NEEDED, f"{cell.status}, and no longer needed", cell)
        why = "an attempt to make it again failed, and is no longer needed: its rows are valid"
        return LabelState(cell.label, Status.DONE, why, cell)

    def _is_given_up(self, cell: BatchState) -> bool:
        """Return whether a snapshot failed and is not retried, because a later snapshot stands or will stand for it."""
        return self.is_snapshot and cell.status in _TROUBLE_STATUSES and cell.current_claim is None


class _StateCounter:
    """Counts the states of one table's labels between two instants."""

    def __init__(
        self, cadence: Cadence, facts: _StateFacts, done: Sequence[datetime], apart: Collection[datetime]
    ) -> None:
        self._cadence, self._facts, self._done = cadence, facts, done
        self._listed_done = [label for label in sorted({*facts.labels, *apart}) if contains_label(done, label)]
        self._listed = sorted({*facts.labels, *self._listed_done})

    def count_spans(self, spans: _StateSpans) -> tuple[SpanStates, ...]:
        """Return the states of each span. Cost: only that of the listed labels, if all other labels are done."""
        first, last = spans.each[0].low, spans.each[-1].high
        apart = _slice_between(self._listed, first, last)
        others = len(apart) - len(_slice_between(self._listed_done, first, last))
        if len(_slice_between(self._done, first, last)) + others != spans.count:
            return tuple(map(self.count_span, spans.each))
        found = list(spans.done)
        for index in {bisect_right(spans.lows, label) - 1 for label in apart}:
            found[index] = self.count_span(spans.each[index])
        return tuple(found)

    def count_span(self, span: _Span) -> SpanStates:
        low, high = span.low, span.high
        if low >= high:
            return SpanStates()
        done = len(_slice_between(self._done, low, high))
        listed: tuple[LabelState, ...] = ()
        if self._listed:
            listed = tuple(self._state(label) for label in _slice_between(self._listed, low, high))
            done -= len(_slice_between(self._listed_done, low, high))
        rest = span.count - len(listed) - done
        stood = rest if self._facts.is_snapshot else self._count_covered(low, high) if rest else 0
        counts = {Status.DONE: done, Status.STOOD_FOR: stood, Status.NOT_NEEDED: rest - stood}
        return SpanStates(listed, {status: count for status, count in counts.items() if count})

    def _state(self, label: datetime) -> LabelState:
        return self._facts.state(label) if label in self._facts.labels else LabelState(label, Status.DONE)

    def _count_covered(self, low: datetime, high: datetime) -> int:
        """Count the labels that are covered, but neither done nor listed."""
        count = 0
        for begin, end in self._facts.covered & IntervalSet.from_intervals([(low, high)]):
            first, last = self._cadence.ceil(begin), self._cadence.ceil(end)
            known = {*_slice_between(self._listed, first, last), *_slice_between(self._done, first, last)}
            count += self._cadence.count(first, last) - len(known)
        return count


def _slice_between(ordered: Sequence[datetime], low: datetime, high: datetime) -> Sequence[datetime]:
    return ordered[bisect_left(ordered, low) : bisect_left(ordered, high)]


def contains_label(ordered: Sequence[datetime], label: datetime) -> bool:
    """Return whether a label is in a sorted sequence."""
    place = bisect_left(ordered, label)
    return place < len(ordered) and ordered[place] == label
