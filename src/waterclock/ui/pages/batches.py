"""The page of some labels of some tables: counts by state, labels that need attention, and possible actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from waterclock.batches.audit_records import StoredStates
from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER, BatchStatus
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.operations.display_states import LOUDNESS, QUIET, State, state_of
from waterclock.operations.formatting import count_words, local_label, number_words
from waterclock.operations.project_opening import OpenedProject
from waterclock.operations.proposals import Verb
from waterclock.operations.restating import require_at_most
from waterclock.operations.withdrawing import find_withdrawable_labels
from waterclock.planner.label_states import LabelState, SpanStates, contains_label, count_states, label_states
from waterclock.planner.plan import Status
from waterclock.selection import Labels
from waterclock.timelabel.label import label_of
from waterclock.ui.page_query import Content, PageQuery, batch_address

_MOST_LISTED = 60
_MOST_COUNTED = 1_000_000  # labels: some 0.7 s
States = Mapping[str, Sequence[LabelState]]


def batches(at: OpenedProject, parameters: PageQuery) -> Content:
    """Return the states of the selected labels. Raises E510 to E514 without valid labels, E525 for too many."""
    if not parameters.labels:
        raise WaterclockError("E512", "no label is given", fix="add &l=2013-01-05, or a range: 2013-01-01..2013-01-05")
    tables, labels = parameters.tables(at)
    return describe_batches(
        at, tables, {table.name: labels.get(table.name, Labels()) for table in tables}, parameters.labels
    )


def describe_batches(at: OpenedProject, tables: Sequence[Table], labels: Mapping[str, Labels], words: str) -> Content:
    """Return the counts of due labels by state, and the labels that need attention (not QUIET), newest first.

    If no label needs attention and there are only a few, all are listed.

    Raises E525 for more than a million labels.
    Cost: two queries of the ledger, a plan, and a microsecond per done label.
    """
    block = _read_selected_labels(at, tables, labels)
    counts: Counter[State] = Counter()
    for one in block.values():
        counts += one.state_counts
    shown = [
        (name, one) for name, each in block.items() for one in each.listed_labels if each.look_of(one) not in QUIET
    ]
    if not shown and counts.total() <= _MOST_LISTED:
        shown = [(name, one) for name, of_table in states_of(at, tables, labels).items() for one in of_table]
    shown = sorted(shown, key=lambda each: each[1].label, reverse=True)[:_MOST_LISTED]
    names = list(block)
    return {
        "kind": "several",
        "table": names[0] if len(names) == 1 else None,
        "title": names[0] if len(names) == 1 else count_words(len(names), "table"),
        "words": words.replace("..", " to ") or "all labels",
        "labels": words,
        "of": counts.total(),
        "counts": {str(state): counts[state] for state in sorted(counts, key=LOUDNESS.__getitem__)},
        "shown": [
            _describe_label(at, name, one, block[name].look_of(one), is_alone=len(names) == 1) for name, one in shown
        ],
        "actions": _actions(block, words),
    }


@dataclass(frozen=True, slots=True)
class _TableLabels:
    """The selected due labels of one table. Labels with details are listed one by one, the others only counted.

    `older` has the labels before START, which are not made any more, and `states` all others. `made` has the listed
    labels of `states` that have rows, and `done` is the number of all labels of `states` that have rows. `asked_for` is
    the number of requested labels that no runner has started. `warned` has the labels whose rows have warnings.
    """

    older: SpanStates
    states: SpanStates
    made: Container[datetime]
    done: int
    asked_for: int
    warned: Container[datetime] = frozenset()

    @property
    def listed_labels(self) -> Sequence[LabelState]:
        """The labels that are listed one by one: those before START, then the others."""
        return (*self.older.listed, *self.states.listed)

    @property
    def state_counts(self) -> Counter[State]:
        """The number of selected labels in each displayed state."""
        counted = Counter(self.look_of(one) for one in self.listed_labels)
        for status, count in (*self.older.counts.items(), *self.states.counts.items()):
            counted[state_of(status)] += count
        return counted

    def look_of(self, one: LabelState) -> State:
        """Return the displayed state of a label. A done label may have warnings."""
        state = state_of(one.status)
        return State.WARNED if state is State.OK and one.label in self.warned else state


def _read_selected_labels(
    at: OpenedProject, tables: Iterable[Table], labels: Mapping[str, Labels]
) -> Mapping[str, _TableLabels]:
    edges = {table.name: _selected_bounds(at, table, labels[table.name]) for table in tables}
    if not edges:
        return {}
    starts = at.planner.starts(at.snapshot, at.now)
    due = ((at.flow.tables[name].cadence, max(low, starts[name]), high) for name, (low, high) in edges.items())
    require_at_most(_MOST_COUNTED, sum(cadence.count(low, max(low, high)) for cadence, low, high in due))
    names, low, high = list(edges), min(low for low, _ in edges.values()), max(high for _, high in edges.values())
    settled = StoredStates() if at.ledger is None else at.ledger.past.settled_labels(names, low, high)
    warned: dict[str, set[datetime]] = {name: set() for name in names}
    for name, label in {} if at.ledger is None else at.ledger.past.row_warnings(names, low, high):
        warned[name].add(label)
    bounds = {name: (begin, min(max(begin, starts[name]), end), end) for name, (begin, end) in edges.items()}
    found = count_states(at.planner, at.snapshot, at.now, settled, bounds, apart=warned)
    waiting = {name: find_withdrawable_labels(at.snapshot.of(name)) for name in edges}
    requested = {
        name: sum(1 for label in waiting[name] if begin <= label < end) for name, (begin, end) in edges.items()
    }
    return {
        name: replace(_table_batches(settled, name, older, states, requested[name]), warned=warned[name])
        for name, (older, states) in found.items()
    }


def _table_batches(
    settled: StoredStates, name: str, older: SpanStates, states: SpanStates, requested: int
) -> _TableLabels:
    done = settled.done.get(name, ())
    has_rows = {cell.label for cell in settled.others if cell.table == name and cell.current_claim is not None}
    made = frozenset(one.label for one in states.listed if one.label in has_rows or contains_label(done, one.label))
    return _TableLabels(older, states, made, states.counts.get(Status.DONE, 0) + len(made), requested)


def _selected_bounds(at: OpenedProject, table: Table, selected: Labels) -> tuple[datetime, datetime]:
    """Return the bounds of the selected due labels."""
    low, high = selected.bounds(table.cadence)
    begin, end = low or BEGINNING, min(high or FOREVER, table.cadence.last_due(at.now))
    return begin, max(begin, end)


def states_of(at: OpenedProject, tables: Iterable[Table], labels: Mapping[str, Labels]) -> States:
    """Map each table to the states of its selected due labels. Cost: a query, a plan, some microseconds per label."""
    selected = {table.name: labels.get(table.name, Labels()) for table in tables}
    bounds = [(at.flow.tables[name], *selected[name].bounds(at.flow.tables[name].cadence)) for name in selected]
    low = min((low or BEGINNING for _, low, _ in bounds), default=BEGINNING)
    high = max((high or FOREVER for _, _, high in bounds), default=BEGINNING)
    if low >= high:
        return {}
    stored = [] if at.ledger is None else at.ledger.past.grid(list(selected), low, high)
    found = label_states(at.planner, at.snapshot, at.now, stored, (low, high), only=list(selected))
    return {
        table.name: [one for one in found[table.name] if (first or BEGINNING) <= one.label < (end or FOREVER)]
        for table, first, end in bounds
    }


def _describe_label(at: OpenedProject, name: str, one: LabelState, state: State, *, is_alone: bool) -> Content:
    words = local_label(one.label, at.flow.tables[name].cadence)
    return {
        "table": name,
        "label": label_of(one.label),
        "words": words if is_alone else f"{name} @ {words}",
        "state": str(state),
        "reason": one.reason,
        "rows": None if one.stored is None else one.stored.rows,
        "address": batch_address(name, label_of(one.label)),
    }


def _actions(block: Mapping[str, _TableLabels], labels: str) -> list[Content]:
    """Return the possible actions, each for the tables that have matching batches."""
    offered: list[tuple[Verb, str, Mapping[str, int]]] = [
        (Verb.RETRY, "Retry", {name: sum(map(has_failed, one.listed_labels)) for name, one in block.items()}),
        (Verb.RELEASE, "Release", {name: sum(map(_can_be_released, one.listed_labels)) for name, one in block.items()}),
        (Verb.BACKFILL, "Make", {name: _count_unmade(one, _NOT_MADE) for name, one in block.items()}),
        (Verb.RECOMPUTE, "Recompute", {name: one.done for name, one in block.items()}),
        (Verb.WITHDRAW, "Withdraw", {name: one.asked_for for name, one in block.items()}),
    ]
    would_help = any(_count_unmade(one, _MADE_ON_REQUEST) for one in block.values())
    actions = []
    for verb, word, found in offered:
        if (count := sum(found.values())) and (verb is not Verb.BACKFILL or would_help):
            tables = " ".join(f"`{name}`" for name, of_table in found.items() if of_table)
            actions.append({"verb": verb.value, "words": f"{word} {number_words(count)}…", "t": tables, "l": labels})
    return actions


_MADE_ON_REQUEST = frozenset({Status.READY, Status.NOT_NEEDED})
_NOT_MADE = _MADE_ON_REQUEST | {Status.WAITING, Status.PAUSED, Status.BLOCKED}  # these three wait even if requested


def _count_unmade(one: _TableLabels, statuses: Container[Status]) -> int:
    """Count the labels with these statuses that have no rows, and have not been requested, started or failed."""
    unmade = (each for each in one.states.listed if each.status in statuses and each.label not in one.made)
    listed = sum(1 for each in unmade if not (is_begun(each) or has_failed(each) or is_requested(each)))
    return listed + sum(count for status, count in one.states.counts.items() if status in statuses)


def has_failed(one: LabelState) -> bool:
    """Return whether the batch failed or is held, even if it is no longer needed."""
    is_trouble = one.stored is not None and one.stored.status in {BatchStatus.FAILED, BatchStatus.HELD}
    return one.status in {Status.FAILED, Status.HELD} or (is_trouble and one.status in {Status.NOT_NEEDED, Status.DONE})


def _can_be_released(one: LabelState) -> bool:
    return one.status is Status.HELD and not one.is_outdated


def is_done(one: LabelState) -> bool:
    """Return whether the batch has rows, whatever its status."""
    return one.stored is not None and one.stored.current_claim is not None


def is_requested(one: LabelState) -> bool:
    """Return whether the batch was requested, and no runner has started it."""
    return one.stored is not None and one.stored.requested is not None and not is_begun(one)


def is_begun(one: LabelState) -> bool:
    """Return whether a runner has claimed the batch, even if that runner is gone."""
    return one.stored is not None and one.stored.status == BatchStatus.RUNNING
