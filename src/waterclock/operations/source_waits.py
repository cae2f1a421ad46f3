"""Finds the ready windows that wait for their source, as a run last recorded it: planning contacts no source."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from waterclock.operations.project_opening import OpenedProject
from waterclock.planner.plan import Batch, Plan, Status
from waterclock.timelabel.label import label_of


@dataclass(frozen=True, slots=True)
class SourceWait:
    """The oldest window of a table that waited for its source when a run checked it. `at`: the time of the check."""

    table: str
    label: str
    at: datetime

    def words(self) -> str:
        """Describe the wait in a line for people."""
        return f"{self.table}@{self.label} waits for its source, as a run found at {self.at:%Y-%m-%d %H:%MZ}"


def source_waits(at: OpenedProject, plan: Plan) -> list[SourceWait]:
    """Return the recorded source waits that still apply to a window of the plan."""
    ready = {batch.table for batch in plan.batches if batch.status is Status.READY}
    names = [name for name in at.flow.order if name in ready and at.flow.tables[name].source is not None]
    if at.ledger is None or not names:
        return []
    recorded = at.ledger.past.waits_for_sources(names)
    found = [SourceWait(name, it.data["label"], it.at) for name, it in sorted(recorded.items()) if "label" in it.data]
    return [
        wait for wait in found if any(is_waiting_for_source(batch, {wait.table: wait.label}) for batch in plan.batches)
    ]


def is_waiting_for_source(batch: Batch, since: Mapping[str, str]) -> bool:
    """Return whether a ready batch waits for its source. `since` maps tables to the oldest label that waits."""
    oldest = since.get(batch.table)
    is_new = batch.status is Status.READY and not batch.is_revision
    return is_new and oldest is not None and label_of(batch.label) >= oldest


def count_waiting(plan: Plan, found: Collection[SourceWait]) -> int:
    """Count the ready batches of a plan that wait for their source."""
    since = since_of(found)
    return sum(is_waiting_for_source(batch, since) for batch in plan.batches)


def add_source_waits(plan: Plan, found: Collection[SourceWait]) -> Plan:
    """Return a plan in which batches that wait for their source have that reason."""
    since = since_of(found)
    batches = (
        replace(it, reason="waits for its source") if is_waiting_for_source(it, since) else it for it in plan.batches
    )
    return replace(plan, batches=tuple(batches)) if since else plan


def since_of(found: Collection[SourceWait]) -> dict[str, str]:
    """Map each table to its oldest label that waits for its source."""
    return {wait.table: wait.label for wait in found}
