"""Finds the tables to pause or resume and their due batches, and records the pause or its end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from waterclock.batches.ledger_snapshot import Pause
from waterclock.ledger.ledger import Ledger
from waterclock.operations.pauses import select_paused_tables
from waterclock.operations.project_opening import OpenedProject
from waterclock.operations.required_reasons import need_reason_of_pause
from waterclock.planner.plan import NEEDS_SOMEBODY, Status
from waterclock.planner.request import PlanRequest


@dataclass(frozen=True, slots=True)
class TablesToPause:
    """The tables to pause or resume: `names`, or all of them. `pauses`: other pauses, which stay in effect."""

    names: tuple[str, ...] = ()
    is_of_all: bool = False
    pauses: tuple[Pause, ...] = ()

    @property
    def has_changes(self) -> bool:
        """Whether any table is to be paused or resumed."""
        return bool(self.names) or self.is_of_all


def to_pause(at: OpenedProject, selection: str, labels: str | None) -> TablesToPause:
    """Return the selected tables that are not paused by name yet. An empty selection means a pause of all tables.

    Raises E430 if labels are given, E510 to E514 for an invalid selection.
    """
    names = select_paused_tables(at.flow, [selection] if selection else None, labels)
    if names is None:
        of_all = at.snapshot.paused
        return TablesToPause(is_of_all=True) if of_all is None else TablesToPause(pauses=(of_all,))
    found = {name: at.snapshot.of(name).paused for name in names}
    new = tuple(name for name, known in found.items() if known is None)
    return TablesToPause(new, pauses=tuple(known for known in found.values() if known is not None))


def to_resume(at: OpenedProject, selection: str, labels: str | None) -> TablesToPause:
    """Return the selected tables that are paused by name. An empty selection means the pause of all tables.

    Raises E430 if labels are given, E510 to E514 for an invalid selection.
    """
    names, of_all = select_paused_tables(at.flow, [selection] if selection else None, labels), at.snapshot.paused
    by_name = {name: known for name in at.flow.tables if (known := at.snapshot.of(name).paused)}
    if names is None:
        return TablesToPause(is_of_all=of_all is not None, pauses=tuple(dict.fromkeys(by_name.values())))
    return TablesToPause(tuple(name for name in names if name in by_name), pauses=(of_all,) if of_all else ())


def due_of(at: OpenedProject, of: TablesToPause) -> dict[str, list[datetime]]:
    """Map the tables to pause or resume to their due labels that no runner has started. Cost: a plan."""
    due: dict[str, list[datetime]] = {}
    if of.has_changes:
        listed = None if of.is_of_all else of.names
        for batch in at.planner.plan(at.snapshot, at.now, PlanRequest(listed=listed)).batches:
            if batch.status is not Status.RUNNING and batch.status not in NEEDS_SOMEBODY:
                due.setdefault(batch.table, []).append(batch.label)
    return due


def pause(ledger: Ledger, of: TablesToPause, *, who: str, why: str) -> None:
    """Pause the tables found by `to_pause`. Raises E903 without a reason, E430 if paused already, E412 if never run."""
    need_reason_of_pause(why)
    if of.is_of_all:
        ledger.decisions.pause_all(who=who, why=why)
    else:
        ledger.decisions.pause_tables(of.names, who=who, why=why)


def resume(ledger: Ledger, of: TablesToPause, *, who: str, why: str) -> None:
    """Resume the tables found by `to_resume`. Raises E430 if they are not paused any more."""
    if of.is_of_all:
        ledger.decisions.resume_all(who=who, why=why)
    else:
        ledger.decisions.resume_tables(of.names, who=who, why=why)
