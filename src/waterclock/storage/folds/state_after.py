"""Computes the state that a MERGE or TEMPORAL table will have after a commit of sealed slices. It commits nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from waterclock.storage.folds.fold import fold
from waterclock.storage.folds.older_states import find_newest_state, place_in_steps
from waterclock.storage.folds.temporal_commit import resulting_versions
from waterclock.storage.lake import Lake
from waterclock.storage.log.content_as_of import LogStep
from waterclock.storage.schema_types import fields_of
from waterclock.storage.slices.manifest import Manifest, with_columns_of
from waterclock.storage.slices.read import table_schema
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from waterclock.flow.declarations import Table
    from waterclock.flow.merge_settings import Merge

_COUNTS_ROWS = re.compile(r"count\s*\(\s*\*\s*\)", re.IGNORECASE)


def resulting_state(
    spark: SparkSession,
    lake: Lake,
    table: Table,
    manifests: Sequence[Manifest],
    steps: Sequence[LogStep],
    columns: Sequence[str],
    *,
    is_whole: bool = False,
) -> DataFrame:
    """Return the newest state that a table will have once slices of new, late or restated labels are committed.

    `steps` are the current slices of all labels, including replaced ones. `is_whole` means that one of these is
    damaged and not among `steps`. `columns` are the SQL expressions that will be evaluated on the state: columns of a
    MERGE table that none of them names may be missing.

    Cost: no job here. MERGE: one shuffle, and a scan of the newest stored state before the labels and of all later
    slices, in the named columns. TEMPORAL: the same as for `resulting_versions`. Raises E640 if a slice that is needed
    is gone.
    """
    if table.merge is None:
        return resulting_versions(spark, lake, table, manifests, steps, is_whole=is_whole)
    known = with_columns_of(table_schema(lake.folder(table.name)).json(), manifests)
    return merged_state(spark, lake, manifests, table.merge, _prune_schema(known, table.merge, columns), steps)


def merged_state(
    spark: SparkSession, lake: Lake, manifests: Sequence[Manifest], merge: Merge, schema: str, steps: Sequence[LogStep]
) -> DataFrame:
    """Return the state of a MERGE table as it will be with the slices `manifests`, in the columns of `schema`."""
    name = manifests[0].table
    folder = lake.folder(name)
    before, placed = place_in_steps(folder, manifests, steps)
    start = find_newest_state(spark, lake, name, before, merge, schema)
    later = [*start.manifests, *placed]
    return fold(spark, folder, later, merge, schema, start.fold_base(folder, later, merge, schema))


def _prune_schema(schema: str, merge: Merge, columns: Iterable[str]) -> str:
    """Return a schema with only the columns that expressions may name, and those that the MERGE itself needs.

    The names are searched as text, so a match within another word or a string also keeps a column. This only makes the
    read a little slower.
    """
    texts = [_COUNTS_ROWS.sub("", text).lower() for text in (*columns, merge.delete_when or "")]
    if any("*" in text for text in texts):
        return schema
    needed = {name.lower() for name in (TIMELABEL, *merge.keys, *merge.order_by)}
    fields = [
        field
        for name, field in fields_of(schema).items()
        if name.lower() in needed or any(name.lower() in text for text in texts)
    ]
    return json.dumps(json.loads(schema) | {"fields": fields}, separators=(",", ":"))
