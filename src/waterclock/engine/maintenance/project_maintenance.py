"""Maintains a whole project, as `maintain` does: exports the ledger, then maintains tables, vaults and sources."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from waterclock.engine.ledger_export import ExportResult, export_ledger
from waterclock.engine.maintenance.maintain import TableMaintenance, find_maintenance, maintain_table
from waterclock.engine.maintenance.replication_slots import UnusedSlot, find_unused_slots, release_slot
from waterclock.engine.maintenance.token_vaults import find_vault_maintenance, maintain_vault
from waterclock.engine.maintenance.unused_open_windows import find_unused_open_windows, remove_unused_open_windows
from waterclock.engine.run_context import RunContext


@dataclass(slots=True)
class ProjectMaintenance:
    """The maintenance of a project, planned or done. `exported` is None if the ledger was not exported."""

    now: datetime | None = None
    exported: ExportResult | None = None
    tables: list[TableMaintenance] = field(default_factory=list)
    at_sources: list[UnusedSlot] = field(default_factory=list)


def maintain_project(work: RunContext, tables: Collection[str] | None, *, is_dry: bool) -> ProjectMaintenance:
    """Maintain some tables, or with None all tables and the vaults. A dry run changes nothing."""
    now = work.real_now()
    # export first: the ledger export then contains everything that is removed from the logs and the stage
    exported = None if is_dry else export_ledger(work.ledger, work.lake.root)
    found = find_maintenance(work, tables_with_batches(work, tables), now)
    if not is_dry:
        for each in found:
            maintain_table(work, each, now)
    others, at_sources = maintain_others(work, now, is_whole=tables is None, is_dry=is_dry)
    return ProjectMaintenance(now, exported, [*found, *others], at_sources)


def tables_with_batches(work: RunContext, tables: Collection[str] | None) -> list[str]:
    """Return which of some tables of the flow the ledger knows, or with None of all tables, in the flow's order."""
    known = {record.name for record in work.ledger.reads.tables()}
    return [name for name in work.flow.tables if name in known and (tables is None or name in tables)]


def maintain_others(
    work: RunContext, now: datetime, *, is_whole: bool, is_dry: bool
) -> tuple[list[TableMaintenance], list[UnusedSlot]]:
    """Maintain what belongs to no table of the flow: logs at sources and records of accesses.

    With `is_whole` also vaults, and tables of open windows that no table has.
    """
    vaults = list(find_vault_maintenance(work, now)) if is_whole else []
    unused = find_unused_open_windows(work) if is_whole else []
    at_sources = find_unused_slots(work)
    if not is_dry:
        for each in vaults:
            maintain_vault(work, each, now)
        for each in unused:
            remove_unused_open_windows(work, each)
        for slot in at_sources:
            release_slot(work, slot)
        work.ledger.access.forget(work.ledger.now() - work.project.access.keep)
    return [*vaults, *unused], at_sources
