"""Reconstructs tables as they were known at an instant, and checks whether they agreed with their inputs.

A state is the result of all commits up to an instant. It agrees if every batch in it read exactly the content that its
inputs have in that state, and the same holds for these inputs. Then no part of it is older or newer than the others.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate, pairwise

from waterclock.batches.ledger_snapshot import (
    FOREVER,
    History,
    InputFact,
    LedgerSnapshot,
    Missing,
    RevisionFact,
    TableFacts,
    TableHistory,
    content_sums,
    content_text,
)
from waterclock.flow.enums import Mode, OnRestate
from waterclock.planner.dependency_graph import FlowGraph
from waterclock.planner.settlement import is_dropped, select_awaited
from waterclock.timelabel.intervals import Interval, IntervalSet

INSTANT = timedelta(microseconds=1)
_NO_REVISIONS: Mapping[int, tuple[InputFact, ...]] = {}
_CURRENT_CLAIM = 0  # stands for the claim of a batch with only one known revision

Needs = Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class Conflict:
    """A batch that disagrees with its input: the interval that it read has other content now."""

    table: str
    label: datetime
    read: InputFact


def current_history(snapshot: LedgerSnapshot, modes: Mapping[str, Mode], now: datetime) -> History:
    """Return a history of tables that contains only their current content, from a snapshot of the ledger."""
    tables = {
        name: TableHistory(
            mode=modes[name],
            covered=facts.covered,
            read={label: {_CURRENT_CLAIM: inputs} for label, inputs in facts.suspects.items()},
        )
        for name, facts in snapshot.tables.items()
        if name in modes
    }
    return History(now, tables)


class KnownStates:
    """The content of all tables at any instant since `history.since`. The instant None means now."""

    def __init__(
        self, graph: FlowGraph, snapshot: LedgerSnapshot, history: History, starts: Mapping[str, datetime]
    ) -> None:
        self.history = history
        self._starts = starts
        self._graph = graph
        self._snapshot = snapshot
        self._is_any_dropped = any(facts.dropped_before for facts in snapshot.tables.values())
        self._read_labels = {name: sorted(table.read) for name, table in history.tables.items()}
        self._made_labels = {name: sorted(table.made) for name, table in history.tables.items()}
        self._covered_from = {
            name: _find_coverage_starts(table, self._made_labels[name]) for name, table in history.tables.items()
        }
        self._content_after: dict[str, _ContentAfter] = {}

    def find_missing_windows(self, needs: Needs, at: datetime | None) -> dict[str, IntervalSet]:
        """Map tables to the parts of the needed intervals that were not covered at an instant."""
        found = {name: self.find_covered_windows(name, at).gaps(*interval) for name, interval in needs.items()}
        return {name: gaps for name, gaps in found.items() if gaps}

    def find_covered_windows(self, name: str, at: datetime | None) -> IntervalSet:
        """Return the windows done, skipped or covered by snapshots at an instant. A skip counts at all instants."""
        table = self.history.tables.get(name)
        if table is None:
            return IntervalSet()
        if at is None or not table.made:
            return table.covered
        then = (_revision_as_of(made, at) for made in table.made.values())
        now = IntervalSet.from_intervals((made[-1].low, made[-1].high) for made in table.made.values())
        return (table.covered - now) | IntervalSet.from_intervals((made.low, made.high) for made in then if made)

    def snapshot(self, at: datetime | None) -> LedgerSnapshot:
        """Return the ledger's snapshot as of an instant, with only the facts that decide which labels were settled."""

        def suspects(name: str) -> Mapping[datetime, tuple[InputFact, ...]]:
            read = {label: self._inputs(name, label, at) for label in self._read_labels[name]}
            return {
                label: tuple(replace(fact, current=self._content(fact, at)) for fact in facts)
                for label, facts in read.items()
                if facts
            }

        return LedgerSnapshot(
            {
                name: TableFacts(
                    covered=self.find_covered_windows(name, at),
                    suspects=suspects(name),
                    dropped_before=self._snapshot.of(name).dropped_before,
                )
                for name in self.history.tables
            }
        )

    def conflicts(self, needs: Needs, at: datetime | None) -> list[Conflict]:
        """Return the batches that disagree with their inputs, among all from which the needed intervals were made.

        These always agree: batches of tables with ON RESTATE REPORT, batches before START, and batches with data
        dropped by RETAIN. Partial batches agree until their missing inputs exist. Cost: a check of each batch that may
        have read other content, independent of the number of other batches.
        """
        found: list[Conflict] = []
        to_do = [(name, *interval) for name, interval in needs.items()]
        queued, checked = set(to_do), set[tuple[str, datetime]]()
        checked_intervals: dict[str, Interval] = {}
        while to_do:
            name, low, high = to_do.pop()
            known = checked_intervals.get(name, (high, low))
            if known[0] <= low < high <= known[1]:
                continue  # already checked, usual for tables read with HISTORY
            if low <= known[0] and known[1] <= high:
                checked_intervals[name] = (low, high)
            for label in self._list_uncertain_labels(name, low, high):
                if (name, label) in checked:
                    continue
                checked.add((name, label))
                for fact in self._inputs(name, label, at):
                    if self._content(fact, at) != fact.recorded:
                        found.append(Conflict(name, label, fact))
                    span = (fact.table, fact.low, fact.high)
                    if span not in queued:
                        queued.add(span)
                        to_do.append(span)
        return found

    def find_instant_before_conflicts(self, conflicts: Collection[Conflict], at: datetime | None) -> datetime:
        """Return the newest instant before `at` at which none of these batches conflicted with its input.

        If the recorded history is too short to decide, the result is before `history.since`. Cost: at most one search
        in the changes of an input for each conflict.
        """
        first, *others = conflicts
        found = self._find_last_agreement(first, at)
        for conflict in others:
            if found < self.history.since:
                break
            if self._has_existed(conflict, at, found):
                found = self._find_last_agreement(conflict, found)
        return found

    def first_record_time(self, table: str, label: datetime) -> datetime | None:
        """Return when the batch was first recorded, as far as this history goes back, or None."""
        made = self.history.tables[table].made.get(label)
        return made[0].at if made else None

    def _list_uncertain_labels(self, name: str, low: datetime, high: datetime) -> list[datetime]:
        node = self._graph.nodes.get(name)
        if node is None or node.table.on_restate is OnRestate.REPORT:
            return []
        labels = self._read_labels.get(name, [])
        start = low if node.table.is_snapshot else max(low, self._starts.get(name, low))
        return labels[bisect_left(labels, start) : bisect_left(labels, high)]

    def _inputs(self, name: str, label: datetime, at: datetime | None) -> tuple[InputFact, ...]:
        """Return the non-empty inputs of a batch's revision at an instant.

        The result is empty if the batch is not made again after restatements: while it is partial, and if RETAIN has
        dropped some of the data.
        """
        table = self.history.tables[name]
        by_claim = table.read.get(label, _NO_REVISIONS)
        if label in table.made:
            revision = _revision_as_of(table.made[label], at)
            inputs = by_claim.get(revision.claim, ()) if revision is not None else ()
        else:
            inputs = next(iter(by_claim.values()), ())
        if self._is_kept_partial(self._missing_inputs(name, label, at), at):
            return ()
        if self._is_any_dropped and self._is_dropped(name, label, inputs):
            return ()
        return tuple(fact for fact in inputs if fact.low < fact.high)

    def _missing_inputs(self, name: str, label: datetime, at: datetime | None) -> tuple[Missing, ...]:
        """Return the missing inputs of a batch's revision at an instant, as far as the batch waited for them."""
        made = self.history.tables[name].made.get(label)
        revision = _revision_as_of(made, at) if made else None
        missing = self._snapshot.of(name).partial.get(label, ()) if not made else revision.missing if revision else ()
        node = self._graph.nodes.get(name)
        return select_awaited(missing, node, self._graph, self._starts) if missing and node is not None else ()

    def _is_kept_partial(self, missing: tuple[Missing, ...], at: datetime | None) -> bool:
        """Return whether a batch stayed partial at an instant: some missing inputs did not exist, or were dropped."""
        if is_dropped(((it.table, it.low, it.high) for it in missing), self._snapshot) is not None:
            return True
        return not all(self.find_covered_windows(it.table, at).covers(it.low, it.high) for it in missing)

    def _is_dropped(self, name: str, label: datetime, inputs: tuple[InputFact, ...]) -> bool:
        dropped = self._snapshot.of(name).dropped_before
        if dropped is not None and label < dropped:
            return True
        return is_dropped(((fact.table, fact.low, fact.high) for fact in inputs), self._snapshot) is not None

    def _content(self, fact: InputFact, at: datetime | None) -> str:
        """Return the content of an interval at an instant, as a text in the form of `InputFact.current`."""
        table = self.history.tables.get(fact.table)
        if at is None or table is None or not table.made:
            return fact.current
        if table.mode is Mode.REPLACE:
            return _find_covering_content([table.made[label] for label in self._list_covering_labels(fact)], fact, at)
        labels = self._made_labels[fact.table]
        if fact.table not in self._content_after:
            self._content_after[fact.table] = _ContentAfter([table.made[label] for label in labels])
        undone = self._content_after[fact.table]
        undone.go_to(at)
        by_high, by_low = undone.sum_between(*self._label_positions(fact))
        of_high, of_low = content_sums(fact.current)
        return content_text(of_high - by_high, of_low - by_low)

    def _has_existed(self, conflict: Conflict, at: datetime | None, then: datetime) -> bool:
        """Return whether a conflict that exists at the instant `at` also existed at the earlier instant `then`."""
        made = self.history.tables[conflict.table].made.get(conflict.label)
        is_same = not made or _revision_as_of(made, then) is _revision_as_of(made, at)
        if not is_same or self._is_kept_partial(self._missing_inputs(conflict.table, conflict.label, then), then):
            return False
        return self._content(conflict.read, then) != conflict.read.recorded

    def _find_last_agreement(self, conflict: Conflict, at: datetime | None) -> datetime:
        """Return the newest instant before `at` at which the batch did not exist, or agreed with its input."""
        fact, made = conflict.read, self.history.tables[conflict.table].made.get(conflict.label)
        revision = _revision_as_of(made, at) if made else None
        oldest = max(self.history.since, revision.at if revision is not None else self.history.since)
        equal = next((then for then in self._list_agreements(fact, at) if then >= oldest), oldest - INSTANT)
        missing = self._missing_inputs(conflict.table, conflict.label, at)
        firsts = sorted({first for it in missing for first in self._list_first_record_times(it, at)}, reverse=True)
        partial = (then for first in firsts if self._is_kept_partial(missing, then := first - INSTANT))
        return max(equal, next(partial, equal))

    def _list_first_record_times(self, missing: Missing, at: datetime | None) -> Iterator[datetime]:
        """Yield the instants up to `at` when batches that cover a missing input were first recorded."""
        for made in self.history.tables[missing.table].made.values():
            is_within = any(each.low < missing.high and missing.low < each.high for each in made)
            if is_within and made[0].at > self.history.since and (at is None or made[0].at <= at):
                yield made[0].at

    def _list_agreements(self, fact: InputFact, at: datetime | None) -> Iterator[datetime]:
        """Yield the ends of the periods before `at` in which an interval had the recorded content, newest first."""
        table = self.history.tables.get(fact.table)
        if table is None or not table.made:
            return
        if table.mode is Mode.REPLACE:
            may_stand = [table.made[label] for label in self._list_covering_labels(fact)]
            for instant, _, _ in self._changes(may_stand, at):
                if _find_covering_content(may_stand, fact, then := instant - INSTANT) == fact.recorded:
                    yield then
            return
        labels, (high, low) = self._made_labels[fact.table], content_sums(self._content(fact, at))
        first, last = self._label_positions(fact)
        within = labels[first:last]
        for instant, by_high, by_low in self._changes((table.made[label] for label in within), at):
            high, low = high - by_high, low - by_low
            if content_text(high, low) == fact.recorded:
                yield instant - INSTANT

    def _label_positions(self, fact: InputFact) -> tuple[int, int]:
        """Return the positions in the sorted labels of an interval's first label and after its last one.

        The interval includes a later snapshot that covers its last window.
        """
        labels, since_when = self._made_labels[fact.table], self._covered_from[fact.table]
        return bisect_left(labels, fact.low), bisect_left(since_when, fact.high)

    def _list_covering_labels(self, fact: InputFact) -> list[datetime]:
        """Return the labels whose batches may have covered the window that was read: its own, or a later snapshot's."""
        labels, since_when = self._made_labels[fact.table], self._covered_from[fact.table]
        found = []
        for place in range(bisect_left(labels, fact.low), len(labels)):
            if since_when[place] > fact.low:
                break
            found.append(labels[place])
        return found

    def _changes(
        self, of_labels: Iterable[tuple[RevisionFact, ...]], until: datetime | None
    ) -> list[tuple[datetime, int, int]]:
        """Return the content changes of some labels between `history.since` and an instant, newest first."""
        found = []
        for of_label in of_labels:
            weight = (0, 0)
            for made in of_label:
                if made.at > self.history.since and (until is None or made.at <= until):
                    found.append((made.at, made.weight[0] - weight[0], made.weight[1] - weight[1]))
                weight = made.weight
        return sorted(found, reverse=True)


