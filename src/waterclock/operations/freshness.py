"""Computes the freshness of tables: the newest done label, the gaps before it, and whether the table is late."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from waterclock.batches.ledger_snapshot import RELEASE, LedgerSnapshot
from waterclock.flow.declarations import Flow, Table
from waterclock.operations.display_states import State, display_state_of, worst
from waterclock.planner.plan import NEEDS_SOMEBODY, Batch, Plan, Status

_LATE_AT_ONCE = NEEDS_SOMEBODY | {Status.BLOCKED}


@dataclass(frozen=True, slots=True)
class Freshness:
    """The freshness of one table.

    `label`: the newest done label, None before the first. `gaps`: labels before it that are due, needed and not done.
    `behind`: labels after it that are due, needed and not done. `late`: the due instant of the oldest of these labels
    that is no longer in time, or None if all are in time. `state`: the most severe state of the table's planned
    batches, or OK if there are none.
    """

    label: datetime | None
    gaps: int
    behind: int
    late: datetime | None
    state: State

    @property
    def is_fresh(self) -> bool:
        """Whether the table has a done label, and all other due labels are done or still in time."""
        return self.label is not None and self.late is None and not self.gaps


def freshness(flow: Flow, names: Iterable[str], snapshot: LedgerSnapshot, plan: Plan) -> dict[str, Freshness]:
    """Return the freshness of the given tables. Pure; a few microseconds per planned batch.

    A batch is in time until one more window of its table has ended. A failed, held or blocked batch is late at once.
    """
    planned: dict[str, list[Batch]] = {}
    for batch in plan.batches:
        planned.setdefault(batch.table, []).append(batch)
    return {name: _table_freshness(flow.tables[name], snapshot, planned.get(name, ()), plan) for name in names}


def _table_freshness(table: Table, snapshot: LedgerSnapshot, batches: Iterable[Batch], plan: Plan) -> Freshness:
    label = newest_covered(table, snapshot)
    missing = [batch for batch in batches if not batch.is_revision]
    gaps = sum(1 for batch in missing if label is not None and batch.label < label)
    late = min((due for batch in missing if (due := _find_late_instant(table, batch, plan.now))), default=None)
    state = worst([State.OK, *(display_state_of(batch) for batch in batches)])
    left = plan.left_out.get(table.name, 0)
    return Freshness(label, gaps, len(missing) - gaps + left, late, state)


def newest_covered(table: Table, snapshot: LedgerSnapshot) -> datetime | None:
    """Return the newest label that is done, skipped or represented by a snapshot; None if there is none."""
    covered = snapshot.of(table.name).covered
    return table.cadence.previous(list(covered)[-1][1]) if covered else None


def fresh_to(table: Table, snapshot: LedgerSnapshot) -> datetime | None:
    """Return the end of the newest done window, or None before the first."""
    label = newest_covered(table, snapshot)
    return None if label is None else table.cadence.next(label)


def _find_late_instant(table: Table, batch: Batch, now: datetime) -> datetime | None:
    due = table.cadence.due_at(batch.window)
    # a held batch stays held until a runner has released it
    if batch.status in _LATE_AT_ONCE or batch.verb == RELEASE or due + (batch.window.end - batch.window.start) <= now:
        return due
    return None


def count_fresh_tables(found: Mapping[str, Freshness], names: Iterable[str]) -> int:
    """Count the given tables that are fresh."""
    return sum(1 for name in names if found[name].is_fresh)
