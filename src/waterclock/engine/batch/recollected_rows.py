"""Keeps the stored rows of a window when a MERGE or TEMPORAL table collects the window again.

A source that updates its rows in place shows a row only in the window of its newest change. An older row that is no
longer there may still have existed. So a window that is read again keeps the rows of its slice, and adds the late
ones. If key, order and time are equal, the current row of the source replaces the stored one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - F is the usual name

from waterclock.batches.ledger_snapshot import LOOK_AGAIN
from waterclock.batches.records import Slice
from waterclock.engine.batch.results import GroupPart
from waterclock.engine.batch.row_filters import mismatch_columns_of, union_shapes
from waterclock.engine.collect.origins import add_origins
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.tokens import stored_rows_with_values
from waterclock.flow.declarations import Columns, Table
from waterclock.planner.plan import Group
from waterclock.spark_sql import INTERNAL_PREFIX, quote_name
from waterclock.storage.schema_types import fields_of
from waterclock.storage.slices.column_casts import ConformedRows, conform
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.storage.slices.quarantine_reading import read_original_rows
from waterclock.storage.slices.read import frame_of_slices
from waterclock.storage.slices.rule_marks import ROW_TEXT
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_IS_NEW = f"{INTERNAL_PREFIX}is_new"


def add_stored_rows(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    group: Group,
    again: Sequence[Slice],
    part: GroupPart,
    shaped: tuple[ConformedRows, Columns, Mapping[str, str]],
) -> GroupPart:
    """Add the stored rows of windows that a MERGE or TEMPORAL table collects again to the rows read from the source.

    `shaped`: the rows read, in the table's columns; these columns; and the SQL with which the source parses texts. If a
    slice has other columns than the source has now, its window is reported and not changed: a column that is missing
    from a slice keeps its older value. Cost: a scan of the slices of these windows, and one shuffle of all rows read.
    """
    asked = {batch.label: batch.window.end for batch in group.batches} if group.verb == LOOK_AGAIN else {}
    own = [it for label, end in asked.items() for it in work.ledger.reads.slices(table.name, label, end)]
    if not table.is_fold or not (again or own):
        return part
    rows, columns, values = shaped
    folder = work.folder(table)
    found = {piece.label: read_manifest(folder, piece.slice_path) for piece in (*again, *own)}
    names = {field.name for field in rows.schema.fields} | {TIMELABEL}
    other = [label for label, it in found.items() if it.rows and fields_of(it.schema).keys() | {TIMELABEL} != names]
    if other:
        labels = ", ".join(map(label_of, other))
        work.report_once(
            f"{table.name}: late rows of {labels} are not collected: the columns of the source have changed"
        )
    read = [] if asked and other else [rows]
    if read and other:
        read = [replace(rows, frame=rows.frame.where(~F.col(TIMELABEL).isin([label_of(label) for label in other])))]
    stored = [it for label, it in found.items() if label not in other or label in asked]
    kept = [
        conform(
            add_origins(table, frame), columns, rows.schema if read else None, table=table.name, may_miss_columns=True,
            loose=mismatch_columns_of(table), values=values,
        )
        for each in _read_stored_rows(spark, folder, stored)
        for frame in (stored_rows_with_values(spark, work.lake, table, each),)
    ]  # fmt: skip
    shapes = [_mark_new(it, is_new=True) for it in read] + [_mark_new(it, is_new=False) for it in kept]
    frame, through = union_shapes(part.through, shapes)
    changing = tuple(label for label in part.labels if label not in other or label in asked)
    return replace(
        part, labels=changing, frame=_remove_replaced_rows(table, frame), through=through, may_be_empty=False
    )


def _read_stored_rows(spark: SparkSession, folder: str, manifests: Sequence[Manifest]) -> list[DataFrame]:
    """Return the rows of slices, and then the quarantined rows of each slice."""
    if not manifests:
        return []
    aside = [rows for it in manifests if (rows := read_original_rows(spark, folder, it)) is not None]
    return [frame_of_slices(spark, folder, manifests), *aside]


def _mark_new(rows: ConformedRows, *, is_new: bool) -> ConformedRows:
    return replace(rows, frame=rows.frame.withColumn(_IS_NEW, F.lit(is_new)))


def _remove_replaced_rows(table: Table, frame: DataFrame) -> DataFrame:
    """Remove stored rows for which the source now has rows of the same window, key, order and time.

    Rows without a key, which are quarantined, are compared by their whole content.
    """
    fold = table.merge or table.temporal
    if fold is None:
        raise AssertionError(f"{table.name} is not folded, and its caller did not ask")
    at = [table.temporal.at] if table.temporal is not None and table.temporal.at else []
    there = {name.lower() for name in frame.columns}
    names = [name for name in (TIMELABEL, *fold.keys, *at, *fold.order_by) if name.lower() in there]
    by = ", ".join(map(quote_name, dict.fromkeys(names)))
    if ROW_TEXT in frame.columns:
        has_no_key = " OR ".join(f"{quote_name(name)} IS NULL" for name in fold.keys if name.lower() in there)
        by += f", CASE WHEN {has_no_key or 'TRUE'} THEN {ROW_TEXT} END"
    newest = frame.withColumn(f"{_IS_NEW}_of_all", F.expr(f"max({_IS_NEW}) OVER (PARTITION BY {by})"))
    return newest.where(f"{_IS_NEW} = {_IS_NEW}_of_all").drop(_IS_NEW, f"{_IS_NEW}_of_all")
