"""Puts what is done and what is planned side by side: the state of every label of a span, for people."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from waterclock.batches.audit_trail import Cell
from waterclock.batches.facts import BatchStatus, LedgerSnapshot
from waterclock.planner.plan import Batch, Status
from waterclock.planner.planning import Planner
from waterclock.planner.request import Request
from waterclock.selection import Labels
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.window import Window

_NO_CAP = 1 << 30
_STORED = {
    BatchStatus.RUNNING: Status.RUNNING,
    BatchStatus.DONE: Status.DONE,
    BatchStatus.FAILED: Status.FAILED,
    BatchStatus.HELD: Status.HELD,
    BatchStatus.SKIPPED: Status.SKIPPED,
}


@dataclass(frozen=True, slots=True)
class LabelState:
    """The state of one label, and why it is so where that is not plain; `stored` is what the ledger holds of it."""

    label: datetime
    status: Status
    reason: str = ""
    stored: Cell | None = None


@dataclass(frozen=True, slots=True)
class Quiet:
    """How many due labels of a table ask for nothing: nobody needs them, or a later snapshot stands for them.

    A snapshot that is planned counts: it will stand for all labels since the one before.
    """

    not_needed: int = 0
    stood_for: int = 0


def label_states(
    planner: Planner,
    snapshot: LedgerSnapshot,
    now: datetime,
    stored: Iterable[Cell],
    span: tuple[datetime, datetime],
    *,
    only: Collection[str] | None = None,
) -> dict[str, tuple[LabelState, ...]]:
    """Return by table the state of each label in `[low, high)` that is due at `now`, oldest first.

    `stored`: what the ledger holds of these labels (`ledger.past.grid`). A done batch that must run again is STALE.
    Cost: a plan of the span, and a few microseconds a label.
    """
    low, high = span
    if low >= high:
        return {name: () for name in planner.graph.nodes if only is None or name in only}
    labels = Labels.between(low, high)
    plan = planner.plan(snapshot, now, Request(only=only, labels=labels, cap=_NO_CAP))
    planned: dict[str, dict[datetime, Batch]] = {}
    for batch in plan.batches:
        planned.setdefault(batch.table, {})[batch.label] = batch
    kept: dict[str, dict[datetime, Cell]] = {}
    for cell in stored:
        kept.setdefault(cell.table, {})[cell.label] = cell
    starts = planner.starts(snapshot, now)
    found = {}
    for name, node in planner.graph.nodes.items():
        if only is None or name in only:
            told = _Told(
                name,
                snapshot.of(name).covered,
                kept.get(name, {}),
                planned.get(name, {}),
                node.table.is_snapshot,
                frozenset(plan.reported.get(name, ())),
                frozenset(plan.behind.get(name, ())),
            )
            begin = max(low, min([starts[name], *kept.get(name, ())]))  # history is not hidden by a later START
            windows = node.table.cadence.windows(begin, min(high, node.table.cadence.last_due(now)))
            found[name] = tuple(told.state(window) for window in windows)
    return found


def quiet(planner: Planner, snapshot: LedgerSnapshot, now: datetime, planned: Mapping[str, int]) -> dict[str, Quiet]:
    """Count by table the due labels that nobody needs and those that are stood for; `planned` counts the due ones."""
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
            found[name] = Quiet(not_needed=left, stood_for=stood)
    return found


@dataclass(frozen=True, slots=True)
class _Told:
    """All that says something of one table's labels."""

    table: str
    covered: IntervalSet
    stored: Mapping[datetime, Cell]
    planned: Mapping[datetime, Batch]
    is_snapshot: bool
    reported: frozenset[datetime]
    behind: frozenset[datetime]

    def state(self, window: Window) -> LabelState:
        label = window.start
        cell, batch = self.stored.get(label), self.planned.get(label)
        if batch is not None:
            is_again = batch.is_revision and batch.status in {Status.READY, Status.WAITING}
            return LabelState(label, Status.STALE if is_again else batch.status, batch.reason, cell)
        if label in self.reported:
            return LabelState(label, Status.STALE, "what it read has changed; ON RESTATE REPORT", cell)
        if label in self.behind:
            why = f"what it read was restated since; `waterclock recompute {self.table} {window.label}` makes it again"
            return LabelState(label, Status.BEHIND, why, cell)
        if cell is not None and cell.status is not None:
            return LabelState(label, _STORED[BatchStatus(cell.status)], "", cell)
        if self.is_snapshot or self.covered.covers_instant(label):
            return LabelState(label, Status.STOOD_FOR)
        return LabelState(label, Status.NOT_NEEDED)
