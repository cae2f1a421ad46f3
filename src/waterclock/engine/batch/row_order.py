"""Checks the columns that order the rows of a table's files against those of a batch, and records them in its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waterclock.engine.batch.attempt import GroupAttempt
from waterclock.engine.batch.results import MadeSlices
from waterclock.errors import WaterclockError
from waterclock.flow.column_types import type_of_json
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind
from waterclock.flow.row_order import WITH_BOUNDS, has_bounds, has_order
from waterclock.planner.plan import GIVE_UP
from waterclock.similar_names import did_you_mean
from waterclock.storage.commit.row_order import record_row_order
from waterclock.storage.log.open_tables import open_table
from waterclock.storage.schema_types import fields_of, schema_text, type_text, widen_schema
from waterclock.storage.slices.buckets import Bucketing
from waterclock.storage.slices.clustering import plan_clustering
from waterclock.storage.slices.file_splits import Split
from waterclock.storage.slices.manifest import Manifest, is_sealed, read_manifest
from waterclock.storage.slices.partitions import Partitioning, values_of_files
from waterclock.timelabel.label import TIMELABEL

SMALL_FILE = 8 << 20
"""The bytes below which the file of a bucket or of a value is too small."""
FEW_FILES = 10
"""The most small files of a label of PARTITION BY that are no reason for a warning."""


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


def plan_files(attempt: GroupAttempt) -> Split | None:
    """Return how the rows of each label are split into files: by BUCKET BY, or by the last slice.

    The last slice counts for CLUSTER BY and PARTITION BY. None for a table without any of them. Cost: that of
    `plan_clustering`; none for PARTITION BY.
    """
    table = attempt.table
    if table.kind is Kind.PUBLISH or attempt.group.verb == GIVE_UP:
        return None
    if table.bucket_by is not None:
        return Bucketing(table.bucket_by.columns, table.bucket_by.number)
    if not (table.cluster_by or table.partition_by):
        return None
    last = attempt.work.ledger.reads.last_recorded(table.name)
    # `maintain` may have removed the slice after its files were joined
    path = last.slice_path if last is not None and is_sealed(attempt.folder, last.slice_path) else ""
    manifest = read_manifest(attempt.folder, path) if path else None
    if table.partition_by:
        [column] = table.partition_by
        values = values_of_files(manifest.files, column) if manifest is not None else ()
        return Partitioning(column, values, table.file_order, attempt.where)
    return plan_clustering(attempt.spark, attempt.folder, table.cluster_by, manifest)


def small_file_warnings(table: Table, manifest: Manifest) -> tuple[str, ...]:
    """Return a warning with the sizes if BUCKET BY or PARTITION BY makes more files than the rows of a label fill."""
    is_partitioned = bool(table.partition_by) and len(manifest.files) > FEW_FILES
    number = len(manifest.files) if is_partitioned else manifest.buckets
    if not number or not (table.bucket_by or is_partitioned) or manifest.bytes >= SMALL_FILE * number:
        return ()
    kilobytes = manifest.bytes / number / 1024
    size = f"{kilobytes / 1024:.1f} MB" if kilobytes >= 1024 else f"{kilobytes:.1f} KB"
    made = f"PARTITION BY makes {number} files" if is_partitioned else f"INTO {number} makes buckets"
    return (f"{made} of {size}: many small files; 8 MB or more are read faster",)


def _require_columns(table: Table, fields: Mapping[str, Mapping[str, Any]], where: str) -> None:
    columns = {name.lower(): field for name, field in fields.items()}
    for name in table.file_order:
        word = next(each for each, names in table.file_clauses if name in names)
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
        if not has_order(type_) or (word in WITH_BOUNDS and not has_bounds(type_)):
            raise WaterclockError(
                "E774",
                f"{word} names {name}, which has the type {type_text(field['type'])}",
                where=where,
                why="Delta's log has no least and greatest values of this type, so no file would be skipped"
                if word in WITH_BOUNDS
                else "Spark has no order for a MAP, nor for a value that contains one",
                fix=f"remove {name} from {word} at {table.place}",
            )
