"""Builds the rows of transforms: the user's SQL or Python over pinned inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any

from waterclock.dpl.query.single_flat import find_single_flat
from waterclock.engine.batch.code_lineage import alias_inputs, record_lineage
from waterclock.engine.batch.input_rules import filter_query_inputs, filter_shared_input
from waterclock.engine.batch.late_rows import find_rejected_late_rows
from waterclock.engine.batch.multi_window_query import Pins, query_windows, split_batches
from waterclock.engine.batch.open_windows import open_parts
from waterclock.engine.batch.shared_views import SharedView, shared_rows
from waterclock.engine.batch.window_rows import compute_rows, union_by_name
from waterclock.engine.reads.flat_parents import flat_frames
from waterclock.engine.reads.missing_parents import AbsentParents
from waterclock.engine.reads.pin import PinnedRead, frame_of, has_open_slices, set_label
from waterclock.engine.run_context import RunContext
from waterclock.flow.checks import is_key_past_read
from waterclock.flow.declarations import Flat, Table, TableReference
from waterclock.flow.flats import flats_of
from waterclock.flow.shared_views import table_with_rows
from waterclock.planner.plan import Batch
from waterclock.planner.sharing import MOST_WINDOWS_OF_A_UNION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    # maps each Read of one window, and each Flat that was made from them, to its rows
    _Frames = dict[Any, DataFrame]

_NOTHING_SHARED: Mapping[TableReference, SharedView] = {}


def transform_parts(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    batches: Sequence[Batch],
    pins: Pins,
    absent: AbsentParents | None = None,
) -> list[tuple[Sequence[Batch], DataFrame]]:
    """Build the rows of all `batches`, with their label in `timelabel`. Return each frame with its batches.

    One query makes many windows if Spark can turn it into one. Otherwise each batch's query is bound to its own window
    and inputs, and Spark runs the union of some of them as one job. Windows that different queries make are never
    combined. `absent` collects the counts of rows without a FLAT parent as rows are written.
    """
    parts: list[tuple[Sequence[Batch], DataFrame]] = []
    if batches[0].opened:
        return open_parts(table, batches, pins, partial(transform_parts, work, spark, table))
    if table.choices:
        for choice, run in groupby(batches, key=lambda batch: table.choice_of(batch.window)):
            parts += transform_parts(work, spark, table.with_choice(choice), list(run), pins, absent)
        return parts
    shared: Mapping[TableReference, SharedView] = _NOTHING_SHARED
    # not shared: views of partial batches, of open windows, of batches whose rules filter their inputs, and of batches
    # that must not shuffle, since another job would make the view's rows
    is_plain = not batches[0].missing and table.open_of is None and not table.input_rules
    if is_plain and not table.is_unshuffled and not has_open_slices(pins):
        shared = shared_rows(work, spark, table, batches, pins, partial(_window_rows, work, spark))
    if shared or len(batches) == 1 or table.query is None or table.late_rows or _flat_reads(table):
        return _query_one_by_one(work, spark, table, batches, pins, shared, absent)
    for share in split_batches(work, batches, pins):
        rows = _query_at_once(work, spark, table, share, pins) if len(share) > 1 else None
        parts += _query_one_by_one(work, spark, table, share, pins) if rows is None else [(share, rows)]
    return parts


def _query_at_once(
    work: RunContext, spark: SparkSession, table: Table, batches: Sequence[Batch], pins: Pins
) -> DataFrame | None:
    """Build the rows of windows by one query, or one for each branch of a UNION ALL BY NAME. None if impossible."""
    if table.query is None:
        return None
    branches = []
    for query in table.query.branches or (table.query,):
        rows = query_windows(work, spark, query, batches, pins, partial(filter_shared_input, table))
        if rows is None:
            return None
        branches.append(rows)
    return union_by_name(table, branches) if table.query.branches else branches[0]


def _query_one_by_one(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    batches: Sequence[Batch],
    pins: Pins,
    shared: Mapping[TableReference, SharedView] = _NOTHING_SHARED,
    absent: AbsentParents | None = None,
) -> list[tuple[Sequence[Batch], DataFrame]]:
    """Build the rows of each window by a query of its own. Rows of `shared` views already exist."""
    table = table_with_rows(table, {reference: view.read for reference, view in shared.items()}) if shared else table
    parts: list[tuple[Sequence[Batch], DataFrame]] = []
    for start in range(0, len(batches), MOST_WINDOWS_OF_A_UNION):
        share = batches[start : start + MOST_WINDOWS_OF_A_UNION]
        frames = [
            set_label(_window_rows(work, spark, table, batch, pins[batch.label], shared, absent), batch.window.label)
            for batch in share
        ]
        parts.append((share, reduce(lambda left, right: left.unionByName(right), frames)))
    return parts


def _window_rows(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    batch: Batch,
    reads: tuple[PinnedRead, ...],
    shared: Mapping[TableReference, SharedView] = _NOTHING_SHARED,
    absent: AbsentParents | None = None,
) -> DataFrame:
    frames: _Frames = {}
    for pinned in (each for each in reads if not is_key_past_read(each.read)):
        frame = frame_of(spark, work.lake, work.flow, pinned)
        # a partial batch reads several spans of one table
        frames[pinned.read] = frames[pinned.read].unionByName(frame) if pinned.read in frames else frame
    for view in shared.values():
        frames[view.read] = view.rows[batch.label]
    own = table.with_choice(table.choice_of(batch.window))
    counted = None
    if absent is not None and own.query is not None and find_single_flat(own.query) is not None:
        counted = partial(absent.observe, batch.label)
    frames |= flat_frames(work, spark, _flat_reads(own), reads, frames, counted)
    frames = filter_query_inputs(table, frames) if table.input_rules else frames
    if table.late_rows is not None:
        return find_rejected_late_rows(work, table, table.late_rows, batch, frames[table.reads[0]])
    if table.function is None or table.function.step is not None:
        return compute_rows(work, spark, table, batch.window, frames, is_partial=batch.is_partial)
    frames, sources = alias_inputs(frames, [view.read for view in shared.values()])
    rows = compute_rows(work, spark, table, batch.window, frames, is_partial=batch.is_partial)
    record_lineage(work, table, rows, frames, sources)
    return rows


def _flat_reads(table: Table) -> tuple[Flat, ...]:
    """Return the FLAT reads of a transform."""
    if table.function is None:
        return flats_of(table.query) if table.query is not None else ()
    arguments = table.function.arguments
    own = tuple(argument.flat for argument in arguments if argument.flat is not None)
    return own + tuple(flat for each in arguments if each.query is not None for flat in flats_of(each.query))
