"""Seals the rows to publish as slices, and delivers them to the destination under the claim that sealed them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial, reduce
from typing import TYPE_CHECKING

from waterclock.batches.records import Claim, Slice
from waterclock.connectors.delivering import Delivery, DeliveryOutcome
from waterclock.connectors.interface import ArrivalCollector
from waterclock.connectors.sql.replace_where import condition_text
from waterclock.connectors.sql.versioned_views import view_note
from waterclock.engine.batch.destinations import unit_of
from waterclock.engine.batch.expectations import never_null_columns, not_null_columns, unproven_keys
from waterclock.engine.batch.publish_changes import changed_rows, deleted_column_of, published_columns
from waterclock.engine.batch.restored_rows import add_restored_rows, can_restore_rows
from waterclock.engine.reads.pin import PinnedRead, frame_of, set_label
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import entry_path
from waterclock.flow.checks import asks_rows
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Mode
from waterclock.flow.published_columns import list_sent_keys
from waterclock.planner.plan import Batch, Group
from waterclock.storage.slices.hard_links import seal_linked_slice
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.row_filter import ROW_LABEL
from waterclock.storage.slices.writer import WrittenSlices
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Pins = Mapping[datetime, tuple[PinnedRead, ...]]


@dataclass(frozen=True, slots=True)
class StagedDelivery:
    """The rows to seal for a delivery, and the labels for which a MERGE delivers the whole state."""

    frame: DataFrame
    whole: frozenset[datetime]


def publish_frame(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    group: Group,
    pins: Pins,
) -> StagedDelivery:
    """Return the rows to deliver: the slice of each label, or the whole state, or for MERGE the changes of the state.

    Slices are sent if labels are delivered one by one. Cost: no job for REPLACE and APPEND; for MERGE from a regular
    table, see `publish_changes.changed_rows`.
    """
    found = [_rows_of_label(work, spark, table, batch, pins[batch.label][0]) for batch in group.batches]
    frame = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), (rows for rows, _ in found))
    whole = frozenset(batch.label for batch, (_, is_whole) in zip(group.batches, found, strict=True) if is_whole)
    return StagedDelivery(frame, whole)


def linked_slices(work: RunContext, table: Table, group: Group, pins: Pins, claim: Claim) -> WrittenSlices | None:
    """Seal the slices of a publish by links to those of its table, without a job or a copy. None if that is impossible.

    It is impossible if the publish chooses columns or sends only changes since its last delivery, if rows of older
    labels may become visible again, or if a label's rows are not one sealed slice.
    """
    if any(can_restore_rows(work, table, batch) for batch in group.batches):
        return None
    wholes = [_whole_slice(work, table, pins[batch.label][0]) for batch in group.batches]
    found = [piece for piece in wholes if piece is not None]
    if len(found) < len(wholes):
        return None
    sealed_folder = work.lake.folder(table.reads[0].table)
    manifests = tuple(
        seal_linked_slice(
            read_manifest(sealed_folder, piece.slice_path),
            sealed_folder,
            folder=work.folder(table),
            lake=work.lake,
            claim=claim.number,
            label=batch.label,
            code=table.fingerprint,
            name=table.name,
            source={"linked": piece.slice_path},
            with_quarantine=False,
        )
        for batch, piece in zip(group.batches, found, strict=True)
    )
    return WrittenSlices(manifests, {manifest.label: {} for manifest in manifests})


def _whole_slice(work: RunContext, table: Table, pinned: PinnedRead) -> Slice | None:
    source = work.flow.tables[pinned.read.table]
    is_by_slice = table.is_delivered_by_label or (source.mode is Mode.REPLACE and table.mode is Mode.REPLACE)
    checked_before = {
        name.lower() for name in never_null_columns(source)
    }  # these columns were checked when the slice was sealed
    is_measured = asks_rows(table) or bool(table.measures or table.is_profiled)
    has_measures = is_measured or any(name.lower() not in checked_before for name in not_null_columns(table))
    are_all = table.columns.is_open and not table.columns.left_out
    if not is_by_slice or not are_all or has_measures or unproven_keys(table, source) or len(pinned.slices) != 1:
        return None
    return pinned.slices[0] if pinned.slices[0].slice_path else None


def _rows_of_label(
    work: RunContext, spark: SparkSession, table: Table, batch: Batch, pinned: PinnedRead
) -> tuple[DataFrame, bool]:
    rows = published_columns(table, frame_of(spark, work.lake, work.flow, pinned))
    if table.is_delivered_by_label:
        return add_restored_rows(work, spark, table, batch, set_label(rows, batch.window.label)), False
    if table.mode is not Mode.MERGE:
        return set_label(rows, batch.window.label), False
    return changed_rows(work, spark, table, rows, pinned, batch)


def deliver(work: RunContext, table: Table, claim: Claim, manifests: Sequence[Manifest]) -> None:
    """Deliver the sealed slices to the destination, each once. Raises E750 if the claim was killed there first."""
    if not work.project.delivers(table):
        why = work.project.why_not_delivered(table.destination.connection if table.destination else "")
        work.report_once(f"{table.name}: staged, not delivered: {why}")
        return
    unit = unit_of(work, table)
    note = view_note(unit) or condition_text(table.where)
    folder = work.folder(table)
    deliveries = [
        build_delivery(work, table, manifest, folder=folder, claim=claim.number, note=note) for manifest in manifests
    ]
    recorded = work.connections.deliverer(unit.connection).deliver(unit, deliveries)
    if recorded[-1].outcome is DeliveryOutcome.OLDER:
        newest = work.connections.deliverer(unit.connection).last(unit, work.flow.project, table.name)
        label = newest.label_text if newest else "a newer label"
        work.report_once(f"{table.name}@{deliveries[-1].label_text}: skipped, {label} is delivered already")
    if recorded[-1].outcome is DeliveryOutcome.KILLED:
        raise WaterclockError(
            "E750",
            f"claim {claim.number} was taken over before its delivery",
            where=f"{table.name}@{label_of(manifests[0].label)}",
            why="its lease expired and another runner killed it at the destination",
            fix="nothing to fix: the other runner delivers",
        )


def kill_delivery(work: RunContext, table: Table, claim: int) -> bool:
    """Kill the claim at the destination, so that it can no longer deliver. Return True if it had delivered before."""
    if not work.project.delivers(table):
        return False
    unit = unit_of(work, table)
    killed = work.connections.deliverer(unit.connection).kill(unit, work.flow.project, table.name, claim)
    return killed.outcome is not DeliveryOutcome.KILLED


def find_delivery(work: RunContext, table: Table, claim: int) -> bool:
    """Return whether the destination has the claim's delivery. Always True if the project does not publish."""
    if not work.project.delivers(table):
        return True
    unit = unit_of(work, table)
    found = work.connections.deliverer(unit.connection).find(unit, work.flow.project, table.name, claim)
    return found is not None and found.outcome is not DeliveryOutcome.KILLED


