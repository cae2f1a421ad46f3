"""Makes the rows of the batches of one claim (COLLECT, TRANSFORM or PUBLISH), in the table's declared columns."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.engine.batch.bound_inputs import BoundInputs
from waterclock.engine.batch.for_each import collect_for_each
from waterclock.engine.batch.given_up_batches import build_stand_in_rows
from waterclock.engine.batch.late_rows import reopen_windows
from waterclock.engine.batch.publish import publish_frame
from waterclock.engine.batch.recollected_rows import add_stored_rows
from waterclock.engine.batch.results import GroupPart, MadeSlices, Notes
from waterclock.engine.batch.retiring_columns import add_retiring_columns, leave_out_early_windows
from waterclock.engine.batch.row_filters import mismatch_columns_of, union_shapes, written_filter_of
from waterclock.engine.batch.table_schema import absent_columns_of, find_known_columns, resolve_stored_columns
from waterclock.engine.batch.table_schema_changes import find_new_schema
from waterclock.engine.batch.transform_slices import transform_slices
from waterclock.engine.collect.collect import read_source_windows
from waterclock.engine.collect.collect_result import CollectResult
from waterclock.engine.collect.linked_projects import collect_linked_table
from waterclock.engine.collect.origins import add_origins
from waterclock.engine.collect.source_schema_changes import add_columns_to_notes, find_source_changes, fit_columns
from waterclock.engine.run_context import RunContext
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind
from waterclock.planner.plan import GIVE_UP, Group
from waterclock.storage.slices.column_casts import ConformedRows, conform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def make(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    group: Group,
    bound: BoundInputs,
    now: datetime,
) -> MadeSlices:
    """Build the rows of all labels, in their declared columns and types, and the table's schema. Nothing is evaluated.

    Rows of a MERGE or TEMPORAL table may be incomplete: a column missing from a change keeps its older value.
    """
    known = find_known_columns(work, table)
    made = _make_slices(work, spark, table, group, bound, now, known)
    if table.kind is Kind.PUBLISH or group.verb == GIVE_UP:
        return made
    # a past window that a LOOKBACK reads again has no slice of its own if its rows are unchanged
    first = group.batches[0].label
    new = find_new_schema(work, table, known if table.temporal is None else None, made.schema, first)
    return (
        replace(made, notes=replace(made.notes, source=add_columns_to_notes(made.notes.source, new))) if new else made
    )


def _make_slices(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    group: Group,
    bound: BoundInputs,
    now: datetime,
    known: StructType | None,
) -> MadeSlices:
    labels = tuple(batch.label for batch in group.batches)
    if group.verb == GIVE_UP:
        frame, notes = build_stand_in_rows(work, spark, table, group, known)
        shaped = conform(frame, table.columns, known, table=table.name, may_miss_columns=True)
        return MadeSlices([GroupPart(labels, shaped.frame)], resolve_stored_columns(table, shaped.schema), notes)
    if table.kind is Kind.COLLECT:
        result = _collect_rows(work, spark, table, group, bound, now)
        rows = add_origins(table, result.collected.frame)
        result = replace(result, collected=replace(result.collected, frame=rows))
        try:
            columns_of_source = find_source_changes(work, table, result.collected, labels)
            fits = fit_columns(table, result.collected, known)
            frame, again = leave_out_early_windows(work, table, fits.frame, labels, bound.again)
            all_labels = tuple(sorted({*labels, *(piece.label for piece in again)}))
            frame, columns = add_retiring_columns(work, table, (frame, fits.columns), all_labels, known, now)
            shaped = conform(
                frame, columns, known, table=table.name, may_miss_columns=table.is_fold,
                loose=mismatch_columns_of(table),
                values=result.collected.values,
            )  # fmt: skip
        except BaseException:
            result.collected.close()
            raise
        notes = Notes(
            add_columns_to_notes(bound.scan.merge_notes(result.source), columns_of_source.new),
            result.collected.set_aside,
            left_out=(*shaped.left_out, *result.collected.left_out, *fits.left_out),
            after=result.after,
            close=result.collected.close,
            before_commit=result.collected.before_commit,
            holds=columns_of_source.holds,
        )
        absent = absent_columns_of(table, work.folder(table), shaped.schema)
        through = written_filter_of(table, shaped, absent)
        part = GroupPart(all_labels, shaped.frame, result.collected.is_empty, through, absent)
        if result.quarantined is not None:
            part = _add_quarantined(table, part, shaped, result)
        values = result.collected.values
        part = add_stored_rows(work, spark, table, group, again, part, (shaped, columns, values))
        return MadeSlices([part], resolve_stored_columns(table, shaped.schema), notes)
    if table.kind is Kind.TRANSFORM:
        reopen_windows(work, spark, table, group.batches, bound.pins)
        return transform_slices(work, spark, table, group, bound, known, now)
    # the column list was applied already, and does not name the columns that mark rows to filter
    columns = replace(table.columns, is_open=True)
    staged = publish_frame(work, spark, table, group, bound.pins)
    source = {label: {"is_whole": True} for label in staged.whole}
    shaped = conform(
        staged.frame, columns, known, table=table.name, may_miss_columns=table.is_fold, loose=mismatch_columns_of(table)
    )
    notes = Notes(source, left_out=shaped.left_out)
    part = GroupPart(labels, shaped.frame, through=written_filter_of(table, shaped, {}))
    return MadeSlices([part], resolve_stored_columns(table, shaped.schema), notes)


def _collect_rows(
    work: RunContext, spark: SparkSession, table: Table, group: Group, bound: BoundInputs, now: datetime
) -> CollectResult:
    if bound.linked:
        return collect_linked_table(work, spark, table, bound.linked)
    if table.each is not None:
        return collect_for_each(work, spark, table, group, bound.pins)
    return read_source_windows(work, spark, table, group, bound.again, now, bound.owned)


def _add_quarantined(table: Table, part: GroupPart, kept: ConformedRows, result: CollectResult) -> GroupPart:
    """Add the quarantined rows of `result` to those of `part`, so that the current row filter checks all of them."""
    loose, declared = mismatch_columns_of(table), table.columns
    if result.quarantined is None:
        return part
    conformed = conform(
        add_origins(table, result.quarantined), declared, kept.schema, table=table.name,
        may_miss_columns=True, loose=loose,
        values=result.collected.values,
    )  # fmt: skip
    frame, through = union_shapes(part.through, [kept, conformed])
    return replace(part, frame=frame, through=through, may_be_empty=False)
