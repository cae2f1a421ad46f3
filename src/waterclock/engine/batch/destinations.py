"""Checks whether a destination still has the deliveries that the ledger has recorded."""

from __future__ import annotations

from waterclock.batches.ledger_snapshot import RECOMPUTE
from waterclock.batches.records import Slice
from waterclock.connectors.delivering import DeliveryOutcome
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table, Unit
from waterclock.planner.plan import Batch, Group
from waterclock.timelabel.label import label_of


def unit_of(work: RunContext, table: Table) -> Unit:
    """Return the destination of a publish, with its secrets resolved."""
    if table.destination is None:
        raise AssertionError(f"{table.name} publishes to nowhere, which check refuses")
    return work.connections.resolve_unit(table.destination)


def find_last_delivery(work: RunContext, table: Table, batch: Batch) -> Slice | None:
    """Return the newest delivered slice, so that only changes since then are sent.

    Return None if all rows must be delivered: for the first delivery, for `recompute`, and if the destination lost its
    newest delivery.
    """
    newest = work.ledger.reads.newest(table.name)
    if newest is None or batch.verb == RECOMPUTE or not work.project.delivers(table):
        return None
    return newest if _describe_loss(work, table, newest) is None else None


def require_last_delivery(work: RunContext, table: Table, group: Group) -> None:
    """Raise E824 if the destination lost its newest delivery, and labels are delivered one by one.

    A recompute delivers all labels again, so it raises no error. If each delivery contains the whole table, the loss
    is only reported. Cost: one query of the destination, whatever its size; two if an older label was delivered last.
    """
    newest = work.ledger.reads.newest(table.name)
    if newest is None or not work.project.delivers(table) or group.verb == RECOMPUTE:
        return
    lost = _describe_loss(work, table, newest)
    if lost is None and table.is_delivered_by_label:
        last = work.ledger.reads.last_recorded(table.name) or newest
        if last.claim != newest.claim and not has_delivery(work, table, last):
            newest = last
            lost = f"it has no record of claim {last.claim}, the last delivery of {label_of(last.label)}"
    if lost is None:
        return
    if not table.is_delivered_by_label:
        work.report_once(f"{table.name}: {lost}; the whole table is delivered again")
        return
    raise WaterclockError(
        "E824",
        f"{table.name} differs from its last delivery: {lost}",
        where=f"{table.name}@{label_of(group.batches[0].label)}",
        why=(
            f"the ledger records that claim {newest.claim} delivered {label_of(newest.label)}: the destination "
            "was emptied, changed by hand or restored from an older copy, or `publish` was false then"
        ),
        fix=f"`waterclock recompute {table.name}` delivers all labels again; then `waterclock retry {table.name}`",
    )


def has_delivery(work: RunContext, table: Table, piece: Slice) -> bool:
    """Return whether the destination still has the delivery that the ledger recorded for a slice."""
    unit = unit_of(work, table)
    found = work.connections.deliverer(unit.connection).find(unit, work.flow.project, table.name, piece.claim)
    return found is not None and found.outcome is not DeliveryOutcome.KILLED


def _describe_loss(work: RunContext, table: Table, newest: Slice) -> str | None:
    unit = unit_of(work, table)
    return work.connections.deliverer(unit.connection).find_loss(unit, work.flow.project, table.name, newest.claim)
