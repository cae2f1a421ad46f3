"""Builds the rows that a destination has after a label's delivery, from the publish's sealed slices and its input."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.batches.records import Slice
from waterclock.connectors.sql.versioned_views import is_behind_view
from waterclock.engine.batch.publish_changes import last_by_key, newest_by_key, published_columns
from waterclock.engine.reads.pin import PinnedRead, frame_of
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Mode
from waterclock.storage.schema_types import fields_of, widen_schema
from waterclock.storage.slices.manifest import Manifest, is_sealed, read_manifest
from waterclock.storage.slices.read import frame_of_slices
from waterclock.storage.slices.row_filter import ROW_LABEL
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def state_delivered(
    work: RunContext, spark: SparkSession, table: Table, sealed: Sequence[Manifest], pinned: Sequence[PinnedRead]
) -> DataFrame:
    """Return the rows that a destination has after these slices are delivered in order.

    If each delivery replaces all rows, they are those of the last slice. If a state is merged, they are the state that
    `pinned` reads. If labels are delivered one by one, they are the sealed rows of all labels; for a MERGE the newest
    label's row of each key. Rows of other writers are not included. Cost: no job here; a scan of the slice, of the
    state, or of all sealed slices, with a shuffle for a MERGE.

    Raises:
        WaterclockError: E387 if the sealed slice of a delivered label is gone.
    """
    if not table.is_delivered_by_label:
        if table.mode is not Mode.MERGE:
            return frame_of_slices(spark, work.folder(table), sealed[-1:])
        rows = frame_of(spark, work.lake, work.flow, pinned[0])
        return last_by_key(work, table, published_columns(table, rows))
    manifests = [*_read_staged_manifests(work, table, sealed), *sealed]
    schema = sealed[-1].schema
    for manifest in manifests:
        schema = widen_schema(schema, manifest.schema) or schema
    rows = frame_of_slices(spark, work.folder(table), manifests, schema)
    if ROW_LABEL in fields_of(schema):
        rows = rows.where(f"{ROW_LABEL} IS NULL").drop(ROW_LABEL)  # the staged slice also has rows of older labels
    return newest_by_key(rows, table.keys) if table.mode is Mode.MERGE else rows


def _read_staged_manifests(work: RunContext, table: Table, sealed: Sequence[Manifest]) -> list[Manifest]:
    """Return the manifests of all delivered labels except those in `sealed`, oldest first."""
    folder, replaced = work.folder(table), {manifest.label for manifest in sealed}
    dropped = _find_drop_boundary(work, table)
    found = []
    for piece in work.ledger.reads.slices(table.name, BEGINNING, FOREVER):
        if piece.label in replaced or not piece.slice_path or (dropped is not None and piece.label < dropped):
            continue
        if not is_sealed(folder, piece.slice_path):
            raise _missing_slice_error(table, piece, sealed[-1])
        found.append(read_manifest(folder, piece.slice_path))
    return found


def _find_drop_boundary(work: RunContext, table: Table) -> datetime | None:
    """Return the instant before which RETAIN dropped the destination's label tables. None if it dropped none."""
    if table.destination is None or not is_behind_view(table.destination):
        return None
    return work.ledger.maintenance.drop_boundary(table.reads[0].table, by=FOREVER)


def _missing_slice_error(table: Table, piece: Slice, new: Manifest) -> WaterclockError:
    return WaterclockError(
        "E387",
        f"the rows of {label_of(piece.label)} in {table.name} are not known",
        where=f"{table.name}@{label_of(new.label)}",
        why="a rule OVER TABLE needs all delivered labels, and the staged rows of this one are gone",
        fix=f"`waterclock recompute {table.name}` delivers all labels again; then `waterclock retry {table.name}`",
    )
