"""Estimates the remaining time until planned batches are done, by usual durations, and finds what delays them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.graph import closure, parents_of
from waterclock.flow.watermarks import mark_of
from waterclock.planner.plan import STOPS, Batch, Plan, Status
from waterclock.timelabel.window import Window

_NOTHING = timedelta(0)
_PROCEEDING, _PAUSED, _STOPPED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Root:
    """The most upstream batch for which a window waits, or the window's own batch if it waits for none."""

    table: str
    window: Window
    status: Status
    detail: str = ""

    @property
    def is_proceeding(self) -> bool:
        """Whether the batch proceeds without a user: it is neither stopped nor paused."""
        return _severity_rank(self.status) == _PROCEEDING


@dataclass(frozen=True, slots=True)
class RemainingTime:
    """The remaining time until a batch is done: its usual duration and the longest path of the batches it waits for.

    `rank`: whether the root batch proceeds, is paused or is stopped.
    """

    left: timedelta
    root: Root
    rank: int = _PROCEEDING


@dataclass(slots=True)
class RemainingTimes:
    """Computes the remaining time of each planned batch, in the plan's order: upstream first, oldest first."""

    flow: Flow
    snapshot: LedgerSnapshot
    now: datetime
    elapsed: Mapping[tuple[str, datetime], timedelta]
    _labels: dict[str, list[datetime]] = field(default_factory=dict)
    _times: dict[str, list[RemainingTime]] = field(default_factory=dict)

    @classmethod
    def compute(
        cls, flow: Flow, snapshot: LedgerSnapshot, plan: Plan, elapsed: Mapping[tuple[str, datetime], timedelta]
    ) -> RemainingTimes:
        """Compute the remaining times of all batches of a plan. Cost: some microseconds per batch."""
        found = cls(flow, snapshot, plan.now, elapsed)
        for batch in plan.batches:
            found._add(batch)
        return found

    def to(self, table: str, label: datetime) -> RemainingTime | None:
        """Return the remaining time of a batch, or None if it is not planned."""
        labels = self._labels.get(table, [])
        at = bisect_left(labels, label)
        return self._times[table][at] if at < len(labels) and labels[at] == label else None

    def to_last(self, table: str) -> RemainingTime | None:
        """Return the remaining time of the newest planned batch of a table, or None without any."""
        return self._times[table][-1] if self._times.get(table) else None

    def to_mark(self, table: Table, end: datetime) -> RemainingTime:
        """Return the remaining time of the `<table>_mark` batch of the first window that ends at or after `end`.

        The batch need not be planned or due yet.
        """
        mark, window = mark_of(table.name), table.cadence.window_of(table.cadence.previous(table.cadence.ceil(end)))
        planned = self.to(mark, window.start)
        if planned is not None:
            return planned
        wait, before = max(table.cadence.due_at(window) - self.now, _NOTHING), self.to_last(mark)
        own = self.usual(table.name) + self.usual(mark)
        if before is not None and (before.rank or before.left > wait):
            return RemainingTime(max(before.left, wait) + own, before.root, before.rank)
        return RemainingTime(wait + own, Root(table.name, window, Status.WAITING, "is not due yet"))

    def is_made(self, table: str) -> bool:
        """Return whether any batch of a table is done."""
        return bool(self.snapshot.of(table).covered)

    def usual(self, table: str) -> timedelta:
        """Return the usual duration of a batch. Before the first batch it is the table's RUNTIME, or else 0."""
        seconds, declared = self.snapshot.of(table).seconds_per_batch, self.flow.tables[table].runtime
        return timedelta(seconds=seconds) if seconds is not None else declared.to_timedelta() if declared else _NOTHING

    def _add(self, batch: Batch) -> None:
        remaining = self._compute_remaining_time(batch)  # the remaining times of its inputs are known already
        self._labels.setdefault(batch.table, []).append(batch.label)
        self._times.setdefault(batch.table, []).append(remaining)

    def _compute_remaining_time(self, batch: Batch) -> RemainingTime:
        ran = self.elapsed.get((batch.table, batch.label), _NOTHING)
        own = max(self.usual(batch.table) - ran, _NOTHING)
        rank = _PROCEEDING if batch.status is Status.BLOCKED and batch.causes else _severity_rank(batch.status)
        itself = RemainingTime(own, Root(batch.table, batch.window, batch.status, batch.reason), rank)
        if itself.rank == _STOPPED or batch.status in {Status.RUNNING, Status.READY}:
            return itself
        ahead = max(self._times_of_inputs(batch), key=lambda way: (way.rank, way.left), default=None)
        if ahead is None and batch.causes:
            cause = batch.causes[0]
            ahead = RemainingTime(
                _NOTHING, Root(cause.table, cause.window, cause.status, cause.detail), _severity_rank(cause.status)
            )
        if ahead is None or itself.rank > ahead.rank:
            return itself
        return RemainingTime(ahead.left + own, ahead.root, ahead.rank)

    def _times_of_inputs(self, batch: Batch) -> Iterator[RemainingTime]:
        """Yield the remaining times of the batches that a batch waits for."""
        if self.flow.tables[batch.table].is_in_label_order and self._times.get(batch.table):
            yield self._times[batch.table][-1]
        for read in batch.reads:
            name = read.read.table
            labels = self._labels.get(name, [])
            low, high = bisect_left(labels, read.low), bisect_left(labels, read.high)
            if low < high:
                yield max(self._times[name][low:high], key=lambda way: (way.rank, way.left))
            yield from self._times_of_undue_inputs(name, read.low, read.high)

    def _times_of_undue_inputs(self, name: str, low: datetime, high: datetime) -> Iterator[RemainingTime]:
        """Yield the remaining time of the last window that a batch reads, if the window's DELAY has not passed."""
        cadence = self.flow.tables[name].cadence
        end = cadence.floor(high)
        if end <= low or self.snapshot.of(name).covered.covers_instant(cadence.previous(end)):
            return
        window = Window(cadence.previous(end), end)
        due = cadence.due_at(window)
        if due > self.now:
            usual = timedelta(seconds=self.snapshot.of(name).seconds_per_batch or 0)
            yield RemainingTime(due - self.now + usual, Root(name, window, Status.WAITING, "is not due yet"))


def add_upstream(flow: Flow, names: Collection[str]) -> set[str]:
    """Return the given tables and all tables upstream of them."""
    return {*names, *closure(names, parents_of(flow))}


def _severity_rank(status: Status) -> int:
    if status in STOPS:
        return _STOPPED
    return _PAUSED if status is Status.PAUSED else _PROCEEDING
