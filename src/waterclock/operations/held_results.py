"""Reads the sealed results of held batches, which users check before a release and readers do not see yet."""

from __future__ import annotations

from waterclock.batches.audit_records import BatchState
from waterclock.batches.ledger_snapshot import BatchStatus
from waterclock.batches.records import BatchResult
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind
from waterclock.operations.project_opening import OpenedProject


def find_held_result(at: OpenedProject, table: Table, cell: BatchState | None) -> BatchResult | None:
    """Return the sealed result of a batch's newest attempt if a rule holds it back, or None for any other batch.

    Cost: one small file. None is returned too if the sealed slice is gone, so that the other details can still be
    shown.
    """
    if cell is None or cell.status != BatchStatus.HELD or cell.claim is None:
        return None
    from waterclock.engine.batch.claim_record import read_claim_record
    from waterclock.storage.lake import Lake

    lake = Lake(at.project.storage)
    found = read_claim_record(stage_of(at, table), lake.slice_path(cell.label, cell.claim))
    return next((it for it in found[1] if it.label == cell.label), None) if found is not None else None


def stage_of(at: OpenedProject, table: Table) -> str:
    """Return the folder that contains a table's sealed slices. A publish has a folder of its own."""
    from waterclock.engine.ledger_opening import lake_of

    return lake_of(at.project, at.ledger).folder(f"publish/{table.name}" if table.kind is Kind.PUBLISH else table.name)