def build_delivery(
    work: RunContext, table: Table, manifest: Manifest, *, folder: str, claim: int, note: str
) -> Delivery:
    """Build the delivery of a slice below `folder` to the destination of a publish."""
    source = work.flow.tables[table.reads[0].table]
    columns = _columns_of(manifest)
    stage = entry_path(folder)
    deleted = "" if table.is_delivered_by_label or table.mode is not Mode.MERGE else deleted_column_of(columns)
    internal = {TIMELABEL, deleted, ROW_LABEL}
    return Delivery(
        project=work.flow.project,
        publish=table.name,
        claim=claim,
        label=manifest.label,
        label_text=label_of(manifest.label),
        mode=table.mode,
        is_from_partitioned=source.is_partitioned,
        columns=tuple((name, kind) for name, kind in columns.items() if name not in internal),
        files=tuple(stage / file.path for file in manifest.files),
        keys=table.keys or list_sent_keys(table.columns, source.keys),
        is_whole=bool(manifest.source.get("is_whole")),
        deleted_column=deleted,
        label_column=ROW_LABEL if ROW_LABEL in columns else "",
        where=table.where,
        order_by=table.order.by if table.order else (),
        per=table.order.per if table.order else (),
        note=note,
        places=partial(_current_paths, work, source) if source.source is not None else None,
    )


def _current_paths(work: RunContext, collected: Table, names: Collection[str]) -> Mapping[str, str]:
    """Map a collect's items in `names` to their current paths, archived or not. Cost: a walk of both folders."""
    if collected.source is None:
        return {}
    unit = work.connections.resolve_unit(collected.source.unit)
    collector = work.connections.collector(unit.connection)
    if not isinstance(collector, ArrivalCollector):
        return {}
    return {item.name: item.path for item in collector.find(unit, names)}


def _columns_of(manifest: Manifest) -> dict[str, str]:
    from pyspark.sql.types import StructType

    fields = StructType.fromJson(json.loads(manifest.schema)).fields
    return {field.name: field.dataType.simpleString() for field in fields}
