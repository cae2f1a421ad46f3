"""Builds the rows of a transform's batches, in the columns that the table declares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.batches.records import MISSING as LACKING
from waterclock.connectors.column_matching import reserved_name_error
from waterclock.engine.batch.bound_inputs import BoundInputs
from waterclock.engine.batch.reference_checks import mark_orphans
from waterclock.engine.batch.results import GroupPart, MadeSlices, Notes
from waterclock.engine.batch.retiring_columns import add_retiring_columns
from waterclock.engine.batch.row_filters import mismatch_columns_of, written_filter_of
from waterclock.engine.batch.table_schema import absent_columns_of, resolve_stored_columns
from waterclock.engine.batch.transform import transform_parts
from waterclock.engine.reads.missing_parents import AbsentParents
from waterclock.engine.reads.pin import PinnedRead, frame_of
from waterclock.engine.run_context import RunContext
from waterclock.flow.checks import is_key_past_read
from waterclock.flow.declarations import Column, Table
from waterclock.planner.plan import Batch, Group
from waterclock.spark_sql import is_internal
from waterclock.storage.folds.versions import require_instant
from waterclock.storage.slices.column_casts import ConformedRows, conform
from waterclock.storage.slices.row_filter import MISSING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def transform_slices(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    group: Group,
    bound: BoundInputs,
    known: StructType | None,
    now: datetime,
) -> MadeSlices:
    """Build the rows of all labels of a group, not evaluated yet. `known` is the table's current schema."""
    parts: list[GroupPart] = []
    left_out: dict[str, None] = {}
    schema: StructType | None = None
    without_parent = AbsentParents()
    for batches, rows in transform_parts(work, spark, table, group.batches, bound.pins, without_parent):
        before = known or (schema if table.choices else None)
        frame, columns = add_retiring_columns(
            work, table, (rows, table.columns), [it.label for it in batches], before, now
        )
        shaped = _conform_rows(replace(table, columns=columns), frame, before)
        schema = schema or shaped.schema
        left_out |= dict.fromkeys(shaped.left_out)
        pinned = [each for batch in batches for each in bound.pins[batch.label] if not is_key_past_read(each.read)]
        may_be_empty = all(_has_no_rows(work, each) for each in pinned)
        own = tuple(batch.label for batch in batches)
        marked = mark_orphans(work, spark, table, shaped.frame, {label: bound.pins[label] for label in own})
        past = _read_own_past(work, spark, table, bound, batches)
        absent = absent_columns_of(table, work.folder(table), shaped.schema)
        parts.append(GroupPart(own, marked, may_be_empty, written_filter_of(table, shaped, absent, past), absent))
    if schema is None:
        raise AssertionError(f"a group of {table.name} without labels")
    noted = {batch.label: found for batch in group.batches if (found := _build_notes(batch))}
    return MadeSlices(
        parts,
        resolve_stored_columns(table, schema),
        Notes(noted, left_out=tuple(left_out), without_parent=without_parent.counts_for),
    )


def _read_own_past(
    work: RunContext, spark: SparkSession, table: Table, bound: BoundInputs, batches: Sequence[Batch]
) -> DataFrame | None:
    """Return the table's own rows of earlier labels in which its KEY must not repeat, or None if there are none."""
    found = [each for batch in batches for each in bound.pins[batch.label] if is_key_past_read(each.read)]
    if not found or not any(each.rows for each in found[0].slices):
        return None
    if len(found) > 1:
        raise AssertionError(f"{table.name} looks back from {len(found)} labels at once")
    return frame_of(spark, work.lake, work.flow, found[0])


def _build_notes(batch: Batch) -> dict[str, Any]:
    """Build the notes of a batch: its query, how its window closed, its open windows, and its missing inputs."""
    noted: dict[str, Any] = {} if batch.choice is None else {"choice": batch.choice}
    noted |= {} if batch.closing is None else {"closing": batch.closing.to_dict()}
    noted |= {"open_windows": [each.window.label for each in batch.opened]} if batch.opened else {}
    return noted | ({LACKING: [missing.to_dict() for missing in batch.missing]} if batch.missing else {})


def _has_no_rows(work: RunContext, pinned: PinnedRead) -> bool:
    if pinned.opened is not None and any(manifest.rows for manifest in pinned.opened.manifests):
        return False
    is_slices = not work.flow.tables[pinned.read.table].is_fold
    return not pinned.slices or (is_slices and not any(piece.rows for piece in pinned.slices))


def _conform_rows(table: Table, frame: DataFrame, known: StructType | None) -> ConformedRows:
    columns = table.columns
    if table.temporal is not None:
        require_instant(frame.schema.json(), table.temporal, table=table.name)
    reserved = [name for name in frame.columns if is_internal(name) and name != MISSING]
    if reserved and columns.is_open:
        raise reserved_name_error(reserved[0], table.name, fix="rename it: ... AS another_name")
    if MISSING in frame.columns and not columns.is_open:
        columns = replace(columns, named=(*columns.named, Column(MISSING, table.place)))
    return conform(
        frame, columns, known, table=table.name, may_miss_columns=table.is_fold,
        may_rename=False, zone=table.cadence.zone,
        loose=mismatch_columns_of(table),
    )  # fmt: skip
