"""Gives what a MERGE or TEMPORAL table will hold once sealed slices are in place, without committing anything."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from waterclock.storage.folds.fold import fold
from waterclock.storage.folds.older_states import beginning, with_slices_placed
from waterclock.storage.folds.place_versions import versions_after, widened_by
from waterclock.storage.lake import Lake
from waterclock.storage.log.resolving import Step
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.read import table_schema
from waterclock.storage.types import fields_of
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from waterclock.flow.declarations import Table
    from waterclock.flow.folds import Merge

_COUNTS_ROWS = re.compile(r"count\s*\(\s*\*\s*\)", re.IGNORECASE)


def state_after(
    spark: SparkSession,
    lake: Lake,
    table: Table,
    manifests: Sequence[Manifest],
    steps: Sequence[Step],
    asked: Sequence[str],
    *,
    is_whole: bool = False,
) -> DataFrame:
    """Return the newest state that a table has once slices are committed, be their labels new, late or restated.

    `steps` are the current slices of all labels, those that are replaced among them; `is_whole` says that one of these
    is damaged and not among them. `asked` are the expressions that are asked of the state: columns of a MERGE table
    that none of them names may be left out.
    Cost: no job here. MERGE: a scan of the newest stored state before the labels and of the slices from there on, in
    the columns that are named, and one shuffle. TEMPORAL: as `versions_after`.

    Raises  E640 where slices that are needed are gone
    """
    if table.merge is None:
        return versions_after(spark, lake, table, manifests, steps, is_whole=is_whole)
    known = widened_by(table_schema(lake.folder(table.name)).json(), manifests)
    return merged_state(spark, lake, manifests, table.merge, _named(known, table.merge, asked), steps)


def merged_state(
    spark: SparkSession, lake: Lake, manifests: Sequence[Manifest], merge: Merge, schema: str, steps: Sequence[Step]
) -> DataFrame:
    """Return what all slices of a MERGE table add up to with some at their labels; `schema` is what is read."""
    name = manifests[0].table
    folder = lake.folder(name)
    before, placed = with_slices_placed(folder, manifests, steps)
    start = beginning(spark, lake, name, before, merge, schema)
    later = [*start.manifests, *placed]
    return fold(spark, folder, later, merge, schema, start.past(folder, later, merge, schema))


def _named(schema: str, merge: Merge, asked: Iterable[str]) -> str:
    """Leave the columns in a schema that expressions may name, and those that a MERGE goes by.

    A name that stands within another word or a text counts as named: a column too many costs its read alone.
    """
    texts = [_COUNTS_ROWS.sub("", text).lower() for text in (*asked, merge.delete_when or "")]
    if any("*" in text for text in texts):
        return schema
    needed = {name.lower() for name in (TIMELABEL, *merge.keys, *merge.order_by)}
    fields = [
        field
        for name, field in fields_of(schema).items()
        if name.lower() in needed or any(name.lower() in text for text in texts)
    ]
    return json.dumps(json.loads(schema) | {"fields": fields}, separators=(",", ":"))
