"""Tells what a held batch holds, as it was sealed: who is to release it asks that first, and no reader sees it yet."""

from __future__ import annotations

from waterclock.batches.audit_trail import Cell
from waterclock.batches.facts import BatchStatus
from waterclock.batches.records import BatchResult
from waterclock.flow.choices import Kind
from waterclock.flow.declarations import Table
from waterclock.operations.opening import Reading


def kept_back(at: Reading, table: Table, cell: Cell | None) -> BatchResult | None:
    """Return what the newest attempt at a batch sealed where a rule holds that back; None for any other batch.

    Cost: one small file. None too where what was sealed is gone, which is no reason not to tell of the rest.
    """
    if cell is None or cell.status != BatchStatus.HELD or cell.claim is None:
        return None
    from waterclock.engine.batch.claim_record import read_claim_record
    from waterclock.storage.lake import Lake

    lake = Lake(at.project.storage)
    found = read_claim_record(stage_of(at, table), lake.slice_path(cell.label, cell.claim))
    return next((it for it in found[1] if it.label == cell.label), None) if found is not None else None


def stage_of(at: Reading, table: Table) -> str:
    """Return the folder below which a table's slices are sealed; a publish has one of its own."""
    from waterclock.engine.ledger_opening import lake_of

    return lake_of(at.project, at.ledger).folder(f"publish/{table.name}" if table.kind is Kind.PUBLISH else table.name)