class _ContentAfter:
    """The content that was added to a table after an instant, as sums over any range of its changed labels.

    Cost: moving to an older instant visits the changes in between, moving to a newer one visits all changes after it. A
    sum takes the logarithm of the number of labels (a Fenwick tree).
    """

    def __init__(self, of_labels: list[tuple[RevisionFact, ...]]) -> None:
        none = RevisionFact(_CURRENT_CLAIM, FOREVER, FOREVER, FOREVER, (0, 0))
        self._changes = sorted(
            (
                (made.at, place, made.weight[0] - before.weight[0], made.weight[1] - before.weight[1])
                for place, of_label in enumerate(of_labels, 1)
                for before, made in pairwise((none, *of_label))
            ),
            reverse=True,
        )
        self._sums = [(0, 0)] * (len(of_labels) + 1)
        self._content_after = 0

    def go_to(self, at: datetime) -> None:
        """Move to an instant, so that the sums are of the content added after it."""
        if self._content_after and self._changes[self._content_after - 1][0] <= at:
            self._sums, self._content_after = [(0, 0)] * len(self._sums), 0
        while self._content_after < len(self._changes) and self._changes[self._content_after][0] > at:
            _, place, by_high, by_low = self._changes[self._content_after]
            self._content_after += 1
            while place < len(self._sums):
                high, low = self._sums[place]
                self._sums[place] = (high + by_high, low + by_low)
                place += place & -place

    def sum_between(self, first: int, end: int) -> tuple[int, int]:
        """Return the sums over the labels at the positions `[first, end)`."""
        (of_high, of_low), (less_high, less_low) = self._prefix_sum(end), self._prefix_sum(first)
        return of_high - less_high, of_low - less_low

    def _prefix_sum(self, place: int) -> tuple[int, int]:
        of_high = of_low = 0
        while place:
            high, low = self._sums[place]
            of_high, of_low = of_high + high, of_low + low
            place -= place & -place
        return of_high, of_low


def _find_coverage_starts(table: TableHistory, labels: list[datetime]) -> list[datetime]:
    """Return for each label the earliest start of a period that it or a later label ever covered."""
    lows = [min(made.low for made in table.made[label]) for label in reversed(labels)]
    return list(accumulate(lows, min))[::-1]


def _revision_as_of(made: tuple[RevisionFact, ...], at: datetime | None) -> RevisionFact | None:
    """Return the revision that was current at an instant (None: now). None if there was none."""
    if at is None:
        return made[-1]
    return next((each for each in reversed(made) if each.at <= at), None)


def _find_covering_content(may_stand: Iterable[tuple[RevisionFact, ...]], fact: InputFact, at: datetime) -> str:
    """Return the content of the batch of a REPLACE table that covered the window read."""
    now = False
    for made in may_stand:
        then = _revision_as_of(made, at)
        if then is not None and then.low <= fact.low < then.high:
            return content_text(*then.weight)
        now = now or made[-1].low <= fact.low < made[-1].high
    return content_text(0, 0) if now else fact.current
