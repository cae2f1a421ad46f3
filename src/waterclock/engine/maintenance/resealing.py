"""Seals slices again, by links to their files, with the measures that the table's mode needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from waterclock.flow.declarations import Table
from waterclock.storage.folds.fold import add_ordering_columns
from waterclock.storage.lake import Lake
from waterclock.storage.slices.digest import digests
from waterclock.storage.slices.hard_links import seal_linked_slice
from waterclock.storage.slices.manifest import Manifest, with_columns_of
from waterclock.storage.slices.order_bounds import fold_signature, order_measures
from waterclock.storage.slices.read import frame_of_slices, table_schema
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def seal_linked_slices(
    spark: SparkSession, table: Table, manifests: Sequence[Manifest], claim: int, folder: str, lake: Lake
) -> list[Manifest]:
    """Seal slices of `folder` again under a claim, by links, in the table's folder of `lake`. Return their manifests.

    Cost: one scan for a MERGE with ORDER BY or DELETE WHEN.
    """
    found: Mapping[str, Mapping[str, Any]] = {}
    if table.merge is not None and (table.merge.order_by or table.merge.delete_when):
        schema = with_columns_of(table_schema(folder).json(), manifests)
        rows = frame_of_slices(spark, folder, manifests, add_ordering_columns(schema, table))
        found = digests(rows, order_measures(table.merge))
    linked = []
    for manifest in manifests:
        measures = found.get(label_of(manifest.label), {})
        known = replace(
            manifest,
            has_deletes=bool(measures.get("_deletes")),
            order_high=measures.get("_order_high"),
            order_low=measures.get("_order_low"),
            delete_high=measures.get("_delete_high"),
            measured_for=fold_signature(table.fold),
        )
        linked.append(
            seal_linked_slice(
                known,
                folder,
                folder=lake.folder(table.name),
                lake=lake,
                claim=claim,
                label=manifest.label,
                code=manifest.code,
                name=table.name,
                source=manifest.source,
            )
        )
    return linked
