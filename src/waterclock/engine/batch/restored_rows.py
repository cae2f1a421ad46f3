"""Finds older rows that become visible again at a destination because a restated label lost their keys.

A MERGE of a PARTITIONED table shows, for each key, the row of the newest label that has one. If a label loses a key,
the row of the newest earlier label becomes visible again. It is stored in the sealed slice of that label's delivery.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from waterclock.batches.ledger_snapshot import BEGINNING
from waterclock.engine.batch.destinations import has_delivery
from waterclock.engine.batch.publish_changes import newest_by_key
from waterclock.engine.run_context import RunContext
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Mode
from waterclock.planner.plan import Batch
from waterclock.spark_sql import quote_name, sql_text
from waterclock.storage.slices.manifest import read_manifest
from waterclock.storage.slices.read import frame_of_slices
from waterclock.storage.slices.row_filter import ROW_LABEL
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from waterclock.batches.records import Slice


def can_restore_rows(work: RunContext, table: Table, batch: Batch) -> bool:
    """Return whether rows of older labels can become visible again: if a MERGE has delivered this label before."""
    return has_keys_across_labels(table) and bool(work.ledger.reads.slices(table.name, batch.label, batch.window.end))


def has_keys_across_labels(table: Table) -> bool:
    """Return whether a publish merges label by label and `timelabel` is no key.

    In that case a row can replace a row of another label.
    """
    is_keyed = table.is_delivered_by_label and table.mode is Mode.MERGE
    return is_keyed and TIMELABEL not in {key.lower() for key in table.keys}


def add_restored_rows(work: RunContext, spark: SparkSession, table: Table, batch: Batch, rows: DataFrame) -> DataFrame:
    """Return the rows of a label and, marked by `ROW_LABEL`, the older rows of keys that it has lost.

    Cost: one scan of the keys of the previous delivery and of the new one. If keys were lost, or the destination does
    not have the recorded delivery, also a scan of the older slices' keys.
    """
    if not can_restore_rows(work, table, batch):
        return rows
    keys = list(table.keys)
    earlier = work.ledger.reads.slices(table.name, BEGINNING, batch.label)
    if not earlier:
        return rows
    held = find_delivered_slices(work, table, batch, earlier)
    lacking = _read_staged_rows(work, spark, table, held, rows).select(*map(quote_name, keys)).distinct()
    lacking = lacking.join(rows.select(*map(quote_name, keys)), keys, "left_anti")
    if lacking.isEmpty():
        return rows
    older = _read_staged_rows(work, spark, table, earlier, rows).where(f"{ROW_LABEL} IS NULL").join(lacking, keys)
    return rows.selectExpr("*", f"CAST(NULL AS STRING) AS {ROW_LABEL}").unionByName(
        _keep_newest_rows(older, table, earlier)
    )


def find_delivered_slices(work: RunContext, table: Table, batch: Batch, earlier: Sequence[Slice]) -> Sequence[Slice]:
    """Return the slices with all keys that the destination may show with a row of this label.

    They are those of the label's newest delivery. If the destination does not have that delivery, since it was restored
    from an older copy or `publish` was false then, they are all `earlier` slices.
    """
    before = work.ledger.reads.slices(table.name, batch.label, batch.window.end)
    is_as_known = not work.project.delivers(table) or all(has_delivery(work, table, piece) for piece in before)
    return before if is_as_known else earlier


def _keep_newest_rows(older: DataFrame, table: Table, slices: Sequence[Slice]) -> DataFrame:
    """Keep for each key the row of the newest label. A delivery's label may span several labels of the table."""
    from pyspark.sql import functions as F  # noqa: N812

    labels = ", ".join(sql_text(label_of(piece.label)) for piece in slices)
    own = F.expr(f"array_max(filter(array({labels}), x -> x <= {TIMELABEL}))")
    return newest_by_key(older, table.keys).withColumn(ROW_LABEL, own)


def _read_staged_rows(
    work: RunContext, spark: SparkSession, table: Table, slices: Sequence[Slice], rows: DataFrame
) -> DataFrame:
    """Read the sealed slices of deliveries, in the columns of `rows` plus `ROW_LABEL`."""
    folder = work.folder(table)
    manifests = [read_manifest(folder, piece.slice_path) for piece in slices if piece.slice_path]
    schema = json.loads(rows.schema.json())
    label = {"name": ROW_LABEL, "type": "string", "nullable": True, "metadata": {}}
    schema["fields"] = [{**field, "nullable": True} for field in schema["fields"]] + [label]
    return frame_of_slices(spark, folder, manifests, json.dumps(schema))
