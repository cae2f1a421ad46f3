"""Checks a table's SORT BY or CLUSTER BY against the columns of a batch, and records it in the table's log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waterclock.engine.batch.attempt import GroupAttempt
from waterclock.engine.batch.results import MadeSlices
from waterclock.errors import WaterclockError
from waterclock.flow.column_types import type_of_json
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind
from waterclock.flow.row_order import has_bounds, has_order
from waterclock.planner.plan import GIVE_UP
from waterclock.similar_names import did_you_mean
from waterclock.storage.commit.row_order import record_row_order
from waterclock.storage.log.open_tables import open_table
from waterclock.storage.schema_types import fields_of, schema_text, type_text, widen_schema
from waterclock.storage.slices.buckets import Bucketing
from waterclock.storage.slices.clustering import Clustering, plan_clustering
from waterclock.storage.slices.manifest import Manifest, is_sealed, read_manifest
from waterclock.timelabel.label import TIMELABEL

SMALL_BUCKET = 8 << 20
"""The bytes below which a bucket is too small."""


def prepare_row_order(attempt: GroupAttempt, made: MadeSlices) -> None:
    """Record by which columns the files of a table are sorted from this batch on. Raises E774 for a missing column.

    `check` finds a wrong column earlier, unless the columns of the table are known only once a batch has made rows.
    Cost: a look at the log for a table with SORT BY, CLUSTER BY, MERGE or TEMPORAL; a commit in the first batch after a
    change.
    """
    table = attempt.table
    if table.kind is Kind.PUBLISH or attempt.group.verb == GIVE_UP or not (table.file_order or table.is_fold):
        return
    with open_table(attempt.folder) as opened:
        own, new = opened.schema, schema_text(made.schema)
    _require_columns(table, fields_of(widen_schema(own, new) or own), attempt.where)
    record_row_order(attempt.folder, table.file_order, new, project=attempt.work.flow.project)


def plan_files(attempt: GroupAttempt) -> Clustering | Bucketing | None:
    """Return how the rows of each label are split into files: by BUCKET BY, or by CLUSTER BY and the last slice.

    None for a table without either. Cost: that of `plan_clustering`.
    """
    table = attempt.table
    if table.bucket_by is not None and table.kind is not Kind.PUBLISH and attempt.group.verb != GIVE_UP:
        return Bucketing(table.bucket_by.columns, table.bucket_by.number)
    if not table.cluster_by or attempt.group.verb == GIVE_UP:
        return None
    last = attempt.work.ledger.reads.last_recorded(table.name)
    # `maintain` may have removed the slice after its files were joined
    path = last.slice_path if last is not None and is_sealed(attempt.folder, last.slice_path) else ""
    manifest = read_manifest(attempt.folder, path) if path else None
    return plan_clustering(attempt.spark, attempt.folder, table.cluster_by, manifest)


def small_bucket_warnings(table: Table, manifest: Manifest) -> tuple[str, ...]:
    """Return a warning with the sizes if a label has more buckets than its rows fill."""
    if table.bucket_by is None or not manifest.buckets or manifest.bytes >= SMALL_BUCKET * manifest.buckets:
        return ()
    kilobytes = manifest.bytes / manifest.buckets / 1024
    size = f"{kilobytes / 1024:.1f} MB" if kilobytes >= 1024 else f"{kilobytes:.1f} KB"
    return (f"INTO {manifest.buckets} makes buckets of {size}: many small files; 8 MB or more are read faster",)


def _require_columns(table: Table, fields: Mapping[str, Mapping[str, Any]], where: str) -> None:
    columns = {name.lower(): field for name, field in fields.items()}
    word = "BUCKET BY" if table.bucket_by else "CLUSTER BY" if table.cluster_by else "SORT BY"
    for name in table.file_order:
        field = columns.get(name.lower())
        if field is None:
            known = [name for name in fields if name != TIMELABEL]
            raise WaterclockError(
                "E774",
                f"{word} names {name}, and {table.name} has no column of that name",
                where=where,
                why=f"its columns are {', '.join(known)}",
                fix=did_you_mean(name, known, otherwise=f"remove {name} from {word} at {table.place}"),
            )
        type_ = type_of_json(field["type"])
        if not has_order(type_) or (table.cluster_by and not has_bounds(type_)):
            raise WaterclockError(
                "E774",
                f"{word} names {name}, which has the type {type_text(field['type'])}",
                where=where,
                why="Delta's log has no least and greatest values of this type, so no file would be skipped"
                if table.cluster_by
                else "Spark has no order for a MAP, nor for a value that contains one",
                fix=f"remove {name} from {word} at {table.place}",
            )
